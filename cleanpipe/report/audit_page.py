"""audit.html: the audit as a page, a pure function of audit.json; what a run cost comes from run.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cleanpipe.report import overview, proof
from cleanpipe.report.markup import foreign, join
from cleanpipe.report.node import Node
from cleanpipe.report.output import shards_section
from cleanpipe.report.page import Room, Section, page
from cleanpipe.report.samples import ALL
from cleanpipe.report.stages import kept_samples, stage_sections

LARGEST = 1_950_000  # bytes; beyond, the page leaves more to audit.json
ROOMS = (Room(ALL), Room(ALL, idle=False), Room(idle=False), Room(limits=2, idle=False, rows=8), Room(limits=0, rows=2))
RUN = "run.json:"  # before the places of numbers that are not audit.json's


def to_html(audit: Mapping[str, Any], facts: Mapping[str, Any], *, caution: str = "") -> str:
    """The page of a run.

    Args:
        audit: audit.json, of this format or an earlier one; sections that it lacks are left out.
        facts: run.json, for the cost and the versions; {} for none.
        caution: a sentence on what the run is not, "" for a finished one.

    Returns:
        HTML, one file without scripts that asks for nothing; every number of the audit carries its exact value and
        place there (``data-n``, ``data-of``; see ``report.node``).
    """
    text = ""
    for room in ROOMS:
        text = _page(audit, facts, caution, room)
        if len(text.encode()) < LARGEST:
            break
    return text


def _page(audit: Mapping[str, Any], facts: Mapping[str, Any], caution: str, room: Room) -> str:
    whole, run = Node(audit), Node(facts, RUN)
    beside = [n for n in whole.at("reported_elsewhere").nodes() if not n.value["stage"]]
    sections: list[Section | None] = [
        overview.verdict(whole, run, caution),
        overview.funnel(whole) if audit.get("funnel") else None,
        overview.alarms(whole),
        *stage_sections(whole, room),
        kept_samples(whole, room),
        overview.most_lost(whole),
        shards_section(whole.at("shards"), beside),
        proof.conservation(whole),
        proof.identity(whole, run),
        proof.cost(whole, run),
    ]
    identity = whole.at("identity").value or {}
    name = str(identity.get("recipe", "a run"))
    description = str(whole.at("recipe", "description").value or "")
    told = "" if caution else f"configuration {identity.get('config_hash', 'unknown')}"  # known at the end
    subtitle = join(foreign(description, 300) if description else None, told or None, between=" · ")
    return page(
        f"Audit of {name}{', not finished' if caution else ''}",
        [s for s in sections if s is not None],
        subtitle=subtitle,
        caution=caution,
        footer="Written by cleanpipe from audit.json and run.json, which have every number in full. "
        "Numbers carry their exact value (data-n) and their place (data-of).",
    )
