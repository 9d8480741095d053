"""What is wrong with a corpus, in words, worst first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cleanpipe.audit.facts import SELECTION
from cleanpipe.audit.lines import largest, share
from cleanpipe.corpus import damage
from cleanpipe.corpus.rows import TORN, problem_words
from cleanpipe.corpus.textstages import EMPTY, NORMALISE
from cleanpipe.text.mojibake import NAMES

if TYPE_CHECKING:
    from cleanpipe.corpus.build import Facts

NAMED, _FIRST = 100, 10  # wipe-outs of each kind; names of those of few documents
BOILERPLATE = 0.01  # share of characters, in lines that as large a share of documents holds
_DOCUMENTS = 10  # ... and at least so many
NOUNS = {"host": "hosts", "source": "files", "language": "languages"}
KINDS = {"host": "by_host", "source": "by_source", "language": "by_language"}


def percent(value: float) -> str:
    """17.0 %; small ones keep two digits, and what is not quite all is not shown as all."""
    if value and value < 0.00995:
        return f"{value * 100:.2g} %"
    digits = next((d for d in range(1, 5) if value == 1 or round(value * 100, d) < 100), 6)
    return f"{value * 100:.{digits}f} %"


def _of(line: Mapping[str, Any], what: str = "documents") -> str:
    """17.0 % of documents (1,700 of 10,000)."""
    value = line["value"]
    if isinstance(value, str):
        n = line["numerator"]
        return f"{n:,} {what.removesuffix('s') if n == 1 else what}"
    between = ""
    if line.get("interval"):
        low, high = line["interval"]
        between = f", sampled: {percent(low)} to {percent(high)}"
    return f"{percent(value)} of {what} ({line['numerator']:,} of {line['denominator']:,}{between})"


def verdicts(facts: Facts, wiped: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every fault: ``fault``, ``share`` (an audit line), ``words``, and the group of ``samples`` that shows it."""
    found = [*_damage(facts), *_copies(facts), *_stages(facts), *_wiped(facts, wiped), *_boilerplate(facts)]
    found.sort(key=lambda v: (-_worth(v), v["fault"], v["words"]))
    return [*_unread(facts), *found]


def _worth(verdict: Mapping[str, Any]) -> float:
    value = verdict["share"]["value"]
    return value if isinstance(value, float) else float(value == 1)


def _verdict(fault: str, line: Mapping[str, Any], words: str, samples: str | None = None) -> dict[str, Any]:
    return {"fault": fault, "share": dict(line), "words": words, "samples": samples}


def _unread(facts: Facts) -> list[dict[str, Any]]:
    out = []
    if facts.failed:
        line = share(len(facts.failed), len(facts.files), "files")
        first, why = min(facts.failed.items())
        out.append(
            _verdict(
                "unreadable_files",
                line,
                f"{len(facts.failed):,} of {len(facts.files):,} files cannot be read, the first "
                f"{damage.told(first)}: {damage.told(why)}",
            )
        )
    read = facts.number("rows_read")
    for kind, n in sorted(facts.of("problems").items(), key=lambda kv: (-kv[1], kv[0])):
        where = facts.problems.get(kind, [])
        first_at = f", the first {damage.told(where[0]['source'])}:{where[0]['row']}" if where else ""
        line = facts.part(n, read, "rows") if kind != TORN else facts.part(n)
        out.append(_verdict(kind, line, f"{problem_words(kind, n)}{first_at}"))
    return out


def _damage(facts: Facts) -> list[dict[str, Any]]:
    out = []
    if n := facts.number("empty"):
        line = facts.part(n)
        out.append(_verdict("empty", line, f"{_of(line)} are empty", f"{NORMALISE}/{EMPTY}"))
    for fault, words in damage.FAULTS.items():
        n = int(facts.of("faults").get(fault, {}).get("documents", 0))
        if not n:
            continue
        line = facts.part(n)
        out.append(_verdict(fault, line, f"{_of(line)} {words}{_detail(facts, fault)}", fault))
    return out


def _detail(facts: Facts, fault: str) -> str:
    if fault == damage.INVISIBLE:
        points = {p: int(n["documents"]) for p, n in facts.of("points").items() if p not in damage.C1_POINTS}
        named = {damage.point_name(p): n for p, n in points.items()}
    elif fault == damage.MOJIBAKE:
        named = {NAMES[k]: int(n["documents"]) for k, n in facts.of("mojibake_kinds").items()}
    else:
        return ""
    shown = [f"{name} in {n:,}" for name, n in largest(named, 3).items() if name in named]
    return ": " + ", ".join(shown) + (", …" if len(named) > len(shown) else "")


def _copies(facts: Facts) -> list[dict[str, Any]]:
    stage = facts.stages.duplicates()
    if stage is None:
        return []
    out = []
    for reason in sorted(stage.reasons):
        n = int(facts.of("fails").get(f"{stage.name}/{reason}", 0))
        if n:
            line = facts.part(n, copies=True)
            kind = reason.replace("_", " ")
            words = f"{_of(line)} are {kind}s of one that is kept"
            if "exact" not in reason:
                words += f"{_threshold(facts)}; the biggest cluster of all copies has {_biggest(facts):,} documents"
            words += "; of a sample only the copies inside it are seen" if facts.sampled else ""
            out.append(_verdict(reason, line, words, f"{stage.name}/{reason}"))
    return out


