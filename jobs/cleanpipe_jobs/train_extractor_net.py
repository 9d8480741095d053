"""The net of ``cleanpipe_stages/html/blocks/model.py``, trained by PyTorch in floats, then made whole numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cleanpipe_jobs.train_extractor_labels import Labels
from cleanpipe_stages.html.blocks.elements import SLOTS
from cleanpipe_stages.html.blocks.features import LEVELS, PAGE, Features
from cleanpipe_stages.html.blocks.model import FAR, NEAR, ONE, REACH, SPANS, STEP, TOP, spans

if TYPE_CHECKING:
    import torch

Array = npt.NDArray[Any]
PARTS = slice(52, 59)  # columns of features: article, main, section, nav, header, footer, aside around a block
_MOST = 65_000  # sum of a unit's weights, so that with activations up to 255 every sum is below 2^24


@dataclass(frozen=True, slots=True)
class Settings:
    """How a net is trained."""

    epochs: int = 16
    pages: int = 8  # a step
    rate: float = 3e-3
    fast: float = 2.0  # times the rate for class words
    flat: float = 0.0  # part of the rate that stays to the end; 0: one cycle, up and down to nothing
    decay: float = 2e-2
    dropout: float = 0.3
    forget: float = 0.15  # class words left out in a step
    blank: float = 0.0  # pages left without class words in a step, as those of sites never seen are
    mask: float = 0.0  # pages left without the elements that name parts of a page
    noise: float = 0.15
    page_noise: float = 0.4  # on features that all blocks of a page share: with them a net knows each page by heart
    hosts: int = 6  # that have a class word, or it is not learned
    f1: float = 1.0  # weight of 1 - F1 beside the cross entropy
    by_hand: float = 1.0  # weight of a page that people marked, beside the others
    soft: float = 0.0  # part of every label that teachers say
    average: float = 0.995  # of weights over steps
    seed: int = 0
    words: int = 6
    units: tuple[int, ...] = (96, 16, 32, 8, 16)


@dataclass(slots=True)
class Example:
    """A page for training: features, ranges, the truth; what teachers that never saw its host think of each block."""

    found: Features
    ranges: Array
    share: Array
    size: Array
    around: tuple[Array, Array]
    host: str
    by_hand: bool = False
    taught: Array | None = None


def example(found: Features, labels: Labels, host: str, *, by_hand: bool = False) -> Example:
    """Makes one."""
    tree = found.elements
    blocks, parents = [], []
    block, parent = np.arange(len(tree.of)), tree.of
    while len(parent):
        blocks.append(block)
        parents.append(parent)
        parent = tree.parent[parent]
        block, parent = block[parent >= 0], parent[parent >= 0]
    share = labels.hits / np.maximum(labels.size, 1)
    around = (np.concatenate(blocks), np.concatenate(parents))
    return Example(found, spans(found), share.astype(np.float32), labels.size, around, host, by_hand)


class Batch:
    """Several pages as one: tensors, with places moved on. heavy: weight of each page."""

    def __init__(self, examples: Sequence[Example], middle: Array, factor: Array, heavy: Array, soft: float) -> None:
        import torch

        blocks = np.cumsum([0, *(len(e.share) for e in examples)])
        trees = np.cumsum([0, *(len(e.found.elements) for e in examples)])
        at = list(zip(examples, blocks, trees, strict=False))

        def joined(parts: list[Array], axis: int = 0) -> torch.Tensor:
            return torch.as_tensor(np.concatenate(parts, axis=axis))

        self.elements, self.pages = int(trees[-1]), len(examples)
        self.x = joined([np.clip((e.found.own - middle) * factor, -4, 4) for e in examples])
        self.parents = joined([np.where(e.found.parents < 0, trees[-1], e.found.parents + t) for e, _, t in at])
        self.ranges = joined([e.ranges + b for e, b, _ in at], axis=1)
        self.slots = joined([e.found.elements.slots for e in examples])
        self.owner = joined([e.found.elements.owner + t for e, _, t in at])
        self.block = joined([e.around[0] + b for e, b, _ in at])
        self.around = joined([e.around[1] + t for e, _, t in at])
        self.share = joined([e.share for e in examples])
        if soft:
            self.share += soft * (joined([_told(e) for e in examples]) - self.share)
        self.size = joined([e.size.astype(np.float32) for e in examples])
        self.tree_page = joined([np.full(len(e.found.elements), number) for number, e in enumerate(examples)])
        self.page = joined([np.full(len(e.share), number) for number, e in enumerate(examples)])
        self.heavy = torch.as_tensor(heavy)

    def sums(self, values: torch.Tensor) -> torch.Tensor:
        """Of each page."""
        return values.new_zeros(self.pages).index_add(0, self.page, values)


def _told(one: Example) -> Array:
    if one.taught is None:
        raise ValueError(f"no teacher has seen a page of {one.host}")
    return one.taught


class Net:
    """Layers as model.py has them. known: 1 for class words that are learned. nothing: an input whose feature is 0."""

    def __init__(self, known: Array, nothing: Array, settings: Settings) -> None:
        import torch
        from torch import nn

        first, pooled, second, again, third = settings.units
        features = len(nothing)
        self.settings = settings
        self.training = True
        self.words = nn.Parameter(torch.zeros(SLOTS, settings.words))
        self.known = torch.as_tensor(known[:, None].astype(np.float32))
        self.nothing = torch.as_tensor(nothing)
        self.parts = torch.zeros(features, dtype=torch.bool)
        self.parts[PARTS] = True
        self.layers = (
            nn.Linear(features + settings.words * (LEVELS + 1), first),
            nn.Linear(first, pooled),
            nn.Linear(first + pooled * SPANS, second),
            nn.Linear(second, again),
            nn.Linear(second + again * SPANS, third),
            nn.Linear(third, 1),
        )
        self.rest = [p for layer in self.layers for p in layer.parameters()]
        self.parameters = [self.words, *self.rest]

    def __call__(self, batch: Batch) -> torch.Tensor:
        """A logit for each block."""
        import torch
        from torch.nn import functional

        chosen, drop, layers = self.settings, self.settings.dropout, self.layers
        x, slots, owner = batch.x, batch.slots, batch.owner
        if self.training:
            x, stays = self._changed(batch)
            slots, owner = slots[stays], owner[stays]
        own = torch.zeros(batch.elements + 1, chosen.words)
        own = own.index_add(0, owner, (self.words * self.known)[slots]).clamp(-NEAR, NEAR)
        everything = torch.zeros(len(x), chosen.words).index_add(0, batch.block, own[batch.around]).clamp(-FAR, FAR)
        x = torch.cat((x, own[batch.parents].flatten(1), everything), 1)
        hidden = self._shut(layers[0](functional.dropout(x, drop / 2, self.training)), drop)
        context = _pooled(functional.relu(layers[1](hidden)), batch.ranges)
        second = self._shut(layers[2](torch.cat((hidden, context), 1)), drop / 2)
        context = _pooled(functional.relu(layers[3](second)), batch.ranges)
        logit: torch.Tensor = layers[5](functional.relu(layers[4](torch.cat((second, context), 1))))[:, 0]
        return logit

    def _changed(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs as pages of other sites might have them, and a flag for each class word that is left in."""
        import torch

        chosen, x = self.settings, batch.x
        stays = (torch.rand(SLOTS) > chosen.forget)[batch.slots]
        if chosen.blank:
            stays &= (torch.rand(batch.pages) >= chosen.blank)[batch.tree_page[batch.owner]]
        if chosen.mask:
            masked = (torch.rand(batch.pages) < chosen.mask)[batch.page]
            x = torch.where(masked[:, None] & self.parts, self.nothing, x)
        whole = torch.zeros(x.shape[1])
        whole[-PAGE:] = chosen.page_noise
        x = x + chosen.noise * torch.randn_like(x) * (whole == 0)
        return x + (torch.randn(batch.pages, x.shape[1]) * whole)[batch.page], stays

    def _shut(self, x: torch.Tensor, share: float) -> torch.Tensor:
        from torch.nn import functional

        return functional.dropout(functional.relu(x), share, self.training)


