"""What the published rules do to text that people marked as a page's main text, and to the rest of the page.

``python benchmarks/quality/heuristics.py --samples DIR`` prints Markdown; ``--datatrove PYTHON``, an interpreter that
has datatrove and spaCy, adds the agreement with its filters and their speed.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.metadata
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe.registry import catalogue, load
from cleanpipe.testing import batch
from cleanpipe.text.normalise import normalise
from cleanpipe_stages.heuristics.rules import Heuristic, fails

_WORD = re.compile(r"\w+")
FINEWEB: dict[str, dict[str, Any]] = {
    "gopher_repetition": {},
    "gopher_quality": {},
    "c4_quality": {"terminal": False, "min_words_per_line": 3, "min_sentences": 5},
    "fineweb_quality": {},
}
BLANKS = ("gopher_repetition", "gopher_quality")  # judged with words = "blanks" too, as gopher.toml does
PARITY = Path(__file__).with_name("heuristics_parity.py")


@dataclass(frozen=True, slots=True)
class Page:
    """A page's main text as people marked it, all of its text, and the lines of it that are not of the main text."""

    main: str
    whole: str
    rest: str


def pages(samples: Path) -> Iterator[tuple[str, Page]]:
    """(set, page) of WCXB-dev and of AEB."""
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.html import HTMLTree

    folder = samples / "pages" / "wcxb-dev"
    for path in sorted((folder / "ground-truth").glob("*.json")):
        main = json.loads(path.read_text("utf-8"))["ground_truth"]["main_content"]
        found = next(iter(sorted(folder.glob(f"html/{path.stem}.html.gz"))))
        yield "WCXB-dev", _page(main, found, extract_plain_text, HTMLTree)
    folder = samples / "pages" / "article-extraction-benchmark"
    truth = json.loads((folder / "ground-truth.json").read_text("utf-8"))
    for name, one in sorted(truth.items()):
        yield "AEB", _page(one["articleBody"], folder / "html" / f"{name}.html.gz", extract_plain_text, HTMLTree)


def _page(main: str, path: Path, extract: Any, tree: Any) -> Page:
    markup = gzip.decompress(path.read_bytes()).decode("utf-8", "replace")
    whole = normalise(extract(tree.parse(markup), main_content=False))
    main = normalise(main)
    grams = set(_grams(main))
    rest = [li for li in whole.split("\n") if li.strip() and 2 * sum(g in grams for g in _grams(li)) < len(_grams(li))]
    return Page(main, whole, "\n".join(rest))


def _grams(text: str) -> list[tuple[str, ...]]:
    words = _WORD.findall(text.lower())
    return [tuple(words[i : i + 4]) for i in range(max(1, len(words) - 3))]


def judge(name: str, options: dict[str, Any], texts: Sequence[str]) -> tuple[dict[str, np.ndarray], float]:
    """Which texts fail each rule, and microseconds of CPU a text."""
    stage = load(catalogue()[name])(**options)
    assert isinstance(stage, Heuristic)
    sizes = [len(t.encode()) for t in texts]
    rows = batch(text=texts, language=["en"] * len(texts), bytes=sizes, content_id=[bytes(16)] * len(texts))
    step = stage.open()
    step(rows)
    spent = []
    for _ in range(3):
        began = time.process_time()
        outcome = step(rows)
        spent.append(time.process_time() - began)
    scores = {n: np.asarray(v.cast(pa.float64()).to_numpy(zero_copy_only=False)) for n, v in outcome.scores.items()}
    failed = fails([r for r in stage.rules() if r.at], scores)
    return failed, min(spent) / len(texts) * 1e6


