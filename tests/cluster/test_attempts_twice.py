"""A unit that is done twice, by turns or at once, or once more when the run is long over: the first manifest counts."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import asdict, astuple
from pathlib import Path

import pytest
from drillcrawl import build
from drillproof import digests

from cleanpipe.engine.base import Context, Result, Task, Watch
from cleanpipe.engine.commit import Units
from cleanpipe.engine.perform import perform
from cleanpipe.engine.plan import UnitPlan
from cleanpipe.io.inputs import resolve_inputs
from cleanpipe.io.store import Store, open_store
from cleanpipe.options import StorageOptions
from cleanpipe.recipe import load_recipe
from cleanpipe.run import run

KEY = "0" * 32


@pytest.fixture(params=["local", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "local":
        yield open_store(str(tmp_path / "out"), StorageOptions())
    else:
        server = request.getfixturevalue("s3")
        yield open_store("s3://crawls/out", StorageOptions(endpoint=server.url))


def attempt(store: Store, name: str) -> dict[str, object]:
    """What one attempt publishes before its manifest."""
    units = Units(store, "pass0")
    target, data = units.name(KEY, name, "rows"), f"rows of {name}".encode()
    draft = store.draft(target, name)
    draft.write_bytes(data)
    file = {"name": target, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    store.publish(draft, target, file)
    return {"files": {"rows": file}, "by": name}


def test_the_second_attempt_takes_the_result_of_the_first(store: Store) -> None:
    units = Units(store, "pass0")
    first, second = attempt(store, "first"), attempt(store, "second")
    assert units.commit(KEY, dict(first)) == first
    assert units.commit(KEY, dict(second)) == first
    assert units.done(KEY) == first
    names = {name for name, _ in store.names("work/pass0/")}
    assert names == {units.name(KEY, "first", "rows")}, "the files of the second are gone, those of the first are not"


def test_of_attempts_at_one_time_one_counts_for_all(store: Store) -> None:
    units, answers = Units(store, "pass0"), dict[str, object]()
    made = {name: attempt(store, name) for name in ("a", "b", "c", "d")}
    gate = threading.Barrier(len(made))

    def commit(name: str) -> None:
        gate.wait()
        answers[name] = units.commit(KEY, dict(made[name]))["by"]

    threads = [threading.Thread(target=commit, args=(name,)) for name in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(answers.values())) == 1
    winner = str(answers["a"])
    assert {name for name, _ in store.names("work/pass0/")} == {units.name(KEY, winner, "rows")}
    done = units.done(KEY)
    assert done is not None
    assert done["by"] == winner


def test_an_attempt_that_ends_after_the_run_changes_nothing_published(tmp_path: Path) -> None:
    """A worker that was frozen, or cut off, does its unit and publishes it when the run is finished and tidied up."""
    crawl, out = build(tmp_path / "crawl", 1, 40), tmp_path / "out"
    recipe = load_recipe("web", ["read.unit_bytes=32768"])
    assert run(recipe, [str(crawl)], out, engine="serial").exit_code == 0
    before = digests(out)
    plan = UnitPlan(tuple(resolve_inputs([str(crawl)], source_root=None)), recipe.read.unit_bytes)
    unit = next(u for u in plan if u.span is not None)
    assert unit.span is not None
    args = {"pass": 0, "unit": unit.number, "source": asdict(unit.source), "span": astuple(unit.span)}
    task = Task("pass", KEY, unit.label, unit.size, args)
    late: Result = perform(Context(recipe, str(out)), task, Watch())
    assert late["entered"] > 0
    assert digests(out) == before
    again = run(recipe, [str(crawl)], out, engine="serial")
    assert again.already
    assert digests(out) == before
