"""Tidying a run folder: files of attempts that did not count, drafts, uploads that nobody finishes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cleanpipe.engine.folder import MANIFEST, PLAN
from cleanpipe.engine.journal import Journal
from cleanpipe.errors import ConfigError
from cleanpipe.io.store import Store

Leftover = tuple[str, int, str]  # name, bytes, kind


def tidy(store: Store, tell: Callable[[str], None], *, work: bool = False, dry: bool = False) -> list[Leftover]:
    """Remove what killed attempts left; what was found. kinds: "draft", "upload" (of an object store, never finished),
    "attempt" (a whole file of an attempt that another was faster than), "work" (what a finished run kept).

    Args:
        work: remove the ``work/`` that a finished run kept too; nothing can be tried again or taken over from it then.
        dry: only look.

    Raises:
        ConfigError: no run is there, or one is at work.
    """
    planned, finished = store.size(PLAN) >= 0, store.size(MANIFEST) >= 0
    if not planned and not finished:
        raise ConfigError(f"{store.root} holds no run")
    if not planned:
        late = [(name, size, "attempt") for name, size in store.names("work/")]  # of workers that outlived the run
        return _remove(store, [*store.leftovers(), *late], dry=dry)
    hold = store.hold(tell)
    try:
        found = list(store.leftovers())
        if finished and work:
            found += [(n, s, "work") for n, s in store.names("work/") if n not in ("work/lock", "work/lease.json")]
        else:
            found += _orphans(store)
        _remove(store, found, dry=dry)
        if finished and work and not dry:
            store.delete_below("work/")
        return found
    finally:
        hold.release()


def _remove(store: Store, found: list[Leftover], *, dry: bool) -> list[Leftover]:
    if not dry:
        store.remove_leftovers()
        store.delete_all([name for name, _, kind in found if kind in ("attempt", "work")])
    return found


def _orphans(store: Store) -> Iterator[Leftover]:
    kinds = {name.split("/")[2] for name, _ in store.names("work/done/")}
    for kind in kinds | {name.split("/")[1] for name, _ in store.names("work/") if name.count("/") == 3}:
        if kind == "done":
            continue
        owned = set(Journal(store, kind).files())
        yield from ((name, size, "attempt") for name, size in store.names(f"work/{kind}/") if name not in owned)
