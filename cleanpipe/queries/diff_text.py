"""A comparison of two runs for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cleanpipe import batch as col
from cleanpipe.queries.diff_walk import spoken

LINES = 20  # of a list that may be long
CELLS, SAMPLES = 5, 3  # changes of fate shown with samples, and samples of each
_WIDE = 72


def text(result: Mapping[str, Any]) -> Iterator[str]:
    """Lines, without anything that a terminal would obey."""
    for line in _text(result):
        yield plain(line)


def plain(line: str) -> str:
    """What came from a page, made harmless: control characters and marks of direction are spelled out."""
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" if ord(c) > 255 else f"\\x{ord(c):02x}" for c in line)


def _text(result: Mapping[str, Any]) -> Iterator[str]:
    for side in "ab":
        yield f"{side.upper()}  {about(result[side])}"
    if result["same"]:
        if told := [*result["recipe"]["unknown"], *(f"not compared: {line}" for line in result["not_compared"])]:
            yield from ("", *told)
        yield ""
        yield "no difference"
        return
    yield from _recipe(result["recipe"])
    if result["same_result"]:
        if result["not_compared"]:
            yield from ("", *(f"not compared: {line}" for line in result["not_compared"]))
        yield ""
        yield "no difference in any audit line and any document"
        return
    yield from _documents(result["documents"])
    yield from _lines(result["lines"])
    yield from _drift(result["drift"])
    if result["not_compared"]:
        yield from ("", "not compared")
        yield from (f"  {line}" for line in result["not_compared"])


def about(run: Mapping[str, Any]) -> str:
    """A run in one line."""
    return f"{run['root']}: recipe {run['recipe']}, {many(run['rows'], 'document')}, {kept(run)}"


def kept(run: Mapping[str, Any]) -> str:
    """How many a run kept; of an unfinished one, how many it has not decided on."""
    waiting = [f"{run['undecided']:,} not decided yet"] if run["undecided"] else []
    return ", ".join(([f"{run['kept']:,} kept"] if run["kept"] or not waiting else []) + waiting)


def _recipe(told: Mapping[str, Any]) -> Iterator[str]:
    yield from ("", "recipe and inputs")
    said = [d["words"] for part in ("settings", "models", "code", "versions", "formats") for d in _named(told, part)]
    yield from (f"  {line}" for line in said or [the_same(told)])
    yield from (f"  {line}" for line in told["unknown"])
    yield from (f"  {line}" for line in inputs(told["inputs"]))


def the_same(told: Mapping[str, Any]) -> str:
    """What is said where nothing differs."""
    return f"the same recipe, models{' and code' if told['unknown'] else ', code and packages'}"


def _named(told: Mapping[str, Any], part: str) -> Iterator[Mapping[str, Any]]:
    """Differences, with what they are of where the name alone does not say."""
    prefix = {"models": "model ", "versions": "version of ", "formats": "format of "}.get(part, "")
    for entry in told[part]:
        yield {**entry, "words": prefix + entry["words"]}


def differences(told: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Every difference of recipe, models, code, packages and formats, in words."""
    return [d for part in ("settings", "models", "code", "versions", "formats") for d in _named(told, part)]


def inputs(told: Mapping[str, Any]) -> Iterator[str]:
    """Which inputs are the same, and which are not."""
    if told["same"] and not told["renamed"]:
        yield f"the same {many(told['both'], 'input')}"
        return
    yield f"{many(told['both'], 'input')} the same by name and content"
    for name, what in (
        ("changed", "with other content under the same name"), ("only_a", "only in A"), ("only_b", "only in B"),
        ("unread", "that could not be read"),
    ):  # fmt: skip
        if told[name]:
            yield f"{many(len(told[name]), 'input')} {what}: {_listed(told[name])}"
    if told["renamed"]:
        pairs = [f"{a} → {b}" for a, b in told["renamed"]]
        yield f"{many(len(pairs), 'input')} the same under another name: {_listed(pairs)}"


def _listed(names: Sequence[str], most: int = 5) -> str:
    shown = ", ".join(short(n) for n in names[:most])
    return shown + (f", … ({len(names) - most:,} more)" if len(names) > most else "")


def _documents(told: Mapping[str, Any]) -> Iterator[str]:
    yield from ("", "documents")
    yield from (f"  {line}" for line in documents(told))
    for i, cell in enumerate(told["changes"][:LINES]):
        yield f"  {cell['documents']:>11,}  {cell['a']} → {cell['b']}"
        for sample in cell["samples"][:SAMPLES] if i < CELLS else ():
            yield from (f"               {line}" for line in sample_lines(sample))
    rest = len(told["changes"]) - LINES + told["changes_left_out"]
    if rest > 0:
        yield f"               … and {rest:,} other changes (--json has all)"
    for part, what in (("text", "texts that changed"), ("keepers", "duplicates that changed their keeper")):
        if told[part]["changed"] and told[part]["samples"]:
            yield f"  {what}:"
            for sample in told[part]["samples"][:SAMPLES]:
                yield from (f"               {line}" for line in sample_lines(sample, part))


