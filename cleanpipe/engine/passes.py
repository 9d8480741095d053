"""One pass over every unit: what is done already is taken from the journal, the rest goes to the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple
from typing import Any

from cleanpipe.builtin import READ
from cleanpipe.engine.base import Result, Task
from cleanpipe.engine.chain import Link, corrections, lost_range
from cleanpipe.engine.commit import take_over, unit_key
from cleanpipe.engine.going import Going
from cleanpipe.engine.journal import Journal
from cleanpipe.engine.work import failed_unit
from cleanpipe.errors import RetryableError, ShardError, StopError
from cleanpipe.io.record import Span
from cleanpipe.tally import Tally, add

IN_A_ROW = 8  # units that storage refused, none between that it gave: then it is not theirs, but all storage is lost


class Pass:
    """One pass and, once it has run, its results by unit number."""

    def __init__(self, going: Going, index: int) -> None:
        self.going, self.index = going, index
        self.journal = Journal(going.store, f"pass{index}")
        self.keys: list[str] = []
        self._failed: dict[int, Result] = {}  # results that are not committed, so that the next start tries again
        self._reuse = Journal(going.reuse, f"pass{index}") if going.reuse is not None else None
        self._base = self._bases()

    def __getitem__(self, unit: int) -> dict[str, Any]:
        """What the pass made of a unit."""
        return self._failed[unit] if unit in self._failed else self.journal[self.keys[unit]]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[unit] for unit in range(len(self.keys)))

    def tally(self) -> Tally:
        """The sum over all units."""
        total = self.journal.tally(k for unit, k in enumerate(self.keys) if unit not in self._failed)
        for result in self._failed.values():
            add(total, result["tally"])
        return total

    def _bases(self) -> dict[str, str]:
        """Code version → what decides the results of this pass beside the unit itself."""
        identity, have, index = self.going.identity, self.going.have, self.index
        settings = identity["settings"]
        stages = {s.name for p in have.passes[: index + 1] for s in p.stages}
        rules = {s.ref.name for s in self.going.context.recipe.settings if s.build().text_rule() is not None}
        chosen = [s for s in settings["stages"] if (s[0] in stages and s[1]) or s[0] in rules]
        models = {n: d for n, d in identity["models"].items() if index > 0 or n.split(".")[0] in stages}
        codes = {identity["code"], identity.get("kept_code", identity["code"])}
        return {code: unit_key(f"pass{index}", settings["read"], chosen, models, code) for code in codes}

    def _key(self, unit: int, span: Span | None, before: str) -> str:
        source = self.going.plan[unit].source
        base = self._base[self.going.code_of(unit) if self.index == 0 else self.going.identity["code"]]
        place = [source.source, source.size, source.stamp, astuple(span) if span else None]
        return unit_key(base, place, sorted(self.going.limits.get(source.source, {})), before)

    # the first pass

    def read(self) -> None:
        """The first pass: every unit read, then the chains of spans set right."""
        going = self.going
        units = range(len(going.plan))
        spans: dict[int, Span] = {}  # of units that had to be told where to begin
        self.keys = [self._key(unit, going.plan[unit].span, "") for unit in units]
        left = self._left(units)
        going.resumed = len(units) - len(left) - going.reused
        if going.reuse is not None and not going.reused and left:
            going.observer.warn(f"nothing of {going.reuse.root} matches: another recipe, model, code or input")
        going.observer.started(len(left), sum(going.plan[u].size for u in left), going.resumed, going.reused)

        def read(unit: int) -> dict[str, Any]:
            planned = going.plan[unit]
            span = spans.get(unit, planned.span)
            return {"source": asdict(planned.source), "span": astuple(span) if span else None}

        lost = self._run("read", going.plan.by_size(left), read)
        while again := self._corrections(spans, lost):
            spans.update(again)
            for unit, span in again.items():
                self.keys[unit] = self._key(unit, span, "")
            lost |= self._run("read", self._left(list(again)), read)
        self._set_aside(lost, spans)

    def _chain(self, index: int, spans: Mapping[int, Span], lost: Mapping[int, ShardError]) -> list[Link]:
        plan = self.going.plan
        links = []
        for unit in plan.of_input(index):
            span = spans.get(unit) or plan[unit].span
            assert span is not None
            links.append(Link(unit, span, None if unit in lost else self[unit]["facts"]))
        return links

    def _corrections(self, spans: Mapping[int, Span], lost: Mapping[int, ShardError]) -> dict[int, Span]:
        out: dict[int, Span] = {}
        for index in range(len(self.going.plan.inputs)):
            if len(self.going.plan.of_input(index)) > 1:
                out |= corrections(self._chain(index, spans, lost))
        return {unit: span for unit, span in out.items() if spans.get(unit) != span}

    def _set_aside(self, lost: Mapping[int, ShardError], spans: Mapping[int, Span]) -> None:
        going = self.going
        for unit, error in sorted(lost.items()):
            planned = going.plan[unit]
            if unit in going.identity.get("again", ()):  # it was read once: a damaged range would be worse than before
                raise StopError(
                    f"could not be read again ({error.message}); try the same line later", source=planned.label
                )
            first, stop = 0, max(planned.source.size, 0)
            if planned.span is not None:
                index = going.plan.input_of(unit)
                chain = self._chain(index, spans, lost)
                first, stop = lost_range(chain, unit - going.plan.of_input(index).start, planned.source.size)
            going.failed[planned.label] = error.message
            going.observer.warn(f"{planned.label}: {error.message}: set aside, the run goes on")
            self.keys[unit] = unit_key("failed", self.keys[unit], error.message)  # what follows has other keys too
            self._failed[unit] = failed_unit(going.context, planned, self.keys[unit], error.message, first, stop)

    # later passes

    def after(self, before: Pass, answers: Sequence[Mapping[str, Any]]) -> None:
        """A later pass, over the rows of the one before, with the answers of the meeting between them."""
        self.keys = [self._key(u, None, before.keys[u] + a["sha256"]) for u, a in enumerate(answers)]

        def args(unit: int) -> dict[str, Any]:
            return {"rows": before[unit]["files"]["rows"], "answers": answers[unit]}

        left = self._left(range(len(self.keys)))
        for unit, error in self._run("window", self.going.plan.by_size(left), args).items():
            label = self.going.plan[unit].label
            raise StopError(f"the unit failed after it was read ({error}); start the same line again", source=label)

    # both

    def _left(self, units: Sequence[int]) -> list[int]:
        """Units that no journal has; those of the run to take over from are taken."""
        left = []
        for unit in units:
            key = self.keys[unit]
            if key in self.journal:
                continue
            if self._reuse is not None and key in self._reuse and self._taken(key):
                self.going.reused += self.index == 0
                continue
            left.append(unit)
        return left

    def _taken(self, key: str) -> bool:
        assert self._reuse is not None
        assert self.going.reuse is not None
        manifest = {**self._reuse[key], "tally": self._reuse.tally([key])}
        if not take_over(self.going.store, self.going.reuse, manifest):
            return False
        self.journal.add(key, self.journal.units.commit(key, manifest))
        return True

    def _run(self, phase: str, units: Sequence[int], args: Callable[[int], dict[str, Any]]) -> dict[int, ShardError]:
        """Run the pass over these units; those that failed, and why."""
        going, lost, row = self.going, dict[int, ShardError](), 0
        stages = {READ, *(s.name for p in going.have.passes for s in p.stages)}

        def tasks() -> Iterator[Task]:
            for unit in units:
                planned = going.plan[unit]
                known = going.limits.get(planned.source.source, {})
                # a stage that this recipe does not have: then the document leaves before the first of each pass
                condemned = {k: [e, m, s] if s in stages else [e, m] for k, (e, m, s) in known.items()}
                more = {"condemned": condemned} if condemned else {}
                whole = {**args(unit), **more, "pass": self.index, "unit": unit}
                yield Task("pass", self.keys[unit], planned.label, planned.size, whole)

        for task, result in going.run(phase, tasks(), len(units)):
            unit = int(task.args["unit"])
            if isinstance(result, ShardError):
                lost[unit] = result
                row = row + 1 if isinstance(result, RetryableError) else 0
                if row >= IN_A_ROW:
                    raise StopError(f"{row} units in a row could not be read, the last for: {result}")
                continue
            row = 0
            self.journal.add(task.key, result)
            if self.index == 0 and result["facts"].get("aside"):
                going.observer.warn(f"{task.label}: {result['facts']['aside']}")
        return lost
