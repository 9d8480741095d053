"""audit.html of a store of tokens: a pure function of its audit.json, in the manner of a run's page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cleanpipe.report.markup import foreign, join
from cleanpipe.report.node import Node
from cleanpipe.report.page import Section, page
from cleanpipe.tokens.audit import page_ids, page_made


def to_html(audit: Mapping[str, Any]) -> str:
    """The page: one file without scripts that asks for nothing; every number carries its exact value and its place in
    audit.json (``data-n``, ``data-of``; see ``cleanpipe.report.node``).
    """
    whole = Node(audit)
    sections: list[Section | None] = [
        page_made.verdict(whole),
        page_made.funnel(whole.at("funnel")),
        page_made.rates(whole),
        page_made.languages(whole.at("languages")),
        page_made.lengths(whole.at("lengths")),
        page_made.packing(whole.at("packing")),
        page_made.windows(whole),
        page_ids.ids(whole.at("ids")),
        page_ids.controls(whole.at("controls")),
        page_ids.round_trip(whole.at("round_trip")),
        page_ids.samples(whole.at("samples")),
        page_ids.tokenizer(whole),
        page_ids.shards(whole),
        page_ids.conservation(whole.at("conservation")),
        page_ids.identity(whole),
    ]
    identity = audit["identity"]
    of = identity.get("recipe") or (identity.get("run") or {}).get("recipe") or "a run"
    card = audit["tokenizer"]
    told = join("by ", foreign(str(card["name"]), 80), f" · fingerprint {card['fingerprint'].get('digest', 'unknown')}")
    return page(
        f"Tokens of {of}",
        [s for s in sections if s is not None],
        subtitle=told,
        footer="Written by cleanpipe from audit.json, which has every number in full. "
        "Numbers carry their exact value (data-n) and their place (data-of).",
    )
