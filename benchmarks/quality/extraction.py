"""Main text against what people marked, by engine and page type, and what each engine costs.

``python benchmarks/quality/extraction.py --samples DIR`` prints Markdown. All engines run through ``html_scrub``, with
its guard, on the same pages in turn, in one process on one core; times are CPU times, the best of two rounds.
"""

from __future__ import annotations

import argparse
import gzip
import html
import importlib.metadata
import os
import re
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Literal

os.environ.setdefault("OMP_NUM_THREADS", "1")  # as a worker has it

from cleanpipe import batch as col
from cleanpipe.testing import batch
from cleanpipe_jobs.train_extractor_labels import Page, decoded, measures, pages
from cleanpipe_stages.html.blocks.model import FILE
from cleanpipe_stages.html_scrub import HtmlScrub

Engine = Literal["html2text", "resiliparse", "trafilatura", "blocks"]
WORD = re.compile(r"\w+")
TAG = re.compile(r"<[^>]*>")
ENGINES: tuple[Engine, ...] = ("html2text", "resiliparse", "trafilatura", "blocks")
SINGLE = ENGINES[:-1]
AT_ONCE = 40  # pages
WORST = 12
Texts = dict[str, list[str]]


def readability(folder: Path) -> list[Page]:
    """Pages with the agreed result of a reader's view."""
    found = []
    for path in sorted(p for p in folder.iterdir() if p.is_dir()):
        truth = html.unescape(TAG.sub(" ", decoded(gzip.decompress((path / "expected.html.gz").read_bytes()))))
        markup = decoded(gzip.decompress((path / "source.html.gz").read_bytes()))
        found.append(Page(path.name, path.name, path.name, markup.encode(errors="replace"), truth))
    return found


def run(known: Sequence[Page]) -> tuple[Texts, dict[str, float]]:
    """Texts of all engines and seconds a page."""
    steps = {name: HtmlScrub(engine=name).open() for name in ENGINES}
    texts: Texts = {name: [] for name in ENGINES}
    seconds: dict[str, float] = dict.fromkeys(ENGINES, 0.0)
    for first in range(0, len(known), AT_ONCE):
        some = known[first : first + AT_ONCE]
        rows = batch(markup=[p.markup.decode() for p in some], media_type=["text/html"] * len(some))
        costs: dict[str, list[float]] = defaultdict(list)
        for _ in range(2):
            for name, step in steps.items():
                begin = time.process_time()
                outcome = step(rows)
                costs[name].append(time.process_time() - begin)
                if len(costs[name]) == 1:
                    texts[name] += [text or "" for text in outcome.batch.column(col.SCRUBBED).to_pylist()]
        for engine, times in costs.items():
            seconds[engine] += min(times)
    return texts, {name: s / len(known) for name, s in seconds.items()}


def _scores(known: Sequence[Page], texts: Texts) -> dict[str, list[tuple[float, float, float]]]:
    truths = [Counter(WORD.findall(p.truth)) for p in known]
    return {
        name: [measures(Counter(WORD.findall(text)), truth) for text, truth in zip(found, truths, strict=True)]
        for name, found in texts.items()
    }


def _by_kind(title: str, known: Sequence[Page], scores: dict[str, list[tuple[float, float, float]]]) -> list[str]:
    lines = [f"| {title} | n | " + " | ".join(ENGINES) + " | blocks P / R |", "| --- |" + " --- |" * (len(ENGINES) + 2)]
    kinds = sorted({p.kind for p in known})
    for kind in [*(kinds if len(kinds) < len(known) and len(kinds) > 1 else []), "all"]:
        rows = [n for n, p in enumerate(known) if kind in (p.kind, "all")]
        values = [f"{mean(scores[name][n][2] for n in rows):.3f}" for name in ENGINES]
        sides = [f"{mean(scores['blocks'][n][side] for n in rows):.3f}" for side in (0, 1)]
        lines.append(f"| {kind} | {len(rows)} | " + " | ".join(values) + f" | {' / '.join(sides)} |")
    return lines


def _misses(known: Sequence[Page], scores: dict[str, list[tuple[float, float, float]]], texts: Texts) -> list[str]:
    """Pages on which another engine is far ahead, and why as far as counts say."""
    behind = []
    for n, page in enumerate(known):
        best = max(SINGLE, key=lambda name: scores[name][n][2])
        behind.append((scores["blocks"][n][2] - scores[best][n][2], n, page, best))
    lines = ["| page | type | blocks P / R | best other | reason |", "| --- | --- | --- | --- | --- |"]
    for gap, n, page, best in sorted(behind)[:WORST]:
        precision, recall, _ = scores["blocks"][n]
        text, truth = len(texts["blocks"][n]), len(page.truth)
        reason = "took too much" if precision < recall else "left main text out"
        lines.append(
            f"| {page.name} | {page.kind} | {precision:.2f} / {recall:.2f} | {best} {-gap:+.2f} | "
            f"{reason}: {text:,} characters for {truth:,} |"
        )
    return lines


def _left_out() -> list[str]:
    card = (FILE.parent / "CARD.md").read_text(encoding="utf-8")
    return [line for line in card.splitlines() if line.startswith(("| article-ext", "| wcxb-train"))]


def measure(samples: Path) -> str:
    """A Markdown section."""
    folder = samples / "pages"
    versions = ", ".join(f"{n} {importlib.metadata.version(n)}" for n in (*SINGLE, "turbohtml", "numpy"))
    out = [
        "## Extraction",
        "",
        "Macro F1 over words with their counts. One process, one core; every engine through `html_scrub` with its "
        f"guard, on the same pages in turn. {versions}. Forum pages are in none of the sets.",
        "",
    ]
    costs = {}
    for name, known in (
        ("WCXB-dev", list(pages(folder / "wcxb-dev"))),
        ("AEB", list(pages(folder / "article-extraction-benchmark"))),
        ("readability", readability(folder / "readability")),
    ):
        texts, costs[name] = run(known)
        scores = _scores(known, texts)
        out += [*_by_kind(name, known, scores), ""]
        if name == "WCXB-dev":
            out += [f"The {WORST} pages where `blocks` is furthest behind the best other engine:", ""]
            out += [*_misses(known, scores, texts), ""]
    left_out = _left_out()
    if left_out:
        out += [
            "The model of `blocks` was trained on AEB and WCXB-train. On pages of hosts left out of the training, in "
            "five parts (`make extractor` with `--folds 5`; the model alone, before rendering):",
            "",
            "| pages | n | precision | recall | F1 |",
            "| --- | --- | --- | --- | --- |",
            *left_out,
            "",
        ]
    out.append("| CPU | " + " | ".join(ENGINES) + " | trafilatura / blocks |")
    out.append("| --- |" + " --- |" * (len(ENGINES) + 1))
    for name, cost in costs.items():
        values = " | ".join(f"{cost[e] * 1e6:,.0f} us, {1 / cost[e]:,.0f}/s" for e in ENGINES)
        out.append(f"| {name}, a page | {values} | {cost['trafilatura'] / cost['blocks']:.1f} |")
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--samples", type=Path, default=Path("../shared/samples"))
    print(measure(asked.parse_args().samples))
