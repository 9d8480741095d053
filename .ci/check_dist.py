"""What a release must hold: ``check_dist.py contents DIST`` and ``check_dist.py install DIST CONSTRAINTS``.

contents: the wheel has the three packages with their types, recipes, models and sample archives, and nothing else.
install: the wheel alone, in an empty environment in an empty folder, runs the sample recipe, twice, and verifies it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from pathlib import Path

PACKAGES = {
    "cleanpipe": "cleanpipe",
    "cleanpipe_stages": "stages/cleanpipe_stages",
    "cleanpipe_jobs": "jobs/cleanpipe_jobs",
}
SDIST_NEEDS = (
    "README.md",
    "LICENSE",
    "NOTICE",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Makefile",
    "constraints.txt",
    "pyproject.toml",
    "tests/",
    "benchmarks/",
    "docker/",
)
RECIPES = ("web", "literal", "gopher", "fineweb", "sample")
MOST_BYTES = 32_000_000  # 24 MB of them n-gram models of seven languages


def fail(message: str) -> None:
    """Say what is wrong and end."""
    sys.exit(f"check_dist: {message}")


def one(dist: Path, pattern: str) -> Path:
    """The one file of that pattern."""
    found = sorted(dist.glob(pattern))
    if len(found) != 1:
        fail(f"{len(found)} files match {dist}/{pattern}, expected one")
    return found[0]


def expected() -> set[str]:
    """Every file of the three package folders that the wheel must carry, by its name in the wheel."""
    names = set()
    for package, folder in PACKAGES.items():
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard", folder], capture_output=True, text=True, check=False
        )
        files = [Path(line) for line in listed.stdout.splitlines()] or [
            p for p in Path(folder).rglob("*") if p.is_file()
        ]
        names |= {
            f"{package}/{f.relative_to(folder).as_posix()}"
            for f in files
            if f.exists() and "__pycache__" not in f.parts
        }
    return names


def contents(dist: Path) -> None:
    """Compare the wheel with the package folders; look for what an sdist must have."""
    wheel, sdist = one(dist, "*.whl"), one(dist, "*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        names = {n for n in archive.namelist() if not n.endswith("/")}
    info = {n for n in names if n.split("/")[0].endswith(".dist-info")}
    if lacking := expected() - names:
        fail(f"{wheel.name} lacks {sorted(lacking)[:8]}")
    if extra := names - info - expected():
        fail(f"{wheel.name} also holds {sorted(extra)[:8]}")
    needs = {f"{p}/py.typed" for p in PACKAGES} | {f"cleanpipe/recipes/{r}.toml" for r in RECIPES}
    if lacking := needs - names:
        fail(f"{wheel.name} lacks {sorted(lacking)}")
    for name in ("LICENSE", "NOTICE"):
        if not any(n.endswith(f"/{name}") for n in info):
            fail(f"{wheel.name} lacks {name}")
    with zipfile.ZipFile(wheel) as archive:
        recipe = tomllib.loads(archive.read("cleanpipe/recipes/sample.toml").decode())
    if not recipe.get("inputs"):
        fail("the recipe sample names no inputs")
    with tarfile.open(sdist) as archive:
        inner = {n.split("/", 1)[1] for n in archive.getnames() if "/" in n}
    for need in SDIST_NEEDS:
        if not any(n == need or (need.endswith("/") and n.startswith(need)) for n in inner):
            fail(f"{sdist.name} lacks {need}")
    for file in (wheel, sdist):
        size = file.stat().st_size
        if size > MOST_BYTES:
            fail(f"{file.name} has {size:,} bytes, more than {MOST_BYTES:,}")
        print(f"{file}  {size:,} bytes")
    print(f"wheel: {len(names)} files, as in the three package folders; sdist: {len(inner)} entries")


def install(dist: Path, constraints: Path) -> None:
    """Run the sample recipe from the wheel where no checkout is in reach."""
    wheel = one(dist, "*.whl").resolve()
    # PYTHONPATH and an active environment could lend what the wheel lacks
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv.create(folder / "env", with_pip=True)
        python, cleanpipe = folder / "env/bin/python", folder / "env/bin/cleanpipe"
        pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--only-binary=:all:"]
        run = [cleanpipe, "run", "sample", "--out", "out"]
        for command in ([*pip, "-c", constraints.resolve(), wheel], run, run, [cleanpipe, "verify", "out"]):
            print("$", " ".join(Path(str(c)).name for c in command[:3]), flush=True)
            code = subprocess.run([str(c) for c in command], cwd=folder, env=env, check=False).returncode
            if code:
                fail(f"exit code {code}")
        shards = list((folder / "out/data").glob("data-*.arrow"))
        if not shards:
            fail("no shard in out/data")
        print(f"the wheel alone wrote {len(shards)} shard(s), {sum(s.stat().st_size for s in shards):,} bytes")


if __name__ == "__main__":
    if sys.argv[1] == "contents":
        contents(Path(sys.argv[2]))
    else:
        install(Path(sys.argv[2]), Path(sys.argv[3]))
