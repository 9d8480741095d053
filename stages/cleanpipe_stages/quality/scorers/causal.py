"""Perplexity by a causal language model, over strided windows.

    perplexity = exp(-sum(log p(token | the tokens before it in its window)) / tokens scored)

A text that fits is one window. A longer one is read in windows of ``context`` tokens that start ``stride`` tokens after
each other; each scores the tokens that no window before it has scored, so that every token but the first ones has at
least ``context - stride`` others before it. Each window starts with the control tokens that the tokenizer puts before a
text, or with its BOS token where it puts none but has one (GPT-2). Without either a window's first token has nothing
before it: where no other window scores it, it is not scored, and a text of one token is not measured.

The tokens are those of the whole beginning of the text, line ends among them; a token belongs to the paragraph in
whose line it starts, one of a blank line to the paragraph before. A batch holds windows of one text alone: what a text
gets does not depend on its neighbours, to the last bit.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cleanpipe.errors import ConfigError
from cleanpipe_stages.quality.scorers import NOT_MEASURED, Scored, Scorer, ScorerOptions
from cleanpipe_stages.quality.scorers.neural import LOGITS, Ids, Language, folder_files, load, perplexity, scorer

CONTEXT = 1024  # where no context is given, and the model takes as much


@dataclass(frozen=True, slots=True)
class Window:
    """Tokens ``start`` to ``end`` are read, those from ``scored`` on are scored."""

    start: int
    scored: int
    end: int


def files(options: ScorerOptions) -> Mapping[str, Path]:
    """The files of the folder in use."""
    return folder_files(_folder(options))


def percentiles(_options: ScorerOptions) -> Mapping[str, Path]:
    """None: no causal model is shipped."""
    return {}


def open_scorer(options: ScorerOptions) -> Scorer:
    """A scorer by the causal model in the folder ``options.model``.

    Raises:
        ConfigError: see ``neural.load``; no folder is named; the model sees what comes after a token (it is a masked
            one); the context is longer than the model takes, or the stride than a window.
    """
    folder = _folder(options)
    model = load(folder, "causal", device=options.device, dtype=options.dtype)
    if looks_ahead(model):
        raise ConfigError(f"{folder}: this model sees the tokens that follow, so it is no causal one: set 'mlm'")
    bos = tuple(model.before)
    own = model.tokenizer.bos_token_id
    if not bos and own is not None and own < model.vocabulary:
        bos = (int(own),)
    length = options.context or min(model.length or CONTEXT, CONTEXT)
    if model.length and length > model.length:
        raise ConfigError(f"context = {length}, but {folder} takes {model.length} tokens at once")
    holds = length - len(bos)
    step = options.stride or max(1, holds // 2)
    if not 1 <= step <= holds:
        raise ConfigError(f"stride = {step} leaves tokens out: a window holds {holds}")

    def _text(text: str) -> Scored:
        if not text or text.isspace():
            return NOT_MEASURED
        ids, owner = _tokens(model, text.encode("utf-8", "replace").decode("utf-8"))
        losses = token_losses(model, ids, bos, holds, step, options.batch_tokens)
        scored = ~np.isnan(losses)
        if not scored.any():
            return NOT_MEASURED
        owner, losses = owner[scored], losses[scored]
        return Scored(perplexity(losses), [perplexity(losses[owner == i]) for i in np.unique(owner)])

    return scorer(_text, options.language, options.chars)


def windows(tokens: int, holds: int, stride: int) -> Iterator[Window]:
    """The windows over a text of so many tokens; every token is scored in exactly one."""
    start, scored = 0, 0
    while scored < tokens:
        end = min(start + holds, tokens)
        yield Window(start, scored, end)
        start, scored = start + stride, end


def token_losses(
    model: Language, ids: Ids, bos: tuple[int, ...], holds: int, stride: int, batch_tokens: int
) -> npt.NDArray[np.float64]:
    """The loss of each token, nats; NaN for one that has nothing before it."""
    losses = np.full(len(ids), np.nan)
    batch: list[Window] = []
    words = 0
    for window in windows(len(ids), holds, stride):
        asked = window.end - window.scored
        full = (len(batch) + 1) * (holds + len(bos)) > batch_tokens or (words + asked) * model.vocabulary > LOGITS
        if batch and full:
            _fill(model, ids, bos, batch, losses)
            batch, words = [], 0
        batch.append(window)
        words += asked
    if batch:
        _fill(model, ids, bos, batch, losses)
    return losses


def _fill(
    model: Language, ids: Ids, bos: tuple[int, ...], batch: Sequence[Window], losses: npt.NDArray[np.float64]
) -> None:
    rows = [[*bos, *ids[w.start : w.end]] for w in batch]
    asked = [np.arange(w.scored if bos else max(w.scored, w.start + 1), w.end) for w in batch]
    tokens = np.concatenate(asked)
    if len(tokens):
        row = np.repeat(np.arange(len(batch)), [len(x) for x in asked])
        before = np.concatenate([x - w.start for x, w in zip(asked, batch, strict=True)]) + len(bos) - 1
        losses[tokens] = model.losses(rows, row, before, np.array(ids, np.int64)[tokens])


def looks_ahead(model: Language) -> bool:
    """Does another last token change what the model says of the tokens before it?"""
    first, last = 1 % model.vocabulary, [3 % model.vocabulary, 5 % model.vocabulary]
    place = (np.zeros(1, np.int64), np.zeros(1, np.int64), np.array([first], np.int64))
    one, other = (model.losses([[first, first, x]], *place)[0] for x in last)
    return bool(abs(one - other) > 1e-3 * max(1.0, abs(one)))


def _tokens(model: Language, text: str) -> tuple[Ids, npt.NDArray[np.int64]]:
    """The text's tokens, and the paragraph of each."""
    lines = text.split("\n")
    number = np.maximum(np.cumsum([not (line == "" or line.isspace()) for line in lines]) - 1, 0)
    ends = np.cumsum([len(line) + 1 for line in lines])  # of each line, with its line end
    tokenizer: Any = model.tokenizer
    if not tokenizer.is_fast:  # it tells no places: how many tokens has the text up to each line's end?
        ids = model.encode([text])[0]
        upto = [len(x) for x in model.encode([text[:end] for end in ends])]
        line = np.minimum(np.searchsorted(np.array(upto), np.arange(len(ids)), side="right"), len(lines) - 1)
        return ids, number[line]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = tokenizer(
            text, add_special_tokens=False, split_special_tokens=True, return_offsets_mapping=True, verbose=False
        )
    starts = np.array([start for start, _ in found["offset_mapping"]], np.int64)
    return list(found["input_ids"]), number[np.searchsorted(ends, starts, side="right")]


def _folder(options: ScorerOptions) -> Path:
    if not options.model:
        raise ConfigError("perplexity = 'causal' needs `model`: the path of a Hugging Face folder; none is shipped")
    return Path(options.model)
