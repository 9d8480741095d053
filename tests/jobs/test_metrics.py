"""Metrics: as a text file, and through a real Ray."""

import json
import re
import time
import urllib.request

import pytest

from cleanpipe.errors import ConfigError
from cleanpipe_jobs.cli import main
from cleanpipe_jobs.metrics import SERIES, Metrics


def tell(metrics):
    """A run of 5 units: one done before, one taken over, two done now, one set aside."""
    metrics.started(3, 1000, 1, 1)
    metrics.phase("read", 3)
    facts = {"documents": 10, "bytes": 400, "quarantined": 1, "stage_seconds": {"language_id": 0.5, "html_scrub": 1}}
    metrics.finished("a", 10, 5)
    metrics.result("pass", "a", "k", {**facts, "wall_seconds": 3.5})
    metrics.finished("lost", 0, 0)
    metrics.finished("b", 10, 5)
    metrics.result("pass", "b", "k", {**facts, "wall_seconds": 1e9})
    metrics.phase("window", 2)
    metrics.finished("a", 5, 5)
    metrics.result("pass", "a", "k", {"documents": 5, "quarantined": 2, "stage_seconds": {'odd"\\\n': 0.25}})
    metrics.phase("publish", 1)
    metrics.finished("a", 0, 0)
    metrics.result("ledger", "a", "k", {"quarantined": 4})


WANTED = {
    "cleanpipe_documents_total": 20,
    "cleanpipe_bytes_total": 800,
    "cleanpipe_quarantined_total": 4,
    'cleanpipe_stage_seconds_total{stage="html_scrub"}': 2,
    'cleanpipe_stage_seconds_total{stage="language_id"}': 1,
    'cleanpipe_units_total{state="done"}': 2,
    'cleanpipe_units_total{state="failed"}': 1,
    'cleanpipe_units_total{state="resumed"}': 1,
    'cleanpipe_units_total{state="reused"}': 1,
    "cleanpipe_units_planned_total": 5,
    'cleanpipe_unit_seconds_bucket{le="2"}': 0,
    'cleanpipe_unit_seconds_bucket{le="5"}': 1,
    'cleanpipe_unit_seconds_bucket{le="5000"}': 1,
    'cleanpipe_unit_seconds_bucket{le="+Inf"}': 2,
    "cleanpipe_unit_seconds_count": 2,
}


def parsed(text):
    """The samples, and that the text is as Prometheus wants it."""
    found, typed = {}, set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            typed.add(line.split()[2])
        elif not line.startswith("#"):
            name, value = re.fullmatch(r'([a-z_]+(?:\{[a-z]+="(?:[^"\\\n]|\\.)*"\})?) ([0-9.e+-]+)', line).groups()
            assert name.split("{")[0] in typed or re.sub(r"_(bucket|sum|count)$", "", name.split("{")[0]) in typed
            assert name not in found
            found[name] = float(value)
    return found


def test_the_text_file(tmp_path):
    path = tmp_path / "run.prom"
    metrics = Metrics(str(path))
    assert parsed(path.read_text())["cleanpipe_documents_total"] == 0  # it is there from the start
    tell(metrics)
    metrics.close()
    assert path.read_text().endswith("\n")
    found = parsed(path.read_text())
    assert {k: found[k] for k in WANTED} == WANTED
    assert found['cleanpipe_stage_seconds_total{stage="odd\\"\\\\\\n"}'] == 0.25
    assert [p.name for p in tmp_path.iterdir()] == ["run.prom"]


def test_a_text_file_that_cannot_be_written(tmp_path, capsys):
    with pytest.raises(ConfigError, match="cannot be written: No such file"):
        Metrics(str(tmp_path / "no" / "run.prom"))
    folder = tmp_path / "gone"
    folder.mkdir()
    metrics = Metrics(str(folder / "run.prom"))
    (folder / "run.prom").unlink()
    folder.rmdir()
    tell(metrics)
    metrics.close()
    assert capsys.readouterr().err.count("is not written: No such file") == 1


def test_a_run_with_metrics(crawl, tmp_path):
    path = tmp_path / "run.prom"
    line = [
        "run",
        "web",
        str(crawl),
        "--out",
        str(tmp_path / "out"),
        "--engine",
        "serial",
        "-q",
        "--metrics",
        str(path),
    ]
    assert main(line) == 0
    found = parsed(path.read_text())
    assert found["cleanpipe_documents_total"] == 15
    assert found["cleanpipe_bytes_total"] == sum(p.stat().st_size for p in crawl.iterdir())
    assert found['cleanpipe_units_total{state="done"}'] == found["cleanpipe_units_planned_total"] == 3
    assert found['cleanpipe_stage_seconds_total{stage="html_scrub"}'] > 0


@pytest.mark.ray
@pytest.mark.slow
def test_ray_shows_them_on_the_nodes_metrics_port():
    ray = pytest.importorskip("ray")
    ray.init(
        num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="error", object_store_memory=80 << 20
    )
    try:
        node = ray.nodes()[0]
        tell(Metrics())
        address = f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
        found, stop = {}, time.monotonic() + 60
        while time.monotonic() < stop and len({n.split("{")[0] for n in found}) < len(SERIES):
            time.sleep(1)
            try:
                with urllib.request.urlopen(address, timeout=5) as answer:
                    text = answer.read().decode()
            except OSError:
                continue
            found = {}
            for line in text.splitlines():
                if line.startswith("ray_cleanpipe_") and "_bucket" not in line and "_sum" not in line:
                    name, _, value = line.rpartition(" ")
                    labels = dict(re.findall(r'(stage|state)="([^"]*)"', name))
                    found[name.split("{")[0].removeprefix("ray_") + json.dumps(labels)] = float(value)
    finally:
        ray.shutdown()
    wanted = {}
    for name, value in WANTED.items():
        if "_bucket" not in name and value:
            labels = dict(re.findall(r'(stage|state)="([^"]*)"', name))
            wanted[name.split("{")[0] + json.dumps(labels)] = value
    assert {k: found.get(k) for k in wanted} == wanted
