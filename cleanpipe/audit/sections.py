"""The audit's sections: every line of the rules that these stages can fill, each with what it was made of."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from typing import Any

from cleanpipe import batch as col
from cleanpipe.audit.bins import WIDTH, by_edge, quantiles
from cleanpipe.audit.facts import THRESHOLDS, UNKNOWN
from cleanpipe.audit.lines import BINNED, NOT_APPLICABLE, Line, View, count, largest, missing, share
from cleanpipe.builtin import READ
from cleanpipe.corpus.sampling import interval
from cleanpipe.io.documents import DAMAGED_RANGE
from cleanpipe.stage import Stage
from cleanpipe.text.normalise import INVISIBLE, NEVER

TOP = 50  # entries of a list by host, type or language
EXACT_DUPLICATE, NEAR_DUPLICATE = "exact_duplicate", "near_duplicate"
_SPOKEN = "in documents"
SAMPLED = "sampled, with its 95 % interval"


def input_section(view: View) -> dict[str, Any]:
    """Files, records and bytes as they were read, and what could not be."""
    read, facts, counts = view.tally.get(READ, {}), view.facts(READ), view.counts(READ)
    records = view.ledger.get(col.RECORD_TYPE, {})
    documents = sum(records.values())
    truncated = view.ledger.get(col.TRUNCATED, {})
    lost = view.quarantined(READ)
    undecodable = sum(n for s in view.order for r, n in view.dropped(s).items() if r == "replacement_encoding")
    undecodable += lost.get("bad_content_encoding", 0)
    total: dict[str, int] = {}
    for types in view.by_source.values():
        for kind, n in types.items():
            total[kind] = total.get(kind, 0) + n
    return {
        "files": count(int(read.get("files", 0)), "files"),
        "file_bytes": count(int(read.get("file_bytes", 0)), "bytes as the files lie"),
        "block_bytes": count(int(read.get("block_bytes", 0)), "bytes of record blocks, uncompressed"),
        "body_bytes": count(counts["bytes_in"], "bytes of decoded bodies"),
        "records": {"total": total, "by_source": {s: dict(t) for s, t in view.by_source.items()}},
        "documents": {"by_type": dict(records), "total": count(documents, "documents")},
        "truncated": {
            "share": share(sum(truncated.values()), documents, "documents"),
            "by_reason": dict(truncated),
        },
        "undecodable": share(undecodable, documents, "documents"),
        "quarantined": lost,
        "damaged": {
            "ranges": count(lost.get(DAMAGED_RANGE, 0), "byte ranges"),
            "bytes": count(facts.get("damaged_bytes", 0), "bytes as the files lie"),
        },
        "readers": dict(read.get("readers", {})),
        "reread": dict(read.get("reread", {})),
        "charsets": largest(view.ledger.get(col.CHARSET, {}), TOP),
    }


def http_section(view: View) -> dict[str, Any] | str:
    """Statuses and types, of every document read; "unknown" stands apart and is in no share."""
    stage = view.http()
    statuses = view.ledger.get(col.HTTP_STATUS, {})
    known = {s: n for s, n in statuses.items() if s != UNKNOWN}
    matrix = view.ledger.get("types", {})
    typed = {t: sum(by.values()) for t, by in view.ledger.get("by_type", {}).items()}
    text = sum(n for t, n in typed.items() if t in col.HTML_TYPES or t == "text/plain")
    if stage is not None and _bypassed(view, stage.name):
        return NOT_APPLICABLE
    declared = {t: sum(by.values()) for t, by in matrix.items()}
    shown = [t for t in largest(declared, TOP) if t in matrix]
    return {
        "status": statuses,
        "non_200": share(sum(known.values()) - known.get("200", 0), sum(known.values()), "documents of known status"),
        "media_types": largest(typed, TOP),
        "other_types": share(sum(typed.values()) - text, sum(typed.values()), "documents of known type"),
        "declared_by_sniffed": {t: largest(matrix[t], TOP) for t in sorted(shown)},
        "declared_types_left_out": count(len(matrix) - len(shown), "declared types of few documents"),
        "identified_types": largest(view.ledger.get(col.PAYLOAD_TYPE, {}), TOP),
        "partial": {s: statuses.get(s, 0) for s in ("203", "206")},
        "soft_404": missing("a page that answers 200 and says 'not found' is not told apart yet"),
        "removed": _removed(view, stage.name) if stage else missing("no stage of this recipe judges the HTTP status"),
    }


def languages_section(view: View) -> dict[str, Any] | str:
    """Languages as they were judged, the keep-curve, and how the scores lie."""
    stages = view.languages()
    if not stages:
        return NOT_APPLICABLE
    by_fate = view.ledger.get("by_language", {})
    judged = view.ledger.get(col.LANGUAGE, {})
    first = view.counts(stages[0].name)["docs_in"]
    dropped = sum(sum(view.dropped(s.name).values()) for s in stages)
    scores = view.ledger.get("scores", {})
    curve = view.ledger.get("keep_curve", {})
    shown = list(largest({k: v["documents"] for k, v in curve.items()}, TOP))
    return {
        "judged": largest(judged, TOP),
        "preview": largest(view.ledger.get(col.LANGUAGE_PREVIEW, {}), TOP),
        "kept": largest({k: v[col.KEPT] for k, v in by_fate.items() if col.KEPT in v}, TOP),
        "removed": share(dropped, first, "documents that reached the first language stage"),
        "removed_by_stage": {s.name: _removed(view, s.name) for s in stages},
        "scores": {n: _score(scores[n]) for stage in stages for n in stage.scores if n in scores},
        "keep_curve": {
            language: {
                f"{t:g}": share(counts.get(f"{t:g}", 0), counts["documents"], "documents judged to be in it")
                for t in THRESHOLDS
            }
            for language, counts in sorted(curve.items())
            if language in shown
        },
        "mixed_language": _mixed(view, stages),
    }


def _mixed(view: View, stages: Sequence[Stage]) -> Line:
    """Documents with a tenth or more of their characters in another language than their own."""
    for stage in stages:
        facts = view.facts(stage.name)
        whole, mixed = facts.get("segments_documents", 0), facts.get("mixed_documents", 0)
        if whole:
            line = share(mixed, whole, "documents judged by segments")
            exact = getattr(stage, "segments", "all") == "all"
            return line if exact else line | {"method": SAMPLED, "interval": interval(mixed, whole)}
    return missing("no document was judged by its segments")


def scrub_section(view: View) -> dict[str, Any] | str:
    """What the scrubber took away."""
    stage = view.scrub()
    if stage is None or _bypassed(view, stage.name):
        return NOT_APPLICABLE
    counts = view.counts(stage.name)
    whole = counts["chars_in"] - counts["chars_dropped"]
    return {
        "documents": count(counts["docs_in"] - counts["skipped"], "documents scrubbed"),
        "not_applicable": count(counts["skipped"], "documents without markup"),
        "characters_in": count(whole, "code points of the documents that came through"),
        "characters_out": count(counts["chars_out"], "code points"),
        "left": share(counts["chars_out"], whole, "code points"),
        "facts": view.facts(stage.name) or missing("the scrubber counts neither residual tags nor paragraphs"),
        "removed": _removed(view, stage.name),
    }


def quality_section(view: View) -> dict[str, Any] | str:
    """Each figure's quantiles, and which rules failed a document together."""
    stage = view.quality()
    if stage is None:
        return NOT_APPLICABLE
    scores, facts = view.ledger.get("scores", {}), view.facts(stage.name)
    dropped = sum(view.dropped(stage.name).values())
    failed, alone = ({r: facts.get(f"{word}_{r}", 0) for r in sorted(stage.reasons)} for word in ("failed", "alone"))
    said = not dropped or any(failed.values())
    together = missing("the stage does not say which rules failed a document together")
    return {
        "scores": {name: _score(scores[name]) for name in stage.scores if name in scores},
        "removed": _removed(view, stage.name),
        "failed_by_rule": failed if said else together,
        "removed_by_one_rule_alone": alone if said else together,
        "joint_failures": share(dropped - sum(alone.values()), dropped, "dropped documents") if said else together,
        "facts": facts,
    }


