"""The audit for a reader: tables, units, thousands separators; every word that came from a page is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from cleanpipe.audit.console import percent, size
from cleanpipe.audit.lines import NOT_MEASURED

_ROWS = 20  # of a table that may be long
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#|~!&])")
_LEFT = ("share_of_stage_input", "share_of_run_input")


def to_markdown(audit: Mapping[str, Any]) -> str:
    """audit.md: the same numbers as audit.json, in the order in which a data lead asks for them."""
    parts = [
        _head(audit),
        _funnel(audit),
        _conservation(audit["conservation"]),
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
        _identity(audit["identity"]),
    ]
    return "\n".join(line for part in parts for line in part) + "\n"


Lines = Iterable[str]


def _head(audit: Mapping[str, Any]) -> Lines:
    identity, funnel = audit["identity"], audit["funnel"]
    first, last = funnel[0]["documents"], funnel[-1]["documents"]
    shards = audit["shards"]
    yield f"# Audit of {escape(str(identity.get('recipe', 'a run')))}, configuration {identity.get('config_hash')}"
    yield ""
    yield (
        f"{first['in']:,} documents read, {last['out']:,} kept ({percent(last['share_of_run_input'])}), "
        f"written as {shards['rows']['value']:,} windows in {_many(len(shards['files']), 'shard')} "
        f"({size(shards['bytes']['value'])}). Shares are of documents, bytes or characters as the column says; "
        '"n/a" is not applicable, never 0.'
    )


def _funnel(audit: Mapping[str, Any]) -> Lines:
    yield from _title("Funnel")
    rows = []
    for row in audit["funnel"]:
        cells = [escape(row["stage"]), f"{row['documents']['in']:,}", f"{row['documents']['out']:,}"]
        for measure in ("documents", "bytes", "characters"):
            stage, run = (_share(row[measure][k]) for k in _LEFT)
            cells += [stage if row["applies"] else "n/a", run]
        rows.append([*cells, f"{row['not_applicable']:,}"])
    heads = ["stage", "documents in", "out"]
    heads += [f"{m} of {w}" for m in ("documents", "bytes", "characters") for w in ("stage", "run")]
    yield from _table([*heads, "n/a documents"], rows)
    yield from _title("Reasons", 3)
    rows = []
    for row in audit["funnel"]:
        stage = audit["stages"][row["stage"]]
        for fate in ("dropped", "quarantined"):
            for reason, n in _ranked(stage[fate]):
                part = n / row["documents"]["in"] if row["documents"]["in"] else 0
                rows.append([escape(row["stage"]), escape(reason), fate, f"{n:,}", f"{part:.1%}".replace("%", " %")])
    yield from _table(["stage", "reason", "fate", "documents", "of stage"], rows, numbers=2)


def _conservation(conservation: Mapping[str, Any]) -> Lines:
    yield from _title("Conservation")
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
    yield from _table(["law", "left", "right", "closes", "in words"], rows, left=(3, 4))


def _alarms(alarms: Mapping[str, Any]) -> Lines:
    raised = alarms["raised"]
    yield from _title("Alarms")
    of = f"with at least {alarms['least_documents']:,} documents lost more than {alarms['above']:.0%}"
    if not raised:
        yield f"None: no host, language or type {of}."
        return
    yield f"{len(raised) + alarms['left_out']:,} hosts, languages or types {of}. The largest of each kind:"
    yield ""
    rows = []
    for kind in sorted({a["kind"] for a in raised}):
        for a in [a for a in raised if a["kind"] == kind][:_ROWS]:
            why = ", ".join(f"{escape(r)} {n:,}" for r, n in _ranked(a["reasons"]))
            rows.append([kind, escape(a["name"]), why, f"{a['lost']['denominator']:,}", percent(a["lost"])])
    yield from _table(["kind", "name", "where most went", "documents", "lost"], rows, numbers=2)


def _reported(lines: Sequence[Mapping[str, Any]]) -> Lines:
    yield from _title("Beside figures reported elsewhere")
    yield "Others measured theirs on their own crawls; nothing is asserted of them."
    yield ""
    rows = [[escape(li["what"]), li["reported"], _value(li["ours"], li["reported"])] for li in lines]
    yield from _table(["figure", "reported", "ours"], rows)


def _input(part: Mapping[str, Any]) -> Lines:
    yield from _title("Input")
    files, stored, raw = (part[k]["value"] for k in ("files", "file_bytes", "block_bytes"))
    yield f"{_many(files, 'file')}, {size(stored)} as they lie, {size(raw)} of record blocks uncompressed."
    yield ""
    yield from _counts("record type", "records", part["records"]["total"])
    sources = part["records"]["by_source"]
    rows = [[escape(s), f"{sum(t.values()):,}", _words(t)] for s, t in sorted(sources.items())[:_ROWS]]
    yield ""
    yield from _table(["input", "records", "by type"], rows, left=(0, 2))
    yield from _left_out(len(sources), "inputs")
    yield ""
    yield f"- truncated by the crawler: {_share(part['truncated']['share'])} {_words(part['truncated']['by_reason'])}"
    yield f"- undecodable: {_of(part['undecodable'])}"
    damaged = part["damaged"]
    yield f"- damaged: {_many(damaged['ranges']['value'], 'byte range')}, {damaged['bytes']['value']:,} bytes"
    yield f"- quarantined by the reader: {_words(part['quarantined']) or 'none'}"
    yield f"- readers: {_words(part['readers'])}; read again: {_words(part['reread']) or 'none'}"
    yield f"- charsets: {_words(part['charsets'])}"


def _http(part: Any) -> Lines:
    yield from _title("HTTP")
    if _absent(part):
        yield from _say(part)
        return
    yield f"Other than 200: {_of(part['non_200'])}. Neither HTML nor plain text: {_of(part['other_types'])}."
    yield ""
    yield from _counts("status", "documents", part["status"])
    yield ""
    matrix = part["declared_by_sniffed"]
    pairs = {f"{escape(d)} → {escape(s)}": n for d, by in matrix.items() for s, n in by.items()}
    yield from _counts("declared → sniffed type", "documents", pairs, escaped=True)


def _languages(part: Any) -> Lines:
    yield from _title("Languages")
    if _absent(part):
        yield from _say(part)
        return
    yield f"Removed by language: {_of(part['removed'])}. Mixed-language share: {_value(part['mixed_language'])}."
    yield ""
    curve, kept = part["keep_curve"], part["kept"]
    heads = [f"≥ {t}" for t in next(iter(curve.values()), {})]
    ranked = [name for name, _ in _ranked(part["judged"]) if name in curve][:_ROWS]
    rows = [
        [escape(n), f"{part['judged'][n]:,}", f"{kept.get(n, 0):,}", *(_share(c) for c in curve[n].values())]
        for n in ranked
    ]
    yield from _table(["language", "judged", "kept", *heads], rows)
    yield from _left_out(len(curve), "languages")
    yield ""
    yield from _quantiles(part["scores"])


def _scrub(part: Any) -> Lines:
    yield from _title("Scrubbing")
    if _absent(part):
        yield from _say(part)
        return
    entered, left = part["characters_in"]["value"], part["characters_out"]["value"]
    yield f"{part['documents']['value']:,} documents, {entered:,} characters in, {left:,} out ({_share(part['left'])})."
    yield f"Not applicable to {part['not_applicable']['value']:,} documents without markup."
    yield from _facts(part["facts"])


def _quality(part: Any) -> Lines:
    yield from _title("Quality")
    if _absent(part):
        yield from _say(part)
        return
    yield from _quantiles(part["scores"])
    failed, alone = part["failed_by_rule"], part["removed_by_one_rule_alone"]
    if NOT_MEASURED not in (failed.get("value"), alone.get("value")):
        yield ""
        rows = [[escape(r), f"{n:,}", f"{alone.get(r, 0):,}"] for r, n in _ranked(failed)]
        yield from _table(["rule", "documents failed", "by this rule alone"], rows)
    yield ""
    yield f"Dropped documents that failed several rules: {_of(part['joint_failures'])}."


def _duplicates(part: Any) -> Lines:
    yield from _title("Duplicates")
    if _absent(part):
        yield from _say(part)
        return
    yield f"Exact: {_of(part['exact'])}. Near: {_of(part['near'])}."
    for name, what in (("cluster_sizes", "cluster size"), ("jaccard_of_verified_pairs", "Jaccard of verified pairs")):
        if part[name] and not _absent(part[name]):
            yield ""
            yield from _counts(what, "clusters" if name == "cluster_sizes" else "pairs", part[name], ranked=False)
    curve = part["s_curve"]
    if isinstance(curve.get("p"), Mapping):
        yield ""
        yield f"{curve['bands']} bands of {curve['rows']} rows; a pair becomes a candidate with the chance"
        yield ""
        rows = [[j, f"{p:.3f}"] for j, p in curve["p"].items()]
        yield from _table(["Jaccard", "chance in theory"], rows)
    measured = part["s_curve_measured"]
    if measured and not _absent(measured):
        yield ""
        rows = [[j, f"{m['pairs']:,}", _per(m["bands"], m["pairs"]), str(m["expected"])] for j, m in measured.items()]
        yield from _table(["Jaccard from", "pairs", "bands shared a pair", "in theory"], rows)
    if part["top_hosts"]:
        yield ""
        yield from _counts("host", "duplicates", part["top_hosts"])


def _windows(part: Any) -> Lines:
    yield from _title("Windows")
    if _absent(part):
        yield from _say(part)
        return
    factor = part["duplication"]["value"]
    shown = factor if isinstance(factor, str) else f"{factor:.2f}×"
    yield f"{_per(part['windows']['numerator'], part['windows']['denominator'])} windows a document; "
    yield f"{part['overlap_characters']['value']:,} characters written again, {shown} of the text."
    yield ""
    groups: dict[str, int] = {}
    for n, documents in sorted(((int(k), v) for k, v in part["per_document"].items())):
        name = str(n) if n <= 8 else f"{1 << (n.bit_length() - 1)} to {(2 << (n.bit_length() - 1)) - 1}"
        groups[name] = groups.get(name, 0) + documents
    yield from _counts("windows", "documents", groups, ranked=False)


def _characters(part: Mapping[str, Any]) -> Lines:
    yield from _title("Characters")
    before, after = part["documents_with_invisible_before"], part["documents_with_invisible_after"]
    yield f"Documents with invisible controls: before {_of(before)}, after {_of(after)}."
    left = part["left_of_the_removed_set"]["value"]
    yield f"NULs: before {part['nuls']['before']:,}, after {part['nuls']['after']:,}. Left of the removed set: {left:,}."
    yield ""
    rows = [[p, f"{n['before']:,}", f"{n['after']:,}"] for p, n in part["invisible"].items()]
    yield from _table(["code point", "before", "after"], rows)


def _shards(part: Mapping[str, Any]) -> Lines:
    yield from _title("Shards")
    rows = [
        [escape(s["file"]), f"{s['rows']:,}", f"{s['bytes']:,}", _share(s["fill"]), f"`{s['sha256']}`"]
        for s in part["files"][:_ROWS]
    ]
    yield from _table(["file", "rows", "bytes", "fill", "SHA-256"], rows, left=(0, 4))
    yield from _left_out(len(part["files"]), "shards")


def _samples(samples: Mapping[str, Sequence[Mapping[str, Any]]]) -> Lines:
    yield from _title("Samples")
    yield "Of the kept and of each reason, the documents that a seeded hash of their ids picks."
    for key in sorted(samples, key=lambda k: (k != "kept", k)):
        yield from _title(escape(key), 3)
        rows = []
        for s in samples[key]:
            scores = ", ".join(f"{escape(n)} {escape(str(v))}" for n, v in s["scores"].items())
            rows.append([escape(str(s["url"] or "no URL")), f"{escape(s['source'])} at {s['record_offset']:,}", scores])
        yield from _table(["URL", "record", "scores"], rows, numbers=3)


def _identity(identity: Mapping[str, Any]) -> Lines:
    yield from _title("Identity")
    yield f"- recipe {escape(str(identity.get('recipe')))}, configuration `{identity.get('config_hash')}`"
    yield f"- code `{identity.get('code')}`"
    for name, digest in sorted((identity.get("models") or {}).items()):
        yield f"- model {escape(name)} `{digest}`"
    yield ""
    inputs = identity.get("inputs") or []
    rows = [[escape(i["source"]), f"{i['size']:,}", f"`{i['sha256'] or 'unread'}`"] for i in inputs[:_ROWS]]
    yield from _table(["input", "bytes", "SHA-256"], rows, left=(0, 2))
    yield from _left_out(len(inputs), "inputs")


# --- words and tables -----------------------------------------------------------------------------------------------


def escape(text: str) -> str:
    """Text from outside as it is, in Markdown and in the HTML made of it: no markup, no link, no second line."""
    flat = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)
    short = flat if len(flat) <= 200 else flat[:199] + "…"
    # a name or URL is not to become a link: the colon that makes one is written as an entity
    return _SPECIAL.sub(r"\\\1", short).replace("://", "&#58;//").replace("www.", "www&#46;")


def _title(text: str, level: int = 2) -> Iterator[str]:
    yield from ("", f"{'#' * level} {text}", "")


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], numbers: int = 0, left: Sequence[int] = (0,)) -> Lines:
    """Columns of ``left`` are aligned left; with ``numbers`` all columns up to it are."""
    if not rows:
        yield "None."
        return
    lefts = {*left, *range(numbers + 1 if numbers else 0)}
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "|".join(" --- " if i in lefts else " ---: " for i in range(len(heads))) + "|"
    yield from ("| " + " | ".join(row) + " |" for row in rows)


def _counts(what: str, of: str, counts: Mapping[str, int], ranked: bool = True, escaped: bool = False) -> Lines:
    items = _ranked(counts) if ranked else list(counts.items())
    rows = [[k if escaped else escape(str(k)), f"{n:,}"] for k, n in items[: _ROWS if ranked else None]]
    yield from _table([what, of], rows)
    if ranked:
        yield from _left_out(len(items), "more rows", "audit.json has them")


def _left_out(n: int, what: str, where: str = "audit.json has all") -> Lines:
    if n > _ROWS:
        yield ""
        yield f"The first {_ROWS} of {n:,} {what}; {where}."


def _ranked(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{escape(str(k))} {n:,}" for k, n in _ranked(counts)[:_ROWS])


def _facts(facts: Mapping[str, Any]) -> Lines:
    if _absent(facts):
        yield f"{_value(facts)}."
        return
    yield ""
    yield from _counts("counted by the stage", "number", facts, ranked=False)


def _quantiles(scores: Mapping[str, Any]) -> Lines:
    rows = []
    heads: list[str] = []
    for name, score in scores.items():
        for which, of in (("quantiles", "all"), ("quantiles_kept", "kept")):
            values = score[which]
            heads = heads or list(values)
            measured = f"{score['measured']['numerator']:,}" if which == "quantiles" else ""
            rows.append([escape(name), of, measured, *(f"{v:,g}" for v in values.values())])
    width = 3 + len(heads)
    rows = [[*r, *([NOT_MEASURED] + [""] * width)[: width - len(r)]] for r in rows]
    heads = [f"{float(h):.0%}" for h in heads]
    yield from _table(["score", "of", "measured", *heads], rows, numbers=1)
    if heads:
        yield ""
        yield "Quantiles are lower edges of bins .01 wide, above 1 of 2 %."


def _absent(part: Any) -> bool:
    return isinstance(part, str) or (isinstance(part, Mapping) and part.get("value") == NOT_MEASURED)


def _say(part: Any) -> Lines:
    yield (part if isinstance(part, str) else _value(part)).capitalize() + "."


def _value(line: Any, like: str = "%") -> str:
    """A line's value in the manner of ``like``: a percentage, a factor or a plain number."""
    if isinstance(line, Mapping) and line.get("value") == NOT_MEASURED:
        return f"{NOT_MEASURED}: {escape(str(line['reason']))}"
    value = line["value"] if isinstance(line, Mapping) else line
    if isinstance(value, str):
        return value
    return f"{value:.2f}×" if "×" in like else f"{value:.1%}".replace("%", " %") if "%" in like else f"{value:g}"


def _share(line: Any) -> str:
    text = percent(line)
    return "n/a" if text == "not applicable" else text


def _of(line: Mapping[str, Any]) -> str:
    if "numerator" not in line:
        return _value(line)
    return f"{line['numerator']:,} of {line['denominator']:,} {escape(line['unit'])} ({_share(line)})"


def _per(numerator: int, denominator: int) -> str:
    return f"{numerator / denominator:.2f}" if denominator else "n/a"


def _many(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"
