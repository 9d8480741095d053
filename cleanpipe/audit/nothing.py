"""A run that kept nothing says so, and where most went."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from cleanpipe import batch as col


class Most(NamedTuple):
    """Where most documents of a run went that kept none."""

    fate: str
    stage: str
    reason: str
    documents: int


def kept_nothing(audit: Mapping[str, Any]) -> Most | None:
    """None where a document was kept, or where there was none to keep."""
    fates = audit.get("ledger", {}).get("fates", {})
    if fates.get(col.KEPT, {}).get("documents", 0):
        return None
    lost = [
        Most(fate, stage, reason, int(entry["documents"]))
        for fate in (col.DROPPED, col.QUARANTINED)
        for stage, by in fates.get(fate, {}).items()
        for reason, entry in by.items()
    ]
    return min(lost, key=lambda m: (-m.documents, m.stage, m.reason), default=None)


def nothing_in_words(audit: Mapping[str, Any]) -> str:
    """One line of warning; "" where a document was kept."""
    most = kept_nothing(audit)
    if most is not None:
        return f"no document was kept; most went at {most.stage}: {most.reason} {most.documents:,}"
    return "" if audit.get("ledger", {}).get("rows") else "no document was kept: none was read"