def duplicates_section(view: View) -> dict[str, Any] | str:
    """Exact and near duplicates; what the meeting compared; hosts that repeat most."""
    stage = view.duplicates()
    if stage is None:
        return NOT_APPLICABLE
    counts, dropped = view.counts(stage.name), view.dropped(stage.name)
    exchange = stage.exchange()
    meeting = view.meetings.get(exchange.name, {}) if exchange is not None else {}
    absent = missing("the meeting does not report it")
    hosts = view.ledger.get("hosts", {})
    jaccard = view.ledger.get("scores", {}).get(col.JACCARD, {})
    return {
        "exact": share(dropped.get(EXACT_DUPLICATE, 0), counts["docs_in"], "documents compared"),
        "near": share(dropped.get(NEAR_DUPLICATE, 0), counts["docs_in"], "documents compared"),
        "cluster_sizes": meeting.get("cluster_sizes", absent),
        "s_curve": meeting.get("s_curve") or absent,
        "s_curve_measured": meeting.get("s_curve_measured", absent),
        "jaccard_of_verified_pairs": meeting.get("jaccard_histogram", absent),
        "jaccard_of_removed": by_edge(jaccard.get("bins", {})),
        "top_hosts": largest(hosts.get("duplicates", {}), 20),
        "mirrors": missing("which documents are mirrors of one another is known for a labelled corpus only"),
        "biggest": meeting.get("biggest", absent),
        "meeting": {k: v for k, v in meeting.items() if k != "biggest"},
    }


