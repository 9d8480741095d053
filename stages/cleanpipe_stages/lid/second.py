"""A second opinion: a small model of 448 languages that says where the first one answers for a language it lacks.

lid.176 must call every text by one of its 176 names. The second model (models/second.v1.ftz, MODEL_CARD.md) was
trained on the Universal Declaration and on translations of free programs; it knows 300 languages more, and less of
each. Of a text that the first model is not sure of, the share of its probability outside the first's languages speaks
for "und"; between languages both know, the product of both decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cleanpipe_stages.lid.function_words import UNSURE
from cleanpipe_stages.lid.function_words import tell as tell_by_function_words
from cleanpipe_stages.lid.model import clean, labels_of, ranked
from cleanpipe_stages.lid.names import PREFIX, UNDETERMINED, code_of, parts
from cleanpipe_stages.lid.neighbours import NEAR, tell
from cleanpipe_stages.lid.scripts import impossible, letters_by_script, script_of, without

MODEL = "second.v1.ftz"
CHARS = 512  # that the second model reads: more costs twice as much
SURE = {"en": 0.65}  # a score from which the first model is not doubted: so much English passes, and little else
_SURE = 1.01  # other languages are always asked about: they are rare where they are not wanted, and 1 in 20 is wrong
# The five numbers below: on messages and articles that a second model of the other half was trained on, less trust in
# the first is better (F1 .883 to .915), on tales of Wesnoth, which neither has read, worse (.925 to .899): they stay.
_OUTSIDE, _SLOPE = 0.5, 0.4  # "und" where the share outside is at least 0.5 + 0.4 x the first model's score
_FLOOR = 0.05  # added to the first model's scores: it may be overruled, but not by a trifle
_HINT, _ALONE = 0.02, 0.65  # a label overrules only with this much of the first model, or this much of the second
_NEXT = 0.1  # least score of a label that stands in for one that the script rules out
_ONE_SCRIPT = (
    0.75  # of the letters: in a page of two scripts a label of the other script must be the first's best there
)
_OF_MANY_SCRIPTS = frozenset({"ja", "ko", "zh"})
_LABELS = 8  # of the first model that are looked at

Verdict = tuple[str, float, str, str]  # code, the first model's score of it, the first model's own code; script
Decide = Callable[[Sequence[str]], list[Verdict]]


def shipped() -> Path:
    """The model file of this package."""
    return Path(str(files("cleanpipe_stages.lid").joinpath("models", MODEL)))


@lru_cache(maxsize=4)
def decider(path: Path, *, check: bool, doubt: bool) -> Decide:
    """For each prepared line its language by the model at ``path``.

    Args:
        path: the first model.
        check: "und" where the letters of the text are of no script of the language.
        doubt: ask the second model. It is lid.176's; a model of more languages than it knows better itself.

    Raises:
        ConfigError: a model cannot be loaded.
    """
    first = ranked(path, _LABELS)
    second = ranked(shipped(), 12) if doubt else None
    inside = frozenset(map(code_of, labels_of(path)))
    named = lru_cache(maxsize=None)(parts)

    def decide(lines: Sequence[str]) -> list[Verdict]:
        out: list[Verdict] = []
        doubtful: list[tuple[int, list[tuple[float, str]], npt.NDArray[np.int64]]] = []
        for line, found in zip(lines, first(lines), strict=True):
            if not found:
                out.append((UNDETERMINED, 0.0, UNDETERMINED, ""))
                continue
            own, script = named(found[0][1])
            score, label = clean(found[0][0]), own
            if score >= SURE.get(label, _SURE) and line.isascii():  # most documents of most runs
                out.append((label, score, own, script or "Latn"))
                continue
            letters = letters_by_script(line)
            script = script or script_of(letters)
            if check and impossible(found[0][1].removeprefix(PREFIX), letters):
                found = [f for f in found if f[0] >= _NEXT and not impossible(f[1].removeprefix(PREFIX), letters)]
                if not found:
                    out.append((UNDETERMINED, score, own, script))
                    continue
                score, label = clean(found[0][0]), named(found[0][1])[0]
            if second is not None and score < SURE.get(label, _SURE):
                doubtful.append((len(out), found, letters))
            out.append((label, score, own, script))
        if second is not None and doubtful:
            others = second([lines[at][:CHARS] for at, _, _ in doubtful])
            for (at, found, letters), said in zip(doubtful, others, strict=True):
                label, score, own, script = out[at]
                seen: dict[str, float] = {}
                for p, name in found:
                    seen[named(name)[0]] = seen.get(named(name)[0], 0.0) + p
                fits = [f for f in said if not (check and impossible(code_of(f[1]), letters))]
                if label not in _OF_MANY_SCRIPTS and int(letters.max()) < _ONE_SCRIPT * int(letters.sum()):
                    most = _best_elsewhere(label, letters, seen)
                    fits = [f for f in fits if (c := code_of(f[1])) not in inside or seen.get(c, 0.0) >= most]
                label, score = _weigh(label, score, seen, fits, inside)
                if label in NEAR and script == "Latn":
                    both = {code: seen.get(code, 0.0) * p for p, code in ((p, code_of(name)) for p, name in said)}
                    label = tell(lines[at], label, both)
                elif script == "Latn" and out[at][1] < UNSURE and (told := tell_by_function_words(lines[at])):
                    label, score = told, clean(seen.get(told, 0.0))
                out[at] = (label, score, own, script)
        return out

    return decide


def _best_elsewhere(label: str, letters: npt.NDArray[np.int64], seen: dict[str, float]) -> float:
    """The best score of the first model for a language that is not written in the scripts of ``label``, and that the
    rest of the letters makes possible.
    """
    rest = without(label, letters)
    return max(
        (p for code, p in seen.items() if impossible(code, letters - rest) and not impossible(code, rest)), default=0.0
    )


def _weigh(
    label: str, score: float, seen: dict[str, float], found: list[tuple[float, str]], inside: frozenset[str]
) -> tuple[str, float]:
    """Label and score of a text that the first model calls ``label``, with the second model's scores at hand."""
    known: dict[str, float] = {}
    outside = 0.0
    for p, name in found:
        code = code_of(name)
        if code in inside:
            known[code] = known.get(code, 0.0) + p
        else:
            outside += p
    if outside >= _OUTSIDE + _SLOPE * score:
        return UNDETERMINED, score
    if label in NEAR and label != "sr":  # too alike for the second alone: see neighbours
        return label, score
    best, most = label, known.get(label, 0.0) * (seen.get(label, 0.0) + _FLOOR)
    for code, p in known.items():
        if (seen.get(code, 0.0) >= _HINT or p >= _ALONE) and p * (seen.get(code, 0.0) + _FLOOR) > most:
            best, most = code, p * (seen.get(code, 0.0) + _FLOOR)
    return (best, score) if best == label else (best, clean(seen.get(best, 0.0)))
