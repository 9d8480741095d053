"""Which blocks of a page are its main text: a small net over features, in whole numbers.

Weights and activations are whole numbers that float32 holds exactly, whatever the order of a sum: the decisions are
the same on every machine. The net sees a block, the block elements around it with the words of their classes, then
what it made of neighbours, of the blocks in the same elements, and of the page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from cleanpipe_stages.html.blocks.balanced import balanced
from cleanpipe_stages.html.blocks.elements import SLOTS
from cleanpipe_stages.html.blocks.features import Counts, Features, features
from cleanpipe_stages.html.blocks.segment import Blocks, forest

Floats = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]

FILE = Path(__file__).parent / "models" / "blocks.v1.npz"
ONE = 32  # an activation of 1.0
TOP = 255  # the largest activation; inputs go from -128 to 127
STEP = 16  # steps of a logit
REACH = 8 * STEP
_LONG = 40  # characters: shorter ones may well stand twice
NEAR, FAR = 3, 6  # bounds of sums over class words
_POOLED = 4  # block elements around a block over which is pooled
_ROWS = 256  # blocks that go through the first layer at a time: a processor's cache holds their inputs
SPANS = 6 + _POOLED


@dataclass(frozen=True)
class Layer:
    """weight: whole numbers (inputs, outputs), so small that every sum is below 2^24. scale, bias: of each output."""

    weight: Floats
    scale: Floats
    bias: Floats

    def __call__(self, x: Floats) -> Floats:
        """The layer's outputs times ``ONE``, not rounded."""
        y: Floats = x @ self.weight
        y *= self.scale
        y += self.bias
        return y


@dataclass(frozen=True)
class Model:
    """middle, factor: make an input of a feature. words: (SLOTS, d) of class words. share: logit to 65,536 times p."""

    middle: Floats
    factor: Floats
    words: npt.NDArray[np.int8]
    layers: tuple[Layer, ...]
    share: Counts


def load(file: Path | IO[bytes]) -> Model:
    """Reads a model. Raises OSError or ValueError: no such file, or not one of this version's features."""
    with np.load(file) as stored:
        layers = tuple(
            Layer(stored[f"weight{n}"].astype(np.float32), stored[f"scale{n}"], stored[f"bias{n}"]) for n in range(6)
        )
        model = Model(stored["middle"], stored["factor"], stored["words"], layers, stored["share"])
    if len(model.words) != SLOTS:
        raise ValueError(f"{file}: a table of {len(model.words)} class words, not of {SLOTS}")
    return model


@cache
def shipped() -> Model:
    """The model of this package."""
    return load(FILE)


def keep(blocks: Blocks, model: Model | None = None) -> Flags:
    """A flag for each block, of one page or several: whether it is main text."""
    return judged(blocks, model)[1]


def judged(blocks: Blocks, model: Model | None = None) -> tuple[Counts, Flags]:
    """For each block, of one page or several, 65,536 times the share that is main text; and whether it is kept."""
    if not len(blocks):
        return np.zeros(0, np.int64), np.zeros(0, bool)
    full = np.flatnonzero(np.diff(blocks.pages[:, 2], append=0))
    if len(full) < len(blocks.pages):  # pages without a block have no features
        blocks = replace(blocks, pages=blocks.pages[full])
    found = features(blocks)
    share = scores(found, model)
    flags = choose(share, found.weight, found.pages)
    _once(blocks, flags, np.flatnonzero(flags & (found.weight >= _LONG)))
    return share, flags


def _once(blocks: Blocks, flags: Flags, long: Counts) -> None:
    """A paragraph that a page holds twice, for two sizes of screen, is kept once."""
    size = blocks.end[long] - blocks.start[long]
    key = blocks.page[long] * (len(blocks.html) + 1) + size  # only those of one page and size may be the same
    order = np.argsort(key, kind="stable")
    same = np.flatnonzero(np.diff(key[order]) == 0)
    long = np.unique(long[order[np.append(same, same + 1)]])
    seen: set[tuple[int, bytes]] = set()
    columns = (blocks.page[long], long, blocks.start[long], blocks.end[long])
    for page, block, start, end in zip(*(column.tolist() for column in columns), strict=True):
        markup = (page, blocks.html[start:end])
        if markup in seen:
            flags[block] = False
        seen.add(markup)


def extracts(pages: Sequence[bytes], model: Model | None = None) -> Iterator[tuple[Blocks, Flags]]:
    """Blocks of each page in UTF-8 and what to keep of them. A page has the same ones whatever pages are beside it.

    Raises ValueError as ``segment`` does.
    """
    together = forest([balanced(page) for page in pages])
    flags = keep(together, model)
    for blocks, first in zip(together.split(), together.pages[:-1, 2].tolist(), strict=True):
        yield blocks, flags[first : first + len(blocks)]


