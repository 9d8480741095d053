"""The hostile corpus (README.md): every bad record has the one right fate, every good one beside it comes out whole."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cleanpipe.run import run
from cleanpipe.verify import verify

HERE = Path(__file__).parent


def _build() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hostile_build", HERE / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


BUILD = _build()
CASES: list[tuple[int, dict[str, Any]]] = list(enumerate(BUILD.load()))
QUICK: dict[tuple[str, ...], list[tuple[int, dict[str, Any]]]] = {}
for _case in CASES:
    if not _case[1]["slow"]:
        QUICK.setdefault((_case[1]["kind"], *_case[1].get("set", ())), []).append(_case)
SLOW = [case for _, case in CASES if case["slow"]]
PUBLISHED = ("data", "ledger", "index", "quarantine", "audit/audit.json")


# --- what a run says --------------------------------------------------------------------------------------------------


def rows_of(out: Path, folder: str) -> list[dict[str, Any]]:
    """The rows of all parts of ledger or quarantine, in order."""
    return [row for path in sorted((out / folder).glob("*.parquet")) for row in pq.read_table(path).to_pylist()]


def texts_of(out: Path) -> dict[bytes, str]:
    """Documents by id, their windows joined without the overlaps."""
    texts: dict[bytes, list[str]] = {}
    for path in sorted((out / "data").glob("*.arrow")):
        with pa.memory_map(str(path)) as file:
            table = pa.ipc.open_stream(file).read_all()
            for row in table.select(["doc_id", "text", "overlap"]).to_pylist():
                texts.setdefault(row["doc_id"], []).append(row["text"][row["overlap"] :])
    return {doc_id: "".join(parts) for doc_id, parts in texts.items()}


def files_of(out: Path) -> dict[str, bytes]:
    """The published bytes, by name."""
    found = (p for name in PUBLISHED for p in ([out / name] if (out / name).is_file() else (out / name).rglob("*")))
    return {str(p.relative_to(out)): p.read_bytes() for p in found if p.is_file()}


class Outcome:
    """A finished run beside what its archives must give."""

    def __init__(self, out: Path) -> None:
        self.ledger: dict[str, list[dict[str, Any]]] = {}
        for row in rows_of(out, "ledger"):
            self.ledger.setdefault(row["source"], []).append(row)
        self.quarantine = {row["doc_id"]: row for row in rows_of(out, "quarantine")}
        self.texts = texts_of(out)

    def faults(self, archive: Any) -> list[str]:
        """What is wrong with one archive's rows."""
        got = sorted(self.ledger.get(archive.name, []), key=lambda r: r["record_offset"])
        if len(got) != len(archive.rows):
            found = [(r["record_offset"], r["record_length"], r["fate"], r["reason"]) for r in got]
            return [f"{archive.name}: {len(got)} rows, want {len(archive.rows)}: {found[:6]}"]
        bad: list[str] = []
        counted: dict[str, Counter[str]] = {}
        wanted: dict[str, Mapping[str, int]] = {}
        for place, (row, want) in enumerate(zip(got, archive.rows, strict=True)):
            here = f"{archive.name} row {place}"
            if counts := want.want.get("counts"):
                name = repr(counts)
                wanted[name] = counts
                counted.setdefault(name, Counter())[_fate(row)] += 1
            if _fate(row) not in want.want.get("any", [_fate(row)]):
                bad.append(f"{here}: {_fate(row)}")
            bad += [f"{here}: {fault}" for fault in self._place(row, want)]
            tries = want.want.get("either") or [{}]
            found = [self._row(row, {**want.want, **more}) for more in tries]
            if all(found):
                bad.append(f"{here}: " + " | ".join("; ".join(f) for f in found))
        bad += [f"{archive.name}: {counted[n]}, want {wanted[n]}" for n in wanted if dict(wanted[n]) != counted[n]]
        return bad

    @staticmethod
    def _place(row: Mapping[str, Any], want: Any) -> Iterable[str]:
        for name in ("offset", "length"):
            if row[f"record_{name}"] != getattr(want, name):
                yield f"{name} {row[f'record_{name}']}, want {getattr(want, name)}"
        if row["offset_kind"] != want.offset_kind:
            yield f"offset kind {row['offset_kind']}, want {want.offset_kind}"
        if row["record_type"] is not None and row["record_id"] != want.record_id:
            yield f"record id {row['record_id']}, want {want.record_id}"

    def _row(self, row: Mapping[str, Any], want: Mapping[str, Any]) -> list[str]:
        bad = []
        for name in ("fate", "stage", "reason"):
            if name in want and row[name] != want[name]:
                return [f"{_fate(row)}, want {want.get('fate')} {want.get('stage', '*')}/{want.get('reason', '*')}"]
        aside = self.quarantine.get(row["doc_id"])
        if (row["fate"] == "quarantined") != (aside is not None):
            bad.append("ledger and quarantine/ disagree")
        if aside is not None:
            same = ("source", "record_offset", "record_length", "offset_kind", "record_id", "url", "stage", "reason")
            bad += [f"quarantine/ says {n} {aside[n]!r}" for n in same if aside[n] != row[n]]
            if not aside["error"] or not aside["message"]:
                bad.append("no error or message in quarantine/")
            if "error" in want and aside["error"] != want["error"]:
                bad.append(f"error {aside['error']} ({aside['message']}), want {want['error']}")
            if not re.search(want.get("message", ""), aside["message"] or ""):
                bad.append(f"message {aside['message']!r}")
        for name, value in want.get("columns", {}).items():
            got = row[name].isoformat() if hasattr(row[name], "isoformat") else row[name]
            if (None if value == "null" else value) != got:
                bad.append(f"{name} is {got!r}, want {value!r}")
        text = self.texts.get(row["doc_id"])
        if (row["fate"] == "kept") != (text is not None):
            return [*bad, "ledger and shards disagree"]
        if text is None:
            return bad
        if "text" in want and text != want["text"]:
            bad.append(f"text is {text[:300]!r} ({len(text)}), want {want['text'][:80]!r} ({len(want['text'])})")
        at = 0
        for part in want.get("has", ()):
            at = text.find(part, at)
            if at < 0:
                bad.append(f"text lacks {part[:60]!r} (or in this order): {text[:200]!r}")
                break
        bad += [f"text has {part!r}" for part in want.get("lacks", ()) if part in text]
        least, most = want.get("chars", (0, sys.maxsize))
        if not least <= len(text) <= most:
            bad.append(f"{len(text)} characters, want {least} to {most}: {text[:200]!r} … {text[-100:]!r}")
        if "windows" in want and row["windows"] != want["windows"]:
            bad.append(f"{row['windows']} windows, want {want['windows']}")
        return bad