def documents(told: Mapping[str, Any]) -> Iterator[str]:
    """How documents were joined, and how many changed."""
    by = ", ".join(f"{n:,} by {key}" for key, n in told["joined_by"].items())
    yield f"{told['joined']:,} in both runs{f' (joined: {by})' if by else ''}; " + "; ".join(
        f"{told[f'only_{side}']['documents']:,} only in {side.upper()}" for side in "ab"
    )
    for side in "ab":
        outcomes = told[f"only_{side}"]["by_outcome"]
        if outcomes:
            said = [f"{n:,} {name}" for name, n in outcomes.items()]
            yield f"only in {side.upper()}: {', '.join(said[:4])}{f', … ({len(said) - 4} more)' if said[4:] else ''}"
    text_, keepers = told["text"], told["keepers"]
    if text_["kept_in_both"]:
        yield f"{text_['changed']:,} of {text_['kept_in_both']:,} kept in both have another text"
    if both := keepers["duplicates_in_both"]:
        yield f"{keepers['changed']:,} of {both:,} that are duplicates in both have another keeper"
    if keepers["not_compared"]:
        yield f"{keepers['not_compared']:,} duplicates were joined by another key than doc_id: keepers not compared"
    for side in "ab":
        if told["undecided"][side]:
            yield f"{told['undecided'][side]:,} of those in both are not decided yet in {side.upper()}"
    if told["joined"]:
        yield f"{told['changed']:,} met another fate" + (":" if told["changed"] else "")


def sample_lines(sample: Mapping[str, Any], part: str = "") -> Iterator[str]:
    """A document with what decided on it, on either side."""
    sides = [(s, sample[s]) for s in "ab" if s in sample]
    places = list(dict.fromkeys(f"{row[col.SOURCE]}@{row[col.RECORD_OFFSET]}" for _, row in sides))
    yield f"{short(sample[col.URL] or '(no URL)', 100)}  {' → '.join(places)}"
    for side, row in sides:
        words = decision(row, part)
        if words:
            yield f"  {side.upper()} {words}"


def decision(row: Mapping[str, Any], part: str = "") -> str:
    """What decided on a document in one run."""
    if part == "text":
        chars = [f"{row[col.CHARS_OUT]:,} characters"] if row[col.CHARS_OUT] is not None else []
        return ", ".join([*chars, f"content_id {row[col.CONTENT_ID] or 'not known'}"])
    words = list(row["decided"])
    if row.get(col.KEPT_DOC_ID):
        said = row[col.JACCARD] is None or any(w.startswith(col.JACCARD) for w in words)
        words.append(("" if said else f"jaccard {row[col.JACCARD]:.6g}, ") + f"kept: {row[col.KEPT_DOC_ID]}")
    return "; ".join(words)


def _lines(told: Mapping[str, Any]) -> Iterator[str]:
    yield from ("", f"audit lines: {len(told['moved']):,} of {told['compared']:,} moved")
    yield f"  {told['method']}"
    if told["moved"]:
        alike = together(told["moved"])
        head: list[Sequence[str]] = [("line", "A", "B", "difference", "of")]
        yield from _table(head + [line_cells(e, n) for e, n in alike[:LINES]])
        if len(alike) > LINES:
            yield f"  … and {sum(n for _, n in alike[LINES:]):,} more (--json has all)"
    if told["numbers"]:
        yield from ("", f"numbers that differ: {len(told['numbers']):,}")
        yield from _table([("number", "A", "B", "difference"), *(number_cells(e) for e in told["numbers"][:LINES])])
    if told["quantiles"]:
        yield from ("", f"quantiles that moved: {len(told['quantiles']):,} ({told['quantiles_from']})")
        head = [("score", "of", "quantile", "A", "B")]
        yield from _table(head + [quantile_cells(e) for e in medians(told["quantiles"])[:LINES]])
    for name, what in (("only_a", "lines only in A"), ("only_b", "lines only in B")):
        if told[name]:
            yield f"  {what}: {_listed(told[name])}"
    for entry in told["not_comparable"][:LINES]:
        yield f"  {entry['words']}: A {value(entry['a'])}, B {value(entry['b'])}"
    if told["untested"]:
        yield f"  {many(len(told['untested']), 'line')} of bytes or characters differ and cannot be tested (--json)"


def together(moved: Sequence[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], int]]:
    """Each movement once, with how many lines say it: what a stage drops is missing from all that come after it."""
    out: dict[tuple[Any, ...], tuple[Mapping[str, Any], int]] = {}
    for entry in moved:
        key = tuple(entry[k] for k in ("n_a", "of_a", "n_b", "of_b"))
        first, n = out.get(key, (entry, 0))
        out[key] = first, n + 1
    return list(out.values())


