"""Resuming a run of a million units: how long it takes to know what is done, and in how much memory.

python benchmarks/resume.py [--units 1000000] [--folder DIR]   (DIR needs about 1 GB; made and removed)

The manifests are made by us, of the size and shape that the recipe `web` gives a unit of 64 MiB. Measured in a process
of its own: the journal of the first pass is read, every unit's key computed and looked up, its facts read for the chain
of spans, and the tallies added up, as the driver does on a resume.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cleanpipe.engine.commit import unit_key
from cleanpipe.engine.journal import BOOK, Journal, book_of, json_line
from cleanpipe.engine.plan import UnitPlan
from cleanpipe.io.inputs import Input
from cleanpipe.io.store import LocalStore
from cleanpipe.tally import Tally, add

UNIT = 64 << 20
PER_FILE = 16  # units of an input of 1 GB


def inputs(units: int) -> list[Input]:
    count = -(-units // PER_FILE)
    return [
        Input(f"CC-MAIN-{i:06d}.warc.gz", f"s3://b/{i}.warc.gz", PER_FILE * UNIT, f"{i:032x}") for i in range(count)
    ]


def key_of(base: str, unit: int, plan: UnitPlan) -> str:
    planned = plan[unit]
    source, span = planned.source, planned.span
    return unit_key(base, [source.source, source.size, source.stamp, [span.begin, span.end, -1, -1]], [], "")


def manifest(key: str, unit: int) -> dict[str, object]:
    """One unit's, without its tally."""
    attempt = f"{unit:012x}"
    roles = ("rows", "fates", "quarantine")
    files = {r: {"name": f"work/pass0/{key}/{attempt}-{r}.arrow", "bytes": 9_000_000, "sha256": key * 2} for r in roles}
    facts = {"sha256": key * 2, "file_bytes": UNIT, "records": {"request": 900, "response": 900, "metadata": 900}}
    facts |= {
        "reader": "fast",
        "reread": "",
        "first": 0,
        "next": UNIT,
        "inflated": 4 * UNIT,
        "relative": False,
        "aside": "",
    }
    cost = dict.fromkeys(("read", "decode", "html_scrub", "normalise", "language_id", "quality_score"), 1.234567)
    return {
        "files": files,
        "facts": facts,
        "stage_seconds": cost,
        "rows": 700,
        "entered": 900,
        "aside": 0,
        "unit": unit,
    }


def tally(seed: int) -> Tally:
    """Of the size that the recipe `web` gives: counts of each stage, histograms of the scores."""
    stages = ("read", "http_filter", "language_preview", "html_scrub", "language_id", "quality_score", "minhash_sign")
    counts = {
        n: seed + i for i, n in enumerate(("docs_in", "docs_out", "bytes_in", "bytes_out", "chars_in", "chars_out"))
    }
    return {s: {**counts, "facts": {f"bin{i}": seed * i for i in range(60)}} for s in stages}


def build(folder: Path, units: int) -> None:
    store, plan = LocalStore(str(folder)), UnitPlan(inputs(units), UNIT)
    base = unit_key("base")
    tallies = [tally(n) for n in range(BOOK)]  # the same in every book
    total: Tally = {}
    for one in tallies:
        add(total, one)
    for at in range(0, units, BOOK):
        numbers = range(at, at + BOOK)
        keys = [key_of(base, n, plan) for n in numbers]
        lines = [json_line(manifest(k, n)) for k, n in zip(keys, numbers, strict=True)]
        name = f"{at:012x}.zst"
        (folder / "work/done/pass0").mkdir(parents=True, exist_ok=True)
        book, beside = book_of(keys, total, tallies, lines)
        store.write(f"work/done/pass0/tally-{name}", beside)
        store.write(f"work/done/pass0/book-{name}", book)


def machine() -> dict[str, Any]:
    """Where and with what it was measured."""
    return {
        "machine": platform.machine(), "system": platform.platform(), "processors": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1), "python": platform.python_version(), "pyarrow": version("pyarrow"),
        "zstandard": version("zstandard"),
    }  # fmt: skip


def measure(folder: Path, units: int) -> None:
    began = time.perf_counter()
    journal = Journal(LocalStore(str(folder)), "pass0")
    loaded = time.perf_counter()
    plan, base = UnitPlan(inputs(units), UNIT), unit_key("base")
    keys = [key_of(base, n, plan) for n in range(units)]
    left = [n for n, key in enumerate(keys) if key not in journal]
    known = time.perf_counter()
    stops = sum(journal[key]["facts"]["next"] for key in keys)
    facts = time.perf_counter()
    total = journal.tally(keys)
    end = time.perf_counter()
    print(
        json.dumps(
            {
                "units": units,
                "left": len(left),
                "checked": total["read"]["docs_in"] == units // BOOK * sum(range(BOOK)) and stops == units * UNIT,
                "journal_seconds": round(loaded - began, 1),
                "keys_seconds": round(known - loaded, 1),
                "facts_seconds": round(facts - known, 1),
                "sum_seconds": round(end - facts, 1),
                "total_seconds": round(end - began, 1),
                "cpu_seconds": round(time.process_time(), 1),
                "peak_memory_MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            }
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--units", type=int, default=1_000_000, help=f"a multiple of {BOOK:,}")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        measure(args.folder, args.units)
        return
    folder = Path(tempfile.mkdtemp(prefix="cleanpipe-resume-", dir=args.folder))
    try:
        print(json.dumps(machine()))
        build(folder, args.units)
        size = sum(p.stat().st_size for p in folder.rglob("*.zst"))
        print(f"{args.units:,} manifests in {len(list(folder.rglob('book-*')))} books, {size / 1e6:,.0f} MB")
        command = [sys.executable, __file__, "--measure", "--units", str(args.units), "--folder", str(folder)]
        told = []
        for _ in range(args.rounds):
            told.append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))
            print(json.dumps(told[-1]), flush=True)
        assert all(t["checked"] and t["left"] == 0 for t in told)
        figures = [n for n in told[0] if n.endswith(("_seconds", "_MB"))]
        print(json.dumps({"medians": {n: statistics.median(t[n] for t in told) for n in figures}}))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
