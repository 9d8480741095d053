"""The stages of a recipe that judge text, asked about every document: each says what it would do, none removes one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from cleanpipe import batch as col
from cleanpipe.builtin import Normalise
from cleanpipe.exchange import Exchange
from cleanpipe.flow import STAGE_ERROR
from cleanpipe.recipe import Recipe, fingerprint
from cleanpipe.stage import Stage, Step, TextRule

EMPTY = "empty_text"
NORMALISE = Normalise.name
_HAVE = frozenset(
    {
        col.DOC_ID, col.SOURCE, col.RECORD_OFFSET, col.RECORD_ID, col.URL, col.DATE, col.BYTES_IN, *col.TEXT_COLUMNS,
    }
)  # fmt: skip


@dataclass(frozen=True)
class TextStages:
    """In the recipe's order. apart: before any exchange. meeting: the exchange, and the stages that read its answer."""

    rule: TextRule
    apart: tuple[Stage, ...]
    exchange: Exchange | None
    after: tuple[Stage, ...]
    carried: Mapping[str, pa.DataType] = field(default_factory=dict)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """All of them."""
        return (*self.apart, *self.after)

    @property
    def order(self) -> list[str]:
        """Names, after the core's own."""
        return [NORMALISE, *(s.name for s in self.stages)]

    @property
    def scores(self) -> dict[str, pa.DataType]:
        """Score columns that are told before the meeting."""
        return {n: t for s in self.apart for n, t in s.scores.items()}

    def language(self) -> Stage | None:
        """The stage that tells a language."""
        return next((s for s in self.apart if col.LANGUAGE in s.scores), None)

    def duplicates(self) -> Stage | None:
        """The stage that drops documents for which another one stands."""
        return next((s for s in self.after if col.KEPT_DOC_ID in s.scores), None)


def text_stages(recipe: Recipe) -> TextStages:
    """Of a recipe's stages those that need nothing but text; of one with several exchanges the first is asked."""
    pipeline = recipe.pipeline()
    rule = next(s.rule for s in pipeline.complete() if isinstance(s, Normalise))
    have: dict[str, pa.DataType | None] = dict.fromkeys(_HAVE)
    carried: dict[str, pa.DataType] = {}
    apart: list[Stage] = []
    after: list[Stage] = []
    exchange: Exchange | None = None
    for stage in pipeline.stages:
        met = stage.exchange()
        if col.WINDOW in stage.writes or (met is not None and exchange is not None):
            break  # from here on rows are windows, or wait for a second meeting
        if met is not None and (met.reads - stage.reads_optional) <= set(have):
            exchange = met
            have |= dict.fromkeys(met.writes)
        if not stage.reads <= set(have) or not (stage.scores or stage.reasons or stage.writes):
            continue
        (apart if exchange is None else after).append(stage)
        have |= dict.fromkeys((*stage.writes, *stage.scores))
        if exchange is None:
            carried |= dict(stage.writes)
    wanted = exchange.reads if exchange is not None else frozenset()
    return TextStages(rule, tuple(apart), exchange, tuple(after), {n: t for n, t in carried.items() if n in wanted})


def models_of(stages: TextStages) -> dict[str, str]:
    """Digest of every model file that decides a score."""
    from cleanpipe.io.hashing import sha256_of

    return {f"{s.name}.{n}": sha256_of(p) for s in stages.stages for n, p in s.models().items()}


class Opened:
    """The stages opened in a process."""

    def __init__(self, recipe: Recipe) -> None:
        self.stages = text_stages(recipe)
        self._steps: list[tuple[Stage, Step]] = [(s, s.open()) for s in self.stages.apart]

    def judge(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[str, pa.Array]]:
        """The batch with every score and written column, and each stage's drops (a reason or null)."""
        drops: dict[str, pa.Array] = {}
        for stage, step in self._steps:
            batch, drops[stage.name] = ask(stage, step, batch)
        return batch, drops


def ask(stage: Stage, step: Step, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.Array]:
    """One stage on one batch; where it raises, each document by itself."""
    try:
        outcome = step(_with_optional(stage, batch))
    except Exception:  # a bad document costs one document
        if batch.num_rows == 1:
            columns = {n: pa.nulls(1, t) for n, t in {**stage.writes, **stage.scores}.items()}
            return col.with_columns(batch, columns), pa.array([STAGE_ERROR], pa.string())
        pieces = [ask(stage, step, batch.slice(i, 1)) for i in range(batch.num_rows)]
        whole = pa.Table.from_batches([b for b, _ in pieces]).combine_chunks().to_batches()[0]
        return whole, pa.concat_arrays([d for _, d in pieces])
    written = {n: outcome.batch.column(n) for n in stage.writes}
    drops = outcome.drops if outcome.drops is not None else pa.nulls(batch.num_rows, pa.string())
    return col.with_columns(batch, {**written, **outcome.scores}), drops.cast(pa.string())


def _with_optional(stage: Stage, batch: pa.RecordBatch) -> pa.RecordBatch:
    absent = (stage.reads | stage.reads_optional) - set(batch.schema.names)
    return col.with_columns(batch, {n: pa.nulls(batch.num_rows, pa.string()) for n in absent}) if absent else batch


def first_drop(order: Sequence[str], drops: Mapping[str, pa.Array]) -> tuple[pa.Array, pa.Array]:
    """Stage and reason of the first stage that would drop each document; null for those that none would."""
    reason = pc.coalesce(*(drops[name] for name in order))
    stage = pc.coalesce(*(pc.if_else(pc.is_valid(drops[n]), pa.scalar(n), pa.scalar(None, pa.string())) for n in order))
    return stage, reason


@dataclass(frozen=True)
class _Same:
    """A recipe, equal to any that says the same."""

    digest: str
    recipe: Recipe = field(compare=False)


@lru_cache(maxsize=1)
def _opened(same: _Same) -> Opened:
    return Opened(same.recipe)


def opened(recipe: Recipe) -> Opened:
    """The recipe's text stages, opened once a process."""
    return _opened(_Same(fingerprint(recipe.canonical()), recipe))