def _pooled(x: torch.Tensor, ranges: torch.Tensor) -> torch.Tensor:
    import torch

    sums = torch.cat((torch.zeros(1, x.shape[1], dtype=torch.float64), x.double().cumsum(0)))
    low, high = ranges[..., 0], ranges[..., 1]
    means = (sums[high] - sums[low]) / (high - low).clamp(min=1)[..., None]
    return means.float().transpose(0, 1).flatten(1)


@contextmanager
def _repeatable(seed: int) -> Iterator[None]:
    """One thread, and no operation whose result hangs on anything but its input."""
    import torch

    threads, strict = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(strict)


def train(examples: Sequence[Example], settings: Settings) -> tuple[Net, Array, Array]:
    """A net, and the middle and factor of its inputs. The same examples in the same order give the same net."""
    everything = np.concatenate([e.found.own for e in examples])
    middle, factor = everything.mean(0), (1 / (everything.std(0) + 1e-2)).astype(np.float32)
    with _repeatable(settings.seed):
        return _trained(examples, settings, middle, factor), middle, factor


def _trained(examples: Sequence[Example], settings: Settings, middle: Array, factor: Array) -> Net:
    import torch
    from torch import nn

    order = np.random.default_rng(settings.seed)
    seen = {(e.host, slot) for e in examples for slot in np.unique(e.found.elements.slots).tolist()}
    known = np.bincount([slot for _, slot in seen], minlength=SLOTS) >= settings.hosts
    net = Net(known, np.clip(-middle * factor, -4, 4).astype(np.float32), settings)
    heavy = np.array([settings.by_hand if e.by_hand else 1.0 for e in examples])
    heavy = (heavy / heavy.mean()).astype(np.float32)
    groups = [
        {"params": [net.words], "weight_decay": 0.0, "lr": settings.fast * settings.rate},
        {"params": net.rest, "weight_decay": settings.decay, "lr": settings.rate},
    ]
    optimizer = torch.optim.AdamW(groups, betas=(0.95, 0.999))
    schedule = _schedule(optimizer, settings, settings.epochs * -(-len(examples) // settings.pages))
    means = [p.detach().clone() for p in net.parameters]
    step = 0
    for _ in range(settings.epochs):
        rows = order.permutation(len(examples))
        for first in range(0, len(rows), settings.pages):
            some = rows[first : first + settings.pages]
            batch = Batch([examples[row] for row in some], middle, factor, heavy[some], settings.soft)
            optimizer.zero_grad()
            _loss(net, batch, settings).backward()
            nn.utils.clip_grad_norm_(net.parameters, 1.0)
            optimizer.step()
            schedule.step()
            step += 1
            with torch.no_grad():
                for mean, now in zip(means, net.parameters, strict=True):
                    mean.lerp_(now, 1 - min(settings.average, step / (step + 9)))
    with torch.no_grad():
        for mean, now in zip(means, net.parameters, strict=True):
            now.copy_(mean)
    net.training = False
    return net


def _schedule(optimizer: Any, settings: Settings, steps: int) -> Any:
    """How the rate goes up and down over the steps."""
    from torch.optim.lr_scheduler import LambdaLR, OneCycleLR

    if not settings.flat:
        return OneCycleLR(optimizer, [settings.fast * settings.rate, settings.rate], total_steps=steps, pct_start=0.15)

    def part(step: int) -> float:
        fallen = 0.5 * (1 + math.cos(math.pi * min(1.0, step / (0.6 * steps))))
        return min(1.0, (step + 1) / (0.1 * steps)) * (settings.flat + (1 - settings.flat) * fallen)

    return LambdaLR(optimizer, part)


def _loss(net: Net, batch: Batch, settings: Settings) -> torch.Tensor:
    """Cross entropy, each page's blocks by words to the power 0.7; and 1 - F1 of each page."""
    from torch.nn import functional

    logit = net(batch)
    weight = batch.size.pow(0.7)
    weight = weight / batch.sums(weight).clamp(min=1)[batch.page] * batch.heavy[batch.page]
    entropy = (functional.binary_cross_entropy_with_logits(logit, batch.share, reduction="none") * weight).sum()
    share = logit.sigmoid() * batch.size
    truth = batch.share * batch.size
    f1 = 2 * batch.sums(share * batch.share) / (batch.sums(share) + batch.sums(truth)).clamp(min=1)
    large = net.words[batch.slots].pow(2).sum()
    loss: torch.Tensor = (entropy + 2e-4 * large) / batch.pages + settings.f1 * ((1 - f1) * batch.heavy).mean()
    return loss


def whole_numbers(net: Net, middle: Array, factor: Array) -> dict[str, Array]:
    """The net as model.py reads it."""
    words = (net.words * net.known).detach().numpy()
    stored: dict[str, Array] = {
        "middle": middle.astype(np.float32),
        "factor": factor.astype(np.float32),
        "words": np.clip(np.rint(words * ONE), -127, 127).astype(np.int8),
        "share": np.rint(65536 / (1 + np.exp(-np.arange(-REACH, REACH + 1) / STEP))).astype(np.int64),
    }
    for number, layer in enumerate(net.layers):
        weight = layer.weight.detach().numpy().astype(np.float64).T
        scale = np.minimum(2.0 ** np.floor(np.log2(_MOST / np.maximum(np.abs(weight).sum(0), 1e-3))), 2.0**14)
        stored[f"weight{number}"] = np.rint(weight * scale).astype(np.int32)
        stored[f"scale{number}"] = (1 / scale).astype(np.float32)
        stored[f"bias{number}"] = (layer.bias.detach().numpy() * ONE).astype(np.float32)
    return stored


assert TOP * _MOST < 1 << 24  # so float32 holds every sum exactly
