"""Re-read an export and prove it: every file that its manifest names, its size and its SHA-256."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cleanpipe.io.hashing import sha256_of
from cleanpipe.io.store import TEMPORARY
from cleanpipe.recipe import fingerprint
from cleanpipe.tokens.store.names import MANIFEST
from cleanpipe.verify import Report

_CHANGED = "the file was changed after it was written"
_PLAN = "work/export.json"


def is_export(folder: Path) -> bool:
    """Whether a folder holds an export (``cleanpipe export``), finished or not."""
    return (folder / _PLAN).is_file() or isinstance((_manifest(folder) or {}).get("export"), dict)


def verify_export(folder: Path) -> Report:
    """Check the export in ``folder``. Damage of whatever kind is a finding, never an exception."""
    report = Report()
    manifest = _manifest(folder)
    if manifest is None:
        report.add(MANIFEST, "missing: the export is not finished; the same `cleanpipe export` line goes on with it")
        return report
    files = manifest.get("files")
    if not isinstance(files, dict) or not all(_is_entry(f) for f in files.values()):
        report.add(MANIFEST, f"is no manifest of an export: {_CHANGED}")
        return report
    if manifest.get("digest") != fingerprint({k: v for k, v in manifest.items() if k != "digest"}):
        report.add(MANIFEST, f"its own digest does not fit its content: {_CHANGED}")
    for name, facts in sorted(files.items()):
        report.count("files", 1)
        try:
            size = (folder / name).stat().st_size
            if size != facts["bytes"]:
                report.add(name, f"{size:,} bytes, {facts['bytes']:,} in the manifest: {_CHANGED}")
                continue
            report.count("bytes", size)
            if sha256_of(folder / name) != facts["sha256"]:
                report.add(name, f"SHA-256 differs from the manifest: {_CHANGED}")
        except FileNotFoundError:
            report.add(name, "missing: the manifest names it")
        except (OSError, ValueError) as error:
            report.add(name, f"cannot be read: {getattr(error, 'strerror', None) or error}")
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        aside = name.startswith("work/") or path.name.startswith(TEMPORARY) or path.is_dir()
        if not aside and name not in files and name != MANIFEST:
            report.add(name, "is in the folder, but the manifest does not name it")
    return report


def _manifest(folder: Path) -> dict[str, Any] | None:
    try:
        data = json.loads((folder / MANIFEST).read_bytes().decode())
    except (OSError, ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _is_entry(facts: Any) -> bool:
    return isinstance(facts, dict) and isinstance(facts.get("bytes"), int) and isinstance(facts.get("sha256"), str)
