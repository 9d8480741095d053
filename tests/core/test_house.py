"""The rules of the house that a program can check."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {"cleanpipe": ROOT / "cleanpipe", "cleanpipe_stages": ROOT / "stages", "cleanpipe_jobs": ROOT / "jobs"}
MAY_IMPORT = {
    "cleanpipe": {"cleanpipe"},
    "cleanpipe_stages": {"cleanpipe", "cleanpipe_stages"},
    "cleanpipe_jobs": set(PACKAGES),
}
FILES = [(package, path) for package, root in PACKAGES.items() for path in sorted(root.rglob("*.py"))]


def imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


@pytest.mark.parametrize(("package", "path"), FILES, ids=[p.relative_to(ROOT).as_posix() for _, p in FILES])
def test_imports_go_one_way_and_files_stay_small(package, path):
    ours = {name.partition(".")[0] for name in imported(path)} & set(PACKAGES)
    assert ours <= MAY_IMPORT[package]
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400


def test_a_stage_knows_no_other_stage():
    for path in sorted((ROOT / "stages" / "cleanpipe_stages").glob("*.py")):
        others = {p.stem for p in path.parent.glob("*.py") if p.stem[0] != "_"} - {path.stem}  # _checks.py is no stage
        assert not {n.partition("cleanpipe_stages.")[2] for n in imported(path)} & others, path.name


@pytest.mark.parametrize("heavy", ["ray", "datasets", "torch", "scipy"])
def test_heavy_packages_are_imported_where_they_are_used(heavy):
    for package, path in FILES:
        top = [
            n for n in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(n, (ast.Import, ast.ImportFrom))
        ]
        names = [a.name for n in top if isinstance(n, ast.Import) for a in n.names]
        names += [n.module or "" for n in top if isinstance(n, ast.ImportFrom)]
        assert heavy not in {n.partition(".")[0] for n in names}, (package, path)
