"""The data card beside the shards: README.md for people and dataset hubs, croissant.json for programs.

Both are pure functions of the audit, the recipe and the shards' schema: no time, host or path of this machine is in
them, so that they are the same whoever ran it and however.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from cleanpipe.card.croissant import to_croissant
from cleanpipe.card.facts import Card
from cleanpipe.card.readme import to_readme
from cleanpipe.recipe import Recipe
from cleanpipe.stage import Stage


def card_files(
    audit: Mapping[str, Any],
    recipe: Recipe,
    stages: Sequence[Stage],
    schema: pa.Schema,
    captured: Mapping[str, int],
) -> dict[str, str]:
    """README.md and croissant.json of a run.

    Args:
        audit: as ``build_audit`` makes it.
        stages: as they ran, the core's own among them.
        schema: of the shards.
        captured: kept documents by the day of their capture, YYYY-MM-DD (``facts.captured``).
    """
    card = Card(audit, recipe, stages, schema, captured)
    return {"README.md": to_readme(card), "croissant.json": to_croissant(card)}
