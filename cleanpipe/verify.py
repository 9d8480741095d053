"""Re-read everything a run published and prove it: digests, counts, the balance; and windows rejoin to documents.

Nothing is believed that the manifest does not name, and a file whose digest differs is not looked into any further.
Memory is that of one shard's ledger rows and of one batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from cleanpipe.audit.reread import LedgerReader, Rejoin
from cleanpipe.identity import config_hash
from cleanpipe.io.hashing import sha256_of
from cleanpipe.io.store import TEMPORARY
from cleanpipe.queries.index import check_indexes
from cleanpipe.recipe import fingerprint

MANIFEST = "manifest.json"
_READ_ERRORS = (OSError, ValueError, KeyError, TypeError, EOFError, MemoryError, OverflowError, pa.ArrowException)
_SHOWN = 5  # findings of one kind and file
_EXPECTED = (
    "recipe.toml",
    "config_hash.txt",
    "run.json",
    "audit/audit.json",
    "data/state.json",
    "data/dataset_info.json",
)

FOLDERS = frozenset({"data", "ledger", "index", "quarantine", "audit"})  # there in every run, empty or not


@dataclass(slots=True)
class Report:
    """findings: what is wrong, one line each, naming the file; empty: the run holds. checked: how much was read."""

    findings: list[str] = field(default_factory=list)
    checked: dict[str, int] = field(default_factory=dict)

    def add(self, file: str, what: str) -> None:
        """One more finding."""
        self.findings.append(f"{file}: {what}")

    def count(self, what: str, n: int) -> None:
        """So many more were checked."""
        self.checked[what] = self.checked.get(what, 0) + n


def verify(out: Path) -> Report:
    """Check the run folder ``out``. Damage of whatever kind is a finding, never an exception."""
    report = Report()
    run = _Run(Path(out), report)
    if run.manifest is not None:
        run.files()
        run.strays()
        run.identity()
        run.dataset()
        run.contents()
    return report


class _Run:
    """A run folder, and which of its files can be trusted."""

    def __init__(self, out: Path, report: Report) -> None:
        self.out, self.report = out, report
        self.sound: set[str] = set()  # named by the manifest, there, and as it says
        self.whole = True  # the manifest is as it was written
        self._read: dict[str, dict[str, Any] | None] = {}
        self.manifest = self._manifest()
        self.named: dict[str, Mapping[str, Any]] = dict(self.manifest["files"]) if self.manifest else {}

    def _manifest(self) -> dict[str, Any] | None:
        path = self.out / MANIFEST
        if not path.is_file():
            what = (
                "no such folder"
                if not self.out.is_dir()
                else "missing: the run did not finish, or the file was deleted"
            )
            self.report.add(str(self.out) if not self.out.is_dir() else MANIFEST, what)
            return None
        data = self._json(MANIFEST)
        if data is None:
            return None
        files = data.get("files")
        if not isinstance(files, dict) or not all(_is_entry(n, e) for n, e in files.items()):
            self.report.add(MANIFEST, "is no manifest of a run: the file was changed after the run")
            return None
        rest = {k: v for k, v in data.items() if k != "digest"}
        self.whole = data.get("digest") == fingerprint(rest) and path.read_bytes() == _spelled(data)
        if not self.whole:
            self.report.add(MANIFEST, "its own digest does not fit its content: the file was changed after the run")
        if data.get("format") != 1:
            self.report.add(MANIFEST, f"format {data.get('format')!r} is unknown: this version reads format 1")
        return data

    def _json(self, name: str) -> dict[str, Any] | None:
        """A JSON object; None, and a finding, where it is none."""
        try:
            data = json.loads((self.out / name).read_bytes().decode("utf-8"))
        except OSError as error:
            self.report.add(name, f"cannot be read: {error.strerror or error}")
            return None
        except (ValueError, RecursionError):
            self.report.add(name, "is not valid JSON: the file was changed after the run")
            return None
        if not isinstance(data, dict):
            self.report.add(name, "is no JSON object: the file was changed after the run")
            return None
        return data

    # files

    def files(self) -> None:
        """Every file the manifest names: there, of its size, of its digest."""
        for name in _EXPECTED:
            if name not in self.named:
                self.report.add(MANIFEST, f"does not name {name}")
        changed = "the file was changed after the run" if self.whole else "one of the two was changed after the run"
        for name, entry in sorted(self.named.items()):
            path = self.out / name
            self.report.count("files", 1)
            try:
                size = path.stat().st_size
                if not path.is_file():
                    self.report.add(name, "is not a file")
                elif size != entry["bytes"]:
                    self.report.add(name, f"{size:,} bytes, {entry['bytes']:,} in the manifest: {changed}")
                elif sha256_of(path) != entry["sha256"]:
                    self.report.add(name, f"SHA-256 differs from the manifest: {changed}")
                else:
                    self.sound.add(name)
                    self.report.count("bytes", size)
            except FileNotFoundError:
                self.report.add(name, "missing: the manifest names it, and it was deleted after the run")
            except (OSError, ValueError) as error:
                self.report.add(name, f"cannot be read: {getattr(error, 'strerror', None) or error}")

    def strays(self) -> None:
        """Files that the manifest does not name; ``work/`` may stay only where the run was asked to keep it.

        What a late worker leaves (drafts, a unit below ``work/``) is no part of the run: nobody reads it, and
        `cleanpipe clean` takes it.
        """
        facts = self._sound_json("run.json") or {}
        kept_work = bool(facts.get("kept_work", False))
        for path in sorted(self.out.iterdir()):
            if path.name == "work":
                if not kept_work and "run.json" in self.sound and (path / "plan.json").exists():
                    self.report.add("work/", "left over: a finished run deletes it; it can be deleted")
                continue
            for found in [path, *sorted(path.rglob("*"))] if path.is_dir() else [path]:
                name = found.relative_to(self.out).as_posix()
                if found.is_dir() and not found.is_symlink():
                    bare = not any(found.iterdir())  # else what is in it is told
                    if bare and name not in FOLDERS and not any(n.startswith(f"{name}/") for n in self.named):
                        self.report.add(f"{name}/", "is a folder that no run makes")
                elif name not in self.named and name != MANIFEST and not found.name.startswith(TEMPORARY):
                    self.report.add(name, "is in the folder, but the manifest does not name it")

    def _sound_json(self, name: str) -> dict[str, Any] | None:
        """A published JSON file, if it is as the manifest says; read once."""
        if name not in self._read:
            self._read[name] = self._json(name) if name in self.sound else None
        return self._read[name]

    # what the small files say of one another

    def identity(self) -> None:
        """One configuration hash everywhere, and it is the hash of what it says it is."""
        manifest = self.manifest or {}
        facts, audit = self._sound_json("run.json"), self._sound_json("audit/audit.json")
        hashes = {MANIFEST: manifest.get("config_hash")}
        if "config_hash.txt" in self.sound:
            hashes["config_hash.txt"] = (self.out / "config_hash.txt").read_text("utf-8", "replace").strip()
        if facts is not None:
            hashes["run.json"] = facts.get("config_hash")
        if audit is not None:
            hashes["audit/audit.json"] = _at(audit, "identity", "config_hash")
        for name, value in hashes.items():
            if value != hashes[MANIFEST]:
                self.report.add(name, f"configuration hash {value!r}, {hashes[MANIFEST]!r} in {MANIFEST}")
        settings, inputs = _at(facts, "identity"), _at(audit, "identity", "inputs")
        said = facts.get("config_hash") if facts is not None else None
        if isinstance(settings, dict) and inputs is not None and config_hash(settings, inputs)[:8] != said:
            self.report.add("run.json", "settings, models, code and inputs do not give its configuration hash")

    def dataset(self) -> None:
        """state.json lists the shards, all of them, in order."""
        state = self._sound_json("data/state.json")
        shards = self._shards()
        if state is not None:
            listed = [_at(e, "filename") for e in state.get("_data_files") or []]
            if listed != [s.removeprefix("data/") for s in shards]:
                self.report.add(
                    "data/state.json", f"lists {len(listed):,} shards, not the {len(shards):,} of the manifest"
                )
        for i, name in enumerate(shards):
            if name != f"data/data-{i:05d}-of-{len(shards):05d}.arrow":
                self.report.add(name, f"is no shard name {i + 1} of {len(shards)}: a shard is missing or misnamed")
                break

    def _shards(self) -> list[str]:
        return sorted(n for n in self.named if n.startswith("data/") and n.endswith(".arrow"))

    def _parts(self, folder: str) -> list[str]:
        return sorted(n for n in self.named if n.startswith(f"{folder}/") and n.endswith(".parquet"))

    # rows

    def contents(self) -> None:
        """Ledger, shards and audit against each other, as far as their files are sound."""
        ledger_parts = self._parts("ledger")
        reader = LedgerReader(self.out, [p for p in ledger_parts if p in self.sound], set(self._shards()))
        whole = len(reader.parts) == len(ledger_parts)
        try:
            for name, what in _capped(reader.check(self._rows_named)):
                self.report.add(name, what)
            self.report.count("ledger_rows", reader.rows)
        except _READ_ERRORS as error:
            self.report.add(reader.at, f"cannot be read as a ledger part: {_short(error)}")
            whole = False
        for name, what in _capped(check_indexes(self.out, self.named, self.sound)):
            self.report.add(name, what)
        self._quarantine(reader, whole)
        if whole:
            try:
                self._balance(reader)
            except (AttributeError, *_READ_ERRORS):
                self.report.add("audit/audit.json", "is not the audit of a run")
        self._windows(reader if whole else None)

    def _rows_named(self, name: str) -> int | None:
        rows = self.named[name].get("rows")
        return rows if isinstance(rows, int) else None

    def _quarantine(self, reader: LedgerReader, whole: bool) -> None:
        import pyarrow.parquet as pq

        parts = self._parts("quarantine")
        total, sound = 0, all(p in self.sound for p in parts)
        for name in parts:
            if name not in self.sound:
                continue
            try:
                table = pq.read_table(self.out / name)
                table.validate(full=True)
            except _READ_ERRORS as error:
                self.report.add(name, f"cannot be read as a quarantine part: {_short(error)}")
                sound = False
                continue
            total += table.num_rows
            if (said := self._rows_named(name)) != table.num_rows:
                self.report.add(name, f"{table.num_rows:,} rows, {said} in the manifest")
        self.report.count("quarantine_rows", total)
        if whole and sound and total != reader.quarantined:
            self.report.add("quarantine/", f"{total:,} rows, {reader.quarantined:,} quarantined in the ledger")

    def _balance(self, reader: LedgerReader) -> None:
        """The audit's figures against those counted again from the ledger."""
        name = "audit/audit.json"
        audit = self._sound_json(name)
        if audit is None:
            return
        if _at(audit, "conservation", "balanced") is not True:
            broken = [str(_at(li, "what")) for li in _at(audit, "conservation", "lines") or [] if not _at(li, "ok")]
            self.report.add(name, f"the balance does not close: {', '.join(broken[:_SHOWN])}")
        for what, said, found in reader.compared(audit):
            self.report.add(name, f"{what}: {said} there, {found} counted again from the ledger")
        files = {f"data/{_at(s, 'file')}": s for s in _at(audit, "shards", "files") or []}
        if sorted(files) != self._shards():
            self.report.add(name, "its list of shards is not the manifest's")
        for shard, entry in files.items():
            for key in ("rows", "bytes", "sha256"):
                if shard in self.named and _at(entry, key) != self.named[shard].get(key):
                    self.report.add(name, f"{shard}: {key} differs from the manifest")

    def _windows(self, reader: LedgerReader | None) -> None:
        """Every shard's windows rejoin to the documents that the ledger says are in it."""
        size = _window_size(self._sound_json("run.json"))
        schema: pa.Schema | None = None
        expected = reader.kept() if reader is not None else iter(())
        pending = next(expected, None)
        for name in self._shards():
            rows = None
            while pending is not None and f"data/{pending[0]}" not in self.named:
                pending = next(expected, None)
            short = name.removeprefix("data/")
            if pending is not None and pending[0] == short:
                rows, pending = pending[1], next(expected, None)
            if name not in self.sound:
                continue
            rejoin = Rejoin(size, rows if reader is None or rows is not None else [])
            try:
                schema = self._shard(name, rejoin, schema)
            except _READ_ERRORS as error:
                self.report.add(name, f"cannot be read as an Arrow stream: {_short(error)}")
                continue
            for what in rejoin.findings[:_SHOWN]:
                self.report.add(name, what)
            if len(rejoin.findings) > _SHOWN:
                self.report.add(name, f"{len(rejoin.findings) - _SHOWN:,} more faults like these")
            self.report.count("shards", 1)
            self.report.count("rows", rejoin.rows)
            self.report.count("documents", rejoin.documents)
        if pending is not None:
            where = "data/" + pending[0]
            if where in self.sound:
                self.report.add(where, "the ledger names its documents out of order")

    def _shard(self, name: str, rejoin: Rejoin, schema: pa.Schema | None) -> pa.Schema:
        with pa.OSFile(str(self.out / name)) as source, pa.ipc.open_stream(source) as reader:
            found = reader.schema
            absent = [c for c in Rejoin.COLUMNS if c not in found.names]
            if absent:
                self.report.add(name, f"has no column {absent[0]!r}")
                return schema or found
            if schema is not None and not found.equals(schema):
                self.report.add(name, "its columns are not those of the first shard")
            features = _at(self._sound_json("data/dataset_info.json"), "features")
            if features is not None and list(features) != found.names:
                self.report.add("data/dataset_info.json", f"its features are not the columns of {name}")
            for batch in reader:
                batch.validate(full=True)
                rejoin.take(batch)
            rejoin.end()
        if (said := self._rows_named(name)) != rejoin.rows:
            self.report.add(name, f"{rejoin.rows:,} rows, {said} in the manifest")
        return schema or found


