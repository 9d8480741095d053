"""What the death of a worker teaches, and the next try of its unit. Pure: events in, decisions out, no process.

A document that ends its worker must cost itself alone; a worker that somebody else ended (the kernel short of memory,
an operator, a lost node) must cost nothing. So a death is blamed in steps, each with less company:

* in a batch: a crash or a passed guard has the batch treated document by document in the next try ("careful"); a death
  from outside is tried again as it was, and only a second one at the same batch makes that careful;
* alone: two crashes or passed guards at one document, or three deaths there of any kind but chance, condemn it; later
  tries set it aside untreated, with reason ``resource_limit``;
* while reading, or in a task that has no documents: tried again; after four crashes at one place with each document
  announced before its body is touched, so that it stands alone there too; after four more with the slowest, most
  careful reader; then the unit fails.

Whatever a later try gets past is innocent: its count starts anew. A kill of a worker that had not grown is chance: it
blames nothing, wherever it hits, and has a bound of its own. A document costs three tries, two if it stands in a batch
that was careful before; the bound on all tries grows with the condemned.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

from cleanpipe.engine.base import Task
from cleanpipe.errors import RetryableError, ShardError

# whose doing a death is: the worker's own (a crash, an exit, a passed guard); hard to say (killed after it had grown,
# or no answer); surely somebody else's (killed while it was as small as ever)
OWN, OUTSIDE, CHANCE = "own", "outside", "chance"
KILLED = "WorkerKilled"  # the ``error`` of a cause that is a signal from elsewhere
CRASHES_ALONE = 2
DEATHS_ALONE = 3
DEATHS_IN_BATCH = 2  # that are not its own
CRASHES_READING = 4
DEATHS_READING = 6
RETRIES = 2  # tries of a unit that ends with a RetryableError
IN_A_ROW = 64  # neighbours condemned one after the other: then the fault is not theirs
DEATHS = 24  # in all, and …
DEATHS_MORE = 8  # … for each document condemned
CHANCES = 200  # deaths by chance: kills so thick that no try gets through
CAREFUL_READER = "member"
READING = "read"  # the stage that must not see a document which is deadly to read (builtin.READ)


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a worker ended. whose: OWN, OUTSIDE or CHANCE. error: a name that quarantine shows; text: for people; trace:
    the worker's last words, a Python stack as a rule.
    """

    whose: str
    error: str
    text: str
    trace: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """The last that a worker said: about to treat ``count`` documents from the ``first``-th on; if 0, to read on."""

    first: int = 0
    count: int = 0
    doc_id: bytes | None = None  # of a document treated alone

    def passed_by(self, other: Place) -> bool:
        """Whether a worker that is at ``other`` has this place behind it."""
        if self.count == 0:
            return other.first > self.first or (other.first == self.first and other.count > 0)
        return other.first >= self.first + self.count


@dataclass(frozen=True, slots=True)
class Death:
    """One try that ended with its worker. consumed: bytes of the input read by then. ready: the worker had started; if
    not, the unit had no part in its death.
    """

    cause: Cause
    place: Place = Place()
    consumed: int = 0
    ready: bool = True


@dataclass(slots=True)
class _Count:
    own: int = 0
    outside: int = 0
    chance: int = 0

    def add(self, cause: Cause) -> _Count:
        self.own += cause.whose == OWN
        self.outside += cause.whose == OUTSIDE
        self.chance += cause.whose == CHANCE
        return self

    @property
    def blamed(self) -> int:
        return self.own + self.outside