def _threshold(facts: Facts) -> str:
    at = facts.met.facts.get("threshold")
    return f" (Jaccard index {at:g} or more, verified)" if isinstance(at, float) else ""


def _biggest(facts: Facts) -> int:
    return facts.met.biggest[0][1] if facts.met.biggest else 0


def by_design(facts: Facts, reason: str, n: int) -> bool:
    """Whether a recipe's choice, and no fault, takes most of this corpus."""
    return reason in SELECTION and 2 * n > facts.documents


def _stages(facts: Facts) -> list[dict[str, Any]]:
    """Documents that fail a rule of the recipe."""
    out = []
    duplicates = facts.stages.duplicates()
    for key, n in facts.of("fails").items():
        stage, _, reason = key.partition("/")
        if stage == NORMALISE or (duplicates is not None and stage == duplicates.name) or by_design(facts, reason, n):
            continue
        empty = int(facts.number("empty")) if reason == "no_text" else 0
        if n <= empty:  # said of the empty ones already
            continue
        line = facts.part(n)
        words = f"{_of(line)} fail {stage}: {reason.replace('_', ' ')} (recipe {facts.recipe.name})"
        out.append(_verdict(key, line, words, key))
    return out


def wipeouts(facts: Facts) -> dict[str, Any]:
    """Hosts, files and languages most of which a run by the recipe would drop; those of few documents as numbers alone.

    by_design: the recipe does not want their language and drops most of the corpus for it, or most of the corpus goes
    anyway, or it is a language that the recipe names none of its own.
    """
    options = facts.options
    whole_lost = facts.documents - facts.number("kept")
    everywhere = facts.documents > 0 and whole_lost > options.alarm * facts.documents
    raised: list[dict[str, Any]] = []
    smaller: dict[str, Any] = {}
    left_out = 0
    for kind, name in KINDS.items():
        groups = facts.of(name)
        if kind == "source" and len(groups) < 2:
            continue
        found: list[dict[str, Any]] = []
        few: list[tuple[int, int, str]] = []
        for group, have in groups.items():
            documents, reasons = int(have["documents"]), have.get("lost", {})
            lost = sum(reasons.values())
            if lost <= options.alarm * documents:
                continue
            chosen = sum(n for k, n in reasons.items() if k.rpartition("/")[2] in SELECTION)
            if documents < options.alarm_rows:
                if kind != "language" or 2 * chosen <= lost:
                    few.append((-lost, documents, group))
                continue
            found.append(
                {
                    "kind": kind,
                    "name": group,
                    "lost": share(lost, documents, "documents"),
                    "reasons": dict(list(largest(reasons, 3).items())[:3]),
                    "by_design": everywhere or (kind == "language" and 2 * chosen > lost),
                }
            )
        found.sort(key=lambda a: (a["by_design"], -a["lost"]["numerator"], a["name"]))
        if few:
            smaller[kind] = {
                "groups": len(few), "documents": sum(n for _, n, _ in few), "lost": -sum(n for n, _, _ in few),
                "first": [name for _, _, name in sorted(few)[:_FIRST]],
            }  # fmt: skip
        raised += found[:NAMED]
        left_out += max(0, len(found) - NAMED)
    return {
        "above": options.alarm, "least_documents": options.alarm_rows, "raised": raised, "left_out": left_out,
        "smaller": smaller, "most_of_the_corpus": everywhere,
    }  # fmt: skip


def few_words(kind: str, groups: int, least: int) -> str:
    """``2 hosts of fewer than 20 documents``."""
    return (
        f"{groups:,} {NOUNS[kind].removesuffix('s') if groups == 1 else NOUNS[kind]} of fewer than {least:,} documents"
    )


def _wiped(facts: Facts, wiped: Mapping[str, Any]) -> list[dict[str, Any]]:
    out = []
    for one in wiped["raised"]:
        if one["by_design"]:
            continue
        line = facts.part(one["lost"]["numerator"])
        reasons = ", ".join(f"{reason} {n:,}" for reason, n in one["reasons"].items())
        words = (
            f"{one['kind']} {damage.written(one['name'])}: {_of(one['lost'], 'its documents')} would be dropped, "
            f"{percent(line['value'])} of the corpus: {reasons}"
        )
        first = next(iter(one["reasons"]), None)
        out.append(_verdict(f"wiped_out_{one['kind']}", line, words, first))
    return out


def _boilerplate(facts: Facts) -> list[dict[str, Any]]:
    lines = facts.lines
    level = max(_DOCUMENTS, -(-facts.documents // 100))
    often: Sequence[int] = min((v for k, v in lines.at_least.items() if k >= level), default=[0, 0])
    if level in lines.at_least:
        often = lines.at_least[level]
    if not lines.chars or often[1] < BOILERPLATE * lines.chars:
        return []
    line = share(often[1], lines.chars, "code points in lines")
    top = lines.top[0] if len(lines.top) else None
    recur = "line that recurs" if often[0] == 1 else "lines that recur"
    words = f"{percent(line['value'])} of characters are in {often[0]:,} {recur} in {level:,} documents or more"
    if top is not None:
        words += f': "{damage.excerpt(facts.top_lines[0], 60)}" in {int(top["documents"]):,}'
    return [_verdict("boilerplate", line, words, None)]
