"""The audit for a reader: tables, units, thousands separators; every word that came from a page is escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cleanpipe.audit.console import percent, size
from cleanpipe.audit.lines import NOT_MEASURED
from cleanpipe.audit.tables import (
    ROWS,
    Lines,
    absent,
    code,
    escape,
    fact_table,
    left_out,
    many,
    number_table,
    part_of,
    per,
    quantile_table,
    ranked,
    ranked_table,
    say,
    share_of,
    table,
    title,
    value_of,
    words,
)


def to_markdown(audit: Mapping[str, Any]) -> str:
    """audit.md: the numbers of audit.json, in the order in which a data lead asks for them."""
    parts = [
        _head(audit),
        _funnel(audit),
        _alarms(audit["alarms"]),
        _reported(audit["reported_elsewhere"]),
        _input(audit["input"]),
        _http(audit["http"]),
        _languages(audit["languages"]),
        _scrub(audit["scrub"]),
        _quality(audit["quality"]),
        _duplicates(audit["duplicates"]),
        _windows(audit["windows"]),
        _characters(audit["characters"]),
        _shards(audit["shards"]),
        _samples(audit["samples"]),
        _conservation(audit["conservation"]),
        _identity(audit["identity"]),
    ]
    return "\n".join(line for part in parts for line in part) + "\n"


def _head(audit: Mapping[str, Any]) -> Lines:
    identity, last, shards = audit["identity"], audit["funnel"][-1]["documents"], audit["shards"]
    read, ranges = audit["input"]["documents"]["total"]["value"], audit["input"]["damaged"]["ranges"]["value"]
    yield f"# Audit of {escape(str(identity.get('recipe', 'a run')))}, configuration {identity.get('config_hash')}"
    yield ""
    yield (
        f"{many(read, 'document')} and {many(ranges, 'damaged range')} read, {last['out']:,} kept "
        f"({percent(last['share_of_run_input'])}), written as {many(shards['rows']['value'], 'window')} in "
        f"{many(len(shards['files']), 'shard')} ({size(shards['bytes']['value'])}). "
        '"n/a" is not applicable, which is never 0.'
    )


def _funnel(audit: Mapping[str, Any]) -> Lines:
    yield from title("Funnel")
    yield 'What came through, as share of what entered the stage, and the run. "n/a": documents that it passed by.'
    yield ""
    rows = []
    for row in audit["funnel"]:
        cells = [escape(row["stage"]), f"{row['documents']['in']:,}", f"{row['documents']['out']:,}"]
        for measure in ("documents", "bytes", "characters"):
            stage, run = (share_of(row[measure][f"share_of_{of}_input"]) for of in ("stage", "run"))
            cells += [stage if row["applies"] else "n/a", run]
        rows.append([*cells, f"{row['not_applicable']:,}"])
    heads = [f"{m} of {w}" for m in ("documents", "bytes", "characters") for w in ("stage", "run")]
    yield from table(["stage", "documents in", "out", *heads, "n/a"], rows)
    yield from title("Reasons", 3)
    rows = []
    for row in audit["funnel"]:
        stage = audit["stages"][row["stage"]]
        for fate in ("dropped", "quarantined"):
            for reason, n in ranked(stage[fate]):
                part = {"value": n / row["documents"]["in"] if row["documents"]["in"] else 0}
                rows.append([escape(row["stage"]), escape(reason), fate, f"{n:,}", percent(part)])
    yield from table(["stage", "reason", "fate", "documents", "of stage"], rows, left=(0, 1, 2))


def _conservation(conservation: Mapping[str, Any]) -> Lines:
    yield from title("Conservation")
    lines = conservation["lines"]
    if conservation["balanced"]:
        yield f"Everything closes: {len(lines)} laws of records, bytes and characters hold."
    else:
        yield f"**The balance does not close:** {sum(not li['ok'] for li in lines)} of {len(lines)} laws are broken."
    yield ""
    rows = [
        [
            escape(li["what"]),
            f"{li['left']:,}",
            f"{li['right']:,}",
            "yes" if li["ok"] else "**no**",
            escape(li["detail"]),
        ]
        for li in sorted(lines, key=lambda li: bool(li["ok"]))
    ]
    yield from table(["law", "left", "right", "closes", "in words"], rows, left=(0, 3, 4))


def _reported(lines: Sequence[Mapping[str, Any]]) -> Lines:
    yield from title("Beside figures reported elsewhere")
    yield "Others measured theirs on their own crawls; nothing is asserted of them."
    yield ""
    rows = [[escape(li["what"]), li["reported"], value_of(li["ours"], li["reported"])] for li in lines]
    yield from table(["figure", "reported", "ours"], rows)


def _alarms(alarms: Mapping[str, Any]) -> Lines:
    raised = alarms["raised"]
    above = percent({"value": alarms["above"]})
    yield from title("Alarms")
    yield f"Hosts, languages and types with {alarms['least_documents']:,} or more documents that lost above {above}."
    yield "By design = yes: the loss is explained by languages or types that the recipe refuses."
    yield ""
    rows = []
    for kind in sorted({a["kind"] for a in raised}):
        for a in [a for a in raised if a["kind"] == kind][:ROWS]:
            design = "yes" if a["by_design"] else "**no**"
            lost = [f"{a['lost']['denominator']:,}", percent(a["lost"])]
            why = words(a["reasons"]) if a["reasons"] else "not counted by host: ask the ledger"
            rows.append([kind, code(a["name"]), design, why, *lost])
    yield from table(["kind", "name", "by design", "where most went", "documents", "lost"], rows, left=range(4))
    more = len(raised) + alarms["left_out"] - len(rows)
    if more:
        yield ""
        yield f"And {more:,} more; audit.json has {len(raised):,}."


def _input(part: Mapping[str, Any]) -> Lines:
    yield from title("Input")
    files, stored, raw = (part[k]["value"] for k in ("files", "file_bytes", "block_bytes"))
    yield f"{many(files, 'file')}, {size(stored)} as they lie, {size(raw)} of record blocks uncompressed."
    yield ""
    yield from ranked_table("record type", "records", part["records"]["total"])
    sources = part["records"]["by_source"]
    rows = [[escape(s), f"{sum(t.values()):,}", words(t)] for s, t in sorted(sources.items())[:ROWS]]
    yield ""
    yield from table(["input", "records", "by type"], rows, left=(0, 2))
    yield from left_out(len(sources), "inputs")
    truncated, damaged = part["truncated"], part["damaged"]
    yield ""
    yield f"- truncated by the crawler: {part_of(truncated['share'])}; {words(truncated['by_reason'])}"
    yield f"- undecodable: {part_of(part['undecodable'])}"
    yield f"- damaged: {many(damaged['ranges']['value'], 'byte range')}, {many(damaged['bytes']['value'], 'byte')}"
    yield f"- quarantined by the reader: {words(part['quarantined'])}"
    yield f"- readers: {words(part['readers'])}; read again: {words(part['reread'])}"
    yield f"- charsets: {words(part['charsets'])}"


def _http(part: Any) -> Lines:
    yield from title("HTTP")
    if absent(part):
        yield from say(part)
        return
    yield f"Other than 200: {part_of(part['non_200'])}. Neither HTML nor plain text: {part_of(part['other_types'])}."
    yield ""
    yield from ranked_table("status", "documents", part["status"])
    yield ""
    matrix = part["declared_by_sniffed"]
    pairs = {f"{escape(d)} → {escape(s)}": n for d, by in matrix.items() for s, n in by.items()}
    yield from ranked_table("declared → sniffed type", "documents", pairs, escaped=True)


def _languages(part: Any) -> Lines:
    yield from title("Languages")
    if absent(part):
        yield from say(part)
        return
    yield f"Removed by language: {part_of(part['removed'])}. Mixed-language share: {value_of(part['mixed_language'])}."
    yield ""
    curve, kept, judged = part["keep_curve"], part["kept"], part["judged"]
    at = sorted({t for lines in curve.values() for t in lines}, key=float)
    names = [name for name, _ in ranked(judged) if name in curve][:ROWS]
    rows = [[escape(n), f"{judged[n]:,}", f"{kept.get(n, 0):,}", *(share_of(curve[n][t]) for t in at)] for n in names]
    yield from table(["language", "judged", "kept", *(f"≥ {t}" for t in at)], rows)
    yield from left_out(len(curve), "languages")
    yield ""
    yield from quantile_table(part["scores"])


def _scrub(part: Any) -> Lines:
    yield from title("Scrubbing")
    if absent(part):
        yield from say(part)
        return
    entered, left = part["characters_in"]["value"], part["characters_out"]["value"]
    yield f"{many(part['documents']['value'], 'document')}; characters in {entered:,}, out {left:,}"
    yield f"({share_of(part['left'])}). Not applicable to {part['not_applicable']['value']:,} without markup."
    yield from fact_table(part["facts"])


def _quality(part: Any) -> Lines:
    yield from title("Quality")
    if absent(part):
        yield from say(part)
        return
    yield from quantile_table(part["scores"])
    failed, alone = part["failed_by_rule"], part["removed_by_one_rule_alone"]
    if NOT_MEASURED not in (failed.get("value"), alone.get("value")):
        yield ""
        rows = [[escape(r), f"{n:,}", f"{alone.get(r, 0):,}"] for r, n in ranked(failed)]
        yield from table(["rule", "documents failed", "by this rule alone"], rows)
    yield ""
    yield f"Failed several rules: {part_of(part['joint_failures'])}."


def _duplicates(part: Any) -> Lines:
    yield from title("Duplicates")
    if absent(part):
        yield from say(part)
        return
    yield f"Exact: {part_of(part['exact'])}. Near: {part_of(part['near'])}."
    for name, what, of in (
        ("cluster_sizes", "documents in a cluster", "clusters"),
        ("jaccard_of_verified_pairs", "Jaccard from", "verified pairs"),
    ):
        if part[name] and not absent(part[name]):
            yield ""
            yield from number_table(what, of, part[name])
    curve = part["s_curve"]
    if isinstance(curve.get("p"), Mapping):
        yield ""
        yield f"{curve['bands']} bands of {curve['rows']} rows; a pair becomes a candidate with the chance"
        yield ""
        yield from table(["Jaccard", "chance in theory"], [[j, f"{p:.3f}"] for j, p in sorted(curve["p"].items())])
    measured = part["s_curve_measured"]
    if measured and not absent(measured):
        yield ""
        rows = [
            [j, f"{m['pairs']:,}", per(m["bands"], m["pairs"]), f"{m['expected']:.2f}"]
            for j, m in sorted(measured.items())
        ]
        yield from table(["Jaccard from", "pairs", "bands shared by a pair", "in theory"], rows)
    if part["top_hosts"]:
        yield ""
        yield from ranked_table("host", "duplicates", {code(h): n for h, n in part["top_hosts"].items()}, escaped=True)


def _windows(part: Any) -> Lines:
    yield from title("Windows")
    if absent(part):
        yield from say(part)
        return
    windows = part["windows"]
    yield f"{per(windows['numerator'], windows['denominator'])} windows a document. Characters written again:"
    yield f"{part['overlap_characters']['value']:,}, so {value_of(part['duplication'], '×')} of the text is written."
    yield ""
    groups: dict[str, int] = {}
    for n, documents in sorted((int(k), v) for k, v in part["per_document"].items()):
        low = 1 << (n.bit_length() - 1)
        name = str(n) if n < 8 else f"{low} to {2 * low - 1}"
        groups[name] = groups.get(name, 0) + documents
    yield from number_table("windows", "documents", groups)


def _characters(part: Mapping[str, Any]) -> Lines:
    yield from title("Characters")
    before, after = part["documents_with_invisible_before"], part["documents_with_invisible_after"]
    yield f"Documents with invisible controls: before {part_of(before)}, after {part_of(after)}."
    nuls, left = part["nuls"], part["left_of_the_removed_set"]["value"]
    yield f"NULs: before {nuls['before']:,}, after {nuls['after']:,}. Characters left that the rule removes: {left:,}."
    lines, damaged = part["mojibake_lines"], part["documents_with_mojibake_before"]
    yield f"Lines of mojibake: before {lines['before']:,}, after {lines['after']:,}; documents with some: before"
    yield f"{part_of(damaged)}, after {part_of(part['documents_with_mojibake_after'])}."
    yield ""
    rows = [[p, f"{n['before']:,}", f"{n['after']:,}"] for p, n in sorted(part["invisible"].items())]
    yield from table(["code point", "before", "after"], rows)


def _shards(part: Mapping[str, Any]) -> Lines:
    yield from title("Shards")
    rows = [
        [escape(s["file"]), f"{s['rows']:,}", f"{s['bytes']:,}", share_of(s["fill"]), f"`{s['sha256']}`"]
        for s in part["files"][:ROWS]
    ]
    yield from table(["file", "rows", "bytes", "fill", "SHA-256"], rows, left=(0, 4))
    yield from left_out(len(part["files"]), "shards")


def _samples(samples: Mapping[str, Sequence[Mapping[str, Any]]]) -> Lines:
    yield from title("Samples")
    yield "Of the kept and of each reason, the documents that a seeded hash of their ids picks."
    for key in sorted(samples, key=lambda k: (k != "kept", k)):
        yield from title(escape(key), 3)
        rows = []
        for s in samples[key]:
            scores = ", ".join(f"{escape(n)} {escape(str(v))}" for n, v in sorted(s["scores"].items()))
            rows.append(
                [code(s["url"]) if s["url"] else "no URL", f"{escape(s['source'])} at {s['record_offset']:,}", scores]
            )
        yield from table(["URL", "record", "scores"], rows, left=range(3))


def _identity(identity: Mapping[str, Any]) -> Lines:
    yield from title("Identity")
    yield f"- recipe {escape(str(identity.get('recipe')))}, configuration `{identity.get('config_hash')}`"
    yield f"- code `{identity.get('code')}`"
    for name, digest in sorted((identity.get("models") or {}).items()):
        yield f"- model {escape(name)} `{digest}`"
    yield ""
    inputs = identity.get("inputs") or []
    rows = [[escape(i["source"]), f"{i['size']:,}", f"`{i['sha256'] or 'unread'}`"] for i in inputs[:ROWS]]
    yield from table(["input", "bytes", "SHA-256"], rows, left=(0, 2))
    yield from left_out(len(inputs), "inputs")