def _is_entry(name: Any, entry: Any) -> bool:
    parts = str(name).split("/")
    inside = not str(name).startswith("/") and ".." not in parts and "" not in parts
    return inside and isinstance(entry, dict) and isinstance(entry.get("bytes"), int) and "sha256" in entry


def _spelled(value: Any) -> bytes:
    """The one spelling in which the run writes JSON."""
    return (json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode("utf-8", "surrogatepass")


def _at(value: Any, *path: str) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _window_size(facts: Mapping[str, Any] | None) -> int | None:
    """Largest window in code points: the ``size`` of the stage that cuts with ``overlap``; None where none does."""
    stages = _at(facts, "identity", "settings", "stages")
    for stage in stages if isinstance(stages, list) else []:
        if isinstance(stage, list) and len(stage) == 3 and stage[1] is True and isinstance(stage[2], dict):
            options = stage[2]
            if isinstance(options.get("size"), int) and isinstance(options.get("overlap"), int):
                return int(options["size"])
    return None


def _capped(findings: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """At most a handful for each file."""
    seen: dict[str, int] = {}
    for name, what in findings:
        seen[name] = seen.get(name, 0) + 1
        if seen[name] <= _SHOWN:
            yield name, what
    for name, n in seen.items():
        if n > _SHOWN:
            yield name, f"{n - _SHOWN:,} more faults like these"


def _short(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 200 else text[:199] + "…"
