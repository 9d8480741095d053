"""`cleanpipe plan` against the run that it plans: each figure as it was told, with its interval, and as it came out.

    python benchmarks/plan.py INPUT… [--recipe web] [--seeds 0,1,2] [--sample-bytes 64MiB] [--rounds 3] [--keep DIR]

--rounds runs, by one worker, each in a process of its own; then a plan for each seed, likewise. Counts and bytes are
the same in each run; of CPU, wall time and memory the medians are shown, and with them what the plans cost. Told for
each figure: what came out, and of the plans the estimate, the interval of 90 %, how far the estimate is off, and
whether the interval holds what came out. Wall time is told too and claimed of nothing: other work may go on beside.
Exit status 1 if an estimate of documents, kept, windows, output, shards, CPU, disk or memory is off by more than
--within (0.2).
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
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

CLAIMED = (
    "documents",
    "kept",
    "kept_share",
    "rows",
    "output_bytes",
    "shards",
    "cpu_seconds",
    "work_bytes",
    "ledger_bytes",
    "peak_disk_bytes",
    "worker_memory",
)


def cleanpipe(*words: str) -> str:
    """The output of one command."""
    command = [sys.executable, "-m", "cleanpipe_jobs.cli", *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}")
    return done.stdout


def size_of(folder: Path) -> int:
    """Bytes of all files below."""
    return sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())


def came_out(out: Path) -> dict[str, float]:
    """A finished run's figures, by the plan's names; losses and CPU seconds of stages likewise."""
    facts = json.loads((out / "run.json").read_bytes())
    table = ds.dataset(out / "ledger").to_table(columns=["fate", "stage", "reason", "windows"])
    fates = Counter(table["fate"].to_pylist())
    losses = Counter(zip(*(table[n].to_pylist() for n in ("fate", "stage", "reason")), strict=True))
    shards = list((out / "data").glob("*.arrow"))
    output, ledger, work = (
        size_of(out / "data"),
        size_of(out / "ledger") + size_of(out / "index"),
        size_of(out / "work"),
    )
    audit = json.loads((out / "audit/audit.json").read_bytes())
    pairs = {line: audit["duplicates"][line] for line in ("exact", "near") if line in audit["duplicates"]}
    gone = sum(p["numerator"] for p in pairs.values() if isinstance(p, dict))
    compared = max((p["denominator"] for p in pairs.values() if isinstance(p, dict)), default=0)
    figures = {
        "documents": table.num_rows,
        "kept": fates["kept"],
        "kept_share": fates["kept"] / max(1, table.num_rows),
        "duplicates_share": gone / compared if compared else 0.0,
        "rows": sum(n or 0 for n in table["windows"].to_pylist()),
        "output_bytes": sum(s.stat().st_size for s in shards),
        "shards": len(shards),
        "cpu_seconds": facts["work"]["cpu_seconds"],
        "wall_seconds": facts["wall_seconds"],
        "worker_memory": facts["work"]["peak_memory_bytes"],
        "work_bytes": work,
        "ledger_bytes": ledger,
        "peak_disk_bytes": work + ledger + output,
    }
    figures |= {f"{stage} / {reason}": n for (fate, stage, reason), n in losses.items() if fate != "kept"}
    figures |= {f"cpu: {stage}": s for stage, s in facts["work"]["stage_seconds"].items()}
    return figures


def told(plan: dict[str, Any]) -> dict[str, dict[str, float]]:
    """A plan's figures by the same names."""
    losses = {f"{x['stage']} / {x['reason']}": x for x in plan["losses"]}
    wall = {"wall_seconds": plan["wall_seconds"]["1"]}
    return {**plan["figures"], **wall, **losses, **{f"cpu: {n}": x for n, x in plan["cpu_seconds"].items()}}


