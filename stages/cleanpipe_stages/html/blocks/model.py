"""Which blocks of a page are its main text: a small net over features, in whole numbers.

Weights and activations are whole numbers that float32 holds exactly, whatever the order of a sum: the decisions are
the same on every machine. The net sees a block, the block elements around it with the words of their classes, then
what it made of neighbours, of the blocks in the same elements, and of the page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from cleanpipe_stages.html.blocks.balanced import balanced
from cleanpipe_stages.html.blocks.counts import Counts
from cleanpipe_stages.html.blocks.elements import SLOTS
from cleanpipe_stages.html.blocks.features import PAGE, Features, features
from cleanpipe_stages.html.blocks.segment import Blocks, forest

Floats = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]

FILE = Path(__file__).parent / "models" / "blocks.v1.npz"
ONE = 32  # an activation of 1.0
TOP = 255  # the largest activation; inputs go from -128 to 127
STEP = 16  # steps of a logit
REACH = 8 * STEP
DOUBLE = -1  # for the share of a block that its page holds twice
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
    """For each block, of one page or several, 65,536 times the share that is main text; and whether it is kept.

    The share of a block left because the page holds it twice is ``DOUBLE``.
    """
    if not len(blocks):
        return np.zeros(0, np.int64), np.zeros(0, bool)
    full = np.flatnonzero(np.diff(blocks.pages[:, 2]))
    if len(full) < len(blocks.pages) - 1:  # pages without a block have no features, and their tags are no other's
        begin, end = blocks.pages[full, 0].tolist(), blocks.pages[full + 1, 0].tolist()
        blocks = forest([blocks.html[a:b] for a, b in zip(begin, end, strict=True)])
    found = features(blocks)
    share = scores(found, model)
    flags = choose(share, found.weight, found.pages)
    again = _again(blocks, np.flatnonzero(flags & (found.weight >= _LONG)))
    share[again], flags[again] = DOUBLE, False
    return share, flags


def _again(blocks: Blocks, long: Counts) -> list[int]:
    """Those of the blocks that stand before: a paragraph that a page holds twice, for two sizes of screen.

    Not in items of lists, which may say the same: with them F1 on held-out hosts is the same, but .004 less on
    documentation and .002 less on services.
    """
    size = blocks.end[long] - blocks.start[long]
    key = blocks.page[long] * (len(blocks.html) + 1) + size  # only those of one page and size may be the same
    order = np.argsort(key, kind="stable")
    same = np.flatnonzero(np.diff(key[order]) == 0)
    if not len(same):
        return []
    long = np.unique(long[order[np.append(same, same + 1)]])
    long = long[blocks.item[long] < 0]
    again: list[int] = []
    seen: set[tuple[int, bytes]] = set()
    columns = (blocks.page[long], long, blocks.start[long], blocks.end[long])
    for page, block, start, end in zip(*(column.tolist() for column in columns), strict=True):
        markup = (page, blocks.html[start:end])
        if markup in seen:
            again.append(block)
        seen.add(markup)
    return again


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
    near, all_around = words(found, net.words)
    own, n, columns = found.own, len(found.own), found.own.shape[1] - PAGE
    factor = net.factor * np.float32(ONE)  # a power of two: the same as after the clipping
    # what all blocks of a page have in common goes through the first layer once; sums of whole numbers have no order
    weight, scale, bias = layers[0].weight, layers[0].scale, layers[0].bias
    common = _input(own[found.pages[:-1], columns:], net.middle[columns:], factor[columns:])
    common = common @ weight[columns : columns + PAGE]
    page = np.repeat(np.arange(len(common)), np.diff(found.pages))
    weight = np.concatenate((weight[:columns], weight[columns + PAGE :]))
    x = np.empty((min(n, _ROWS), len(weight)), np.float32)
    ranges = Ranges(spans(found))
    beside = np.empty((n, layers[2].weight.shape[0]), np.float32)  # the first layer's outputs, then their context
    hidden = beside[:, : weight.shape[1]]
    for begin in range(0, n, _ROWS):
        rows = slice(begin, begin + _ROWS)
        some = x[: len(hidden[rows])]
        _input(own[rows, :columns], net.middle[:columns], factor[:columns], some[:, :columns])
        some[:, columns : columns + near.shape[1]] = near[rows]
        some[:, columns + near.shape[1] :] = all_around[rows]
        y = some @ weight
        y += common.take(page[rows], axis=0)
        y *= scale
        y += bias
        _whole(y, hidden[rows])
    around = np.empty((n, layers[4].weight.shape[0]), np.float32)
    second = around[:, : layers[2].weight.shape[1]]
    ranges.pooled(_whole(layers[1](hidden)), beside[:, hidden.shape[1] :])
    _whole(layers[2](beside), second)
    ranges.pooled(_whole(layers[3](second)), around[:, second.shape[1] :])
    third = _whole(layers[4](around))
    logit = np.clip(np.rint(layers[5](third)[:, 0] * (STEP / ONE)), -REACH, REACH).astype(np.int64)
    shares: Counts = net.share[logit + REACH]
    return shares


def _input(own: Floats, middle: Floats, factor: Floats, out: Floats | None = None) -> Floats:
    x: Floats = own - middle
    x *= factor
    np.clip(x, -4.0 * ONE, 4.0 * ONE, out=x)
    whole: Floats = np.rint(x, out=x if out is None else out)
    return whole


def _whole(x: Floats, out: Floats | None = None) -> Floats:
    np.rint(x, out=x)
    whole: Floats = np.clip(x, 0.0, TOP, out=x if out is None else out)
    return whole


def words(found: Features, table: npt.NDArray[np.int8]) -> tuple[Floats, Floats]:
    """Sums over class words: of each of the block elements around a block, and of all of them."""
    tree, blocks, width = found.elements, len(found.weight), table.shape[1]
    near = np.zeros((len(tree) + 1, width), np.float32)
    # an element adds to all blocks between its tags: up where it begins, down where it ends
    steps = np.zeros((blocks + 1, width))
    for column, values in enumerate(table.T):
        own = np.bincount(tree.owner, values[tree.slots], len(tree))
        np.minimum(own, NEAR * ONE, out=own)
        np.maximum(own, -NEAR * ONE, out=own)
        near[:-1, column] = own
        steps[:, column] = np.bincount(tree.first, own, blocks + 1)
        steps[:, column] -= np.bincount(tree.last, own, blocks + 1)
    everything = np.cumsum(steps, axis=0)[:-1]
    np.minimum(everything, FAR * ONE, out=everything)
    np.maximum(everything, -FAR * ONE, out=everything)
    around = near.take(found.parents, axis=0, mode="wrap").reshape(blocks, -1)
    return around, everything.astype(np.float32)


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


class Ranges:
    """Ranges of blocks, ready for means over them."""

    def __init__(self, ranges: Counts) -> None:
        self.low, self.high = (np.ascontiguousarray(ranges[..., side].T) for side in (0, 1))
        self.sizes = np.maximum(self.high - self.low, 1).astype(np.float32)

    def pooled(self, x: Floats, out: Floats) -> None:
        """Means over the ranges, rounded: (n, r × columns)."""
        exact = np.float32 if len(x) * TOP < 1 << 24 else np.float64
        sums = np.zeros((len(x) + 1, x.shape[1]), exact)
        np.cumsum(x, axis=0, out=sums[1:])
        for first in range(0, len(x), _ROWS):
            rows = slice(first, first + _ROWS)
            means = np.take(sums, self.high[rows], axis=0, mode="clip")
            means -= np.take(sums, self.low[rows], axis=0, mode="clip")
            flat = means.reshape(len(means), -1)
            flat /= np.repeat(self.sizes[rows], x.shape[1], axis=1)
            np.rint(flat, out=out[rows], casting="same_kind")


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
