"""Packed sequences of 4,096 with masks: cleanpipe's reader beside litdata's and megatron-core's, on the same tokens.

    CLEANPIPE_READERS=VENV/bin/python python benchmarks/token_reader.py [--documents 60000] [--rounds 5] [--only NAME,…]

CLEANPIPE_READERS: a Python that has torch, litdata and megatron-core (tests/readers/requirements.txt). Each program
runs in a process of its own, in turn within each round: it opens its data, reads it once to warm up, and then for
--seconds of CPU time. Counted is the CPU time of the whole process while it reads (its threads too), per token that the
model gets, in int64 tensors of batches of 8; medians of the rounds. Memory is the peak above what the imports took.

    cleanpipe            concat, order shuffled, labels −100 across documents, position ids, cu_seqlens, checksums read
    cleanpipe best-fit   the same with no document cut that fits
    litdata bare         StreamingDataset(TokensLoader(4097)), shuffled: ids as they are stored, no batch, no labels
    litdata              the same in batches of 8: ids and labels in int64, as its examples do; documents unknown
    litdata+masks        the same, and from the EOS ids by NumPy what cleanpipe gives: −100, positions, cu_seqlens
    megatron             GPTDataset, shuffled, no attention mask: tokens, labels, loss mask, positions not reset
    megatron+masks       the same with positions reset and EOD masked (what it needs to know documents)

Exit status 1 if cleanpipe is not ahead of each of the others; "litdata bare" is told beside them, as it makes nothing
that a model could take.
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
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LENGTH, BATCH, EOS = 4096, 8, 2
OURS = ("cleanpipe", "cleanpipe best-fit")
THEIRS = ("litdata bare", "litdata", "litdata+masks", "megatron", "megatron+masks")

# what every program does with its batches: ``epoch()`` yields (tokens, something of the batch) once through the data
MEASURE = """
import json, os, resource, sys, time
def measure(epoch, seconds, versions, bare):
    os.environ["OMP_NUM_THREADS"] = "1"
    tokens = total = 0
    for count, ids in epoch():
        tokens, total = tokens + count, total + int(ids.sum())
    passed, checked = tokens, total
    cpu, wall, tokens = time.process_time(), time.perf_counter(), 0
    while time.process_time() - cpu < seconds:
        for count, ids in epoch():
            tokens += count
            if time.process_time() - cpu >= seconds:
                break
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print("RESULT" + json.dumps({"tokens": tokens, "cpu": cpu, "wall": wall, "memory": peak - bare, "pass": passed,
                                 "sum": checked, "versions": versions}))
def peak():
    import resource
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
"""

CLEANPIPE = """
import numpy, torch
from importlib.metadata import version
from cleanpipe.tokens import Plan, Reader, collate, open_tokens
torch.set_num_threads(1)
root, packing, seconds = sys.argv[1:]
bare = peak()
plan = Plan(open_tokens(root), length=4096, packing=packing, seed=1)
def epoch():
    for batch in Reader(plan, 8, prefetch=0):
        found = collate(batch)
        yield found["input_ids"].numel(), found["input_ids"]
measure(epoch, float(seconds), {"numpy": numpy.__version__, "torch": torch.__version__}, bare)
"""

LITDATA = """
import numpy as np, torch
from importlib.metadata import version
from litdata import StreamingDataset, TokensLoader
torch.set_num_threads(1)
folder, masks, seconds = sys.argv[1:]
bare = peak()
data = StreamingDataset(folder, item_loader=TokensLoader(block_size=4097), shuffle=True, seed=1)
def bare_ids():
    for block in data:
        yield 4096, block[:4096]
def batches():
    held = []
    for block in data:
        held.append(block)
        if len(held) == 8:
            yield held
            held = []
def plain():
    for held in batches():
        found = torch.from_numpy(np.stack(held)).long()
        ids, labels = found[:, :-1].contiguous(), found[:, 1:].contiguous()
        yield ids.numel(), ids
def laid_out(blocks):
    found = np.stack(blocks).astype(np.int64)
    ids, labels = np.ascontiguousarray(found[:, :-1]), np.ascontiguousarray(found[:, 1:])
    labels[ids == 2] = -100
    ends = np.flatnonzero(ids.reshape(-1) == 2) + 1
    starts = np.unique(np.concatenate([np.arange(0, ids.size + 1, ids.shape[1]), ends]))
    positions = np.arange(ids.size) - np.repeat(starts[:-1], np.diff(starts))
    return [torch.from_numpy(a) for a in (ids, labels, positions.reshape(ids.shape), starts.astype(np.int32))]
def with_masks():
    for held in batches():
        ids, *_ = laid_out(held)
        yield ids.numel(), ids
measure({"masks": with_masks, "plain": plain, "bare": bare_ids}[masks], float(seconds),
        {"numpy": np.__version__, "torch": torch.__version__, "litdata": version("litdata")}, bare)
