"""The tokenization backends on one machine: are their ids the same, how fast is each, where does the time go.

    sh benchmarks/gpu_tokenize.sh [--mb 64] [--rounds 3] [--tokenizer cleanpipe-16k gpt2] [--seconds 270] [--json FILE]

Needs the repository, torch, tokenizers, tiktoken, pyarrow and numpy. Without a CUDA device it says so and measures the
rest on a smaller text. The text: half are the sources of this Python's standard library; half are documents in the 63
languages of tests/data/languages, their words drawn with a fixed seed, a few of them put together from halves of two
words so that new pieces go on coming; a hundredth are hard cases (runs of one letter, random code points). Drawn words
repeat more than those of real pages do: caches look better here than they are.

    parity   every document by every backend, in chunks: SHA-256 of ids, ends and places of tokens
    steps    the torch backend waiting after each step: seconds of splitting, looking up, merging, copies, expansion,
             checks; with an empty cache and with a full one; by itself on a part, and on all with a splitter a core
    one      MB/s of one process on a part of the text; backends take turns, medians of rounds, caches empty
    all      MB/s of the whole text with one process a core: hf and fast encode in each, torch splits in each
    caps     seconds of merging on the device and of the CPU's part, by the longest piece that the device merges
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import random
import statistics
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import accumulate
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from cleanpipe.errors import ConfigError
from cleanpipe.tokens.backends import build
from cleanpipe.tokens.tokenizer import open_tokenizer

ROOT = Path(__file__).resolve().parent.parent
Texts = list[str]


# the text


def text_of(wanted: float) -> Texts:
    """Documents of about so many MB in UTF-8, shuffled; the same for the same Python and repository."""
    draw = random.Random(20)
    parts = ((_sources(), 0.495), (_languages(draw), 0.495), (_hard(draw), 0.01))
    texts = [text for part, share in parts for text in until(part, wanted * share)]
    draw.shuffle(texts)
    return texts


def until(texts: Iterable[str], wanted: float) -> Iterator[str]:
    """The first texts, until they have so many MB."""
    size = 0
    for text in texts:
        if size >= wanted * 1e6:
            return
        yield text
        size += len(text.encode())


def _sources() -> Iterator[str]:
    library = Path(sysconfig.get_path("stdlib"))
    files = [file for file in sorted(library.rglob("*.py")) if "site-packages" not in file.parts]
    random.Random(1).shuffle(files)
    found = False
    while files:
        for file in files:
            data = file.read_bytes()
            text = data.decode("utf-8", "replace")
            if 0 < len(text) < 300_000:  # no table that is a tenth of all
                found = True
                yield text
        if not found:
            return


def _languages(draw: random.Random) -> Iterator[str]:
    lines = (ROOT / "tests" / "data" / "languages" / "udhr.jsonl").read_text(encoding="utf-8").splitlines()
    words = [json.loads(line)["text"].split(" ") for line in lines]
    pools = []
    for own in words:
        made = [
            one[: len(one) // 2] + other[len(other) // 2 :]
            for one, other in zip(_some(draw, own), _some(draw, own), strict=True)
        ]
        # a word's share falls with its place, made words behind the real ones
        pool = own + made
        pools.append((pool, list(accumulate(1 / (place + 5) for place in range(len(pool))))))
    while True:
        pool, sums = draw.choice(pools)
        # where no blanks stand between words a "word" is a sentence
        yield " ".join(draw.choices(pool, cum_weights=sums, k=draw.randint(20, 1500)))[: draw.randint(2000, 20_000)]


def _some(draw: random.Random, words: Sequence[str]) -> Texts:
    return draw.choices(words, k=30 * len(words))


def _hard(draw: random.Random) -> Iterator[str]:
    while True:
        letter = draw.choice("a =\n\té中")
        yield letter * draw.randint(1, 3000)
        yield "".join(chr(one) for one in draw.choices(range(0xD800), k=300)) + "\r\n\u0301 \U000e0041 <|endoftext|>"


# one process


_held: dict[tuple[str, str], Any] = {}


def backend(tokenizer: str, name: str) -> Any:
    """A backend of this process, made once; ``torch`` on its CPU."""
    if (tokenizer, name) not in _held:
        import torch

        torch.set_num_threads(1)
        _held[tokenizer, name] = build(open_tokenizer(tokenizer), name)
    return _held[tokenizer, name]


def digest(encoded: Any) -> str:
    """Of everything that a backend says of some texts."""
    return hashlib.sha256(b"".join(part.tobytes() for part in (encoded.ids, encoded.ends, encoded.starts))).hexdigest()


def digests(tokenizer: str, texts: Texts, names: Sequence[str]) -> dict[str, str]:
    return {name: digest(backend(tokenizer, name).encode(texts, starts=True)) for name in names}


def count(tokenizer: str, name: str, texts: Texts) -> int:
    return len(backend(tokenizer, name).encode(texts).ids)


def get_ready(tokenizer: str, names: Sequence[str]) -> None:
    for name in names:
        backend(tokenizer, name).encode(["a text"])


# the measures


class Bench:
    """One tokenizer on this machine."""

    def __init__(self, asked: argparse.Namespace, tokenizer: str, texts: Texts, pool: ProcessPoolExecutor) -> None:
        self.asked, self.name, self.texts, self.pool = asked, tokenizer, texts, pool
        self.chunks = [texts[begin::64] for begin in range(64)]
        self.part = list(until(texts, asked.part * megabytes(texts)))
        self.tokenizer = open_tokenizer(tokenizer)
        self.names = [name for name in ("hf", "fast", "torch") if self._there(name)]
        self.devices = [] if "torch" not in self.names else ["cpu", "cuda"] if asked.cuda else ["cpu"]
        self.result: dict[str, Any] = {"tokenizer": tokenizer, "vocabulary": self.tokenizer.vocabulary}

    def _there(self, name: str) -> bool:
        try:
            build(self.tokenizer, name)
        except (ConfigError, ImportError) as error:
            print(f"  {name}: left out: {error}")
            return False
        return True

    def _torch(self, device: str, **options: Any) -> Any:
        from cleanpipe.tokens.backends.torch_backend import TorchBackend

        return TorchBackend(self.tokenizer, device, **options)

    def parity(self) -> None:
        """Whether all backends say the same of each chunk."""
        waiting = [self.pool.submit(digests, self.name, chunk, self.names) for chunk in self.chunks]
        found = [one.result() for one in waiting]
        if "cuda" in self.devices:
            there = self._torch("cuda", splitters=self.asked.cores)
            for chunk, row in zip(self.chunks, found, strict=True):
                row["torch cuda"] = digest(there.encode(chunk, starts=True))
            there.close()
        wrong = {name: sum(row[name] != row["hf"] for row in found) for name in found[0]}
        size = megabytes(self.texts)
        self.result["parity"] = {"documents": len(self.texts), "MB": size, "chunks": len(found), "differing": wrong}
        print(f"  parity on {size:.1f} MB, {len(self.texts)} documents in {len(found)} chunks; unlike hf: {wrong}")

    def steps(self) -> None:
        """Where the time of the torch backend goes."""
        self.result["steps"] = {}
        for device in self.devices:
            for what, texts, splitters in (("part", self.part, 0), ("all", self.texts, self.asked.cores)):
                if self.asked.late():
                    return
                there = self._torch(device, timed=True, splitters=splitters)
                there.encode(["a text"] * 2 * splitters)
                before = dict(there.facts().get("seconds", {}))
                for state in ("empty", "full"):
                    began = time.perf_counter()
                    ids = len(there.encode(texts).ids)
                    took = {"whole": time.perf_counter() - began}
                    facts = there.facts()
                    took |= {step: now - before.get(step, 0.0) for step, now in facts["seconds"].items()}
                    before = dict(facts["seconds"])
                    took = {step: round(value, 4) for step, value in took.items() if step != "start"}
                    self.result["steps"][f"{device}, {what}, {state}"] = {"MB": megabytes(texts), "ids": ids, "s": took}
                    told = ", ".join(f"{step} {value:.3f}" for step, value in took.items())
                    print(f"  steps, {device}, {what} ({megabytes(texts):.1f} MB), {state} cache, s: {told}")
                there.close()
                self.result["steps"][f"{device}, {what}, facts"] = facts
                print(
                    f"    {facts['pieces'] // 2} pieces, {facts['cache']['missing']} distinct, {ids} ids; "
                    f"{facts['rounds']} rounds; {facts['device']}: {facts['device_bytes'] / 1e6:.1f} MB"
                )

    def caps(self) -> None:
        """What the longest piece that the device merges should be: rounds cost the same for one piece as for many."""
        self.result["caps"] = {}
        for device in self.devices[-1:]:
            for longest in (32, 128, 512):
                if self.asked.late():
                    return
                there = self._torch(device, timed=True, longest=longest, splitters=self.asked.cores)
                there.encode(self.texts)
                facts = there.facts()
                there.close()
                took = {step: round(facts["seconds"].get(step, 0.0), 4) for step in ("merge", "look_up")}
                figures = {**took, "rounds": facts["rounds"], "by_reference": facts["pieces_by_reference"]}
                self.result["caps"][f"{device}, {longest}"] = figures
                told = ", ".join(f"{name} {value}" for name, value in figures.items())
                print(f"  caps, {device}, at most {longest} bytes: {told}")

    def one(self) -> None:
        """Speed of one process."""
        runs: dict[str, Callable[[], Any]] = {}
        for name in self.names:
            if name != "torch":
                get_ready(self.name, [name])
                runs[name] = partial(count, self.name, name, self.part)
        for device in self.devices:
            runs[f"torch {device}"] = partial(self._forgetful, self._torch(device), self.part)
        self._rounds("one", runs, megabytes(self.part))

    def all(self) -> None:
        """Speed of every core."""
        again = 2 * self.asked.cores  # any process may take two of them: most are ready after this
        list(self.pool.map(get_ready, [self.name] * again, [self.names] * again))
        runs: dict[str, Callable[[], Any]] = {}
        for name in self.names:
            if name != "torch":
                runs[name] = partial(self._spread, name)
        held = [self._torch(device, splitters=self.asked.cores) for device in self.devices]
        for device, there in zip(self.devices, held, strict=True):
            there.encode(["a text"] * again)
            runs[f"torch {device}"] = partial(self._forgetful, there, self.texts)
        self._rounds("all", runs, megabytes(self.texts))
        for there in held:
            there.close()

    def _spread(self, name: str) -> int:
        return sum(self.pool.map(count, [self.name] * 64, [name] * 64, self.chunks))

    def _forgetful(self, there: Any, texts: Texts) -> None:
        there.forget()
        there.encode(texts)

    def _rounds(self, what: str, runs: dict[str, Callable[[], Any]], size: float) -> None:
        seconds: dict[str, list[float]] = {name: [] for name in runs}
        busy: dict[str, list[float]] = {name: [] for name in runs}
        for number in range(self.asked.rounds):
            if number and self.asked.late():
                print(f"  {what}: stopped after {number} of {self.asked.rounds} rounds, the time is up")
                break
            for name, run in runs.items():
                began, worked = time.perf_counter(), time.process_time()
                run()
                seconds[name].append(time.perf_counter() - began)
                busy[name].append(time.process_time() - worked)
        speeds = {name: size / statistics.median(each) for name, each in seconds.items()}
        self.result[what] = {
            name: {
                "MB/s": round(speeds[name], 2),
                "s": [round(one, 3) for one in seconds[name]],
                "cpu_s_of_the_caller": [round(one, 3) for one in busy[name]],
            }
            for name in runs
        }
        print(f"  {what} ({size:.1f} MB), MB/s: " + ", ".join(f"{name} {value:.2f}" for name, value in speeds.items()))
        if what == "one":
            speeds = {name: size / statistics.median(each) for name, each in busy.items()}
            print("    MB a CPU second: " + ", ".join(f"{name} {value:.2f}" for name, value in speeds.items()))


def megabytes(texts: Sequence[str]) -> float:
    """Of UTF-8."""
    return sum(len(text.encode()) for text in texts) / 1e6


def machine(cuda: bool) -> dict[str, Any]:
    import numpy
    import pyarrow
    import tiktoken
    import tokenizers
    import torch

    told = {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "tokenizers": tokenizers.__version__,
        "tiktoken": tiktoken.__version__,
        "numpy": numpy.__version__,
        "pyarrow": pyarrow.__version__,
        "cuda": torch.version.cuda if cuda else None,
        "gpu": torch.cuda.get_device_name() if cuda else None,
        "gpu_bytes": torch.cuda.get_device_properties(0).total_memory if cuda else None,
    }
    print(", ".join(f"{key} {value}" for key, value in told.items() if value is not None))
    return told


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=float, help="size of the text; 64, or 8 without a CUDA device")
    parser.add_argument("--part", type=float, default=0.1, help="share of it that one process takes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokenizer", nargs="+", default=["cleanpipe-16k", "gpt2"], help="names or files")
    parser.add_argument("--seconds", type=float, default=270, help="no new measure begins after these")
    parser.add_argument("--json", type=Path, help="write all figures there")
    asked = parser.parse_args()
    began = time.monotonic()
    asked.late = lambda: time.monotonic() > began + asked.seconds

    import torch

    torch.set_num_threads(1)
    asked.cuda = torch.cuda.is_available()
    asked.cores = len(os.sched_getaffinity(0))
    report: dict[str, Any] = {"machine": machine(asked.cuda)}
    if not asked.cuda:
        print("no CUDA device here: nothing below says anything about a GPU")
    texts = text_of(asked.mb or (64 if asked.cuda else 8))
    digest_of = hashlib.sha256("\0".join(texts).encode()).hexdigest()
    report["text"] = {"documents": len(texts), "MB": megabytes(texts), "sha256": digest_of}
    print(f"text: {len(texts)} documents, {megabytes(texts):.1f} MB, SHA-256 {digest_of[:16]}")
    with ProcessPoolExecutor(asked.cores, get_context("spawn")) as pool:
        benches = []
        for tokenizer in asked.tokenizer:
            try:
                benches.append(Bench(asked, tokenizer, texts, pool))
            except ConfigError as error:
                print(f"{tokenizer}: left out: {error}")
        for measure in (Bench.parity, Bench.steps, Bench.one, Bench.all, Bench.caps):
            for bench in benches:
                print(f"{measure.__name__}, {bench.name}:")
                if asked.late():
                    print("  left out, the time is up")
                else:
                    measure(bench)
    report["tokenizers"] = [bench.result for bench in benches]
    wrong = sum(sum(bench.result.get("parity", {}).get("differing", {}).values()) for bench in benches)
    compared = any("parity" in one for one in report["tokenizers"])
    said = "nothing was compared" if not compared else f"{wrong} CHUNKS DIFFER" if wrong else "all ids are the same"
    print(f"{time.monotonic() - began:.0f} s in all; {said}")
    if asked.json:
        asked.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0 if compared and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
