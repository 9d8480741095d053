"""A recipe's stages in order, proven before a job starts: every column that is read was written upstream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe.builtin import Decode, Normalise
from cleanpipe.errors import ConfigError
from cleanpipe.exchange import Exchange
from cleanpipe.stage import Stage, TextRule


@dataclass(frozen=True, slots=True)
class Pass:
    """The stages between two exchanges; ``exchange`` is what must have met before the first of them."""

    stages: tuple[Stage, ...]
    exchange: Exchange | None = None
    columns: Mapping[str, pa.DataType] = field(default_factory=dict)  # of the rows that leave it


@dataclass(frozen=True)
class Pipeline:
    """Stages in order, as the recipe lists them; ``validate`` puts the core's own two in their places."""

    stages: tuple[Stage, ...]
    rule: TextRule | None = None  # that of a stage which is switched off: the repair itself is never off

    def validate(self) -> tuple[Pass, ...]:
        """The passes, every column a stage reads being written before it.

        Raises:
            ConfigError: a column is read that nothing upstream writes, a name stands twice, options cannot work.
        """
        names = [s.name for s in self.stages]
        if twice := [n for n in names if names.count(n) > 1]:
            raise ConfigError(f"stage {twice[0]!r} stands twice in the list: a stage runs once")
        have: dict[str, pa.DataType] = dict(col.READ_COLUMNS)
        passes: list[Pass] = []
        group: list[Stage] = []
        exchange: Exchange | None = None
        cut_by = ""
        order = self.complete()
        for place, stage in enumerate(order):
            met = stage.exchange()
            if cut_by and (met is not None or stage.reasons):
                raise ConfigError(f"stage {stage.name!r} judges documents; {cut_by!r} cuts them before it: move it up")
            if met is not None:
                self._require(place, met.reads - stage.reads_optional, have)
                passes.append(Pass(tuple(group), exchange, dict(have)))
                group, exchange = [], met
                have |= met.writes
            self._require(place, stage.reads, have)
            self._require(place, self._awaited(place), have)
            have |= {**stage.writes, **stage.scores}
            have = {n: t for n, t in have.items() if n not in consumed_by(stage)}
            group.append(stage)
            cut_by = stage.name if col.WINDOW in stage.writes else cut_by
        passes.append(Pass(tuple(group), exchange, have))
        return tuple(passes)

    def _awaited(self, place: int) -> frozenset[str]:
        """Columns that a stage can do without, but that a stage after it writes: surely not what was meant."""
        later = {n for s in self.complete()[place + 1 :] for n in {*s.writes, *s.scores}}
        return self.complete()[place].reads_optional & later

    def complete(self) -> tuple[Stage, ...]:
        """The stages with ``decode`` and ``normalise`` before the first that needs them."""
        rules = [r for s in self.stages if (r := s.text_rule()) is not None]
        rules += [self.rule] if self.rule is not None else []
        normalise = Normalise(rule=rules[0]) if rules else Normalise()
        out: list[Stage] = []
        for stage in self.stages:
            reads = stage.reads | stage.reads_optional
            if col.MARKUP in reads and not any(isinstance(s, Decode) for s in out):
                out.append(Decode())
            if reads & set(col.TEXT_COLUMNS) or stage.exchange() is not None:
                self._normalise(out, normalise)
            out.append(stage)
        self._normalise(out, normalise)
        return tuple(out)

    @staticmethod
    def _normalise(out: list[Stage], normalise: Normalise) -> None:
        if not any(isinstance(s, Normalise) for s in out):
            if not any(isinstance(s, Decode) for s in out):
                out.append(Decode())
            out.append(normalise)

    def _require(self, place: int, reads: frozenset[str], have: Mapping[str, pa.DataType]) -> None:
        missing = sorted(reads - set(have))
        if not missing:
            return
        order, column = self.complete(), missing[0]
        stage = order[place]
        writers = [i for i, s in enumerate(order) if column in {*s.writes, *s.scores}]
        if not writers:
            raise ConfigError(f"stage {stage.name!r} reads {column!r}, which no stage of this recipe writes")
        writer = order[writers[0]]
        if writers[0] > place:
            how = f"{writer.name!r} writes it and stands after it: move {stage.name!r} down, or {writer.name!r} up"
        else:  # a wide column that ends where text begins
            at = next(i for i, s in enumerate(order) if isinstance(s, Normalise))
            text = order[at + 1]  # normalise stands right before the first stage that needs the text
            how = f"which ends where {text.name!r} needs the text: move {stage.name!r} above {text.name!r}"
        raise ConfigError(f"stage {stage.name!r} reads {column!r}; {how}")

    def ledger_only(self) -> frozenset[str]:
        """Score columns that shards do not carry."""
        return frozenset(name for stage in self.complete() for name in stage.ledger_only)

    def scores(self) -> dict[str, pa.DataType]:
        """Every score column of the ledger, in pipeline order."""
        return {name: kind for stage in self.complete() for name, kind in stage.scores.items()}


def consumed_by(stage: Stage) -> frozenset[str]:
    """Columns that end with this stage (the core's own two free the wide ones)."""
    consumes: frozenset[str] = getattr(stage, "consumes", frozenset())
    return consumes
