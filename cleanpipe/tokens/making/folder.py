"""The folder of a token store: taken for a job, found finished, refused to another tokenizer, run or way."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from cleanpipe.engine.folder import MANIFEST, PLAN
from cleanpipe.errors import ConfigError
from cleanpipe.io.store import Hold, LocalStore, Store, spelled
from cleanpipe.recipe import fingerprint
from cleanpipe.tokens.layout import DECISIONS, STORE
from cleanpipe.tokens.making import repair as mending

RUN, AUDIT = "run.json", "audit/audit.json"
FOLDERS = ("tokenizer/", "tokens/", "spans/", "ledger/", "audit/")
_APART = frozenset({"reading", "tracing", "models"})  # sub-packages that decide no byte of a store
_SHARED = ("batch.py", "tally.py", "io/arrow.py", "io/hashing.py")  # what writes spans and sums counts
_AS_MADE = ", or repair it by what made it: the same bytes come out of nothing else"
_WORDS = {
    "settings": "the run's recipe",
    "models": "the run's models",
    "code": "the code that made the run",
    "inputs": "the run's inputs",
    "rerun": "what the run treated again",
}


@dataclass(frozen=True, slots=True)
class Made:
    """What a job left. already: it found the store finished and did nothing. rebuilt: of a finished store, how many
    shards were made again, of all; None for a store that was made from nothing. gates: limits that were passed, and
    laws that do not hold, a line each. proven: files that ``--repair`` read and found as they should be, 0 without it;
    damaged: those that it found damaged, and made again.
    """

    tokens: str
    already: bool
    info: Mapping[str, Any]  # store.json
    audit: Mapping[str, Any]
    facts: Mapping[str, Any]  # run.json
    rebuilt: tuple[int, int] | None = None
    gates: tuple[str, ...] = field(default=())
    proven: int = 0
    damaged: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0, or 1 where a law does not hold or a limit was passed."""
        return 1 if self.gates else 0


class Claim:
    """The folder, taken. rebuild: it held a finished store, whose decisions have changed since, or of which files were
    damaged. plan: what stands in work/plan.json; of a repair also ``damaged`` (names), ``named`` (name → SHA-256, by
    the manifest that was there) and ``decisions`` (that were built in).
    """

    def __init__(self, store: Store, hold: Hold, plan: Mapping[str, Any]) -> None:
        self.store, self.hold, self.plan = store, hold, plan
        self.rebuild = bool(plan.get("rebuild"))

    def mended(self, made: Made) -> Made:
        """What was repaired, told; a file that has other bytes now is a gate."""
        damaged = tuple(self.plan.get("damaged", ()))
        if not damaged:
            return made
        gates = made.gates
        if self.plan.get("decisions") == made.info["decisions"]:
            gates += tuple(
                f"{name} was made again and has other bytes than the manifest had named: is the run as it was?"
                for name in mending.differing(self.store, self.plan["named"])
            )
        return replace(made, gates=gates, damaged=damaged)

    def withdraw(self) -> None:
        """Leave no trace of a job that nothing was done for: its corrected line must find the folder free."""
        if self.rebuild or any(True for _ in self.store.names("work/done/")):
            return
        if any(True for _ in self.store.names("tokens/")):
            return
        for folder in (*FOLDERS, "work/"):
            self.store.delete_below(folder)
        if isinstance(self.store, LocalStore):
            with contextlib.suppress(OSError):
                self.store.path.rmdir()


def claim(
    store: Store,
    identity: Mapping[str, Any],
    tell: Callable[[str], None],
    *,
    decided: Callable[[Mapping[str, Any]], bool],
    belongs: Callable[[Mapping[str, Any]], bool] = lambda _: True,
    repair: bool = False,
) -> dict[str, Any] | Claim:
    """Take the folder, or give what a finished store says: {"info", "audit", "facts", "proven"}.

    decided: whether a finished store (its store.json) must be made again in part, for what was decided since.
    belongs: whether its shards are the run's. repair: prove all files of a finished store; make damaged shards again.

    Raises:
        ConfigError: it holds another store, one that is being made, or something else; the difference is named.
    """
    root = store.root
    if isinstance(store, LocalStore) and store.path.exists() and not store.path.is_dir():
        raise ConfigError(f"{root} is a file: name a folder for the tokens")
    if repair and mending.is_finished(store):
        return _repairing(store, identity, tell, decided, belongs)
    finished = None
    if store.size(MANIFEST) >= 0:
        finished = _finished(store)
        _refuse(store, identity, finished["facts"]["identity"], "a finished store")
        if not decided(finished["info"]):
            store.delete_below("work/")
            return {**finished, "proven": 0}
    elif store.size(PLAN) < 0 and (found := _foreign(store)):
        if store.size(STORE) >= 0:
            raise ConfigError(f"{root} holds a damaged store (its {MANIFEST} is gone): {mending.MEND}")
        raise ConfigError(f"{root} is not empty and holds no token store ({found}): name another folder")
    hold = _held(store, tell)
    try:
        plan = {**identity, "rebuild": finished is not None}
        if not store.write_new(PLAN, spelled(plan)):
            plan = _json(store, PLAN)
            _refuse(store, identity, plan, "an unfinished store")
            store.remove_leftovers()
        store.delete(MANIFEST)
    except BaseException:
        hold.release()
        raise
    return Claim(store, hold, plan)


