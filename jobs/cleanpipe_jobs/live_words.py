"""A run's standing in words: lines for a terminal, one line for a log."""

from __future__ import annotations

from cleanpipe.audit.console import funnel, size
from cleanpipe.queries.standing import AT_WORK, NOBODY, WAITING, Standing
from cleanpipe.queries.unfinished import MEETING, PUBLISHING, READING, WINDOWS
from cleanpipe.tally import add
from cleanpipe_jobs.figures import PHASES, amounts, clock

_SAID = {READING: PHASES["read"], MEETING: PHASES["meet"], WINDOWS: PHASES["window"], PUBLISHING: PHASES["publish"]}


def printable(text: str) -> str:
    """What a folder, a stage or a reason is called, with nothing in it that a terminal obeys."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def phase(standing: Standing) -> str:
    """What the driver does, as its own console says it."""
    return _SAID.get(standing.phase, standing.phase)


def share(standing: Standing) -> float | None:
    """Part of the phase that is done, 0 to 1; None where that is not known."""
    s = standing
    if s.phase == READING and s.size:
        return min(1.0, s.read / s.size)
    return s.done / s.units if s.units > 1 else None


def figures(standing: Standing) -> list[str]:
    """Of the phase: what matters most first."""
    s = standing
    out = [f"{s.done:,} of {s.units:,} {'parts' if s.phase == PUBLISHING else 'units'}"] if s.phase != MEETING else []
    if s.phase == READING:
        out.append(amounts(s.read, s.size))
    if s.byte_rate:
        out.append(f"{s.byte_rate / 1e6:,.1f} MB/s")
    if s.document_rate:
        out.append(f"{s.document_rate:,.0f} documents/s")
    return out


def documents(standing: Standing) -> list[str]:
    """What became of the documents so far."""
    s = standing
    if not s.documents:
        return ["no unit is finished yet"] if not s.done else ["no documents so far"]
    out = [f"{s.documents:,} document{'s' * (s.documents != 1)} read", f"{s.alive:,} still in"]
    if s.quarantined:
        most = sorted(s.quarantined.items(), key=lambda i: (-i[1], i[0]))
        why = ", ".join(f"{printable(r)} {n:,}" for r, n in most)
        out.append(f"{sum(s.quarantined.values()):,} quarantined ({why})")
    if s.failed:
        out.append(f"{s.failed:,} unit{'s' * (s.failed != 1)} could not be read")
    return out


def losses(standing: Standing) -> list[str]:
    """Why documents went, what took most first, as shares of those read."""
    s = standing
    if s.audit is None or not s.documents:
        return []
    lost: dict[str, int] = {}
    for stage in s.audit["stages"].values():
        add(lost, stage["dropped"])
    most = sorted(lost.items(), key=lambda i: (-i[1], i[0]))
    return [f"{printable(reason)} {n:,} ({n / s.documents:.1%})".replace("%", " %") for reason, n in most if n]


def machinery(standing: Standing) -> list[str]:
    """Who works there, and what lies in work/."""
    s = standing
    out = []
    if s.driver == NOBODY:
        out.append("no driver is at work: start the same line again")
    elif s.holder:
        holder = printable(s.holder)
        out.append(f"{holder} is at work" if s.driver == AT_WORK else f"{holder} holds it, as it says")
    if s.quiet is not None:
        out.append(f"last unit {clock(s.quiet)} ago")
    if s.work:
        out.append(f"work/ about {size(s.work)}")
    return out


def time_left(standing: Standing) -> str:
    """Of the phase; "" where nothing can be said."""
    return f"{clock(standing.left)} left" if standing.left is not None else ""


def table(standing: Standing, width: int) -> str:
    """The funnel so far: stages that a unit has come through; "" before the first."""
    if standing.audit is None or not standing.documents:
        return ""
    lines = funnel(standing.audit, width=width).split("\n\n")[0].splitlines()
    return "\n".join(line.removesuffix(", …").rstrip() if line.endswith("  , …") else line for line in lines)


def line(standing: Standing) -> str:
    """All in one line."""
    s = standing
    if s.phase == WAITING:
        return f"waiting for a run in {printable(s.root)}"
    part = share(s)
    words = [*([f"{part:.0%}"] if part is not None else []), *figures(s), *documents(s)[1:], time_left(s)]
    words.append(machinery(s)[0] if s.driver == NOBODY else "")
    return f"{phase(s)}: {', '.join(w for w in words if w)}"


def plain(standing: Standing, width: int) -> str:
    """Lines for ``--once``."""
    s = standing
    part = share(s)
    head = [printable(s.root), phase(s), *([f"{part:.0%}"] if part is not None else []), time_left(s)]
    went = [f"lost most: {', '.join(losses(s)[:4])}"] if losses(s) else []
    rows = [figures(s), documents(s), went, machinery(s)]
    text = ["  ".join(w for w in head if w), *("   ".join(row) for row in rows if row)]
    return "\n".join([*text, "", table(s, max(60, width))]).rstrip()
