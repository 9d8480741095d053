"""audit.md (being written)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def to_markdown(audit: Mapping[str, Any]) -> str:
    """See the module."""
    from cleanpipe.audit.console import funnel

    return f"# Audit\n\n```\n{funnel(audit)}\n```\n"
