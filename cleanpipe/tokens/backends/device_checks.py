"""What every batch of ids must hold, counted where the ids are: with torch on its device, else with NumPy.

One histogram tells all three: how often each id came, ids that the vocabulary does not have, and control ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class IdFindings:
    """histogram: (vocabulary,) how often each id came. outside: ids not below the vocabulary, negative ones too.
    controls: how often each control id came that came at all.
    """

    histogram: Counts
    outside: int
    controls: Mapping[int, int]

    @property
    def ids(self) -> int:
        """How many ids were looked at."""
        return int(self.histogram.sum()) + self.outside

    @property
    def unseen(self) -> int:
        """How many ids of the vocabulary never came."""
        return int((self.histogram == 0).sum())

    def facts(self) -> dict[str, Any]:
        """For a report; the histogram itself is left out."""
        return {
            "ids": self.ids,
            "outside_vocabulary": self.outside,
            "control_ids": sum(self.controls.values()),
            "unseen": self.unseen,
        }


class IdChecks:
    """Sums up over batches. Ids may be NumPy arrays or integer tensors of any one device, in any order of calls."""

    def __init__(self, vocabulary: int, controls: Iterable[int]) -> None:
        """vocabulary: largest id + 1. controls: ids that no text may hold."""
        self.vocabulary = vocabulary
        self._controls = sorted({one for one in controls if 0 <= one < vocabulary})
        self._counts: Counts = np.zeros(vocabulary + 1, np.int64)  # the last: ids outside
        self._there: Any = None  # the same, on the device; fetched when asked, so that no batch waits

    def add(self, ids: Any) -> None:
        """Count the ids of a batch: of texts alone, without BOS and EOS."""
        if isinstance(ids, np.ndarray):
            self._counts += _counted(ids, self.vocabulary)
        else:
            counts = _counted_there(ids, self.vocabulary)
            self._there = counts if self._there is None else self._there.to(counts.device) + counts

    def found(self) -> IdFindings:
        """Everything until now; on a device this waits for it."""
        counts = self._counts.copy()
        if self._there is not None:
            if self._there.is_cuda:  # whoever added may have done so on a stream of its own
                import torch

                torch.cuda.synchronize(self._there.device)
            counts += self._there.cpu().numpy()
        body = counts[:-1]
        controls = {one: int(body[one]) for one in self._controls if body[one]}
        return IdFindings(body, int(counts[-1]), controls)


def check_ids(ids: Any, vocabulary: int, controls: Iterable[int]) -> IdFindings:
    """What one batch of ids holds."""
    checks = IdChecks(vocabulary, controls)
    checks.add(ids)
    return checks.found()


def _counted(ids: npt.NDArray[Any], vocabulary: int) -> Counts:
    wide = ids.astype(np.int64)
    held = np.where((wide >= 0) & (wide < vocabulary), wide, vocabulary)
    return np.bincount(held, minlength=vocabulary + 1).astype(np.int64)


def _counted_there(ids: Any, vocabulary: int) -> Any:
    import torch

    wide = ids.to(torch.int64)
    held = torch.where((wide >= 0) & (wide < vocabulary), wide, vocabulary)
    return torch.bincount(held, minlength=vocabulary + 1)
