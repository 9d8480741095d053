"""Re-read a token store and prove it: every file, every id, and that all files tell the same of the same documents.

A damaged payload is told by document and URL. Memory is that of one shard's table of spans, mapped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cleanpipe.errors import CleanpipeError
from cleanpipe.io.hashing import sha256_of
from cleanpipe.io.store import TEMPORARY, spelled
from cleanpipe.recipe import fingerprint
from cleanpipe.tokens.layout import DECISIONS, FORMAT, POLICY, STORE
from cleanpipe.tokens.store.names import LINK, MANIFEST, TOKENS, sizes, spans_name
from cleanpipe.tokens.store.verify_ledger import ledger_faults
from cleanpipe.tokens.store.verify_payload import Payload
from cleanpipe.tokens.store.verify_spans import span_faults
from cleanpipe.verify import Report

Finding = tuple[str, str]  # of which file, what
_EXPECTED = (STORE, POLICY)
_CHANGED = "the file was changed after it was written"


def is_store(folder: Path) -> bool:
    """Whether a folder holds a token store, finished or not, and no run."""
    return (folder / STORE).is_file() or ((folder / TOKENS).is_dir() and not (folder / "data").exists())


def verify_tokens(folder: Path) -> Report:
    """Check the token store in ``folder``. Damage of whatever kind is a finding, never an exception."""
    report = Report()
    checks = _Checks(Path(folder), report)
    for name, what in checks.all():
        report.add(name, what)
    return report


def proven(folder: Path) -> Iterator[Finding]:
    """What is wrong with files of a store, whatever they say: all that needs no more than their digests."""
    checks = _Checks(Path(folder), Report())
    yield from checks.small()
    yield from checks.files()
    for payload in checks.payloads():
        yield from payload.digests()


class _Checks:
    def __init__(self, folder: Path, report: Report) -> None:
        self.folder, self.report = folder, report
        self.named: dict[str, Mapping[str, Any]] = {}
        self.sound: set[str] = set()  # named by the manifest, there, and as it says
        self.info: dict[str, Any] = {}

    def all(self) -> Iterator[Finding]:
        yield from self.small()
        if not self.named:
            return
        yield from self.files()
        yield from self.strays()
        yield from self.decisions()
        for payload in self.payloads():
            entry = payload.entry
            yield from payload.digests()
            self.sound |= payload.sound
            yield from payload.content()
            name = spans_name(payload.name)
            if name in self.sound:
                yield from span_faults(payload, per_window=bool(self.info.get("per_window")))
            self.report.count("shards", 1)
            for key in ("tokens", "documents", "windows"):
                self.report.count(key, entry[key])
        if self.info:
            yield from ledger_faults(self.folder, self.info, self.named, self.sound)

    # manifest and store.json

    def small(self) -> Iterator[Finding]:
        """The two files that all others hang on; where they cannot be believed, nothing else is looked at."""
        if not (self.folder / MANIFEST).is_file():
            yield MANIFEST, "missing: the store is not finished, or the file was deleted"
            return
        manifest = self._json(MANIFEST)
        files = manifest.get("files") if manifest is not None else None
        if manifest is None or not isinstance(files, dict) or not all(_is_entry(n, e) for n, e in files.items()):
            yield MANIFEST, f"is no manifest of a token store: {_CHANGED}"
            return
        if manifest.get("digest") != fingerprint({k: v for k, v in manifest.items() if k != "digest"}):
            yield MANIFEST, f"its own digest does not fit its content: {_CHANGED}"
        elif (self.folder / MANIFEST).read_bytes() != spelled(manifest):
            yield MANIFEST, f"is not spelled as it was written: {_CHANGED}"
        if manifest.get("format") != FORMAT:
            yield MANIFEST, f"format {manifest.get('format')!r} is unknown: this version reads format {FORMAT}"
            return
        for name in _EXPECTED:
            if name not in files:
                yield MANIFEST, f"does not name {name}"
        info = self._json(STORE)
        if info is None:
            yield STORE, "is gone, or is no JSON: it was changed after it was written"
        elif info.get("digest") != fingerprint({k: v for k, v in info.items() if k != "digest"}):
            yield STORE, f"its own digest does not fit its content: {_CHANGED}"
        elif info["digest"] != manifest.get("store"):
            yield MANIFEST, f"is of another {STORE}: one of the two was changed"
        else:
            self.info = info
            yield from self._agrees(info, files)
        self.named = files

    def _json(self, name: str) -> dict[str, Any] | None:
        try:
            data = json.loads((self.folder / name).read_bytes().decode())
        except (OSError, ValueError, RecursionError):
            return None
        return data if isinstance(data, dict) else None

    def _agrees(self, info: dict[str, Any], files: Mapping[str, Any]) -> Iterator[Finding]:
        import numpy as np

        width = np.dtype(info["dtype"]).itemsize
        for key in ("tokens", "documents", "windows"):
            if (total := sum(e[key] for e in info["shards"])) != info[key]:
                yield STORE, f"{info[key]:,} {key}, {total:,} in its shards"
        for entry in info["shards"]:
            for name, size in sizes(entry["name"], entry["tokens"], entry["documents"], width).items():
                if name not in files and not name.endswith(LINK):
                    yield MANIFEST, f"does not name {name}"
                elif name in files and files[name]["bytes"] != size:
                    yield MANIFEST, f"{name}: {files[name]['bytes']:,} bytes, {size:,} by {STORE}"

    # files

    def files(self) -> Iterator[Finding]:
        """Every file the manifest names: there, of its size, of its digest. Payloads are read later, once."""
        payloads = {payload.file: payload for payload in self.payloads()}
        for name, entry in sorted(self.named.items()):
            self.report.count("files", 1)
            path = self.folder / name
            try:
                size = path.stat().st_size
                if size != entry["bytes"] or not path.is_file():
                    lost = payloads[name].lost(size) if name in payloads else ""
                    yield name, f"{size:,} bytes, {entry['bytes']:,} in the manifest: {_CHANGED}{lost}"
                    continue
                self.report.count("bytes", size)
                if name in payloads:
                    continue
                if name.endswith(LINK) and self._linked(path):
                    self.sound.add(name)
                elif sha256_of(path) != entry["sha256"]:
                    yield name, f"SHA-256 differs from the manifest: {_CHANGED}"
                else:
                    self.sound.add(name)
            except FileNotFoundError:
                yield name, "missing: the manifest names it"
            except (OSError, ValueError) as error:
                yield name, f"cannot be read: {getattr(error, 'strerror', None) or error}"

    def _linked(self, path: Path) -> bool:
        payload = path.with_suffix(".bin")
        return payload.is_file() and payload.samefile(path)

    def payloads(self) -> Iterator[Payload]:
        """Of each shard."""
        for entry in self.info.get("shards", ()):
            yield Payload(self.folder, self.info, entry, self.named, self.sound)

    def strays(self) -> Iterator[Finding]:
        """Files that the manifest does not name. Decisions are appended later; ``work/`` and drafts nobody reads."""
        for path in sorted(self.folder.rglob("*")):
            name = path.relative_to(self.folder).as_posix()
            if name.startswith("work/") or name == "work" or path.name.startswith(TEMPORARY):
                continue
            if path.is_dir() and not path.is_symlink():
                continue
            if name not in self.named and name not in (MANIFEST, DECISIONS):
                yield name, "is in the folder, but the manifest does not name it"

    def decisions(self) -> Iterator[Finding]:
        """Every line is as it was written, and those that were built in are its first."""
        from cleanpipe.tokens.decisions import parse

        path = self.folder / DECISIONS
        built = self.info.get("decisions", {})
        count = built.get("lines", 0)
        try:
            found = parse(path.read_bytes() if path.exists() else b"")
            if found.torn:
                yield DECISIONS, f"the last {len(found.torn):,} bytes are no whole line"
            if count and found.digest_at(count) != built.get("sha256"):
                yield DECISIONS, f"does not begin with the {count:,} lines that the store was built with"
            self.report.count("decisions", found.version)
        except CleanpipeError as error:
            yield DECISIONS, error.message
        except OSError as error:
            yield DECISIONS, f"cannot be read: {error.strerror or error}"


def _is_entry(name: Any, entry: Any) -> bool:
    parts = str(name).split("/")
    inside = not str(name).startswith("/") and ".." not in parts and "" not in parts
    return inside and isinstance(entry, dict) and isinstance(entry.get("bytes"), int) and "sha256" in entry
