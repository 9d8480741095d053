"""What the engines learned for tokens: work that is named by its import path, and tasks that hold a GPU."""

import sys

import pytest

from cleanpipe.engine.base import Context, Task, Watch
from cleanpipe.engine.perform import perform
from cleanpipe.recipe import load_recipe

MODULE = """
import os

def seen(context, task, watch):
    return {"files": {}, "args": dict(task.args), "gpus": os.environ.get("CUDA_VISIBLE_DEVICES")}
"""


@pytest.fixture
def named(tmp_path, monkeypatch):
    """A module with work in it, found by workers as the driver finds it."""
    (tmp_path / "named_work.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "named_work:seen"
    sys.modules.pop("named_work", None)


def test_work_is_found_by_its_import_path(named, tmp_path):
    context = Context(load_recipe("sample"), str(tmp_path / "out"))
    result = perform(context, Task(named, "0" * 32, "x", args={"n": 1}), Watch())
    assert result["args"] == {"n": 1}
    assert result["cpu_seconds"] >= 0


@pytest.mark.parametrize("name", ["named_work:nothing", "no_such_module:seen"])
def test_work_that_is_not_there_is_a_fault_of_the_program(named, tmp_path, name):
    context = Context(load_recipe("sample"), str(tmp_path / "out"))
    with pytest.raises((AttributeError, ImportError)):
        perform(context, Task(name, "0" * 32, "x"), Watch())


def test_local_workers_find_it_too(named, tmp_path):
    from cleanpipe.engine.local import LocalEngine

    engine = LocalEngine(Context(load_recipe("sample"), str(tmp_path / "out")), 1)
    ((_, result),) = engine.run([Task(named, "0" * 32, "x", args={"n": 2})], lambda *_: None)
    engine.close()
    assert result["args"] == {"n": 2}


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.xdist_group("ray")
def test_ray_gives_a_gpu_to_tasks_that_ask_and_to_no_others(named, tmp_path, monkeypatch):
    pytest.importorskip("ray")
    from cleanpipe.engine import ray_connect
    from cleanpipe.engine.ray import RayEngine

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    import ray

    for name, value in ray_connect.DEFAULTS.items():
        monkeypatch.setenv(name, value)
    ray.init(address="local", num_cpus=2, num_gpus=1, include_dashboard=False, log_to_driver=False)
    try:
        engine = RayEngine(Context(load_recipe("sample"), str(tmp_path / "out")), 2)
        tasks = [Task(named, f"{n:032x}", str(n), args={"n": n}, gpus=n % 2) for n in range(6)]
        found = {task.label: result["gpus"] for task, result in engine.run(tasks, lambda *_: None)}
    finally:
        ray.shutdown()
    assert {label for label, gpus in found.items() if gpus == "0"} == {"1", "3", "5"}
    assert all(gpus in (None, "") for label, gpus in found.items() if label in "024")