def _fate(row: Mapping[str, Any]) -> str:
    return row["fate"] if row["fate"] == "kept" else f"{row['fate']} {row['stage']}/{row['reason']}"


def judged(cases: Iterable[tuple[Mapping[str, Any], Any]], outcome: Outcome, cost: Sequence[str] = ()) -> None:
    """Fails with every fault."""
    bad = [fault for _, archive in cases for fault in [*outcome.faults(archive), *cost]]
    if bad:
        pytest.fail("\n".join(bad), pytrace=False)


# --- the quick ones, a kind at a time ---------------------------------------------------------------------------------


def test_a_hundred_cases_of_each_sort() -> None:
    names = [case["name"] for _, case in CASES]
    assert len(set(names)) == len(names) >= 100
    assert all(case.get("about") for _, case in CASES)


@pytest.mark.slow
@pytest.mark.parametrize("group", list(QUICK), ids=lambda g: "-".join(g).replace("/", "_")[:60])
def test_kind(group: tuple[str, ...], tmp_path: Path) -> None:
    """Serial, every row; then two workers, the same bytes."""
    archives = [BUILD.made(case, number) for number, case in QUICK[group]]
    folder = tmp_path / "in"
    folder.mkdir()
    for archive in archives:
        (folder / archive.name).write_bytes(archive.data)
    done = run("web", [str(folder)], tmp_path / "serial", engine="serial", sets=group[1:])
    assert done.exit_code == 0
    outcome = Outcome(tmp_path / "serial")
    assert set(outcome.ledger) == {archive.name for archive in archives}
    judged(zip((case for _, case in QUICK[group]), archives, strict=True), outcome)
    assert verify(tmp_path / "serial").findings == []
    run("web", [str(folder)], tmp_path / "local", engine="local", workers=2, sets=group[1:])
    serial, local = files_of(tmp_path / "serial"), files_of(tmp_path / "local")
    assert [n for n in serial.keys() | local.keys() if serial.get(n) != local.get(n)] == []


# --- the slow ones, alone ---------------------------------------------------------------------------------------------


def measured(arguments: Sequence[str]) -> tuple[int, float, int]:
    """Exit status, CPU seconds and peak memory in bytes of a command."""
    process = subprocess.Popen([sys.executable, "-m", "cleanpipe_jobs.cli", *arguments])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


@pytest.mark.slow
@pytest.mark.parametrize("case", SLOW, ids=lambda c: c["name"])
def test_slow(case: dict[str, Any], tmp_path: Path) -> None:
    # made by another process: a child's peak memory begins with what its parent holds
    subprocess.run([sys.executable, str(HERE / "build.py"), str(tmp_path), case["name"]], check=True)
    archive = BUILD.written(tmp_path, f"{case['name']}{case['end']}")
    path = tmp_path / archive.name
    sets = [part for one in case.get("set", ()) for part in ("--set", one)]
    line = ["run", "web", str(path), "--out", str(tmp_path / "out"), "--engine", "serial", "--quiet", *sets]
    began = time.monotonic()
    status, cpu, memory = measured(line)
    sys.stdout.write(f"{case['name']}: {cpu:.1f} s CPU, {time.monotonic() - began:.1f} s, {memory >> 20} MiB\n")
    assert status == 0
    cost = [f"{cpu:.1f} s CPU"] * (cpu > case.get("cpu", 30)) + [f"{memory >> 20} MiB"] * (
        memory > case.get("memory", 1500 << 20)
    )
    judged([(case, archive)], Outcome(tmp_path / "out"), cost)
    assert verify(tmp_path / "out").findings == []
