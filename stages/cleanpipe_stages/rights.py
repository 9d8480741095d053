"""rights: what a page and its HTTP head say about the use of its text: crawler rules, TDM reservation, licence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cleanpipe import batch as col
from cleanpipe.stage import Cut, Judge, Outcome, Stage, Step, option
from cleanpipe_stages._checks import one_of
from cleanpipe_stages.permissions.judge import DROPS, OTHER_LICENCE, judge_rows
from cleanpipe_stages.permissions.licences import SOURCES
from cleanpipe_stages.permissions.page import HEADERS, Said, all_said
from cleanpipe_stages.permissions.robots import EVERYONE

ROBOTS, BOTS, NOINDEX, NOAI = "rights_robots", "rights_bots", "rights_noindex", "rights_noai"
RESERVATION, POLICY = "rights_tdm_reservation", "rights_tdm_policy"
LICENCE, SOURCE = "rights_licence", "rights_licence_source"


@dataclass(frozen=True, kw_only=True)
class Rights(Stage):
    """Reads meta tags, links and JSON-LD of HTML, and the HTTP head. It drops nothing unless ``drop`` or ``licences``
    say so. Where neither markup nor HTTP head was seen (WET), every score is null: unknown, never "allowed".
    """

    name: ClassVar[str] = "rights"
    reads: ClassVar[frozenset[str]] = frozenset({col.MARKUP, col.MEDIA_TYPE, col.IS_HTTP, *HEADERS})
    scores: ClassVar[Mapping[str, pa.DataType]] = {
        ROBOTS: pa.string(),
        BOTS: pa.string(),
        NOINDEX: pa.int8(),
        NOAI: pa.int8(),
        RESERVATION: pa.int8(),
        POLICY: pa.string(),
        LICENCE: pa.string(),
        SOURCE: pa.string(),
    }
    ledger_only: ClassVar[frozenset[str]] = frozenset({BOTS, NOINDEX, POLICY})
    meanings: ClassVar[Mapping[str, str]] = {
        ROBOTS: "what robots meta tags and X-Robots-Tag forbid all crawlers, joined by commas; empty: nothing",
        BOTS: "the same for single crawlers, as in ccbot:noindex",
        NOINDEX: "1 where all crawlers, or those of `crawlers`, are told noindex",
        NOAI: "1 where they are told noai",
        RESERVATION: "tdm-reservation: 1 reserved, 0 not; null: nothing is said",
        POLICY: "URL of the TDM policy",
        LICENCE: "Creative Commons licence, as in cc-by-sa-4.0; several: none includes the others",
        SOURCE: "where it was named: header, rel (license), jsonld, meta, or link (any link to it)",
    }
    reasons: ClassVar[frozenset[str]] = frozenset({*DROPS, OTHER_LICENCE})

    drop: tuple[str, ...] = option((), f"what drops a page, any of {', '.join(DROPS)}; empty: nothing does")
    crawlers: tuple[str, ...] = option((), "crawlers whose own rules count as if said to all, as ccbot")
    licences: tuple[str, ...] = option((), "licences without version that alone are kept, as cc-by, cc0; empty: all")
    licence_sources: tuple[str, ...] = option(
        ("header", "rel", "jsonld", "meta"), f"of {', '.join(SOURCES)}: those that `licences` believes"
    )

    def check(self) -> None:
        """Raises ConfigError for an unknown word."""
        for word in self.drop:
            one_of(self.name, "drop", word, DROPS)
        for word in self.licence_sources:
            one_of(self.name, "licence_sources", word, SOURCES)

    def in_words(self) -> str:
        """With what drops a page."""
        what = f"Drops pages that say {' or '.join(self.drop)}" if self.drop else "Drops no page by crawler rules"
        kept = f"keeps only {' and '.join(self.licences)}" if self.licences else "tells the licences"
        return f"{what}, and {kept}: by meta tags, links, JSON-LD and HTTP head; WET records have none and pass."

    def looked_for(self) -> Mapping[str, str]:
        """What was read, and what was done about it."""
        did = "pages were dropped by them" if self.drop or self.licences else "no page was dropped by them"
        rest = "robots.txt, copyright and opt-outs after the crawl were not looked at"
        return {"rights": f"Crawler rules, reservations and licences in pages and HTTP heads were read; {did}; {rest}."}

    def cuts(self) -> Sequence[Cut]:
        """Of what drops, that which is a number."""
        numbers = {"noindex": NOINDEX, "noai": NOAI, "tdm": RESERVATION}
        return tuple(Cut(numbers[word], "<", 1, "drop", word) for word in self.drop if word in numbers)

    def judge(self) -> Judge:
        """By the rules, the reservation and the licence."""
        columns = frozenset({ROBOTS, NOINDEX, NOAI, RESERVATION, LICENCE, SOURCE})
        options = frozenset({"drop", "licences", "licence_sources"})
        return Judge(columns, options, lambda rows: judge_rows(rows, self.drop, self.licences, self.licence_sources))

    def open(self) -> Step:
        """Raises ConfigError as ``check`` does."""
        self.check()
        judge, also = self.judge().judge, frozenset(name.lower() for name in self.crawlers)
        html_types = pa.array(sorted(col.HTML_TYPES))

        def step(batch: pa.RecordBatch) -> Outcome:
            html = pc.fill_null(pc.is_in(batch.column(col.MEDIA_TYPE), html_types), False)
            http = pc.fill_null(batch.column(col.IS_HTTP), False)
            said = all_said(batch, np.asarray(html.to_numpy(zero_copy_only=False)))
            for one in said.values():
                for crawler in also & one.rules.of.keys():
                    one.rules.add(EVERYONE, one.rules.of[crawler])
            known = np.asarray(pc.or_(html, http).to_numpy(zero_copy_only=False))
            scores = _scores(said, known)
            drops = judge(pa.RecordBatch.from_pydict(scores))
            return Outcome(batch, drops=drops, scores=scores, skipped=pa.array(~known), facts=_facts(scores))

        return step


def _scores(said: Mapping[int, Said], known: npt.NDArray[np.bool_]) -> dict[str, pa.Array]:
    """Every score; null where nothing could be known, and where a page names no reservation, policy or licence."""
    n, hidden = len(known), ~known
    words = {name: np.full(n, None, object) for name in (POLICY, LICENCE, SOURCE)}
    words |= {name: np.full(n, "", object) for name in (ROBOTS, BOTS)}
    reservation = np.full(n, -1, np.int8)
    flags = {name: np.zeros(n, np.int8) for name in (NOINDEX, NOAI)}
    for row, one in said.items():
        robots = one.rules.robots()
        licence, source = one.licence()
        values = (robots, one.rules.bots(), one.rules.policy, licence, source)
        for name, value in zip((ROBOTS, BOTS, POLICY, LICENCE, SOURCE), values, strict=True):
            words[name][row] = value
        flags[NOINDEX][row], flags[NOAI][row] = "noindex" in robots, "noai" in robots.split(",")
        if one.rules.reservation is not None:
            reservation[row] = one.rules.reservation
    scores = {name: pa.array(values, pa.string(), mask=hidden) for name, values in words.items()}
    scores |= {name: pa.array(values, pa.int8(), mask=hidden) for name, values in flags.items()}
    scores[RESERVATION] = pa.array(reservation, pa.int8(), mask=hidden | (reservation < 0))
    return {name: scores[name] for name in Rights.scores}


def _facts(scores: Mapping[str, pa.Array]) -> dict[str, int]:
    facts: dict[str, int] = {}
    for name, what in ((ROBOTS, "robots"), (LICENCE, "licence"), (SOURCE, "licence by")):
        for pair in scores[name].value_counts().to_pylist():
            if pair["values"]:
                facts[f"{what} {pair['values']}"] = pair["counts"]
    reserved = pc.sum(scores[RESERVATION]).as_py() or 0
    return facts | ({"tdm reserved": reserved} if reserved else {})
