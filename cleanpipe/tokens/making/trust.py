"""Which backends a job does not believe any more, and what a unit says of the one that it used.

A backend that gave one id other than the reference's, after it was proven, may have given others that nobody compared:
all that it made is forgotten, and the reference makes it again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from cleanpipe.engine.journal import Journal
from cleanpipe.io.store import Store
from cleanpipe.tokens.making.encoding import REFERENCE
from cleanpipe.tokens.making.folder import RUN

MARK = "work/distrusted.json"  # before anything is forgotten, so that a job that is stopped meanwhile goes on so


class Trust:
    """found: backend → shard of the run → what was found there. A store that is made again in part knows what was
    found when it was made. fresh: found by this job, this start or an earlier one.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        own = _read(store, MARK)
        self.fresh = bool(own)
        self.found: dict[str, dict[str, str]] = {**_of(_read(store, RUN).get("distrusted")), **_of(own)}

    def refuses(self, backend: str) -> bool:
        """Whether it is not to be used."""
        return backend in self.found

    def note(self, backend: str, shard: str, differs: str) -> bool:
        """It was found wrong; true if it was believed until now."""
        first = not self.refuses(backend)
        self.found.setdefault(backend, {})[shard] = differs
        self.fresh = True
        self.store.write_json(MARK, self.found)
        return first

    def judged(self, proof: Mapping[str, Any]) -> dict[str, Any]:
        """The proof, or what stands for it where it was wrong. Words that do not depend on which shard was first."""
        used = str(proof.get("used", ""))
        if not self.refuses(used):
            return dict(proof)
        why = f"{used} was found wrong: on a document of the run it gave other ids than hf, which made every shard"
        return {**proof, "used": REFERENCE, "reason": why}

    def forget(self, encoded: Journal, joined: Journal) -> int:
        """Make unfinished what a backend made that is not believed, or nobody knows who; how many units that were."""
        made = [key for key in encoded if encoded[key].get("backend", "") in {"", *self.found}]
        if made:
            for key in list(joined):
                joined.forget(key)
        for key in made:
            encoded.forget(key)
        return len(made)


def _read(store: Store, name: str) -> dict[str, Any]:
    try:
        found = json.loads(store.read(name))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _of(said: Any) -> dict[str, dict[str, str]]:
    return {str(k): dict(v) for k, v in said.items() if isinstance(v, dict)} if isinstance(said, dict) else {}


_LARGEST = ("device_bytes", "cache.bytes", "cache.pieces")  # the largest counts; of all other numbers what came since
_OF_PROCESS = ("checks.unseen", "checks_by_reference.unseen")  # means nothing for a unit


def used(now: Mapping[str, Any], before: Mapping[str, Any] | None = None, within: str = "") -> dict[str, Any]:
    """What a backend says of itself, less what it said before; numbers that are not counted up stay."""
    out: dict[str, Any] = {}
    for name, value in now.items():
        earlier = (before or {}).get(name)
        if within + name in _OF_PROCESS:
            continue
        if isinstance(value, Mapping):
            out[name] = used(value, earlier, f"{name}.")
        elif within + name in _LARGEST or not isinstance(value, (int, float)):
            out[name] = value
        else:
            out[name] = value - (earlier or 0)
    return out


def summed(parts: Iterable[Mapping[str, Any]], within: str = "") -> dict[str, Any]:
    """What backends of many units said, in one; names that differ are put together."""
    out: dict[str, Any] = {}
    for part in parts:
        for name, value in part.items():
            known = out.get(name)
            if known is None:
                out[name] = dict(value) if isinstance(value, Mapping) else value
            elif isinstance(value, Mapping):
                out[name] = summed([known, value], f"{name}.")
            elif isinstance(value, str):
                out[name] = ", ".join(sorted({*known.split(", "), value}))
            else:
                out[name] = max(known, value) if within + name in _LARGEST else known + value
    return out


def wrong_ids(facts: Mapping[str, Any]) -> str:
    """Ids that no text may hold, by the checks where they are made; "" if there are none. What the reference gave for
    texts that the backend left to it is not the backend's.
    """
    ours, theirs = facts.get("checks") or {}, facts.get("checks_by_reference") or {}
    names = {"outside_vocabulary": "beyond the vocabulary", "control_ids": "of controls"}
    told = {what: ours.get(name, 0) - theirs.get(name, 0) for name, what in names.items()}
    return ", ".join(f"{n:,} ids {what} on {facts.get('device', 'the device')}" for what, n in told.items() if n)