def measure(samples: Path, datatrove: str | None = None) -> str:
    """The section of benchmarks/quality.md."""
    found: dict[str, list[Page]] = {}
    for name, page in pages(samples):
        found.setdefault(name, []).append(page)
    kinds = {
        **{f"{name} main": [p.main for p in one if p.main] for name, one in found.items()},
        **{f"{name} rest": [p.rest for p in one if p.rest] for name, one in found.items()},
    }
    out = [
        "## Heuristics: Gopher, C4 and FineWeb",
        "",
        "Share of texts that each rule drops alone, at the published limits: main texts as people marked them, and",
        "what else stands on the same pages (lines of the whole text of which fewer than half of the 4-grams are of",
        f"the main text). English lists; {', '.join(f'{k}: {len(v):,} texts' for k, v in kinds.items())}.",
        "",
        f"| stage | rule | {' | '.join(kinds)} |",
        f"|---|---|{'---:|' * len(kinds)}",
    ]
    speeds = []
    whole = [p.whole for one in found.values() for p in one]
    for name, options in FINEWEB.items():
        for words in ("tokens", "blanks") if name in BLANKS else ("",):
            given = options | ({"words": words} if words else {})
            label = f"{name}{' (blanks)' if words == 'blanks' else ''}"
            columns = [judge(name, given, texts)[0] for texts in kinds.values()]
            out += [f"| {label} | {r} | {' | '.join(_share(c[r]) for c in columns)} |" for r in columns[0]]
            together = [np.any(list(c.values()), axis=0) for c in columns]
            out.append(f"| {label} | **any** | {' | '.join(_share(t) for t in together)} |")
            speeds.append((label, judge(name, given, whole)[1]))
    speeds.append(("text_shape", judge("text_shape", {}, whole)[1]))
    size = sum(len(t.encode()) for t in whole) / len(whole)
    out += ["", *_shape(kinds), "", f"Microseconds of CPU a text, whole pages of {size:,.0f} bytes on average:", ""]
    out += ["| stage | µs |", "|---|---:|", *(f"| {name} | {us:,.0f} |" for name, us in speeds)]
    if datatrove:
        out += ["", *_parity(datatrove, [*(p.main for one in found.values() for p in one if p.main), *whole])]
    versions = ", ".join(f"{n} {importlib.metadata.version(n)}" for n in ("resiliparse", "numpy", "pyarrow"))
    return "\n".join([*out, "", f"Versions: {versions}.", ""])


def _share(flags: np.ndarray) -> str:
    return f"{100 * float(flags.mean()):.1f} %"


def _shape(kinds: dict[str, list[str]]) -> list[str]:
    """Medians of text_shape's scores."""
    out = ["Median and 95th percentile of the scores of `text_shape`:", "", f"| score | {' | '.join(kinds)} |"]
    out.append(f"|---|{'---:|' * len(kinds)}")
    step = load(catalogue()["text_shape"])().open()
    columns = [step(batch(text=t, language=["en"] * len(t))).scores for t in kinds.values()]
    for name in columns[0]:
        cells = [c[name].to_numpy(zero_copy_only=False) for c in columns]
        shown = (f"{np.nanmedian(v):.3f}, {np.nanquantile(v, 0.95):.3f}" for v in cells)
        out.append(f"| {name.removeprefix('text_shape_')} | {' | '.join(shown)} |")
    return out


def _parity(python: str, texts: list[str]) -> list[str]:
    """Agreement with datatrove's filters on the same texts, rule by rule."""
    with tempfile.TemporaryDirectory() as made:
        given, answer = Path(made) / "texts.json", Path(made) / "answer.json"
        given.write_text(json.dumps(texts))
        subprocess.run([python, str(PARITY), str(given), str(answer)], check=True)
        theirs = json.loads(answer.read_text())
    out = [
        f"Agreement with datatrove {theirs['version']} (spaCy {theirs['spacy']}) on {len(texts):,} texts,",
        "main texts and whole pages, rule by rule:",
        "",
        "| stage | rule | datatrove drops | cleanpipe drops | both | agree |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for name, options in FINEWEB.items():
        ours, speed = judge(name, options, texts)
        ours["any"] = np.any(list(ours.values()), axis=0)
        for reason, drops in theirs["drops"][name].items():
            mine = ours["many_hashes"] | ours["many_ellipses"] if reason == "symbols" else ours[reason]
            other = np.array(drops, bool)
            cells = int(other.sum()), int(mine.sum()), int((other & mine).sum()), _share(other == mine)
            out.append(f"| {name} | {reason} | {' | '.join(map(str, cells))} |")
        out.append(f"| {name} | µs of CPU a text | {theirs['cost'][name]:,.0f} | {speed:,.0f} | | |")
    left = _left(texts)
    both = [(a, b) for a, b in zip(left, theirs["left"], strict=True) if a is not None and b is not None]
    same = sum(a == b for a, b in both)
    return [*out, "", f"Texts that both C4 filters keep and that read the same afterwards: {same:,} of {len(both):,}."]


def _left(texts: list[str]) -> list[str | None]:
    rows = batch(text=texts, doc_id=[i.to_bytes(16, "big") for i in range(len(texts))])
    outcome = load(catalogue()["c4_quality"])(**FINEWEB["c4_quality"]).open()(rows)
    drops = outcome.drops.to_pylist() if outcome.drops is not None else [None] * len(texts)
    return [t if d is None else None for t, d in zip(outcome.batch.column(col.TEXT).to_pylist(), drops, strict=True)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=Path, required=True)
    parser.add_argument("--datatrove", default=None, help="a Python that has datatrove and spaCy")
    given = parser.parse_args()
    sys.stdout.write(measure(given.samples, given.datatrove))
