"""The ``blocks`` engine on hosts that it has not seen: ``python -m cleanpipe_jobs.train_extractor_folds``.

Five models, each learned as the shipped one is, from pages of four fifths of the hosts; each is measured on the rest.
Neither a model nor any teacher of it has seen a host on which it is measured: a teacher leaves out two fifths, the one
that it judges and the one that its pupil is measured on, so ten pairs of fifths need ten nets of each teacher. The
models are kept in ``--work`` and not trained again: remove them where features, labels or settings have changed.
``--rules`` leaves out each rule of the engine in turn and tries other values of each constant, so that these are chosen
without ``pages/wcxb-dev``, which is never read. Fifteen minutes of one core, with ``--rules`` five more.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from statistics import mean, stdev
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from cleanpipe import batch as col
from cleanpipe.testing import batch
from cleanpipe_jobs.train_extractor import (
    FOLDS,
    PUPIL,
    SETS,
    TEACHERS,
    Known,
    Measures,
    fold,
    learn,
    read,
    table,
    teach,
    with_folds,
)
from cleanpipe_jobs.train_extractor_labels import WORD, Page, measures, pages
from cleanpipe_jobs.train_extractor_net import Settings
from cleanpipe_stages.html.blocks import gaps, model, rules
from cleanpipe_stages.html.blocks.model import FILE, load, scores
from cleanpipe_stages.html.blocks.tables import named
from cleanpipe_stages.html.engines import blocks as engine
from cleanpipe_stages.html_scrub import HtmlScrub

AT_ONCE = 40  # pages
Change = tuple[ModuleType, str, Any]
Logits = dict[tuple[int, str], npt.NDArray[np.float64]]


def outside(known: Sequence[Known], teachers: Sequence[Settings], work: Path) -> Logits:
    """By part left out and page of another part: what teachers that have seen neither part say of its blocks."""
    told: Logits = {}
    for number, settings in enumerate(teachers):
        for pair in combinations(range(FOLDS), 2):
            seen = [k for k in known if fold(k.page.host) not in pair]
            file = work / f"teacher{number}.{pair[0]}{pair[1]}.npz"
            if not file.exists():
                file.write_bytes(learn(seen, settings))
            net = load(file)
            for left_out, judged in (pair, pair[::-1]):
                for one in (k for k in known if fold(k.page.host) == judged):
                    share = np.clip(scores(one.example.found, net) / 65536, 1e-4, 1 - 1e-4)
                    key = left_out, one.page.name
                    told[key] = told.get(key, 0.0) + np.log(share / (1 - share)) / len(teachers)
            print(f"teacher {number + 1} of {len(teachers)}, without parts {pair[0]} and {pair[1]}", flush=True)
    return told


def part_files(work: Path) -> list[Path]:
    """The model of each part left out."""
    return [work / f"without{part}.npz" for part in range(FOLDS)]


def learned(known: Sequence[Known], work: Path, *, quick: bool = False) -> list[Path]:
    """The model files of the parts, made where they are missing.

    quick: by the teachers that the shipped model has, of which each leaves out one fifth only, the one it judges.
    """
    work.mkdir(parents=True, exist_ok=True)
    files = part_files(work)
    if quick:
        teach(known, TEACHERS)
    told = {} if quick else outside(known, TEACHERS, work)
    for part, file in enumerate(files):
        if file.exists():
            continue
        seen = [k for k in known if fold(k.page.host) != part]
        for one in () if quick else seen:
            one.example.taught = (1 / (1 + np.exp(-told[part, one.page.name]))).astype(np.float32)
        file.write_bytes(learn(seen, PUPIL))
        print(file, flush=True)
    return files


def held_out(pages: Sequence[Page], files: Sequence[Path]) -> list[Measures]:
    """Precision, recall and F1 of each page by html_scrub with the model that has not seen the page's host."""
    found: dict[int, Measures] = {}
    for part, file in enumerate(files):
        net = load(file)
        rows = [row for row, page in enumerate(pages) if fold(page.host) == part]
        with changed((model, "shipped", lambda net=net: net)):
            step = HtmlScrub(engine="blocks").open()
            for first in range(0, len(rows), AT_ONCE):
                some = rows[first : first + AT_ONCE]
                markup = [pages[row].markup.decode() for row in some]
                outcome = step(batch(markup=markup, media_type=["text/html"] * len(some)))
                for row, text in zip(some, outcome.batch.column(col.SCRUBBED).to_pylist(), strict=True):
                    found[row] = _measures(text or "", pages[row].truth)
    return [found[row] for row in range(len(pages))]


@lru_cache(1 << 14)
def _measures(text: str, truth: str) -> Measures:
    return measures(_words(text), _words(truth))


@lru_cache(1 << 14)
def _words(text: str) -> Counter[str]:
    return Counter(WORD.findall(text))


@contextmanager
def changed(*changes: Change) -> Iterator[None]:
    """Modules with other values of some of their names, as ``(module, name, value)``."""
    before = [(module, name, getattr(module, name)) for module, name, _ in changes]
    for module, name, value in changes:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


