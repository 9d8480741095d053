"""What a stage says of itself, proven before a run: the report asks at the end, where a fault would cost the run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from cleanpipe.errors import StageContractError
from cleanpipe.stage import Cut, Judge, Stage

_KEEPS = (">=", ">", "<=", "<")


def prove_hooks(stage: Stage) -> None:
    """``in_words``, ``meanings``, ``cuts`` and ``judge`` of an opened stage.

    Raises:
        StageContractError: one of them raises, or gives what it should not; stage and hook are named.
    """
    words = _called(stage, "in_words", stage.in_words)
    if not isinstance(words, str):
        raise _wrong(stage, "in_words", f"gave {type(words).__name__}, not text")
    said: Any = stage.meanings
    if not isinstance(said, Mapping) or not all(isinstance(t, str) for pair in said.items() for t in pair):
        raise _wrong(stage, "meanings", "is no mapping of names to text")
    cuts: Any = _called(stage, "cuts", lambda: tuple(stage.cuts()))
    judge: Any = _called(stage, "judge", stage.judge)
    if judge is not None and not (isinstance(judge, Judge) and callable(judge.judge)):
        raise _wrong(stage, "judge", f"gave {type(judge).__name__}, neither a Judge nor None")
    for cut in cuts:
        _prove_cut(stage, cut, {*stage.scores, *(judge.columns if judge is not None else ())})
    if judge is not None and (unknown := sorted(judge.options - {f.name for f in fields(stage)})):
        raise _wrong(stage, "judge", f"names the option {unknown[0]!r}, which the stage does not have")


def _prove_cut(stage: Stage, cut: Any, scores: set[str]) -> None:
    if not isinstance(cut, Cut):
        raise _wrong(stage, "cuts", f"gave {type(cut).__name__}, not a Cut")
    if cut.keeps not in _KEEPS or not isinstance(cut.at, (int, float)) or not math.isfinite(cut.at):
        raise _wrong(stage, "cuts", f"{cut.score} {cut.keeps} {cut.at}: one of {', '.join(_KEEPS)} and a finite number")
    for what, name, known in (
        ("score", cut.score, scores),
        ("reason", cut.reason, set(stage.reasons)),
        ("option", cut.option, {f.name for f in fields(stage)}),
    ):
        if name not in known:
            raise _wrong(stage, "cuts", f"names the {what} {name!r}, which the stage does not declare")


def _called(stage: Stage, hook: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:  # whatever a stage of the user's own does there
        raise _wrong(stage, hook, f"raised {type(error).__name__}: {error}") from error


def _wrong(stage: Stage, hook: str, what: str) -> StageContractError:
    return StageContractError(f"{hook}: {what}", stage=stage.name)
