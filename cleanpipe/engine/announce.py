"""Reading as a try is told to: documents that are deadly to read set aside untouched, and, where others ended while
reading, each record announced, so that the next death stands at one document (engine/attempts.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cleanpipe.builtin import READ
from cleanpipe.engine.base import Task, Watch
from cleanpipe.io.member_reader import Item


class Announced:
    """The items of an archive, and what to do before a document's body is touched."""

    def __init__(self, items: Iterable[Item], task: Task, watch: Watch) -> None:
        self._items, self._watch, self._number = items, watch, 0
        self._each = bool(task.args.get("announce"))
        said = task.args.get("condemned", {})
        self._refused = {bytes.fromhex(k): (str(v[0]), str(v[1])) for k, v in said.items() if list(v[2:]) == [READ]}

    def __iter__(self) -> Iterator[Item]:
        if not self._each:
            yield from self._items
            return
        for item in self._items:
            yield item
            self._number += 1
            self._watch.at(self._number, 0)  # the next one: the one before it is not blamed for what happens now

    def before(self, identity: bytes) -> tuple[str, str] | None:
        """The error and the message with which a document is set aside untouched; None to read it."""
        if self._each:
            self._watch.at(self._number, 0, identity)
        return self._refused.get(identity)
