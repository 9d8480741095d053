"""Markdown tables and words: numbers with separators, and whatever came from a page escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from cleanpipe.audit.bins import WIDTH
from cleanpipe.audit.console import percent
from cleanpipe.audit.lines import NOT_MEASURED

ROWS = 20  # of a table that may be long
Lines = Iterable[str]
_SPECIAL = re.compile(r"([\\`*{}\[\]<>()#|~!&]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))")  # inside a word _ is plain
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_LINKS = {"://": "&#58;//", "www.": "www&#46;", "@": "&#64;"}  # what renderers make links of by themselves


def escape(text: str) -> str:
    """Text from outside as it is, in Markdown and in the HTML made of it: no markup, no link, no second line."""
    flat = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)
    out = _SPECIAL.sub(r"\\\1", flat if len(flat) <= 200 else flat[:199] + "…")
    for spelled, entity in _LINKS.items():
        out = out.replace(spelled, entity)
    return out


def code(text: str) -> str:
    """A URL or host as a code span: readable, neither link nor markup. What could end the span is percent-encoded."""
    safe = "".join(f"%{ord(c):02X}" if c in '<>"`|\\ ' else c for c in text if c.isprintable())
    return f"`{safe if len(safe) <= 200 else safe[:199] + '…'}`" if safe else "—"


def title(text: str, level: int = 2) -> Iterator[str]:
    """A heading between empty lines."""
    yield from ("", f"{'#' * level} {text}", "")


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], left: Iterable[int] = (0,)) -> Lines:
    """Columns of ``left`` are aligned left, the others right. Cells are Markdown already."""
    if not rows:
        yield "None."
        return
    lefts = set(left)
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "|".join(" --- " if i in lefts else " ---: " for i in range(len(heads))) + "|"
    yield from ("| " + " | ".join(row) + " |" for row in rows)


def ranked_table(what: str, of: str, counts: Mapping[str, int], escaped: bool = False) -> Lines:
    """The largest counts, larger first."""
    items = ranked(counts)
    yield from table([what, of], [[k if escaped else escape(k), f"{n:,}"] for k, n in items[:ROWS]])
    yield from left_out(len(items), "rows")


def number_table(what: str, of: str, counts: Mapping[str, int]) -> Lines:
    """Counts by something that begins with a number, in its order."""
    items = sorted(counts.items(), key=lambda item: (_leading(item[0]), item[0]))
    yield from table([what, of], [[escape(k), f"{n:,}"] for k, n in items])


def _leading(text: str) -> float:
    found = _NUMBER.match(text)
    return float(found[0]) if found else float("inf")


def left_out(n: int, what: str) -> Lines:
    """A sentence on rows that are not shown, if any are."""
    if n > ROWS:
        yield ""
        yield f"The first {ROWS} of {n:,} {what}; audit.json has more."


def ranked(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Larger first, then by name."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def words(counts: Mapping[str, int]) -> str:
    """Counts in one line; "none" for none."""
    return ", ".join(f"{escape(k)} {n:,}" for k, n in ranked(counts)[:ROWS]) or "none"


def fact_table(facts: Mapping[str, Any]) -> Lines:
    """What a stage counted itself, or why it did not."""
    if absent(facts):
        yield f"{value_of(facts).capitalize()}."
        return
    yield ""
    yield from table(["counted by the stage", "number"], [[escape(k), f"{n:,}"] for k, n in sorted(facts.items())])


def quantile_table(scores: Mapping[str, Any]) -> Lines:
    """Quantiles of each score, of all documents that have it and of the kept."""
    rows: list[list[str]] = []
    heads = sorted({q for score in scores.values() for q in score["quantiles"]})
    for name, score in sorted(scores.items()):
        for which, of in (("quantiles", "all"), ("quantiles_kept", "kept")):
            values = score[which]
            measured = f"{score['measured']['numerator']:,}" if which == "quantiles" else ""
            rows.append([escape(name), of, measured, *(f"{values[h]:,.6g}" if h in values else "—" for h in heads)])
    yield from table(["score", "of", "measured", *(f"{float(h):.0%}" for h in heads)], rows, left=(0, 1))
    if heads:
        yield ""
        yield f"Quantiles are lower edges of bins {WIDTH}. — means {NOT_MEASURED}."


def absent(part: Any) -> bool:
    """Whether a section or line says that it does not apply or was not measured."""
    return isinstance(part, str) or (isinstance(part, Mapping) and part.get("value") == NOT_MEASURED)


def say(part: Any) -> Lines:
    """... and says so."""
    yield f"{value_of(part).capitalize()}."


def value_of(line: Any, like: str = "%") -> str:
    """A line's value in the manner of ``like``: a percentage, a factor or a plain number."""
    if isinstance(line, Mapping) and line.get("value") == NOT_MEASURED:
        return f"{NOT_MEASURED}: {escape(str(line['reason']))}"
    value = line["value"] if isinstance(line, Mapping) else line
    if isinstance(value, str):
        return value
    return f"{value:.2f}×" if "×" in like else percent({"value": value}) if "%" in like else f"{value:,.6g}"


def share_of(line: Any) -> str:
    """A line as a percentage; "n/a" for not applicable."""
    text = percent(line)
    return "n/a" if text == "not applicable" else text


def part_of(line: Mapping[str, Any]) -> str:
    """A line with both its numbers."""
    if "numerator" not in line:
        return value_of(line)
    return f"{line['numerator']:,} of {line['denominator']:,} {escape(line['unit'])} ({share_of(line)})"


def per(numerator: int, denominator: int) -> str:
    """A mean."""
    return f"{numerator / denominator:,.2f}" if denominator else "n/a"


def many(n: int, what: str) -> str:
    """A number with its noun."""
    return f"{n:,} {what}{'' if n == 1 else 's'}"
