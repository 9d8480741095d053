"""The funnel as plain text for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_HEAD = ("stage", "documents", "of stage", "of run")


def funnel(audit: Mapping[str, Any], width: int = 100) -> str:
    """One line a stage: documents that came through, as share of what entered it and of what entered the run, and the
    reasons that took most. Then one line for the balance and one for the shards. No line is longer than ``width``.
    """
    rows = [_HEAD, *(_cells(row) for row in audit["funnel"])]
    widths = [max(len(r[i]) for r in rows) for i in range(len(_HEAD))]
    lines = []
    for cells, row in zip(rows, [None, *audit["funnel"]], strict=True):
        text = cells[0].ljust(widths[0]) + "".join(
            "  " + c.rjust(w) for c, w in zip(cells[1:], widths[1:], strict=True)
        )
        reasons = "why" if row is None else _reasons(audit["stages"][row["stage"]], row, width - len(text) - 2)
        lines.append(f"{text}  {reasons}".rstrip())
    lines += ["", _balance(audit["conservation"]), _shards(audit["shards"])]
    if names := [a["name"] for a in audit["alarms"]["raised"] if not a["by_design"]]:
        above = f"{audit['alarms']['above']:.0%}".replace("%", " %")
        lines.append(f"alarms     {len(names):,} lost more than {above} of what was wanted: {', '.join(names)}")
    lines = ["".join(c if c.isprintable() else "\ufffd" for c in line) for line in lines]
    return "\n".join(line if len(line) <= width else line[: width - 1] + "…" for line in lines)


def percent(line: Any) -> str:
    """An audit line as a percentage, or the words in its place."""
    value = line["value"] if isinstance(line, Mapping) else line
    if isinstance(value, str):
        return value
    if value and abs(value) < 0.0005:  # never "0.0 %" of something
        return f"{value * 100:.2g} %" if abs(value) >= 0.000001 else "<0.0001 %"
    return f"{value:.1%}".replace("%", " %")


def size(number: int) -> str:
    """Bytes in decimal units."""
    value, unit = float(number), "bytes"
    for bigger in ("kB", "MB", "GB", "TB", "PB"):
        if value < 1000:
            break
        value, unit = value / 1000, bigger
    return f"{number:,} bytes" if unit == "bytes" else f"{value:.1f} {unit}"


def _cells(row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    documents = row["documents"]
    stage = percent(documents["share_of_stage_input"]) if row["applies"] else "n/a"
    return row["stage"], f"{documents['out']:,}", _short(stage), _short(percent(documents["share_of_run_input"]))


def _short(text: str) -> str:
    return "n/a" if text == "not applicable" else text


def _reasons(stage: Mapping[str, Any], row: Mapping[str, Any], room: int) -> str:
    if not row["applies"]:
        return "not applicable"
    lost = {**stage["dropped"], **{f"quarantined: {r}": n for r, n in stage["quarantined"].items()}}
    text = ""
    for reason, n in sorted(lost.items(), key=lambda item: (-item[1], item[0])):
        more = f"{', ' if text else ''}{reason} {n:,}"
        if len(text) + len(more) > room:
            return f"{text}, …" if len(text) + 3 <= room else text
        text += more
    return text


def _balance(conservation: Mapping[str, Any]) -> str:
    broken = [line for line in conservation["lines"] if not line["ok"]]
    if not broken:
        return f"balance    closes: {len(conservation['lines'])} laws of records, bytes and characters hold"
    first = broken[0]
    rest = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
    return f"balance    BROKEN: {first['what']}: {first['left']:,} ≠ {first['right']:,}{rest}"


def _shards(shards: Mapping[str, Any]) -> str:
    files, rows = len(shards["files"]), shards["rows"]["value"]
    return f"shards     {files:,} file{'s' * (files != 1)}, {rows:,} rows, {size(shards['bytes']['value'])}"