def machine() -> str:
    """Processors, memory, versions: what figures depend on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    of = ", ".join(f"{n} {version(n)}" for n in ("cleanpipe", "pyarrow", "numpy"))
    return (
        f"{platform.machine()}, {os.cpu_count()} processors, {memory / 2**30:.0f} GiB, load {os.getloadavg()[0]:.1f}, "
        f"Python {platform.python_version()}, {of}"
    )


def number(value: float) -> str:
    """Few digits for small ones."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def main() -> int:
    """Run, plan, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("inputs", nargs="+")
    parser.add_argument("--recipe", default="web")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--sample-bytes", default="64MiB")
    parser.add_argument("--places", default="128")
    parser.add_argument("--rounds", type=int, default=3, help="runs")
    parser.add_argument("--keep", type=Path, help="keep the run here, or take a finished one (with its work/)")
    parser.add_argument("--within", type=float, default=0.2)
    args = parser.parse_args()
    print(machine())
    temporary = None if args.keep else tempfile.mkdtemp(prefix="cleanpipe-plan-bench-")
    kept = args.keep or Path(temporary or "") / "run"
    rounds = []
    for turn in range(args.rounds):
        out = kept if not turn else Path(f"{kept}-{turn + 1}")
        if not (out / "manifest.json").is_file():
            words = ["--workers", "1", "--keep-work", "--quiet"]
            cleanpipe("run", args.recipe, *args.inputs, "--out", str(out), *words)
        rounds.append(came_out(out))
    real = {name: statistics.median(r.get(name, 0.0) for r in rounds) for name in rounds[0]}
    took = [r["wall_seconds"] for r in rounds]
    print(
        f"{args.rounds} runs, medians: {real['cpu_seconds']:.1f} CPU s, {real['wall_seconds']:.1f} s on the clock ",
        end="",
    )
    print(f"({min(took):.1f} to {max(took):.1f}), {real['worker_memory'] / 1e6:,.0f} MB of memory a worker")
    costs = []
    worst: dict[str, float] = {}
    held: Counter[str] = Counter()
    seeds = args.seeds.split(",")
    for seed in seeds:
        options = ["--cores", "1", "--seed", seed, "--sample-bytes", args.sample_bytes, "--places", args.places]
        plan = json.loads(cleanpipe("plan", args.recipe, *args.inputs, "--json", "--quiet", *options))
        sample = plan["sample"]
        costs.append((sample["cpu_seconds"], sample["seconds"]))
        print(f"\nseed {seed}: {sample['places']} places, {sample['bytes'] / 1e6:,.1f} MB of ", end="")
        print(f"{plan['inputs']['bytes'] / 1e6:,.1f} MB, {sample['cpu_seconds']:.1f} CPU s, {sample['seconds']:.1f} s")
        print(f"{'':42}{'came out':>14}{'planned':>14}{'90 % interval':>32}{'off':>8}  held")
        for name, found in told(plan).items():
            if name not in real:
                continue
            truth, low, high = real[name], found["low"], found["high"]
            off = found["estimate"] / truth - 1 if truth else float(found["estimate"] != 0)
            worst[name] = max(worst.get(name, 0.0), abs(off))
            slack = 1e-6 * (1 + abs(truth))  # JSON has six digits
            held[name] += low - slack <= truth <= high + slack
            span = f"{number(low)} to {number(high)}"
            held_it = "yes" if low - slack <= truth <= high + slack else "NO"
            print(f"{name:42}{number(truth):>14}{number(found['estimate']):>14}{span:>32}{off:>+8.1%}  {held_it}")
    cpu, clock = (statistics.median(c[i] for c in costs) for i in (0, 1))
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10
    print(f"\na plan, medians: {cpu:.1f} CPU s, {clock:.1f} s on the clock; at most {peak / 1e6:,.0f} MB of a process")
    print(f"over {len(seeds)} seeds: largest error, and how many intervals held")
    for name in (n for n in CLAIMED if n in worst):
        print(f"{name:42}{worst[name]:>8.1%}{held[name]:>6} of {len(seeds)}")
    if temporary:
        shutil.rmtree(temporary)
    beyond = [n for n in CLAIMED if worst.get(n, 0.0) > args.within]
    print(f"beyond {args.within:.0%}: {', '.join(beyond) or 'none'}")
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())