def line_cells(entry: Mapping[str, Any], alike: int = 1) -> tuple[str, str, str, str, str]:
    """A line that moved: words, A, B, difference with its interval, what it is of, with the unit."""
    share = is_share(entry)
    difference = f"{100 * entry['difference']:+.2f} points" if share else f"{entry['difference']:+.4g}"
    if "low" in entry and share:
        difference += f" ({100 * entry['low']:+.2f} to {100 * entry['high']:+.2f})"
    documents_ = [entry.get(f"documents_{s}", entry[f"of_{s}"]) for s in "ab"]
    behind = f"{documents_[0]:,}" if documents_[0] == documents_[1] else f"{documents_[0]:,} / {documents_[1]:,}"
    counted = "documents" if "documents_a" in entry else entry["unit"]
    unit = next((u for u in ("documents", "bytes", "characters", "code points") if u in counted), "")
    behind += f" {_UNITS.get(unit, unit) or 'documents'}"
    words = entry["words"] + (f" (+ {many(alike - 1, 'line')})" if alike > 1 else "")
    return words, value(entry["a"], share), value(entry["b"], share), difference, behind


_UNITS = {"code points": "characters"}


def number_cells(entry: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """A plain number that differs."""
    return entry["words"], f"{entry['a']:,}", f"{entry['b']:,}", f"{entry['difference']:+,}"


def is_share(entry: Mapping[str, Any]) -> bool:
    """Whether the line is a part of a whole, not a factor."""
    return all(isinstance(entry[s], (int, float)) and 0 <= entry[s] <= 1 for s in "ab")


def medians(quantiles: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """One of each score: the median if it moved, else the quantile nearest to it."""
    best: dict[tuple[str, str], Mapping[str, Any]] = {}
    for entry in quantiles:
        key = entry["score"], entry["of"]
        if key not in best or abs(entry["quantile"] - 0.5) < abs(best[key]["quantile"] - 0.5):
            best[key] = entry
    return list(best.values())


def quantile_cells(entry: Mapping[str, Any]) -> tuple[str, str, str, str, str]:
    """A quantile that moved."""
    at = f"{100 * entry['quantile']:g} %"
    return spoken(entry["score"]), entry["of"], at, _near(entry["a"]), _near(entry["b"])


def _near(found: float) -> str:
    return f"{found:,}" if isinstance(found, int) else f"{found:,.0f}" if abs(found) >= 1000 else f"{found:,.6g}"


def value(found: Any, share: bool = True) -> str:
    """A line's value, as a percentage or a plain number, or the words in its place."""
    if isinstance(found, str):
        return found
    return f"{100 * found:.2f} %" if share and 0 <= found <= 1 else f"{found:,.4f}"


def _drift(told: Mapping[str, Any]) -> Iterator[str]:
    said = [many(len(told["alarms"]), "alarm")] if told["alarms"] else []
    said += [f"{wiped_many(told)} newly wiped out in B"] if told["wiped_out"] else []
    yield from ("", f"drift: {'; '.join(said) or 'no alarm'}")
    yield from (f"  {alarm['words']}" for alarm in told["alarms"])
    if told["wiped_out"]:
        yield "  newly wiped out in B:"
        yield from (f"    {wiped(entry)}" for entry in told["wiped_out"][:LINES])
    if told["notes"]:
        yield f"  single values moved, no alarm: {len(told['notes']):,}"
        yield from (f"    {note['words']}" for note in told["notes"][:LINES])


def wiped_many(told: Mapping[str, Any]) -> str:
    """How many were newly wiped out."""
    return many(
        len(told["wiped_out"]) + told["wiped_out_left_out"], "host, language or type", "hosts, languages, types"
    )


def wiped(entry: Mapping[str, Any]) -> str:
    """Something that B lost."""
    a = f"{entry['kept_a']:,} of {entry['documents_a']:,} kept in A"
    b = f"{entry['kept_b']:,} of {entry['documents_b']:,} in B" if entry["documents_b"] else "no document in B"
    return f"{entry['kind']} {entry['name']}: {a}, {b}"


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    cells = [[short(plain(c), _WIDE) if not i else plain(c) for i, c in enumerate(row)] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    for row in cells:
        rest = (c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))
        yield f"  {row[0].ljust(widths[0])}  {'  '.join(rest)}".rstrip()


def short(name: str, most: int = _WIDE) -> str:
    """Not longer than ``most``."""
    return name if len(name) <= most else name[: most - 1] + "…"


def many(n: int, what: str, more: str = "") -> str:
    """A number with its noun."""
    return f"{n:,} {what if n == 1 else more or what + 's'}"
