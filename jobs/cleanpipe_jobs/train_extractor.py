"""Train the model of the ``blocks`` extraction engine: ``python -m cleanpipe_jobs.train_extractor``.

Reads pages with marked main text (``pages/wcxb-train`` and ``pages/article-extraction-benchmark`` of the samples),
cuts them into blocks as the engine does, learns which blocks are main text, and writes ``blocks.v1.npz`` and its card,
into which ``train_extractor_folds`` puts figures. Several teachers are trained first, each once for each fifth of the
hosts on the other four: what they say of the pages left out, taken together, is half of what the model learns, the
marks are the other half. So one net knows what several would vote for. The same pages give the same bytes (on one
machine: PyTorch's sums differ between kinds of processors). ``pages/wcxb-dev`` is never read. Needs PyTorch, turbohtml
and resiliparse; ten minutes of one core.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import numpy.typing as npt

from cleanpipe_jobs.train_extractor_labels import Labels, Page, labels, measures, pages
from cleanpipe_jobs.train_extractor_net import Example, Settings, example, train, whole_numbers
from cleanpipe_stages.html.blocks.features import features
from cleanpipe_stages.html.blocks.model import FILE, Model, keep, load, scores
from cleanpipe_stages.html.blocks.segment import Blocks, segment

SETS = ("article-extraction-benchmark", "wcxb-train")
FOLDS = 5
Measures = tuple[float, float, float]

# Chosen by cross-validation over hosts. F1 on WCXB-train and AEB: the first teacher .869 and .952, it learns class
# words by heart; the second, slower, .882 and .937; the pupil of both is in the card.
_SLOW = Settings(rate=1.8e-4, flat=0.35, blank=0.15, mask=0.1, average=0.998, seed=2)
TEACHERS = (Settings(), _SLOW)
PUPIL = replace(_SLOW, rate=2.2e-4, soft=0.5, by_hand=2.0)


@dataclass(frozen=True, slots=True)
class Known:
    """A page with its blocks and its truth."""

    page: Page
    blocks: Blocks
    truth: Labels
    example: Example


def read(samples: Path, sets: Sequence[str] = SETS, limit: int | None = None) -> list[Known]:
    """All pages of the sets that have a block, ``limit`` of each set at most."""
    known = []
    for name in sets:
        for page in list(pages(samples / "pages" / name))[:limit]:
            blocks = segment(page.markup)
            if len(blocks):
                truth = labels(blocks, page.truth)
                one = example(features(blocks), truth, page.host, by_hand=name == SETS[0])
                known.append(Known(page, blocks, truth, one))
    return known


def learn(known: Sequence[Known], settings: Settings) -> bytes:
    """The bytes of a model file."""
    net, middle, factor = train([k.example for k in known], settings)
    file = BytesIO()
    arrays: dict[str, npt.NDArray[Any]] = whole_numbers(net, middle, factor)
    np.savez_compressed(file, **{name: arrays[name] for name in sorted(arrays)})  # type: ignore[arg-type]
    return file.getvalue()


def judge(known: Iterable[Known], model: Model) -> dict[str, list[Measures]]:
    """Precision, recall and F1 over words with counts of every page, by set and by set and kind."""
    found: dict[str, list[Measures]] = defaultdict(list)
    for one in known:
        kept = keep(one.blocks, model)[one.truth.block]
        words = Counter(word for word, flag in zip(one.truth.words, kept.tolist(), strict=True) if flag)
        result = measures(words, one.truth.truth)
        folder = one.page.name.split("/")[0]
        found[folder].append(result)
        found[f"{folder}, {one.page.kind}"].append(result)
    return found


def fold(host: str) -> int:
    """The fold of a host: fixed, whatever other hosts there are."""
    return int.from_bytes(sha256(host.encode()).digest()[:8], "big") % FOLDS


def parted(known: Sequence[Known], settings: Settings) -> Iterator[tuple[Model, list[Known]]]:
    """Models, each with the pages of the hosts that it has not seen; every page once."""
    for part in range(FOLDS):
        seen = [k for k in known if fold(k.page.host) != part]
        rest = [k for k in known if fold(k.page.host) == part]
        if seen and rest:
            yield load(BytesIO(learn(seen, settings))), rest


def teach(known: Sequence[Known], teachers: Sequence[Settings]) -> None:
    """Puts what teachers that have not seen its host say of each page, the mean of their logits, beside its marks."""
    logits: dict[str, npt.NDArray[np.float64]] = {}
    for number, settings in enumerate(teachers):
        for model, rest in parted(known, settings):
            for one in rest:
                share = np.clip(scores(one.example.found, model) / 65536, 1e-4, 1 - 1e-4)
                logits[one.page.name] = logits.get(one.page.name, 0.0) + np.log(share / (1 - share)) / len(teachers)
        print(f"teacher {number + 1} of {len(teachers)}", flush=True)
    for one in known:
        one.example.taught = (1 / (1 + np.exp(-logits[one.page.name]))).astype(np.float32)


def table(found: dict[str, list[Measures]]) -> str:
    """Markdown."""
    rows = ["| pages | n | precision | recall | F1 |", "| --- | --- | --- | --- | --- |"]
    for name, results in sorted(found.items()):
        values = " | ".join(f"{mean(column):.3f}" for column in zip(*results, strict=True))
        rows.append(f"| {name} | {len(results)} | {values} |")
    return "\n".join(rows)


def card(model: bytes, known: Sequence[Known]) -> str:
    """What the model is, where it comes from and what it is for; ``with_folds`` adds what it does."""
    counts = Counter(k.page.name.split("/")[0] for k in known)
    return _CARD.format(
        digest=sha256(model).hexdigest(),
        size=f"{len(model):,}",
        pages=" and ".join(f"{counts[name]:,} of `pages/{name}`" for name in SETS),
        blocks=f"{sum(len(k.blocks) for k in known):,}",
        pupil=PUPIL,
        teachers=len(TEACHERS),
        versions=", ".join(f"{name} {version(name)}" for name in ("torch", "numpy", "turbohtml")),
    )


def with_folds(card: str, found: str) -> str:
    """The card with what was found on hosts left out."""
    before, mark, rest = card.partition(_MEASURED)
    if not mark or _LIMITS not in rest:
        raise ValueError("not a card of this model")
    return f"{before}{_MEASURED}\n\n{found}\n\n{_LIMITS}{rest.partition(_LIMITS)[2]}"


_MEASURED, _LIMITS = "## Measured on hosts left out", "## Limits"
_CARD = """# blocks.v1.npz: which blocks of a web page are its main text

