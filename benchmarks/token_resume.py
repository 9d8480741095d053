"""Resuming at sequence 10 and at sequence 10⁹ of one store: the same bytes, the same time?

    python benchmarks/token_resume.py [--rounds 15] [--batch 8] [--keep DIR]

The store is made (synthetic_tokens.py --sparse): over 10⁹ sequences of 4,096 tokens, zeros on disk, its checksums
right. A resume is a Plan, a Reader with a state, and its first batch; the store is opened anew each time, which is told
apart, since that depends on the number of shards and not on where a reader stands. The places take turns within each
round. Told: medians and quartiles of CPU and wall time, tokens and bytes of the payload that were read, blocks that
were proven, and the same for the order alone. Exit status 1 if the bytes differ, or the medians of CPU time by more
than the quartiles of both together.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import statistics
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from synthetic_tokens import make_sparse

from cleanpipe.tokens import Plan, Reader, open_tokens

LENGTH = 4096
PLACES = (10, 10**9)


class Counted:
    """A store whose reads are counted."""

    def __init__(self, store: Any) -> None:
        self.store, self.tokens, self.reads = store, 0, 0
        self._read = store.read
        store.read = self.read

    def read(self, start: int, stop: int) -> Any:
        """As the store's."""
        self.tokens, self.reads = self.tokens + stop - start, self.reads + 1
        return self._read(start, stop)

    @property
    def blocks(self) -> int:
        """Blocks whose checksum was compared."""
        return sum(bin(byte).count("1") for seen in self.store._seen.values() for byte in seen if byte)


def resume(root: Path, place: int, batch: int) -> dict[str, float]:
    """One resume at a place, in numbers."""
    cpu, wall = time.process_time(), time.perf_counter()
    store = open_tokens(str(root))
    opened = time.process_time() - cpu
    counted = Counted(store)
    cpu, wall = time.process_time(), time.perf_counter()
    plan = Plan(store, length=LENGTH, seed=1)
    planned = time.process_time() - cpu
    reader = Reader(plan, batch, prefetch=0, epochs=None)
    reader.load_state_dict({**reader.state_dict(), "sequences": place, "epoch": place // plan.sequences})
    before = time.process_time()
    first = next(iter(reader))
    after = time.process_time()
    assert first.sequences.tolist() == list(range(place, place + batch))
    state = len(json.dumps(reader.state_dict()))
    return {
        "open ms": opened * 1e3,
        "plan ms": planned * 1e3,
        "first batch ms": (after - before) * 1e3,
        "resume ms": (after - cpu) * 1e3,
        "wall ms": (time.perf_counter() - wall) * 1e3,
        "reads": counted.reads,
        "bytes": counted.tokens * store.dtype.itemsize,
        "blocks": counted.blocks,
        "state bytes": state,
        "sequences": plan.sequences,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--keep", type=Path, help="a folder for the store, which then stays")
    args = parser.parse_args()
    folder = args.keep or Path(tempfile.mkdtemp())
    root = folder / "sparse"
    try:
        if not (root / "manifest.json").exists():
            make_sparse(root)
        found: dict[int, list[dict[str, float]]] = {place: [] for place in PLACES}
        for at in range(args.rounds + 1):
            for place in PLACES if at % 2 else PLACES[::-1]:
                once = resume(root, place, args.batch)
                if at:  # the first is to warm up
                    found[place].append(once)
    finally:
        if not args.keep:
            shutil.rmtree(folder)
    print(f"{platform.platform()}, Python {platform.python_version()}, numpy {version('numpy')}")
    some = found[PLACES[0]][0]
    print(
        f"{int(some['sequences']):,} sequences of {LENGTH:,}; batch {args.batch}; "
        f"{args.rounds} rounds, medians [quartiles]"
    )
    quartiles = {}
    for name in some:
        line = []
        for place in PLACES:
            values = [once[name] for once in found[place]]
            low, mid, high = statistics.quantiles(values, n=4) if len(values) > 1 else (values[0],) * 3
            quartiles[name, place] = low, mid, high
            line.append(f"{mid:12,.2f} [{low:,.2f} … {high:,.2f}]" if " ms" in name else f"{mid:12,.0f}")
        print(f"{name:>16}: " + "   ".join(f"at {place:,}: {text}" for place, text in zip(PLACES, line, strict=True)))
    same = all(quartiles["bytes", PLACES[0]][i] == quartiles["bytes", PLACES[1]][i] for i in range(3))
    (low, mid, high), (low2, mid2, high2) = (quartiles["resume ms", place] for place in PLACES)
    noise = (high - low) + (high2 - low2)
    print(f"medians differ by {abs(mid - mid2):.2f} ms; quartiles are {noise:.2f} ms wide together")
    return 0 if same and abs(mid - mid2) <= noise else 1


if __name__ == "__main__":
    sys.exit(main())
