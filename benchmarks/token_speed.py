"""The fast backend beside the reference on the same text: ``python benchmarks/token_speed.py [ARCHIVE …]``.

Archives (default: the package's sample) are cleaned by the web recipe first; what is measured is the encoding of whole
documents alone: CPU seconds of one thread, the backends taking turns, medians of the rounds. ``new``: the fast backend
as it comes, its table of pieces empty; ``known``: the same texts again. Ends with 1 if an id differs.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

os.environ |= {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}

import numpy as np
import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe.run import run
from cleanpipe.tokens.backend import Backend, Encoded
from cleanpipe.tokens.backends import build
from cleanpipe.tokens.tokenizer import open_tokenizer


def documents(folder: Path, repeat: int) -> list[str]:
    """Whole documents of a run, windows put together again."""
    made: dict[str, str] = {}
    for path in sorted((folder / "data").glob("*.arrow")):
        with pa.memory_map(str(path)) as source:
            rows = pa.ipc.open_stream(source).read_all()
        names = (rows[name].to_pylist() for name in (col.DOC_ID, col.TEXT, col.OVERLAP))
        for document, text, overlap in zip(*names, strict=True):
            made[document] = made[document] + text[overlap:] if document in made else text
    return [text.strip() for text in made.values()] * repeat


def timed(backend: Backend, texts: Sequence[str], size: int, *, starts: bool) -> tuple[float, list[Encoded]]:
    """CPU seconds, and what came out, in batches as a run has them."""
    groups: list[list[str]] = [[]]
    room = size
    for text in texts:
        if room < len(text) and groups[-1]:
            groups.append([])
            room = size
        groups[-1].append(text)
        room -= len(text)
    begin = time.process_time()
    made = [backend.encode(group, starts=starts) for group in groups]
    return time.process_time() - begin, made


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("archives", nargs="*", help="WARC, WET, ARC")
    parser.add_argument("--run", type=Path, help="a finished run folder instead")
    parser.add_argument("--tokenizers", nargs="+", default=["cleanpipe-16k", "gpt2"])
    parser.add_argument("--pattern", default="")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=1, help="the documents so many times over")
    parser.add_argument("--batch", type=int, default=4 << 20, help="code points of one call")
    parser.add_argument("--starts", action="store_true", help="with the place of each token")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if asked.run is None:
            run("web" if asked.archives else "sample", asked.archives, Path(folder) / "out", engine="serial")
        texts = documents(asked.run or Path(folder) / "out", asked.repeat)
    size = sum(len(text.encode()) for text in texts) / 1e6
    libraries = ", ".join(f"{name} {version(name)}" for name in ("tokenizers", "tiktoken", "numpy", "pyarrow"))
    print(f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}, {libraries}")
    print(f"{len(texts)} documents, {size:.1f} MB, {asked.rounds} rounds, starts {'on' if asked.starts else 'off'}")
    wrong = 0
    for name in asked.tokenizers:
        tokenizer = open_tokenizer(name, pattern=asked.pattern)
        hf = build(tokenizer, "hf")
        seconds: dict[str, list[float]] = {"hf": [], "new": [], "known": []}
        for _ in range(asked.rounds):
            fast = build(tokenizer, "fast")
            fast.encode(["é"])  # loads the tables of characters
            out = {}
            for which, backend in (("hf", hf), ("new", fast), ("known", fast)):
                spent, out[which] = timed(backend, texts, asked.batch, starts=asked.starts)
                seconds[which].append(spent)
            for which in ("new", "known"):
                pairs = zip(out["hf"], out[which], strict=True)
                wrong += not all(np.array_equal(a.ids, b.ids) and np.array_equal(a.ends, b.ends) for a, b in pairs)
        middle = {which: statistics.median(spent) for which, spent in seconds.items()}
        speeds = ", ".join(f"{which} {size / spent:.2f} MB/s" for which, spent in middle.items())
        ratios = ", ".join(f"{middle['hf'] / middle[which]:.1f}x {which}" for which in ("new", "known"))
        ids, others = "DIFFER" if wrong else "the same", fast.facts()["texts_by_reference"]
        tokens = sum(len(part.ids) for part in out["hf"])
        print(f"{tokenizer.name}: {tokens} tokens; {speeds}; fast is {ratios}; ids {ids}; by the reference: {others}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