def scores(found: Features, model: Model | None = None) -> Counts:
    """For each block 65,536 times the share of it that is main text, as the model believes."""
    net = shipped() if model is None else model
    layers = net.layers
    ranges = spans(found)
    near, all_around = words(found, net.words)
    hidden = np.empty((len(found.own), layers[0].weight.shape[1]), np.float32)
    factor = net.factor * np.float32(ONE)  # a power of two: the same as after the clipping
    for first in range(0, len(hidden), _ROWS):
        rows = slice(first, first + _ROWS)
        own = found.own[rows] - net.middle
        own *= factor
        np.minimum(own, 4.0 * ONE, out=own)
        np.maximum(own, -4.0 * ONE, out=own)
        np.rint(own, out=own)
        x = np.concatenate((own, near[rows], all_around[rows]), axis=1, dtype=np.float32)
        hidden[rows] = _whole(layers[0](x))
    context = _pooled(_whole(layers[1](hidden)), ranges)
    second = _whole(layers[2](np.concatenate((hidden, context), axis=1)))
    context = _pooled(_whole(layers[3](second)), ranges)
    third = _whole(layers[4](np.concatenate((second, context), axis=1)))
    logit = np.clip(np.rint(layers[5](third)[:, 0] * (STEP / ONE)), -REACH, REACH).astype(np.int64)
    shares: Counts = net.share[logit + REACH]
    return shares


def _whole(x: Floats) -> Floats:
    np.rint(x, out=x)
    np.minimum(x, TOP, out=x)
    return np.maximum(x, 0.0, out=x)


def words(found: Features, table: npt.NDArray[np.int8]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Sums over class words: of each of the block elements around a block, and of all of them."""
    tree = found.elements
    own = np.zeros((len(tree) + 1, table.shape[1]))
    for column, values in enumerate(table.T):
        own[:-1, column] = np.bincount(tree.owner, values[tree.slots], len(tree))
    np.clip(own, -NEAR * ONE, NEAR * ONE, out=own)
    # an element adds to all blocks between its tags: up where it begins, down where it ends
    first, last = tree.first, tree.last
    steps = np.zeros((len(found.weight) + 1, table.shape[1]))
    for column in range(table.shape[1]):
        steps[:, column] = np.bincount(first, own[:-1, column], len(steps))
        steps[:, column] -= np.bincount(last, own[:-1, column], len(steps))
    everything = np.clip(np.cumsum(steps, axis=0)[:-1], -FAR * ONE, FAR * ONE)
    return own[found.parents].reshape(len(everything), -1), everything


def spans(found: Features) -> Counts:
    """Ranges of blocks (r, n, 2) over which is pooled: neighbours, elements around, the page."""
    row = np.arange(len(found.weight))
    sizes = np.diff(found.pages)
    start, end = np.repeat(found.pages[:-1], sizes), np.repeat(found.pages[1:], sizes)
    tree = found.elements
    around = found.parents[:, 1 : 1 + _POOLED].T
    first, last = np.append(tree.first, 0)[around], np.append(tree.last, len(row))[around]  # of none: the whole page
    low = np.stack((row - 1, row + 1, row - 4, row + 1, row - 12, *first, start))
    high = np.stack((row, row + 2, row, row + 5, row + 13, *last, end))
    return np.stack((np.clip(low, start, end), np.clip(high, start, end)), axis=-1)


def _pooled(x: Floats, ranges: Counts) -> Floats:
    """Means over ranges, rounded: (n, r × columns)."""
    exact = np.float32 if len(x) * TOP < 1 << 24 else np.float64
    sums = np.zeros((len(x) + 1, x.shape[1]), exact)
    np.cumsum(x, axis=0, out=sums[1:])
    low, high = ranges[..., 0].T, ranges[..., 1].T
    sizes = np.maximum(high - low, 1)[..., None].astype(exact)
    pooled = np.empty((len(x), sizes.shape[1] * x.shape[1]), np.float32)
    for first in range(0, len(x), _ROWS):
        rows = slice(first, first + _ROWS)
        means = np.take(sums, high[rows], axis=0, mode="clip")
        means -= np.take(sums, low[rows], axis=0, mode="clip")
        means /= sizes[rows]
        np.rint(means, out=means)
        pooled[rows] = means.reshape(len(means), -1)
    return pooled


def choose(share: Counts, weight: Counts, pages: Counts | None = None) -> Flags:
    """The blocks that make the expected F1 greatest: all whose share is at least half of it.

    Ordered by share, the F1 of the first k is 2 Σ share × weight over k / (Σ weight over k + Σ share × weight over
    all). The model is surer than it should be on pages unlike those it was trained on: ``DOUBT`` of a share is taken
    for ``PRIOR``, and of the main text ``UNSEEN`` characters for overlooked, so that of a page with little that is sure
    more is kept. pages: where each begins, and the end, if there are several; none is without blocks.
    """
    pages = np.array([0, len(share)]) if pages is None else pages
    begin, sizes = pages[:-1], np.diff(pages)
    page = np.repeat(np.arange(len(sizes)), sizes)
    order = np.argsort((page << 17) - share, kind="stable")
    weights = weight[order]
    hits = np.cumsum((share * (100 - DOUBT) + DOUBT * PRIOR)[order] * weights)
    sums = np.cumsum(weights)
    hits -= np.append(0, hits)[begin][page]
    sums -= np.append(0, sums)[begin][page]
    f1 = hits / ((sums + UNSEEN) * 6_553_600 + hits[pages[1:] - 1][page])
    best = np.flatnonzero(f1 == np.maximum.reduceat(f1, begin)[page])
    first = best[np.searchsorted(best, begin)]  # of each page
    flags: Flags = share >= share[order[first]][page]
    return flags


# chosen by cross-validation over hosts: UNSEEN = 700, 300, 100 give F1 .947, .950, .952 on AEB, .888, .888, .887 on
# WCXB-train
DOUBT, PRIOR, UNSEEN = 6, 3 * 65536 // 10, 100
