"""Labels of a batch again, under the decisions of now: for what workers made ahead of the training loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from cleanpipe.errors import ConfigError
from cleanpipe.tokens.reading.plan import Plan
from cleanpipe.tokens.reading.reader import refresh
from cleanpipe.tokens.reading.sequences import IGNORED, Batch, Form, lay_out

_FACTS = ("sequences", "decisions", "labels", "input_ids")


def remask(plan: Plan, batch: Any, *, labels: str = "next") -> Any:
    """The batch with the labels that all decisions of now leave it; the batch itself where nothing was decided since.

    Workers of a DataLoader are ahead of the loop, and what they made before a decision is masked by older ones. In the
    loop, before the batch is trained:

        batch = remask(plan, batch)

    Costs one look at the files of decisions; only what is older is laid out again.

    Args:
        plan: of the same sequences as the one that the workers read.
        batch: a ``Batch``, or what ``collate`` and ``TokenIterableDataset`` give, on any device.
        labels: as the reader or data set was told.

    Raises:
        ConfigError: the batch is not of this plan, or its labels are not of this kind; it has no ``sequences`` or
            ``decisions``; as of ``Source.refresh``.
    """
    if not isinstance(batch, Batch) and (not isinstance(batch, Mapping) or any(name not in batch for name in _FACTS)):
        raise ConfigError(f"remask() takes a Batch, or a dict of tensors with {', '.join(_FACTS)}")
    facts: Mapping[str, Any] = batch.arrays() if isinstance(batch, Batch) else batch
    refresh(plan)
    lines, seal = plan.decided
    if int(facts["decisions"]) == lines:
        return batch
    sequences = _array(facts["sequences"])
    made = lay_out(plan, plan.rows(sequences), Form(labels).checked(plan))
    old, ids = _array(facts["labels"]), _array(facts["input_ids"])
    if old.shape != made.labels.shape:
        raise ConfigError(f"the batch has labels of shape {old.shape}, and this plan's are {made.labels.shape}")
    both = (old != IGNORED) & (made.labels != IGNORED)
    if (ids != made.input_ids)[old != IGNORED].any() or (old != made.labels)[both].any():
        raise ConfigError(f"the batch is not of this plan, or its labels are not labels={labels!r}")
    if isinstance(batch, Batch):
        return replace(batch, labels=made.labels, decisions=lines, seal=seal)
    out = {**batch, "labels": _like(facts["labels"], made.labels), "decisions": lines}
    return {**out, "seal": seal} if "seal" in batch else out


def _array(values: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Of a tensor on any device too."""
    return np.asarray(values.cpu() if hasattr(values, "cpu") else values, np.int64)


def _like(old: Any, new: np.ndarray[Any, np.dtype[np.int64]]) -> Any:
    if isinstance(old, np.ndarray):
        return new.astype(old.dtype, copy=False)
    import torch

    return torch.from_numpy(new).to(device=old.device, dtype=old.dtype)