def rules_changed() -> dict[str, tuple[Change, ...]]:
    """What rules and constants are judged by: each left out, or with other values."""
    never = ("title", "noscript", "nav", "footer")
    changes: dict[str, tuple[Change, ...]] = {}

    def without(title: str, *change: Change) -> None:
        changes[title] = change

    def values(module: ModuleType, name: str, *others: float) -> None:
        for value in others:
            changes[f"{name.removeprefix('_')} {getattr(module, name):,} → {value:,}"] = ((module, name, value),)

    without("no fallback to the whole page", (engine, "_TRUST", 1 << 40))
    values(engine, "_TRUST", 1, 2, 3, 10, 20)
    for names in (("nav",), ("footer",), ("nav", "footer")):
        rest = named([name for name in never if name not in names])
        without(f"{' and '.join(names)} left to the model", (rules, "_NEVER", rest))
    for names in (("aside",), ("header",), ("aside", "header")):
        without(f"{' and '.join(names)} never either", (rules, "_NEVER", named([*never, *names])))
    values(rules, "_SMALL", 0, 100, 400, 1 << 40)
    without("gaps left open", (engine, "filled", lambda _blocks, keep, _share, _never: keep))
    without("remains left out", (gaps, "_REST", 1 << 40))
    without("headings left out", (engine, "headed", lambda _blocks, keep, _share, _never: keep))
    values(gaps, "BLOCKS", 2, 4, 16, 32)
    values(gaps, "BYTES", 60, 200, 1000)
    values(gaps, "LINKED", 0.1, 0.6)
    values(gaps, "SHARE", 65536 // 20, 65536 // 5, 65536 // 3)
    values(gaps, "SURE", 0, 65536 // 2, 65536 * 8 // 10)
    values(gaps, "HEADING", 0, 65536 // 20, 65536 // 10, 65536 // 2)
    values(model, "UNSEEN", 0, 50, 200, 300, 700)
    values(model, "DOUBT", 0, 3, 9, 12)
    values(model, "_LONG", 1 << 40, 20, 80)
    return changes


def rules_table(pages: Sequence[Page], files: Sequence[Path]) -> str:
    """Markdown: F1 with each change less F1 as shipped, by set, with the standard error of its mean."""
    shipped = held_out(pages, files)
    sets = ("", *SETS)
    lines = ["| change | both | error | " + " | ".join(SETS) + " |", "| --- |" + " ---: |" * (len(sets) + 1)]

    def row(title: str, found: Sequence[Measures], sign: str) -> None:
        cells = []
        for name in sets:
            some = [
                f[2] - (s[2] if sign else 0) for f, s, p in zip(found, shipped, pages, strict=True) if name in p.name
            ]
            cells.append(f"{mean(some):{sign}.4f}")
            if not name:
                cells.append(f"{stdev(some) / len(some) ** 0.5:.4f}")
        lines.append(f"| {title} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)

    row("as shipped", shipped, "")
    for title, change in rules_changed().items():
        with changed(*change):
            row(title, held_out(pages, files), "+")
    return "\n".join(lines)


def folds_table(pages: Sequence[Page], files: Sequence[Path]) -> str:
    """Markdown: by set, and by kind of page where a set has several."""
    found: dict[str, list[Measures]] = defaultdict(list)
    for page, result in zip(pages, held_out(pages, files), strict=True):
        name = page.name.split("/")[0]
        found[name].append(result)
        if name != SETS[0]:
            found[f"{name}, {page.kind}"].append(result)
    return table(found)


_MODELS = """The whole engine with five models, each learned from four fifths of the hosts and measured on the rest
(`python -m cleanpipe_jobs.train_extractor_folds"""
_HOW = {
    True: f"""{_MODELS} --quick`). The teachers of a model's pages may have seen the rest: the figures may
flatter a little.""",
    False: f"""{_MODELS}`). No teacher of a model has seen the rest either.""",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Trains what is missing and prints what was found."""
    asked = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    asked.add_argument("--samples", type=Path, default=Path("../shared/samples"))
    asked.add_argument("--work", type=Path, default=Path("build/extractor"), help="folder of the models of the parts")
    asked.add_argument("--quick", action="store_true", help="teachers may have seen the part measured: 10 nets of 20")
    asked.add_argument("--rules", action="store_true", help="measure, too, what each rule and constant is worth")
    asked.add_argument("--card", action="store_true", help="put the table into the card of the shipped model")
    told = asked.parse_args(arguments)
    files = part_files(told.work)
    if not all(file.exists() for file in files):
        learned(read(told.samples), told.work, quick=told.quick)
    every = [page for name in SETS for page in pages(told.samples / "pages" / name)]
    found = folds_table(every, files)
    print(found)
    if told.card:
        card = FILE.parent / "CARD.md"
        card.write_text(
            with_folds(card.read_text(encoding="utf-8"), f"{_HOW[told.quick]}\n\n{found}"), encoding="utf-8"
        )
    if told.rules:
        rules_table(every, files)


if __name__ == "__main__":
    main()
