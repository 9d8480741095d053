"""What must be told loudly of a finished store: limits that its tokens pass, laws that do not hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cleanpipe.tokens.audit.build import failed_gates
from cleanpipe.tokens.audit.limits import Limits

_VOCABULARY = "a vocabulary that fits these languages is needed, or another limit"
_WAYS = {
    "unk tokens": f"{_VOCABULARY} (--max-unk)",
    "byte fallback tokens": f"{_VOCABULARY} (--max-byte-fallback)",
    "quarantined": "the ledger tells which, and why: SELECT reason, detail, url FROM ledger WHERE fate = 'quarantined'",
}


def gates_of(audit: Mapping[str, Any], limits: Limits) -> tuple[str, ...]:
    """A line for each, with the figure and the way out. limits: of this call, whatever the audit was built with."""
    lines = [(line, _WAYS.get(line.partition(":")[0])) for line in failed_gates(audit, limits)]
    return tuple(f"{line}: {way}" if way else line for line, way in lines)