def windows_section(view: View) -> dict[str, Any] | str:
    """How documents were cut, and what the overlap costs."""
    stage = view.windows()
    if stage is None:
        return NOT_APPLICABLE
    counts = view.counts(stage.name)
    return {
        "per_document": dict(view.ledger.get("windows", {})),
        "windows": share(counts["rows_out"], counts["docs_out"], "windows a document"),
        "overlap_characters": count(counts["chars_added"], "code points written again"),
        "duplication": share(counts["chars_out"], counts["chars_in"] - counts["chars_dropped"], "code points"),
        "facts": view.facts(stage.name),
    }


def characters_section(view: View) -> dict[str, Any]:
    """Invisible controls by code point and lines of mojibake, before and after the text rule."""
    points: dict[str, dict[str, int]] = {}
    others: dict[str, dict[str, int]] = {}
    documents = {"before": 0, "after": 0}
    scored = 0
    for stage in view.order:
        for fact, n in view.facts(stage).items():
            when, _, what = fact.partition(" ")
            if when not in documents or not what:
                continue
            if what == "documents":
                documents[when] += n
            else:
                into = points if what.startswith("U+") else others
                into.setdefault(what, {"before": 0, "after": 0})[when] += n
        if stage == "normalise":
            scored = view.counts(stage)["docs_in"]
    never = {f"U+{ord(c):04X}" for c in NEVER & INVISIBLE}
    mojibake = others.get("mojibake_documents", {"before": 0, "after": 0})
    return {
        "documents_with_invisible_before": share(documents["before"], scored, "documents"),
        "documents_with_invisible_after": share(documents["after"], scored, "documents"),
        "nuls": points.get("U+0000", {"before": 0, "after": 0}),
        "invisible": dict(sorted(points.items())),
        "left_of_the_removed_set": count(
            sum(n["after"] for p, n in points.items() if p in never), f"code points {_SPOKEN}, 0 by the rule"
        ),
        "other": others,
        "invalid_bytes": others.get("invalid", missing("not counted: bytes that no charset explains become U+FFFD")),
        "white_runs": others.get("white_runs", missing("runs of white space are repaired and not counted")),
        "mojibake_lines": others.get("mojibake_lines", {"before": 0, "after": 0}),
        "documents_with_mojibake_before": share(mojibake["before"], scored, "documents"),
        "documents_with_mojibake_after": share(mojibake["after"], scored, "documents"),
    }