{size} bytes, sha256 `{digest}`. Made by `make extractor` (`python -m cleanpipe_jobs.train_extractor`), with {versions}.
The same pages and versions give the same bytes on one kind of processor.

## For what

The engine `blocks` of `html_scrub`: to take the main text out of web pages for the training of language models. A page
goes in as blocks of text with the markup around them; out comes which of them are kept. Not for: any judgement of
quality, language, rights or safety; taking single fields out of a page (price, author, date); deciding what a person
may see; pages that scripts make only in a browser; forums and chats, of which no page was seen.

## From what

Trained on {pages} ({blocks} blocks). The first set is scrapinghub/article-extraction-benchmark (MIT), the second a part
of the development split of Murrough-Foley/web-content-extraction-benchmark (WCXB, CC BY 4.0, Murrough Foley;
https://creativecommons.org/licenses/by/4.0/). The model is under cleanpipe's licence (Apache-2.0); it holds weights
only, no text of the pages. `pages/wcxb-dev` was never trained on.

## How

A block's label is the share of its words that the truth has in the same order. Half of it is what {teachers} teachers
say together, each trained on four fifths of the hosts, none of them the page's. Loss: cross entropy, each page of
weight 1 (of the first set 2), and 1 - F1 of the page. Three layers; the second and third also see means over
neighbours, over the block elements around the block, and over the page. Class, id and role words come in through a
hashed table, learned for words of six hosts at least. Weights are whole numbers, so that every machine decides alike.
{pupil}

## Measured on hosts left out

(not yet: `python -m cleanpipe_jobs.train_extractor_folds --card`)

## Limits

Nearly all pages are English; features are counts, shares, elements and words of markup, none reads a human language.
The truth of the second set was drafted by a language model and then reviewed; its listing, collection and product
pages are marked after varying taste, and there the model is right less often.
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Trains, and writes the model and its card beside it."""
    asked = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    asked.add_argument("--samples", type=Path, default=Path("../shared/samples"))
    asked.add_argument("--out", type=Path, default=FILE)
    asked.add_argument("--limit", type=int, help="pages of each set")
    told = asked.parse_args(arguments)
    known = read(told.samples, limit=told.limit)
    teach(known, TEACHERS)
    model = learn(known, PUPIL)
    told.out.parent.mkdir(parents=True, exist_ok=True)
    told.out.write_bytes(model)
    (told.out.parent / "CARD.md").write_text(card(model, known), encoding="utf-8")
    print(f"{told.out}: {len(model):,} bytes, sha256 {sha256(model).hexdigest()}")


if __name__ == "__main__":
    main()
