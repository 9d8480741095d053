"""Reads the global sequences of a plan in their order: any rank of any world, from any sequence on."""

from __future__ import annotations

import queue
import threading
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from cleanpipe.errors import ConfigError
from cleanpipe.tokens.arguments import END, whole
from cleanpipe.tokens.reading.plan import Ahead, Plan, Rows
from cleanpipe.tokens.reading.sequences import Batch, Buffers, Form, lay_out
from cleanpipe.tokens.reading.state import consumed, state_of

_MOST_AHEAD = 4096  # batches
_Made = tuple[Rows, Batch]


class Reader:
    """Iterates ``Batch``. Batch k of all ranks together is global sequences [k·B, (k+1)·B); each rank has its stripe.

    A batch counts as consumed as soon as the loop gets it, never before: what was only prefetched is read again by
    whoever resumes. Iterating again goes on where the last loop stopped; at the end (``epochs``) it gives nothing, and
    warns. A loop that begins while another is not at its end takes over: the older one raises ConfigError when it is
    asked for more, as it does after ``load_state_dict``, so that no sequence is given twice.

    Args:
        plan: what to read.
        batch: B, the sequences of all ranks together.
        rank, world: this process, and how many there are; B is a multiple of ``world``.
        micro: sequences that a rank gets at a time; by default B / world. B is a multiple of micro · world. The ranks
            together then read [c, c + micro · world) at a time, so that a state may be taken between any two.
        epochs: how often the plan is read; None: without end.
        drop_last: leave out what does not fill a batch at the end; else the last one is smaller, and ranks beyond it
            get batches without rows, so that all ranks have equally many.
        labels, positions, pad: see ``Form``.
        prefetch: batches that a thread makes ahead; 0: none.
        state: where to go on; see ``load_state_dict``.

    Raises:
        ConfigError: an argument does not fit, or the state is of another plan. While it iterates, DamagedFileError: a
            block of a payload is not as it was written; its documents and URLs are named.
    """

    def __init__(
        self,
        plan: Plan,
        batch: int,
        rank: int = 0,
        world: int = 1,
        state: Mapping[str, Any] | None = None,
        *,
        micro: int | None = None,
        epochs: int | None = 1,
        drop_last: bool = False,
        labels: str = "next",
        positions: str = "restart",
        pad: int | None = None,
        prefetch: int = 2,
    ) -> None:
        world, batch = whole("world", world, 1), whole("batch", batch, 1)
        rank = whole("rank", rank, 0, world - 1, said=f"0 to {world - 1:,} of world={world}")
        self.plan, self.batch, self.rank, self.world = plan, batch, rank, world
        self.epochs, self.drop_last = checked_epochs(plan, epochs), drop_last
        self.prefetch = whole("prefetch", prefetch, 0, _MOST_AHEAD)
        self.form = Form(labels, positions, pad).checked(plan)
        if batch % world:
            raise ConfigError(f"batch {batch} of all ranks together is not a multiple of {world} ranks")
        self.micro = batch // world if micro is None else whole("micro", micro, 1)
        if batch % (self.micro * world):
            raise ConfigError(f"batch {batch} is not a multiple of {self.micro} sequences for each of {world} ranks")
        if self.micro * plan.length >= 1 << 31:
            raise ConfigError(f"{self.micro} sequences of {plan.length:,} tokens: below 2^31 together, for cu_seqlens")
        self._buffers, self._ahead = Buffers(self.prefetch + 4), Ahead(plan)
        self.consumed = self._loop = 0
        refresh(plan)
        if state is not None:
            self.load_state_dict(state)

    def state_dict(self) -> dict[str, Any]:
        """Where this reader stands: under 300 bytes as JSON, the same on every rank; see ``state.state_of``."""
        return state_of(self.plan, self.consumed, self.plan.decided)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where a reader of the same plan stood, of whatever rank, world, batch and micro-batch.

        Raises:
            ConfigError: the state is of another plan, or behind this reader's end; what differs is said.
        """
        refresh(self.plan)
        found = consumed(self.plan, state)
        if found > self.end:
            raise ConfigError(
                f"the state's 'sequences' is {found:,}, and this reader ends at {self.end:,} (epochs={self.epochs}): "
                "give more epochs"
            )
        self.consumed = found
        self._loop += 1  # one that runs was to give something else

    @property
    def end(self) -> int:
        """The global sequence before which this reader ends."""
        return END if self.epochs is None else self.epochs * self.plan.sequences

    def steps(self, first: int = 0, every: int = 1) -> Iterator[tuple[Rows, int]]:
        """The rows of this rank in each step from here to the end, and what is consumed after it, by all ranks.

        first, every: only these steps, counted from here (of one of several workers).
        """
        size = self.micro * self.world
        begin, last = self.consumed + first * size, self.end
        while begin < last and not (self.drop_last and begin + size > last):
            low = min(begin + self.rank * self.micro, last)
            yield self._ahead.rows(low, min(low + self.micro, last)), min(begin + size, last)
            begin += every * size

    def batches(self, first: int = 0, every: int = 1) -> Iterator[Batch]:
        """The batches of ``steps``, made one by one; nothing is counted as consumed."""
        for rows, after in self.steps(first, every):
            refresh(self.plan)
            yield lay_out(self.plan, rows, self.form, after, self._buffers)

    def warn_if_spent(self) -> None:
        """A UserWarning where a loop from here would get nothing."""
        begin, end = self.consumed, self.end
        if begin >= end or (self.drop_last and begin + self.micro * self.world > end):
            warnings.warn(
                f"nothing is left to read: {begin:,} of {end:,} sequences are (epochs={self.epochs}); for another pass "
                "give epochs=, or load_state_dict() of an earlier state",
                stacklevel=3,
            )

    def __iter__(self) -> Iterator[Batch]:
        self.warn_if_spent()
        self._loop += 1
        mine = self._loop
        for rows, batch in self._prefetched() if self.prefetch else self._made():
            if self._loop != mine:
                raise ConfigError(
                    "another loop over this reader began, or load_state_dict() was called: this loop ended there, so "
                    "that no sequence is given twice; make a Reader for each loop"
                )
            refresh(self.plan)
            if batch.seal != self.plan.decided[1]:  # decided while it waited
                batch = lay_out(self.plan, rows, self.form, batch.consumed, self._buffers)
            self.consumed = batch.consumed
            yield batch

    def _made(self) -> Iterator[_Made]:
        for rows, after in self.steps():
            yield rows, lay_out(self.plan, rows, self.form, after, self._buffers)

    def _prefetched(self) -> Iterator[_Made]:
        """``_made`` by a thread that is at most ``prefetch`` batches ahead, and ends with the loop."""
        made: queue.Queue[_Made | BaseException | None] = queue.Queue(self.prefetch)
        stopped = threading.Event()

        def put(item: _Made | BaseException | None) -> bool:
            while not stopped.is_set():
                try:
                    made.put(item, timeout=0.1)
                    return True
                except queue.Full:
                    continue
            return False

        def make() -> None:
            try:
                for item in self._made():
                    if not put(item):
                        return
                put(None)
            except BaseException as error:  # told where the batch is awaited
                put(error)

        thread = threading.Thread(target=make, name="cleanpipe-reader", daemon=True)
        thread.start()
        try:
            while (item := made.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            stopped.set()
            thread.join()


def refresh(plan: Plan) -> None:
    """Take up decisions that were added to any of the stores."""
    for source in plan.sources:
        source.refresh()


def checked_epochs(plan: Plan, epochs: Any) -> int | None:
    """How often a plan is read; None: without end.

    Raises:
        ConfigError: it is no number of times.
    """
    if epochs is None:
        return None
    most = END // plan.sequences
    return whole("epochs", epochs, 1, most, said=f"at least 1 (and at most {most:,}), or None for no end")
