"""How long `cleanpipe explain OUT KEY --no-replay` takes, the whole command, process start and imports with it.

    python benchmarks/explain.py                                 # makes a ledger of 1,000,000 rows (the data are made)
    python benchmarks/explain.py --rows 10000000
    python benchmarks/explain.py --out LEDGER                    # one that synthetic_ledger.py made before

Keys are drawn from the ledger with a fixed seed: kept and dropped rows, each as doc_id, URL, record id and
source@offset in turn, then keys that name nothing. "cold": the page cache of the run's files is emptied before each.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from synthetic_ledger import make


def keys_of(out: Path, n: int, seed: int) -> dict[str, list[str]]:
    """So many keys of each kind: kept, dropped, unknown."""
    rng = random.Random(seed)
    parts = sorted((out / "ledger").glob("part-*.parquet"))
    keys: dict[str, list[str]] = {"kept": [], "dropped": [], "unknown": []}
    columns = ["doc_id", "url", "record_id", "source", "record_offset", "fate"]
    while len(keys["dropped"]) < n or len(keys["kept"]) < n:
        rows = pq.read_table(rng.choice(parts), columns=columns).to_pylist()
        for fate in ("kept", "dropped"):
            row = rng.choice([r for r in rows if r["fate"] == fate])
            place = len(keys[fate])
            spelled = (row["doc_id"].hex(), row["url"], row["record_id"], f"{row['source']}@{row['record_offset']}")
            keys[fate].append(str(spelled[place % 4]))
            wrong = (
                f"{rng.getrandbits(128):032x}", f"{row['url']}x", f"{row['record_id'][:-3]}00>",
                f"{row['source']}@{row['record_offset'] + 1}",
            )  # fmt: skip
            keys["unknown"].append(str(wrong[place % 4]))
    return {kind: some[:n] for kind, some in keys.items()}


def forget(out: Path) -> None:
    """Empty the page cache of the run's files."""
    for path in out.rglob("*"):
        if path.is_file():
            handle = os.open(path, os.O_RDONLY)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(handle)


def asked(out: Path, key: str, *, cold: bool) -> tuple[float, float, float, int]:
    """Wall seconds of the command, its CPU seconds, wall seconds of the look-up alone, peak memory in bytes."""
    if cold:
        forget(out)
    command = [sys.executable, "-m", "cleanpipe_jobs.cli", "explain", str(out), key, "--no-replay", "--json"]
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    answer = json.loads(process.stdout.read())
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - began
    assert process.returncode == ("error" in answer and 2), (key, answer)
    return wall, usage.ru_utime + usage.ru_stime, answer.get("lookup_seconds", 0.0), usage.ru_maxrss * 1024


def quantile(values: list[float], q: float) -> float:
    """By linear interpolation."""
    return statistics.quantiles(values, n=100, method="inclusive")[round(q * 100) - 1] if len(values) > 1 else values[0]


def measure(out: Path, n: int, seed: int) -> list[dict[str, Any]]:
    """One line for each kind of key, warm and cold."""
    lines = []
    for kind, keys in keys_of(out, n, seed).items():
        for cold in (False, True):
            some = keys if not cold else keys[: max(1, n // 5)]
            asked(out, some[0], cold=False)
            found = [asked(out, key, cold=cold) for key in some]
            walls, cpu, looks = ([f[i] for f in found] for i in range(3))
            lines.append(
                {
                    "keys": kind, "cache": "cold" if cold else "warm", "n": len(some),
                    "median_s": round(statistics.median(walls), 3), "p95_s": round(quantile(walls, 0.95), 3),
                    "max_s": round(max(walls), 3), "cpu_median_s": round(statistics.median(cpu), 3),
                    "cpu_p95_s": round(quantile(cpu, 0.95), 3), "lookup_median_s": round(statistics.median(looks), 3),
                    "memory_median_mb": round(statistics.median(f[3] for f in found) / 1e6),
                    "memory_max_mb": round(max(f[3] for f in found) / 1e6),
                }
            )  # fmt: skip
            print(json.dumps(lines[-1]), flush=True)
    return lines


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="a run folder of synthetic_ledger.py; none: one is made")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=100, help="of each kind; a fifth of them with a cold cache")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    facts = {
        "machine": platform.machine(), "system": platform.platform(), "processors": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1), "python": platform.python_version(), "pyarrow": version("pyarrow"),
        "numpy": version("numpy"),
    }  # fmt: skip
    print(json.dumps(facts))
    with tempfile.TemporaryDirectory() as folder:
        out = args.out or make(Path(folder) / "run", args.rows)
        parts = sorted((out / "ledger").glob("part-*.parquet"))
        rows = sum(pq.read_metadata(p).num_rows for p in parts)
        index = sum(p.stat().st_size for p in (out / "index").glob("*"))
        whole = sum(p.stat().st_size for p in parts)
        print(json.dumps({"rows": rows, "parts": len(parts), "ledger_bytes": whole, "index_bytes": index}))
        measure(out, args.keys, args.seed)


if __name__ == "__main__":
    main()
