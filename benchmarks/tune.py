"""``cleanpipe tune`` on a made ledger: seconds of wall and CPU time and the peak of memory, each setting in a process.

    python benchmarks/tune.py [--rows 10000000] [--out DIR] [--rounds 3]

DIR: a run folder of benchmarks/synthetic_ledger.py, made there if absent. Each round is the whole command, its start
included; the median is shown. THE DATA ARE MADE: near duplicates in them have components as a run would note them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from synthetic_ledger import make

from cleanpipe import batch as col

SETS = [
    ["language_id.threshold=0.9"],
    ["language_id.threshold=0.5"],
    ["quality_score.max_perplexity=1500"],
    ["quality_score.enabled=false"],
    ["http_filter.statuses=[200,404]"],
    ["language_preview.confidence=0.8"],
    ["minhash_drop.threshold=0.95"],
    ["minhash_drop.threshold=0.8"],
    ["minhash_drop.enabled=false"],
    ["html_scrub.main_content=false"],
    ["language_id.threshold=0.8", "quality_score.max_perplexity=3000", "minhash_drop.threshold=0.9"],
]
COMPONENT = "minhash_drop_component"


def join_up(out: Path) -> None:
    """Give every near duplicate and the row that stands for it one component, where the maker left it out."""
    parts = sorted((out / "ledger").glob("part-*.parquet"))
    kept = [np.zeros(0, np.uint64)]
    for part in parts:
        table = pq.read_table(part, columns=[col.REASON, col.KEPT_DOC_ID])
        kept.append(_heads(table[col.KEPT_DOC_ID])[_is(pc.equal(table[col.REASON], "near_duplicate"))])
    stand = np.unique(np.concatenate(kept))
    manifest = json.loads((out / "manifest.json").read_text())
    for part in parts:
        table = pq.read_table(part)
        gone = _is(pc.is_valid(table[col.KEPT_DOC_ID]))
        own = np.where(gone, _heads(table[col.KEPT_DOC_ID]), _heads(table[col.DOC_ID]))
        has = np.isin(own, stand) & (gone | _is(pc.equal(table[col.FATE], col.KEPT)))
        buffers = [pa.py_buffer(np.packbits(has, bitorder="little")), pa.py_buffer(own)]
        column = pa.Array.from_buffers(pa.binary(8), len(own), buffers)
        pq.write_table(
            table.set_column(table.schema.get_field_index(COMPONENT), COMPONENT, column),
            part, compression="zstd", row_group_size=1 << 16,
        )  # fmt: skip
        manifest["files"][f"ledger/{part.name}"]["bytes"] = part.stat().st_size
    (out / "manifest.json").write_text(json.dumps(manifest))


def _is(column: pa.ChunkedArray) -> np.ndarray:
    return np.asarray(pc.fill_null(column, False))


def _heads(column: pa.ChunkedArray) -> np.ndarray:
    chunk = column.combine_chunks()
    return np.frombuffer(chunk.buffers()[1], np.uint64)[2 * chunk.offset :][: 2 * len(chunk) : 2]


def once(out: Path, sets: list[str]) -> tuple[float, float, float, str]:
    """Wall and CPU seconds, peak of memory in MB, and what was answered."""
    command = [sys.executable, "-m", "cleanpipe_jobs", "tune", str(out), "--json"]
    if not _runs_as_module():
        command[1:3] = ["-c", "import sys; from cleanpipe_jobs.cli import main; sys.exit(main(sys.argv[1:]))"]
    command += [word for one in sets for word in ("--set", one)]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, stdout=said)
        _, status, used = os.wait4(process.pid, 0)
        said.seek(0)
        answer = json.load(said)
    if status:
        raise SystemExit(f"{sets}: exit status {status}")
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    documents = answer["kept"]["documents"]
    told = f"{documents['before']:,} → {documents['least']:,} to {documents['most']:,}"
    return wall, cpu, used.ru_maxrss / 1000, told


def _runs_as_module() -> bool:
    from importlib.util import find_spec

    return find_spec("cleanpipe_jobs.__main__") is not None


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        out = args.out or Path(made) / "run"
        if not (out / "manifest.json").is_file():
            make(out, args.rows)
            join_up(out)
        rows = sum(pq.read_metadata(p).num_rows for p in (out / "ledger").glob("*.parquet"))
        cpus = len(os.sched_getaffinity(0))
        print(f"{platform.machine()}, {cpus} CPUs, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}, "
              f"pyarrow {pa.__version__}; {rows:,} rows, made data; median of {args.rounds}")  # fmt: skip
        print(f"{'setting':64} {'wall s':>7} {'CPU s':>6} {'MB':>6}  kept")
        for sets in SETS:
            runs = [once(out, sets) for _ in range(args.rounds)]
            wall, cpu, memory = (statistics.median(r[i] for r in runs) for i in range(3))
            print(f"{' '.join(sets):64} {wall:7.1f} {cpu:6.1f} {memory:6.0f}  {runs[0][3]}", flush=True)


if __name__ == "__main__":
    main()