@dataclass(slots=True)
class Attempts:
    """The tries of one task. ``task`` is the next one to make, with what was learned in its args."""

    given: Task
    tries: int = 1  # the one that is made now included
    condemned: dict[str, list[str]] = field(
        default_factory=dict
    )  # doc_id in hex → error, message; found by these tries
    _careful: list[list[int]] = field(default_factory=list)
    _counts: dict[Place, _Count] = field(default_factory=dict)
    _total: _Count = field(default_factory=_Count)
    _row: tuple[int, int] = (-1, 0)  # index of the last document condemned, and how many neighbours up to it
    _announce: bool = False
    _reader: str = ""
    _refused: int = 0  # RetryableErrors

    @property
    def task(self) -> Task:
        """The task as the next try is told to do it."""
        args: dict[str, Any] = dict(self.given.args)
        if self.condemned:
            args["condemned"] = {**args.get("condemned", {}), **self.condemned}
        if self._careful:
            args["careful"] = sorted([*args.get("careful", ()), *self._careful])
        if self._announce:
            args["announce"] = True
        if self._reader:
            args["reader"] = self._reader
        return replace(self.given, args=args) if args != self.given.args else self.given

    def facts(self) -> dict[str, Any]:
        """What a result says of its tries."""
        return {"tries": self.tries, "condemned": dict(self.condemned)}

    def refused(self, error: RetryableError) -> ShardError | None:
        """A try ended with an error that another try may not meet: None to make one, or the error that stays."""
        self._refused += 1
        if self._refused >= RETRIES:
            return error
        self.tries += 1
        return None

    def died(self, death: Death) -> ShardError | None:
        """A try ended with its worker: None to make the next, or the error that its unit ends with."""
        place, cause = death.place, death.cause
        for known in [p for p in self._counts if p.passed_by(place)]:
            del self._counts[known]
        count = self._counts.setdefault(place, _Count()).add(cause)
        if (place.doc_id is None and place.count == 0) or self._is_known(place):
            error = self._reading(death, count)
        elif place.doc_id is None:
            error = None
            if cause.whose == OWN or count.outside + count.chance >= DEATHS_IN_BATCH:
                del self._counts[place]
                self._careful.append([place.first, place.count])
        else:
            error = self._alone(place, count, cause)
        self._total.add(cause)
        bound = DEATHS + DEATHS_MORE * len(self.condemned)
        if error is None and (self._total.blamed >= bound or self._total.chance >= CHANCES):
            error = self._end(f"its worker died {self.tries} times", cause, death)
        self.tries += error is None
        return error

    def _is_known(self, place: Place) -> bool:
        """A place that is treated as it can be already: a task that does not heed its args must end all the same."""
        if place.doc_id is not None:
            return place.doc_id.hex() in self.condemned
        return [place.first, place.count] in self._careful

    def _reading(self, death: Death, count: _Count) -> ShardError | None:
        careful = not (self._announce and self._reader) and "span" in self.given.args
        if count.own >= CRASHES_READING and careful:
            self._reader = CAREFUL_READER if self._announce else ""
            self._announce = True
            del self._counts[death.place]
        elif count.own >= CRASHES_READING or count.blamed >= DEATHS_READING:
            return self._end(f"its worker died {count.blamed} times at one place", death.cause, death)
        return None

    def _alone(self, place: Place, count: _Count, cause: Cause) -> ShardError | None:
        assert place.doc_id is not None
        if cause.whose == CHANCE or (count.own < CRASHES_ALONE and count.blamed < DEATHS_ALONE):
            return None
        del self._counts[place]
        self.condemned[place.doc_id.hex()] = [cause.error, _message(cause), *([] if place.count else [READING])]
        last, row = self._row
        self._row = (place.first, row + 1 if place.first == last + 1 else 1)
        if self._row[1] >= IN_A_ROW:
            return ShardError(
                f"{IN_A_ROW} documents in a row ended their worker ({cause.text}): the fault is hardly theirs",
                source=self.given.label,
            )
        return None

    def _end(self, what: str, cause: Cause, death: Death) -> ShardError:
        kind = ShardError if cause.whose == OWN else RetryableError
        where = f"after {death.place.first:,} documents: " if death.place.first else ""
        return kind(f"{what}: {where}{_message(cause)}", source=self.given.label, offset=death.consumed or None)


def _message(cause: Cause) -> str:
    """The cause and where the program was, in one line."""
    where = re.search(r'File "(?:[^"]*/)?([^"/]+)", line (\d+) in (\S+)', cause.trace)
    return f"{cause.text}, at {where[1]}:{where[2]} in {where[3]}"[:500] if where else cause.text
