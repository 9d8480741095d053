"""What a forecast holds: figures with their intervals, losses by reason, costs, and what it takes for granted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cleanpipe.planning.intervals import Interval


@dataclass(frozen=True, slots=True)
class Loss:
    """Documents that leave: of which fate, at which stage, for which reason, and how many of them."""

    fate: str
    stage: str
    reason: str
    documents: Interval


@dataclass(slots=True)
class Forecast:
    """figures: by name, each with its interval; ``UNITS`` says in what. cpu: seconds by stage, in the recipe's order.
    wall: seconds by number of cores, of which ``starting`` are those of any run. CPU, memory and wall time are this
    machine's, and differ a little each time; all else is the same for the same seed.
    """

    inputs: dict[str, object]
    sample: dict[str, object]
    figures: dict[str, Interval] = field(default_factory=dict)
    losses: list[Loss] = field(default_factory=list)
    cpu: dict[str, Interval] = field(default_factory=dict)
    wall: dict[int, Interval] = field(default_factory=dict)
    assumptions: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    starting: float = 0.0


UNITS: Mapping[str, str] = {
    "documents": "documents and damaged ranges, as the ledger has rows",
    "kept": "documents",
    "kept_share": "of documents",
    "duplicates_share": "of documents that are compared",
    "rows": "windows",
    "output_bytes": "bytes of shards",
    "shards": "files",
    "cpu_seconds": "seconds",
    "worker_memory": "bytes, each worker",
    "driver_memory": "bytes",
    "work_bytes": "bytes of work/, gone at the end",
    "ledger_bytes": "bytes of the ledger and its index",
    "peak_disk_bytes": "bytes: work/, shards and ledger together",
    "network_bytes": "bytes of inputs fetched",
}
