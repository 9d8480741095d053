"""The reader as PyTorch takes data: a map-style data set, an iterable one, and how rows become tensors.

torch is imported when one of them is used.

Decisions hold from the next batch that is made. A loader with workers makes batches ahead (``prefetch_factor`` of each
worker), so those that wait are still masked by the decisions of when they were made: their ``decisions`` says how many
lines these had. ``remask(plan, batch)`` in the training loop gives such a batch the labels of now, exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from cleanpipe.errors import ConfigError
from cleanpipe.tokens.arguments import END, whole
from cleanpipe.tokens.reading.plan import Ahead, Plan
from cleanpipe.tokens.reading.reader import Reader, refresh
from cleanpipe.tokens.reading.sequences import Batch, Buffers, Form, lay_out
from cleanpipe.tokens.reading.state import state_of

if TYPE_CHECKING:
    TokenIterableDataset: Any

_WORKER = "worker"
_NEAR = 512  # sequences that other workers may read meanwhile: what comes next is still worked out ahead


class TokenDataset:
    """Map style: item g is global sequence g of a plan, as NumPy arrays; the order is the plan's, so do not shuffle.

    With ``DataLoader(…, collate_fn=collate)``; also a source of random access for Grain (``len`` and ``[]``).

    Args:
        plan: what to read.
        epochs: how often; len() is epochs · plan.sequences.
        labels, positions, pad: see ``Form``.
    """

    def __init__(
        self, plan: Plan, *, epochs: int = 1, labels: str = "next", positions: str = "restart", pad: int | None = None
    ) -> None:
        self.plan, self.form = plan, Form(labels, positions, pad).checked(plan)
        self._length = whole("epochs", epochs, 1, END // plan.sequences) * plan.sequences
        self._buffers, self._ahead, self._next = Buffers(), Ahead(plan), 0

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, g: int) -> dict[str, Any]:
        """The arrays of ``Batch.arrays`` of one sequence: (L,), ``sequences`` (1,)."""
        found = self._batch([index(g)]).arrays()
        return {name: a[0] if getattr(a, "ndim", 0) == 2 else a for name, a in found.items()}

    def __getitems__(self, gs: Sequence[int]) -> Batch:
        """Several at once, which PyTorch's loader asks for where it can; ``collate`` takes it."""
        return self._batch([index(g) for g in gs])

    def _batch(self, gs: list[int]) -> Batch:
        if any(not 0 <= g < self._length for g in gs):
            raise IndexError(f"sequences {min(gs):,} to {max(gs):,} of {self._length:,}")
        refresh(self.plan)
        in_turn = bool(gs) and gs == list(range(gs[0], gs[0] + len(gs))) and 0 <= gs[0] - self._next < _NEAR
        rows = self._ahead.rows(gs[0], gs[-1] + 1) if in_turn else self.plan.rows(np.array(gs, np.int64))
        self._next = gs[-1] + 1 if gs else 0
        return lay_out(self.plan, rows, self.form, buffers=self._buffers)