def shards_section(view: View) -> dict[str, Any]:
    """Every shard with its size, rows, fill and digest."""
    files = [
        {
            **{k: s[k] for k in ("file", "rows", "bytes", "sha256") if k in s},
            "fill": share(s["bytes"], s["limit"], "bytes"),
        }
        for s in view.shards
    ]
    size = sum(s["bytes"] for s in view.shards)
    raw = int(view.tally.get(READ, {}).get("block_bytes", 0))
    return {
        "files": files,
        "rows": count(sum(s["rows"] for s in view.shards), "windows"),
        "bytes": count(size, "bytes"),
        "retained": share(size, raw, "bytes of shards to bytes of record blocks, uncompressed"),
    }


def _bypassed(view: View, stage: str) -> bool:
    """Whether the stage applied to no document that reached it."""
    counts = view.counts(stage)
    return counts["docs_in"] > 0 and counts["skipped"] >= counts["docs_in"]


def _removed(view: View, stage: str) -> dict[str, Line]:
    """Share of the stage's input that went, by reason."""
    whole = view.counts(stage)["docs_in"]
    return {reason: share(n, whole, "documents that reached the stage") for reason, n in view.dropped(stage).items()}


def scores_section(view: View) -> dict[str, Any]:
    """Figures of every numeric score of the ledger that no other section has."""
    asked = (view.quality(), *view.languages())
    others = {n for stage in asked if stage is not None for n in stage.scores}
    return {n: _score(counts) for n, counts in sorted(view.ledger.get("scores", {}).items()) if n not in others}


def lost_section(view: View) -> dict[str, Any]:
    """Hosts, languages and types that lost most documents, most first; why, where it is counted."""
    hosts = view.ledger.get("hosts", {})
    whole, kept = hosts.get("documents", {}), hosts.get("kept", {})
    out = {"hosts": _most_lost({h: (n, kept.get(h, 0), {}) for h, n in whole.items()})}
    for name, tallied in (("languages", "by_language"), ("types", "by_type")):
        found = {}
        for value, fates in view.ledger.get(tallied, {}).items():
            reasons = {r: n for r, n in fates.items() if r != col.KEPT}
            found[value] = (sum(fates.values()), fates.get(col.KEPT, 0), reasons)
        out[name] = _most_lost(found)
    return out


def _most_lost(found: Mapping[str, tuple[int, int, Mapping[str, int]]]) -> dict[str, Any]:
    """found: documents, kept, and lost by reason, by name."""
    lost = {name: whole - kept for name, (whole, kept, _) in found.items() if whole > kept}
    shown = heapq.nsmallest(TOP, lost, key=lambda name: (-lost[name], name))
    items = []
    for name in shown:
        whole, kept, reasons = found[name]
        entry = {"name": name, "documents": whole, "kept": kept, "lost": lost[name]}
        items.append({**entry, "reasons": largest(reasons, 3)} if reasons else entry)
    return {"items": items, "names": len(found), "left_out": len(lost) - len(shown)}


def _score(counts: Mapping[str, Any]) -> dict[str, Any]:
    whole = counts["measured"] + counts["not_measured"]
    return {
        "measured": share(counts["measured"], whole, "ledger rows"),
        "not_measured": count(counts["not_measured"], "ledger rows"),
        "quantiles": quantiles(counts["bins"]),
        "quantiles_kept": quantiles(counts["bins_kept"]),
        "histogram": by_edge(counts["bins"]),
        "histogram_kept": by_edge(counts["bins_kept"]),
        "method": f"{BINNED}: lower edges of bins {WIDTH}",
    }
