"""`cleanpipe diff` on ledgers of any size: seconds, CPU seconds and peak memory, each case in a process of its own.

    python benchmarks/diff.py WORK --rows 1000000 10000000 [--runs 3]

WORK keeps the made ledgers (see synthetic_ledger.py) for the next time. Cases: ``threshold``, the same documents with
another limit; ``containers``, the same documents in other files, joined by record id; ``disjoint``, no document in
both. A tenth of the language scores are below the other limit.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from synthetic_ledger import make

from cleanpipe import batch as col

_ASK = """
import json, resource, sys, time
from cleanpipe.queries.diff import diff
from cleanpipe.queries.opened_run import open_run
began, cpu = time.perf_counter(), time.process_time()
with open_run(sys.argv[1]) as a, open_run(sys.argv[2]) as b:
    found = diff(a, b)
print(json.dumps({
    "seconds": time.perf_counter() - began,
    "cpu_seconds": time.process_time() - cpu,
    "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    "joined": found["documents"]["joined_by"],
    "changed": found["documents"]["changed"],
}))
"""


def threshold(table: pa.Table) -> pa.Table:
    """Kept documents of a score below 0.75 are dropped."""
    low = pc.fill_null(pc.less(table.column(col.LANGUAGE_ID_SCORE), 0.75), False)
    gone = pc.and_(pc.equal(table.column(col.FATE), col.KEPT), low)
    for name, value in ((col.FATE, col.DROPPED), (col.STAGE, "language_id"), (col.REASON, "low_confidence")):
        table = _with(table, name, pc.if_else(gone, value, table.column(name)))
    return table


def containers(table: pa.Table) -> pa.Table:
    """Other doc_ids and another order, as other files would give them."""
    raw = np.frombuffer(table.column(col.DOC_ID).combine_chunks().buffers()[1], np.uint8)
    ids = pa.FixedSizeBinaryArray.from_buffers(col.ID, table.num_rows, [None, pa.py_buffer((255 - raw).tobytes())])
    return _with(table, col.DOC_ID, ids).take(pa.array(np.arange(table.num_rows)[::-1]))


def _with(table: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), name, values)


def _derived(run: Path, out: Path, change: Callable[[pa.Table], pa.Table]) -> Path:
    """The run with another ledger; its audit stays, which no question here is about."""
    if out.exists():
        return out
    half = out.with_suffix(".half")
    shutil.rmtree(half, ignore_errors=True)
    shutil.copytree(run, half, ignore=shutil.ignore_patterns("part-*.parquet"))
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["files"] = {n: f for n, f in manifest["files"].items() if not n.startswith(("ledger/", "quarantine/"))}
    for part in sorted((run / "ledger").glob("part-*.parquet")):
        pq.write_table(change(pq.read_table(part)), half / "ledger" / part.name, compression="zstd")
    (half / "manifest.json").write_text(json.dumps(manifest))
    half.rename(out)
    return out


def main() -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    result = {
        "machine": f"{platform.machine()}, {os.cpu_count()} processors",
        "load": os.getloadavg(),
        "versions": {"python": platform.python_version(), "pyarrow": pa.__version__, "numpy": np.__version__},
        "runs": args.runs,
        "cases": [],
    }
    for rows in args.rows:
        a = args.work / f"a-{rows}"
        if not a.exists():
            make(a, rows, seed=1)
        other = args.work / f"disjoint-{rows}"
        if not other.exists():
            make(other, rows, seed=2)
        cases = {
            "threshold": _derived(a, args.work / f"threshold-{rows}", threshold),
            "containers": _derived(a, args.work / f"containers-{rows}", containers),
            "disjoint": other,
        }
        for name, b in cases.items():
            found = [_asked(a, b) for _ in range(args.runs)]
            medians = {
                k: round(statistics.median(f[k] for f in found), 1) for k in ("seconds", "cpu_seconds", "peak_mib")
            }
            result["cases"].append(
                {"rows": rows, "case": name, **medians, "joined": found[0]["joined"], "changed": found[0]["changed"]}
            )
            print(json.dumps(result["cases"][-1]), file=sys.stderr)
    print(json.dumps(result, indent=2))


def _asked(a: Path, b: Path) -> dict[str, float]:
    done = subprocess.run([sys.executable, "-c", _ASK, str(a), str(b)], capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


if __name__ == "__main__":
    main()