os._exit(0)
"""

MEGATRON = """
import tempfile, warnings
warnings.simplefilter("ignore")
import numpy as np, torch
from importlib.metadata import version
from types import SimpleNamespace
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
from megatron.core.datasets.indexed_dataset import IndexedDataset
from megatron.core.datasets.utils import Split
torch.set_num_threads(1)
root, masks, seconds = sys.argv[1:]
bare = peak()
reset = masks == "masks"
sets = []
for name in sorted({p.rsplit(".", 1)[0] for p in os.listdir(root + "/tokens") if p.endswith(".idx")}):
    prefix = root + "/tokens/" + name
    dataset = IndexedDataset(prefix)
    config = GPTDatasetConfig(
        random_seed=1, sequence_length=4096, blend=([prefix], None), split="1,0,0", path_to_cache=tempfile.mkdtemp(),
        reset_position_ids=reset, reset_attention_mask=False, eod_mask_loss=reset, create_attention_mask=False,
        tokenizer=SimpleNamespace(vocab_size=None, eod=2, pad=None, unique_identifiers={"name": "made"}),
    )
    sets.append(GPTDataset(dataset, prefix, np.arange(len(dataset), dtype=np.int32), None, Split.train, config))
def epoch():
    for made in sets:
        names = None
        for low in range(0, len(made) // 8 * 8, 8):
            rows = [made[i] for i in range(low, low + 8)]
            found = {name: torch.stack([row[name] for row in rows]) for name in rows[0]}
            yield found["tokens"].numel(), found["tokens"]
measure(epoch, float(seconds),
        {"numpy": np.__version__, "torch": torch.__version__, "megatron-core": version("megatron-core")}, bare)
"""


def run(python: str, program: str, *words: str) -> dict[str, Any]:
    """One program in a process of its own; what it measured."""
    more = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [python, "-c", MEASURE + program, *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **more},
    )
    for line in done.stdout.splitlines():
        if line.startswith("RESULT"):
            found: dict[str, Any] = json.loads(line.removeprefix("RESULT"))
            return found
    raise SystemExit(f"{python}: {done.stderr[-3000:]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", default="2", help="of CPU time, for each program in each round")
    parser.add_argument("--only", default=",".join((*OURS, *THEIRS)))
    parser.add_argument("--keep", type=Path, help="a folder for the tokens, which then stays")
    args = parser.parse_args()
    theirs = os.environ.get("CLEANPIPE_READERS")
    names = [n for n in args.only.split(",") if n in OURS or theirs]
    folder = args.keep or Path(tempfile.mkdtemp())
    store, lit = folder / "tokens", folder / "litdata"
    try:
        if not (store / "manifest.json").exists():
            from synthetic_tokens import make

            make(store, args.documents)
        if not lit.exists():
            from cleanpipe.tokens import open_tokens
            from cleanpipe.tokens.store.export import export

            export(open_tokens(str(store)), str(lit), "litdata", length=LENGTH + 1)
        programs = {
            "cleanpipe": (sys.executable, CLEANPIPE, str(store), "concat"),
            "cleanpipe best-fit": (sys.executable, CLEANPIPE, str(store), "best-fit"),
            "litdata bare": (theirs, LITDATA, str(lit), "bare"),
            "litdata": (theirs, LITDATA, str(lit), "plain"),
            "litdata+masks": (theirs, LITDATA, str(lit), "masks"),
            "megatron": (theirs, MEGATRON, str(store), "bare"),
            "megatron+masks": (theirs, MEGATRON, str(store), "masks"),
        }
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
        for _ in range(args.rounds):
            for name in names:
                python, program, *words = programs[name]
                found[name].append(run(str(python), program, *words, args.seconds))
        from cleanpipe.tokens import open_tokens

        opened = open_tokens(str(store))
        tokens, documents = opened.tokens, opened.documents
    finally:
        if not args.keep:
            shutil.rmtree(folder)
    return told(found, tokens, documents, args.rounds)


def told(found: dict[str, list[dict[str, Any]]], tokens: int, documents: int, rounds: int) -> int:
    """Print it; the exit status."""
    print(f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} CPUs")
    print(f"{tokens:,} tokens in {documents:,} documents; sequences of {LENGTH:,}, batches of {BATCH}; {rounds} rounds")
    speeds = {}
    print(f"{'':20} {'M tokens a CPU s':>17} {'least … most':>17} {'a wall s':>9} {'MB':>6} {'of the tokens':>14}")
    for name, rows in found.items():
        each = [r["tokens"] / r["cpu"] / 1e6 for r in rows]
        speeds[name] = statistics.median(each)
        wall = statistics.median(r["tokens"] / r["wall"] / 1e6 for r in rows)
        memory = statistics.median(r["memory"] for r in rows) / 1024
        spread = f"{min(each):,.1f} … {max(each):,.1f}"
        share = rows[0]["pass"] / tokens
        print(f"{name:20} {speeds[name]:17,.1f} {spread:>17} {wall:9,.1f} {memory:6,.0f} {share:14.2%}")
    for name, rows in found.items():
        print(f"{name}: " + ", ".join(f"{k} {v}" for k, v in rows[0]["versions"].items()))
    ahead = True
    for name, speed in speeds.items():
        if name in THEIRS and OURS[0] in speeds:
            print(f"cleanpipe / {name}: {speeds[OURS[0]] / speed:.2f}×")
            ahead &= speeds[OURS[0]] > speed or name == "litdata bare"
    return 0 if ahead else 1


if __name__ == "__main__":
    sys.exit(main())
