"""What a parser holds open: the stack of open elements and the list of active formatting elements (HTML standard).

An end that closes over an open block leaves the block open and opens its element again (adoption agency); formatting
that was cut short is opened again before the next text.
"""

from __future__ import annotations

from collections import defaultdict

from cleanpipe_stages.html.names import IMPLIED, INTEGRATION, SCOPE, STOPS

LEFT = "(form)"  # a form that is closed inside its own content: no longer open, and still around it


class Format:
    """One entry of the list of active formatting elements."""

    __slots__ = ("key", "name", "open")

    def __init__(self, name: str, key: str) -> None:
        self.name, self.key, self.open = name, key, True


class OpenElements:
    """stack: names of the open elements, foreign ones with ``:`` (svg) or ``=`` (math) before them.

    elements: made so far, with those opened again. work: the sum of their depths, and the way to what was sought.
    """

    def __init__(self) -> None:
        self.stack: list[str] = []
        self.elements = self.work = self.frames = 0
        self._entries: list[Format | None] = []  # beside the stack
        self.waiting: list[Format | None] = []  # the standard's list of active formatting elements; None is a marker
        self._within: defaultdict[str, int] = defaultdict(int)
        self._templates: list[str] = []  # what each open template holds: "" (nothing yet), "parts" or "body"
        self._form: Format | None = None
        self._doubt = False

    def within(self, name: str) -> int:
        """How many elements of this name are open."""
        return self._within[name]

    @property
    def foreign(self) -> bool:
        """Whether the innermost element is a drawing's or a formula's, and no place for HTML."""
        return bool(self.stack) and self.stack[-1][0] in ":=" and self.stack[-1] not in INTEGRATION

    @property
    def doubtful(self) -> bool:
        """Whether the innermost element may be another one, as an end inside a drawing was not believed."""
        self._doubt = self._doubt and any(name[0] in ":=" for name in self.stack)
        return self._doubt

    # --- the stack ---

    def _push(self, name: str, entry: Format | None = None) -> None:
        self.stack.append(name)
        self._entries.append(entry)
        self._within[name] += 1
        self.elements += 1
        self.work += len(self.stack)

    def _cut(self, at: int) -> None:
        within = self._within
        for name, entry in zip(self.stack[at:], self._entries[at:], strict=True):
            within[name] -= 1
            if entry is not None:
                entry.open = False
            elif name == "template":
                self._templates.pop()
        while at and self.stack[at - 1] == LEFT:
            at -= 1
        del self.stack[at:], self._entries[at:]

    def _place(self, name: str, barrier: frozenset[str]) -> int:
        """Where the innermost element of this name lies, -1 if it is not in this scope."""
        if not self._within[name]:
            return -1
        stack = self.stack
        for at in range(len(stack) - 1, -1, -1):
            if stack[at] == name:
                self._walked(at)
                return at
            if stack[at] in barrier:
                self._walked(at)
                break
        return -1

    def _walked(self, at: int) -> None:
        """A look down the stack is work, too."""
        self.work += 4 * (len(self.stack) - at)

    def _close(self, name: str, barrier: frozenset[str] = SCOPE) -> bool:
        at = self._place(name, barrier)
        if at >= 0:
            self._cut(at)
        return at >= 0

    def _imply(self, but: str = "") -> None:
        stack = self.stack
        while stack and stack[-1] in IMPLIED and stack[-1] != but:
            self._cut(len(stack) - 1)

    def _in_body(self) -> None:
        if self._templates and not self._templates[-1] and self.stack[-1] == "template":
            self._templates[-1] = "body"

    def _table_waits(self) -> bool:
        return bool(self.stack) and self.stack[-1] in ("table", "tbody", "thead", "tfoot", "tr")

    def _any_end(self, name: str) -> None:
        stack = self.stack
        for at in range(len(stack) - 1, -1, -1):
            if stack[at] == name:
                self._cut(at)
                return
            if stack[at] in STOPS:
                self._walked(at)
                return

    # --- formatting ---

    def text(self, characters: str) -> None:
        """Characters between two tags; needed only where formatting is ``waiting``."""
        active = self.waiting
        if active and (last := active[-1]) is not None and not last.open and not self.foreign:
            self._in_body()
            if not (self._table_waits() and characters.isspace()):
                self._reopen()

    def _reopen(self) -> None:
        active = self.waiting
        if not active or (last := active[-1]) is None or last.open:
            return
        at = len(active)
        while at and (entry := active[at - 1]) is not None and not entry.open:
            at -= 1
        for entry in active[at:]:
            if entry is not None:
                entry.open = True
                self._push(entry.name, entry)

    def _clear_marked(self) -> None:
        active = self.waiting
        while active and active.pop() is not None:
            pass

    def _format(self, name: str, attributes: str) -> None:
        active = self.waiting
        if name == "a":
            for entry in reversed(active):
                if entry is None:
                    break
                if entry.name == "a":
                    self._adopt("a")
                    if entry in active:
                        active.remove(entry)
                    if entry.open and entry in self._entries:
                        self._take_out(self._entries.index(entry))
                    break
            self._reopen()
        else:
            self._reopen()
            if name == "nobr" and self._place("nobr", SCOPE) >= 0:
                self._adopt("nobr")
                self._reopen()
        key = name + attributes
        if len(active) >= 3:
            alike = []
            for at in range(len(active) - 1, -1, -1):
                entry = active[at]
                if entry is None:
                    break
                if entry.key == key:
                    alike.append(at)
            if len(alike) >= 3:  # the standard's Noah's Ark clause
                del active[alike[-1]]
        self.work += len(active)
        entry = Format(name, key)
        active.append(entry)
        self._push(name, entry)

    def _take_out(self, at: int) -> None:
        self._within[self.stack[at]] -= 1
        entry = self._entries[at]
        if entry is not None:
            entry.open = False
        del self.stack[at], self._entries[at]

    def _adopt(self, name: str) -> None:
        """The standard's adoption agency algorithm."""
        stack, entries, active = self.stack, self._entries, self.waiting
        if stack and stack[-1] == name and entries[-1] not in active:
            self._cut(len(stack) - 1)
            return
        for _ in range(8):
            place = len(active) - 1
            while place >= 0 and (entry := active[place]) is not None and entry.name != name:
                place -= 1
            entry = active[place] if place >= 0 else None
            if entry is None:
                self._any_end(name)
                return
            if not entry.open:
                del active[place]
                return
            first = len(entries) - 1
            while entries[first] is not entry:
                first -= 1
            self._walked(first)
            if any(n in SCOPE for n in stack[first + 1 :]):
                return
            block = next((at for at in range(first + 1, len(stack)) if stack[at] in STOPS), 0)
            if not block:
                self._cut(first)
                active.remove(entry)
                return
            bookmark = None
            kept = 0
            for at in range(block - 1, first, -1):
                other = entries[at]
                listed = other is not None and other in active
                kept += 1
                if listed and kept > 3:
                    active.remove(other)
                    listed = False
                if not listed:
                    self._take_out(at)
                    continue
                self.elements += 1
                self.work += at
                if bookmark is None:
                    bookmark = other
            clone = Format(name, entry.key)
            after = stack.index(stack[first], first)
            self._take_out(after)
            block = next(at for at in range(after, len(stack)) if stack[at] in STOPS)
            if bookmark is not None:
                active.insert(active.index(bookmark) + 1, clone)
                active.remove(entry)
            else:
                active[active.index(entry)] = clone
            stack.insert(block + 1, name)
            entries.insert(block + 1, clone)
            self._within[name] += 1
            self.elements += 1
            self.work += block
