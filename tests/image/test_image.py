"""The real Dockerfile, built and run without a Docker engine: as one command, and as the nodes of a Ray cluster."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TAG = "localhost/cleanpipe:test"
MOST_BYTES = 1_200_000_000
SPACE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
EXPECTED = """\
head is healthy
workers are healthy
slots: [0, 1.0, 1.0]
submit: 0
verify: 0
plain run: 0, the same bytes: [0, 0]
a failing job: 1, says why: True
health with a frozen GCS: head False, worker True
head is healthy again
"""
MISSING = [tool for tool in ("buildah", "unshare", "ip") if not shutil.which(tool)]

pytestmark = [
    pytest.mark.image,
    pytest.mark.skipif(bool(MISSING) or os.geteuid() != 0, reason=f"needs root and buildah (missing: {MISSING})"),
    pytest.mark.xdist_group("image"),  # one build
]


def run(*command, timeout=900, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, **options)


@pytest.fixture(scope="module")
def image():
    """The image's own description of itself, built from this checkout."""
    built = run(str(ROOT / "docker" / "build_without_engine.sh"), TAG, os.environ.get("CLEANPIPE_WHEELS", ""))
    assert built.returncode == 0, built.stdout[-3000:] + built.stderr[-3000:]
    found = run("buildah", "inspect", "--type", "image", TAG)
    return json.loads(found.stdout)["Docker"]


@pytest.fixture
def container(image):
    """A fresh container of the image; call it with a command. It sees its own processes only, as under an engine."""
    name = run("buildah", "from", "--pull-never", TAG).stdout.strip()

    def call(*command, **options):
        return run(*SPACE, "buildah", "run", "--isolation", "chroot", name, "--", *command, **options)

    call.name = name
    yield call
    run("buildah", "rm", name)


def test_it_is_small_enough(container):
    folder = run("buildah", "mount", container.name).stdout.strip()
    size = int(run("du", "-s", "--block-size=1", folder).stdout.split()[0])
    assert 300_000_000 < size <= MOST_BYTES


def test_what_it_says_of_itself(image):
    config = image["config"]
    assert config["User"] == "1000:1000"
    assert config["Entrypoint"] == ["cleanpipe"]
    assert config["Healthcheck"]["Test"] == ["CMD", "cleanpipe-health"]
    labels = config["Labels"]
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert labels["org.opencontainers.image.version"] == version
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"


def test_nothing_of_the_build_is_left(image, container):
    kept = json.dumps(image["config"]) + json.dumps(image["history"])
    assert "PIP_CERT" not in json.dumps(image["config"])
    assert "PIP_INDEX_URL" not in kept
    assert container("sh", "-c", "ls -d /src /build /dist /wheels 2>/dev/null").stdout == ""
    assert container("/opt/cleanpipe/bin/python", "-m", "pip", "--version").returncode == 1
    writable = container("find", "/opt", "/usr", "/etc", "-xdev", "-writable", "-not", "-type", "l")
    assert writable.stdout == ""  # by uid 1000


def test_the_entry_point_runs_the_sample_as_uid_1000(image, container):
    assert container("id", "-u").stdout == "1000\n"
    entry = image["config"]["Entrypoint"]
    done = container(*entry, "run", "sample", "--out", "/data/sample")
    assert done.returncode == 0, done.stdout + done.stderr
    assert container(*entry, "verify", "/data/sample").returncode == 0
    owners = container("find", "/data/sample", "-not", "-uid", "1000")
    assert (owners.returncode, owners.stdout) == (0, "")
    health = container(*image["config"]["Healthcheck"]["Test"][1:])
    assert (health.returncode, health.stdout) == (0, "well\n")


def test_shells_of_any_kind_find_the_commands(container):
    for shell in (
        ["sh", "-c"],
        ["bash", "-c", "--"],
        ["bash", "-lc", "--"],
    ):  # KubeRay starts `bash -c --`, before 1.4 `-lc`
        found = container(*shell, "which ray cleanpipe cleanpipe-health python")
        assert found.stdout.split() == [
            f"/opt/cleanpipe/bin/{n}" for n in ("ray", "cleanpipe", "cleanpipe-health", "python")
        ]


def test_every_version_is_the_pinned_one(container):
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    listing = (
        "import importlib.metadata as m; print(*(f'{d.name}=={d.version}' for d in m.distributions()), sep=chr(10))"
    )
    found = dict(line.split("==") for line in container("python", "-I", "-c", listing).stdout.splitlines())
    found = {name.lower().replace("_", "-").replace(".", "-"): version for name, version in found.items()}
    assert found.pop("cleanpipe")
    assert {"ray", "pyarrow"} <= set(found)
    assert {n: v for n, v in found.items() if pins.get(n) != v} == {}


def test_compose_makes_a_cluster_that_takes_a_job(image, tmp_path):
    # namespaces of its own: Ray looks at every process of a machine, and its ports are fixed
    script = ROOT / "tests" / "image" / "composed.py"
    done = run(*SPACE, "--net", sys.executable, str(script), TAG, str(tmp_path), timeout=600)
    logs = "".join(f"== {p.name}\n{p.read_text()[-1500:]}" for p in sorted(tmp_path.glob("*.log")))
    assert done.stdout == EXPECTED, done.stdout + done.stderr[-6000:] + logs