def collate(rows: Batch | Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Rows of ``TokenDataset``, or a batch of a ``Reader``, as tensors: the names and shapes of ``Batch.arrays``.

    ``max_seqlen`` and ``decisions`` stay numbers.
    """
    import torch

    if isinstance(rows, Batch):
        found: dict[str, Any] = rows.arrays()
    else:
        found = {name: np.stack([r[name] for r in rows]) for name in ("input_ids", "labels", "position_ids")}
        length = found["input_ids"].shape[1]
        parts = [np.asarray(r["cu_seqlens"][:-1]) + at * length for at, r in enumerate(rows)]
        found["cu_seqlens"] = np.append(np.concatenate(parts), len(rows) * length).astype(np.int32)
        found["max_seqlen"] = max(int(r["max_seqlen"]) for r in rows)
        found["sequences"] = np.concatenate([r["sequences"] for r in rows])
        found["decisions"] = min(r["decisions"] for r in rows)
    return {name: torch.from_numpy(a) if isinstance(a, np.ndarray) else a for name, a in found.items()}


def state_after(plan: Plan, batch: Mapping[str, Any]) -> dict[str, Any]:
    """The state of a reader that has consumed up to a batch of ``TokenIterableDataset``, however many workers made it.

    For a plain DataLoader, whose workers are ahead of the loop: keep this with the model's checkpoint, and give it to
    ``load_state_dict`` of the data set that goes on.
    """
    return state_of(plan, int(batch["consumed"]), (int(batch["decisions"]), str(batch["seal"])))


def _of_torch() -> type[Any]:
    """``TokenIterableDataset``, made when torch is there."""
    from torch import uint8, zeros
    from torch.utils.data import IterableDataset, get_worker_info

    class TokenIterableDataset(IterableDataset):  # type: ignore[misc]
        """A ``Reader`` for ``DataLoader(…, batch_size=None)`` or torchdata's ``StatefulDataLoader``.

        Items are whole batches as tensors (``Batch.arrays``) with ``consumed`` and ``seal``, see ``state_after``. With
        workers, decisions reach those made ahead by ``remask``.
        Workers share the steps in turn: their number changes nothing of what is read. Arguments: as of ``Reader``;
        where torch.distributed runs, rank and world are its own unless given.

        Workers of a plain DataLoader begin every loop where this data set was told to begin: for more than one pass
        give ``epochs``, or ``load_state_dict(state_after(plan, batch))`` between loops. Without workers the data set
        itself moves on: a loop after the last of its epochs gives nothing, and warns.

        ``state_dict`` knows how far this object was read. Where workers read copies of it, that says nothing of the
        loop, so there it raises: ``state_after(plan, batch)`` knows.
        """

        def __init__(
            self, plan: Plan, batch: int, rank: int | None = None, world: int | None = None, **more: Any
        ) -> None:
            if rank is None and world is None:
                rank, world = _distributed()
            self.reader = Reader(plan, batch, rank or 0, world or 1, **more)
            self._turn: tuple[int, int, int] | None = None  # which worker, of how many, and its steps so far
            self._away = zeros(1, dtype=uint8).share_memory_()  # 1: workers, who have it too, read in place of this one

        def __setstate__(self, state: dict[str, Any]) -> None:
            """A worker shares the mark with whoever made it; a copy has its own."""
            self.__dict__.update(state)
            if not self._away.is_shared():
                self._away = self._away.clone().share_memory_()

        def __iter__(self) -> Iterator[dict[str, Any]]:
            worker = get_worker_info()
            if worker is None:
                self._turn = None
                self._away[0] = 0
                for batch in self.reader:
                    yield self._tensors(batch)
                return
            which, many = int(worker.id), int(worker.num_workers)
            done = 0
            if self._turn is not None:
                if self._turn[:2] != (which, many):
                    raise ConfigError(
                        f"a state of worker {self._turn[0]} of {self._turn[1]} given to worker {which} of {many}: "
                        "StatefulDataLoader goes on with as many workers only; state_after() knows no workers"
                    )
                done = self._turn[2]
            self._turn = which, many, done
            self._away[0] = 1
            if not which and not done:
                self.reader.warn_if_spent()
            for batch in self.reader.batches(which + done * many, many):
                done += 1
                self._turn = which, many, done
                self._away[0] = 1
                yield self._tensors(batch)

        def _tensors(self, batch: Batch) -> dict[str, Any]:
            return {**collate(batch), "consumed": batch.consumed, "seal": batch.seal}

        def state_dict(self) -> dict[str, Any]:
            """As of ``Reader``; within a worker with its turn, which only a worker of the same number can take up.

            Raises:
                ConfigError: workers of a loader read copies of this data set, and this one does not know how far.
            """
            if self._away[0] and get_worker_info() is None:
                raise ConfigError(
                    "state_dict(): workers of a DataLoader read this data set, and it does not know how far the loop "
                    "is: keep state_after(plan, batch) of the last batch, or ask a StatefulDataLoader for its state"
                )
            state = self.reader.state_dict()
            return state if self._turn is None else {**state, _WORKER: list(self._turn)}

        def load_state_dict(self, state: Mapping[str, Any]) -> None:
            """As of ``Reader``."""
            self.reader.load_state_dict(state)
            self._turn = _turn_of(state)

    TokenIterableDataset.__module__, TokenIterableDataset.__qualname__ = __name__, "TokenIterableDataset"
    return TokenIterableDataset


def _turn_of(state: Mapping[str, Any]) -> tuple[int, int, int] | None:
    """Which worker, of how many, and its steps; None where a state knows no workers."""
    turn = state.get(_WORKER)
    if turn is None:
        return None
    sound = isinstance(turn, (list, tuple)) and len(turn) == 3 and all(type(n) is int and n >= 0 for n in turn)
    if not sound or turn[0] >= turn[1]:
        raise ConfigError(f"the state's {_WORKER!r} is {turn!r:.60}, not worker, workers and steps")
    return turn[0], turn[1], turn[2]


def _distributed() -> tuple[int, int]:
    from torch import distributed

    if distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank()), int(distributed.get_world_size())
    return 0, 1


def __getattr__(name: str) -> Any:
    if name != "TokenIterableDataset":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, _of_torch())
