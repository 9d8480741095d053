"""Exact byte-level BPE merges of many pieces at once, and the ids of pieces that are known, on any torch device.

Every piece lies in one flat vector of ids, beside it which piece each id is of. A round takes, in each piece, the pair
of lowest rank and merges its occurrences from the left, as the `tokenizers` package does one by one; pieces without a
pair leave. Integers only, no sums in floating point: the same ids on every device.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cleanpipe.tokens.backends.torch_scope import Rules

Tensor = Any  # a torch.Tensor; torch is optional and imported by those who run


class Merger:
    """The merges of one tokenizer on one device.

    rounds: how many rounds all calls took together.
    """

    def __init__(self, rules: Rules, device: Any) -> None:
        import torch

        size = rules.size
        keys = rules.left * size + rules.right
        order = np.argsort(keys)
        self._none = len(keys)  # the rank of a pair that no merge takes
        # a key above all keys, so that a search always ends on an entry
        self._keys = torch.from_numpy(np.append(keys[order], np.iinfo(np.int64).max)).to(device)
        self._rank = torch.from_numpy(np.append(order, self._none)).to(device)
        self._result = torch.from_numpy(rules.result).to(device)
        self._alone = torch.from_numpy(rules.alone).to(device) if rules.alone.any() else None
        self._size = size
        self.rounds = 0

    def merge(self, ids: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """The ids of each piece, merged.

        Args:
            ids: (bytes,) int64, the ids of the bytes of all pieces, one piece after another.
            lengths: (pieces,) int64, bytes of each; 0 is allowed.

        Returns:
            ids int32 of all pieces, one after another, and how many there are of each, int64.
        """
        import torch

        ends = lengths.cumsum(0)
        out = ids.to(torch.int32)  # what stands at each byte: the id that begins there, -1 if none does
        piece = torch.repeat_interleave(torch.arange(len(lengths), device=ids.device), lengths, output_size=len(ids))
        self._rounds(ids, piece, out, len(lengths))
        stays = out >= 0
        before = torch.cat([stays.new_zeros(1, dtype=torch.int64), stays.cumsum(0)])
        return out[stays], before[ends] - before[ends - lengths]

    def _ranks(self, left: Tensor, right: Tensor) -> Tensor:
        import torch

        key = left * self._size + right
        at = torch.searchsorted(self._keys, key)
        return torch.where(self._keys[at] == key, self._rank[at], self._none)

    def _rounds(self, ids: Tensor, piece: Tensor, out: Tensor, pieces: int) -> None:
        import torch

        at = torch.arange(len(ids), device=ids.device)
        rank = torch.full_like(ids, self._none)  # of the pair that begins here
        rank[:-1] = torch.where(piece[1:] == piece[:-1], self._ranks(ids[:-1], ids[1:]), self._none)
        while True:
            low = rank.new_full((pieces,), self._none).scatter_reduce_(0, piece, rank, "amin")[piece]
            alive = low < self._none
            first = ((rank == low) & alive).nonzero().squeeze(1)
            if not len(first):
                return
            self.rounds += 1
            first = self._leftmost(first, rank, piece)
            made = self._result[rank[first]]
            ids[first] = made
            out[at[first]] = made.to(torch.int32)
            out[at[first + 1]] = -1
            alive[first + 1] = False
            place = alive.cumsum(0)[first] - 1  # of what was made, once the others have moved together
            stays = alive.nonzero().squeeze(1)
            ids, piece, rank, at = ids[stays], piece[stays], rank[stays], at[stays]
            if 2 * len(ids) < pieces:
                piece = torch.cat([piece.new_zeros(1), (piece[1:] != piece[:-1]).cumsum(0)])
                pieces = int(piece[-1]) + 1
            self._again(ids, piece, rank, torch.cat([place, (place - 1).clamp_(min=0)]))

    def _leftmost(self, found: Tensor, rank: Tensor, piece: Tensor) -> Tensor:
        """Of occurrences of a pair: those that are merged now. A run of occurrences, each overlapping the next, is a
        pair of equal ids repeated: every other one from the left.
        """
        import torch

        index = torch.arange(len(found), device=found.device)
        begins = torch.ones_like(found, dtype=torch.bool)
        begins[1:] = found[1:] != found[:-1] + 1
        run = torch.where(begins, index, 0).cummax(0).values
        taken = (index - run) % 2 == 0
        if self._alone is not None:
            sole = torch.ones_like(taken)
            sole[1:] = piece[found[1:]] != piece[found[:-1]]
            taken &= sole | ~self._alone[rank[found]]
        return found[taken]

    def _again(self, ids: Tensor, piece: Tensor, rank: Tensor, places: Tensor) -> None:
        """Look up the ranks of the pairs that begin at these places."""
        import torch

        after = (places + 1).clamp_(max=len(ids) - 1)
        joined = (piece[places] == piece[after]) & (after > places)
        rank[places] = torch.where(joined, self._ranks(ids[places], ids[after]), self._none)


class PieceTable:
    """The ids of numbered pieces, on the device."""

    def __init__(self, device: Any) -> None:
        self._device = device
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        import torch

        self._flat = torch.zeros(0, dtype=torch.int32, device=self._device)
        self._begin = torch.zeros(0, dtype=torch.int64, device=self._device)
        self._length = torch.zeros(0, dtype=torch.int64, device=self._device)
        self.ids = self.pieces = 0
        self.counts = np.zeros(0, np.int64)  # of ids, by piece, on this side

    @property
    def bytes(self) -> int:
        """Of the device's memory."""
        return int(self._flat.nbytes + self._begin.nbytes + self._length.nbytes)

    def add(self, ids: Tensor, counts: Tensor, known: npt.NDArray[np.int64]) -> None:
        """Number further pieces. ids: int32, of all, one after another; counts: int64, of each; known: the same on
        this side.
        """
        began = self.ids
        self._flat = _grown(self._flat, self.ids, ids)
        self._begin = _grown(self._begin, self.pieces, counts.cumsum(0) - counts + began)
        self._length = _grown(self._length, self.pieces, counts)
        self.counts = np.concatenate([self.counts[: self.pieces], known])
        self.ids += len(ids)
        self.pieces += len(known)

    def expand(self, numbers: Tensor, total: int) -> tuple[Tensor, Tensor]:
        """The ids of pieces, one after another, and where each piece's end. total: how many ids that are."""
        import torch

        counts = self._length[numbers]
        ends = counts.cumsum(0)
        shift = torch.repeat_interleave(self._begin[numbers] - (ends - counts), counts, output_size=total)
        return self._flat[shift + torch.arange(total, device=shift.device)], ends


def _grown(held: Tensor, used: int, more: Tensor) -> Tensor:
    """``held`` with ``more`` behind what is used of it; its room doubles, so that growing costs little."""
    need = used + len(more)
    if need > len(held):
        wider = held.new_zeros(max(need, 2 * len(held), 1 << 12))
        wider[:used] = held[:used]
        held = wider
    held[used:need] = more
    return held
