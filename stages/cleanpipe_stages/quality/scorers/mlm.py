"""Pseudo-perplexity by a masked language model (RoBERTa and its kin), sentence by sentence.

Each token of a sentence is masked in turn and asked of the model, which sees the rest of the sentence on both sides:

    perplexity = exp(-sum(log p(token | its sentence without it)) / tokens)

over the tokens of the text's beginning, of each paragraph for ``paragraphs``. A token masked is a forward pass over its
sentence, so a text of n tokens in sentences of m costs n x m. ``mlm_passes = k`` approximates: copy j of a sentence has
its tokens j, j + k, j + 2k … masked at once, so it costs n x k; each token is asked with its near neighbours in sight,
and with less of the rest. Figures of different ``mlm_passes`` cannot be compared.

``scorers/sentences.py`` says what a sentence is; one longer than the model takes is cut into pieces of that length. A
batch holds copies of one text's sentences alone: what a text gets does not depend on its neighbours, to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from cleanpipe_stages.quality.scorers import NOT_MEASURED, Scored, Scorer, ScorerOptions
from cleanpipe_stages.quality.scorers.neural import (
    LOGITS,
    LONGEST,
    Ids,
    Language,
    folder_files,
    load,
    perplexity,
    scorer,
)
from cleanpipe_stages.quality.scorers.roberta import Roberta
from cleanpipe_stages.quality.scorers.sentences import paragraphs, sentences

SHIPPED = Path(__file__).parent.parent / "models" / "roberta-en"
SHIPPED_LANGUAGE = "en"
TABLE = "percentiles.json"
PADDING = 128  # tokens: less of it costs less than another forward pass


def files(options: ScorerOptions) -> Mapping[str, Path]:
    """The files of the folder in use."""
    return folder_files(Path(options.model) if options.model else SHIPPED)


def percentiles(options: ScorerOptions) -> Mapping[str, Path]:
    """The shipped model's table; none for another."""
    return {} if options.model else {SHIPPED_LANGUAGE: SHIPPED / TABLE}


def open_scorer(options: ScorerOptions) -> Scorer:
    """A scorer by the masked model in the folder ``options.model``, or the shipped one.

    Raises:
        ConfigError: see ``neural.load``.
    """
    folder = Path(options.model) if options.model else SHIPPED
    passes, batch_tokens = options.mlm_passes, options.batch_tokens
    model: Language | Roberta
    if folder == SHIPPED and options.device != "cuda" and options.dtype == "float32":
        model = Roberta(folder)
    else:
        model = load(folder, "mlm", device=options.device, dtype=options.dtype)
    limit = min(model.length or LONGEST, LONGEST) - len(model.before) - len(model.after)

    def _text(text: str) -> Scored:
        parts = [sentences(p) for p in paragraphs(text)]
        coded = iter(model.encode([s for part in parts for s in part]))
        pieces: list[Ids] = []
        owner: list[int] = []  # the paragraph of each piece
        for i, part in enumerate(parts):
            for _ in part:
                ids = next(coded)
                pieces.extend(ids[at : at + limit] for at in range(0, len(ids), limit))
                owner.extend([i] * (len(pieces) - len(owner)))
        if not pieces:
            return NOT_MEASURED
        losses = piece_losses(model, pieces, passes, batch_tokens)
        by: dict[int, list[np.ndarray]] = {}
        for i, found in zip(owner, losses, strict=True):
            by.setdefault(i, []).append(found)
        return Scored(perplexity(np.concatenate(losses)), [perplexity(np.concatenate(x)) for x in by.values()])

    return scorer(_text, options.language, options.chars)


def piece_losses(model: Language | Roberta, pieces: Sequence[Ids], passes: int, batch_tokens: int) -> list[np.ndarray]:
    """The loss of each token of each piece, nats. Pieces of like length share a batch, and little is padding."""
    losses = [np.zeros(len(piece)) for piece in pieces]
    for batch in _batches(model, pieces, passes, batch_tokens):
        rows: list[Ids] = []
        places: list[np.ndarray] = []
        truth: list[np.ndarray] = []
        for i, first in batch:
            asked = np.arange(first, len(pieces[i]), passes or len(pieces[i]))
            row = np.array([*model.before, *pieces[i], *model.after], np.int64)
            truth.append(np.array(pieces[i], np.int64)[asked])
            row[asked + len(model.before)] = model.mask
            rows.append(row.tolist())
            places.append(asked)
        at = np.repeat(np.arange(len(rows)), [len(x) for x in places])
        found = model.losses(rows, at, np.concatenate(places) + len(model.before), np.concatenate(truth))
        ends = np.cumsum([len(x) for x in places])[:-1]
        for (i, _), asked, told in zip(batch, places, np.split(found, ends), strict=True):
            losses[i][asked] = told
    return losses


def _batches(
    model: Language | Roberta, pieces: Sequence[Ids], passes: int, batch_tokens: int
) -> Iterator[list[tuple[int, int]]]:
    """Groups of (piece, its first masked token), each a forward pass; short pieces first."""
    batch: list[tuple[int, int]] = []
    marks, read, words = len(model.before) + len(model.after), 0, 0
    for i in sorted(range(len(pieces)), key=lambda i: len(pieces[i])):
        size = len(pieces[i])
        for first in range(min(passes, size) if passes else size):
            asked = len(range(first, size, passes or size))
            all_of_it = (len(batch) + 1) * (size + marks)
            full = all_of_it > batch_tokens or (words + asked) * model.vocabulary > LOGITS
            if batch and (full or all_of_it - read - size - marks > max(PADDING, 0.1 * all_of_it)):
                yield batch
                batch, read, words = [], 0, 0
            batch.append((i, first))
            read += size + marks
            words += asked
    if batch:
        yield batch