def _held(store: Store, tell: Callable[[str], None]) -> Hold:
    try:
        return store.hold(tell)
    except ConfigError as error:
        raise ConfigError(error.message.replace("another run", "another process")) from error


def _repairing(
    store: Store,
    identity: Mapping[str, Any],
    tell: Callable[[str], None],
    decided: Callable[[Mapping[str, Any]], bool],
    belongs: Callable[[Mapping[str, Any]], bool],
) -> dict[str, Any] | Claim:
    """A finished store: prove it; where anything is damaged or decided, take it."""
    hold = _held(store, tell)
    try:
        damage = mending.prove(store)
        info = None if damage.spoils(STORE) else _json(store, STORE)
        if not damage.spoils(RUN):
            _refuse(store, identity, _json(store, RUN)["identity"], "a finished store", _AS_MADE)
        elif info is not None:
            known = {"tokenizer": {"name": info["name"], **info["fingerprint"]}, "per_window": info["per_window"]}
            _refuse(store, identity, {**identity, **known}, "a damaged store", _AS_MADE)
        if info is not None and not belongs(info):
            raise ConfigError(f"{store.root} holds the tokens of another run: name another folder")
        if not damage.files and info is not None and not decided(info):
            finished = {**_finished(store), "proven": damage.checked}
            hold.release()
            store.delete_below("work/")
            return finished
        plan = {
            **identity,
            "rebuild": True,
            "damaged": list(damage.files),
            "named": dict(damage.named),
            "decisions": None if info is None else info.get("decisions"),
        }
        store.write(PLAN, spelled(plan))
        mending.take_away(store, damage)
    except BaseException:
        hold.release()
        raise
    return Claim(store, hold, plan)


def _foreign(store: Store) -> str | None:
    return next((n for n, _ in store.names() if not n.startswith("work/") and n != DECISIONS), None)


def _finished(store: Store) -> dict[str, Any]:
    manifest = _json(store, MANIFEST, mending.MEND)
    files = manifest.get("files", {})
    if not isinstance(files, dict) or STORE not in files:
        raise ConfigError(f"{store.root} holds a run, not tokens: name another folder")
    sizes = dict(store.names())
    gone = [n for n, f in files.items() if sizes.get(n, -1) != f.get("bytes")]
    if gone or fingerprint({k: v for k, v in manifest.items() if k != "digest"}) != manifest.get("digest"):
        what = f"{gone[0]} is not what it was" if gone else "its manifest was changed"
        raise ConfigError(
            f"{store.root} holds a damaged store ({what}): {mending.MEND}; `cleanpipe verify {store.root}` tells all"
        )
    way = mending.MEND
    return {"info": _json(store, STORE, way), "audit": _json(store, AUDIT, way), "facts": _json(store, RUN, way)}


def _json(store: Store, name: str, way: str = "name another folder") -> dict[str, Any]:
    try:
        data = json.loads(store.read(name))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{store.root}/{name} cannot be read ({error}): {way}") from error
    if not isinstance(data, dict):
        raise ConfigError(f"{store.root}/{name} is not what `cleanpipe tokenize` writes: {way}")
    return data


def _refuse(store: Store, ours: Mapping[str, Any], theirs: Mapping[str, Any], what: str, way: str = "") -> None:
    if changes := differences(ours, theirs):
        raise ConfigError(f"{store.root} holds {what} that differs: {'; '.join(changes)}. Name another folder{way}")


def differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """What stands between two jobs, in words; empty if they are equal."""
    out: list[str] = []
    mine, other = ours.get("tokenizer", {}), theirs.get("tokenizer", {})
    for key, word in (("content", "content"), ("policy", "BOS, EOS or special tokens"), ("probe", "behaviour")):
        if mine.get(key) != other.get(key):
            out.append(f"the tokenizer's {word} ({other.get('name')} there, {mine.get('name')} here)")
            break
    if ours.get("per_window") != theirs.get("per_window"):
        out.append(f"--per-window: {_yes(theirs.get('per_window'))} there, {_yes(ours.get('per_window'))} here")
    if ours.get("code") != theirs.get("code"):
        out.append("the code version of cleanpipe")
    mine, other = ours.get("run", {}), theirs.get("run", {})
    out += [_WORDS.get(k, k) for k in sorted({*mine, *other}) if mine.get(k) != other.get(k)]
    return out


def _yes(value: object) -> str:
    return "yes" if value else "no"


@lru_cache(1)
def code_version() -> str:
    """SHA-256 over the Python files that decide a store's bytes (hex)."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        label = path.relative_to(root).as_posix()
        if label.partition("/")[0] not in _APART:
            digest.update(f"{label}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    for name in _SHARED:
        digest.update(f"../{name}\0".encode() + hashlib.sha256((root.parent / name).read_bytes()).digest())
    return digest.hexdigest()
