"""Where a reader stands: small, plain, and good for any number of ranks, workers and micro-batches."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from cleanpipe.errors import ConfigError
from cleanpipe.tokens.arguments import END, shown
from cleanpipe.tokens.layout import DECISIONS
from cleanpipe.tokens.reading.plan import SEAL, Plan, seal

FORMAT = 1
_MOST = 299  # bytes of a state as JSON
_SEAL = re.compile(rf"[0-9a-f]{{1,{SEAL}}}|[0-9a-f]{{{SEAL}}}:\d{{1,18}}(\.\d{{1,18}})*")
# what a plan is, in the words of its state: name there → what a person calls it
_PARTS = {
    "stores": "stores (the tokens themselves)",
    "length": "length of a sequence",
    "packing": "packing",
    "seed": "seed",
    "shuffle": "shuffle",
}


def state_of(plan: Plan, sequences: int, decided: tuple[int, str]) -> dict[str, Any]:
    """The state of a reader of which ``sequences`` global sequences were consumed: under 300 bytes as JSON.

    decided: the decisions that were in force, see ``Plan.decided``. Of very many stores the lines of each do not fit:
    then the seal is only that of all together; of numbers that no run comes to it is cut.
    """
    decisions, mark = decided
    found = {
        "format": FORMAT,
        "plan": plan.fingerprint,
        **plan.facts(),
        "epoch": sequences // plan.sequences,
        "sequences": sequences,
        "mixture": plan.mixture.version(sequences),
        "decisions": decisions,
    }
    if not decisions:
        return found  # every file begins with no lines
    room = _MOST - len(json.dumps({**found, "seal": ""}))
    return {**found, "seal": mark if len(mark) <= room else mark[: min(SEAL, room)]} if room > 0 else found


def consumed(plan: Plan, state: Mapping[str, Any]) -> int:
    """How many global sequences were consumed at a state of this plan.

    Raises:
        ConfigError: the state is none, or of another plan, or of weights or decisions that were other since, or one of
            its fields cannot be; what differs is said.
    """
    if not isinstance(state, Mapping) or type(state.get("format")) is not int or state["format"] != FORMAT:
        raise ConfigError("this is no state of a token reader (or one of another version of it)")
    here = plan.facts()
    if state.get("plan") != plan.fingerprint:
        differs = [
            f"{name}: {state.get(k)} there, {here[k]} here" for k, name in _PARTS.items() if state.get(k) != here[k]
        ]
        raise ConfigError("the state is of another plan: " + ("; ".join(differs) or "its fingerprint differs"))
    sequences, lines = (_count(state, name) for name in ("sequences", "decisions"))
    for name, expected in {**here, "epoch": sequences // plan.sequences}.items():
        if type(found := state.get(name)) is not type(expected) or found != expected:
            raise _changed(name, found, f"{expected!r} by its plan and its count of sequences")
    if state.get("mixture") != plan.mixture.version(sequences):
        raise ConfigError(
            f"the first {sequences:,} sequences were read by other mixing weights: weights change only from a sequence "
            "ahead of them (changes=[(sequence, weights)])"
        )
    _same_decisions(plan, lines, state.get("seal"))
    return sequences


def _same_decisions(plan: Plan, lines: int, mark: Any) -> None:
    """See that the decisions here begin with those that a state was written under. mark: its seal, if it has one."""
    here, _ = plan.decided
    if lines > here:
        raise ConfigError(f"decisions: the state knows {lines} lines, here are {here}: lines are only ever added")
    if mark is None:
        return
    if not isinstance(mark, str) or not _SEAL.fullmatch(mark):
        raise _changed("seal", mark, "that of decisions")
    short, _, counts = mark.partition(":")
    if counts:
        each = [int(n) for n in counts.split(".")]
        if len(each) != len(plan.sources) or sum(each) != lines:
            raise _changed("seal", mark, f"that of {lines} decisions of {len(plan.sources)} stores")
        digests = [source.digest_at(n) for source, n in zip(plan.sources, each, strict=True)]
        same = all(digests) and seal(list(zip(each, digests, strict=True))) == mark
    elif len(plan.sources) == 1:
        same = plan.sources[0].digest_at(lines).startswith(short)
    else:  # which lines were in force then is known only as long as there are no others
        same = lines < here or plan.decided[1].startswith(short)
    if not same:
        raise ConfigError(
            f"decisions: {DECISIONS} does not begin with the lines that the state was written under ({lines} of "
            f"{', '.join(str(s.store.root) for s in plan.sources)}): put it back from a copy"
        )


def _count(state: Mapping[str, Any], name: str) -> int:
    found = state.get(name)
    if type(found) is not int or not 0 <= found <= END:
        raise _changed(name, found, "a whole number from 0")
    return found


def _changed(name: str, found: object, expected: str) -> ConfigError:
    return ConfigError(f"the state's {name!r} is {shown(found)}, not {expected}: it was changed or cut short")
