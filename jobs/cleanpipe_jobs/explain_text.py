"""The answer of ``cleanpipe explain`` in words. Nothing from a page reaches the terminal but printable characters."""

from __future__ import annotations

import difflib
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cleanpipe.queries.near import Near
    from cleanpipe.queries.replay import Replay

LINES, WIDTH = 8, 160  # of each text, without --full
CAPTURES = 20
DIFF_LINES, DIFF_INPUT = 60, 800  # lines of a diff that are shown; lines of a text that are compared
WORDS = 12  # words of a kind that are shown
_OTHERS = 2  # limits of one option that are for other documents: more are told in one line
_MARKS = {
    "passed": "passed",
    "decided": "DECIDED",
    "not decisive": "not met, and not what decided",
    "not asked": "not asked",
    "not measured": "not measured",
    "not reached": "not reached",
}
_KEEPS = {">=": "at least", ">": "above", "<=": "at most", "<": "below"}


def safe(text: str) -> str:
    """One line of printable characters; others as escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def printable(text: str) -> str:
    """As standard output can show it, whatever its encoding."""
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def short(text: str, width: int = WIDTH) -> str:
    """The same, cut."""
    text = safe(text[: width + 1])
    return text if len(text) <= width else f"{text[: width - 1]}…"


def nearest_in_text(nearest: Sequence[Near]) -> str:
    """The keys that might have been meant."""
    lines = ["nearest:"]
    for near in nearest:
        lines.append(f"  {short(near.key)}")
        url = f", {near.url}" if near.url and near.url != near.key else ""
        lines.append(f"      {short(near.why + url)}")
    return "\n".join(lines)


def in_text(answer: Mapping[str, Any]) -> str:
    """What the ledger says."""
    return "\n".join([*_captures(answer), *_verdict(answer), *_provenance(answer), *_stages(answer), _cost(answer)])


def _captures(answer: Mapping[str, Any]) -> Iterator[str]:
    captures = answer["captures"]
    if len(captures) < 2:
        return
    more = f" and {answer['more']:,} that may be" if answer["more"] else ""
    yield f"{len(captures):,} rows of the ledger{more} have this key; the first is explained, a doc_id chooses another:"
    for one in captures[:CAPTURES]:
        why = "" if one["fate"] == "kept" else f" by {one.get('stage')}: {one.get('reason')}"
        yield safe(f"  {one['doc_id']}  {one.get('date') or '-':20}  {one['fate'] or 'not decided yet'}{why}")
    if len(captures) > CAPTURES:
        yield f"  … and {len(captures) - CAPTURES:,} more (--json lists them)"
    yield ""


def _verdict(answer: Mapping[str, Any]) -> Iterator[str]:
    yield short(answer["provenance"].get("url") or "(no URL)", 2000)
    fate = answer["fate"]
    if fate is None:
        yield f"{answer['doc_id']}  not decided yet: it waits for the other documents of the run"
    elif fate == "kept":
        where = f": {answer['windows']:,} window{'s' * (answer['windows'] != 1)} in {answer['shard']}"
        yield safe(f"{answer['doc_id']}  kept{where if answer['windows'] is not None else ''}")
        n = answer["stands_for"]
        if n:
            yield f"it stands for {n:,} other document{'s' * (n != 1)}, dropped as its duplicate{'s' * (n != 1)}"
    else:
        yield safe(f"{answer['doc_id']}  {fate} by {answer['stage']}: {answer['reason']}")
        if answer["in_words"]:
            yield f"  {safe(answer['in_words'])}"
    if answer["quarantine"]:
        q = answer["quarantine"]
        trace = f" (trace {q['trace']})" if q.get("trace") else ""
        yield f"  {short(str(q['error']))}: {short(str(q['message']), 500)}{trace}"
    if other := answer["stands_for_it"]:
        jaccard = "" if other["jaccard"] is None else f", Jaccard index {other['jaccard']:g}"
        yield f"  {other['doc_id']} stands for it{jaccard}"
        its = "it is kept" if other.get("fate") == "kept" else f"it is {other.get('fate')}"
        its = its if other["in_ledger"] else "it is in no row of this ledger"
        yield safe(f"      {its}: {short(str(other.get('url') or '-'), 500)}")
        if other["in_ledger"]:
            yield safe(f"      {other.get('source')}@{other.get('record_offset')}")
    yield ""


def _provenance(answer: Mapping[str, Any]) -> Iterator[str]:
    p = answer["provenance"]
    place = f"{p.get('source')}@{p.get('record_offset')}+{p.get('record_length')}"
    inflated = " (of the inflated file)" if p.get("offset_kind") == "inflated" else ""
    yield "where it comes from"
    yield f"  {'record':16}{short(place, 500)}{inflated}"
    for name, value in p.items():
        if value is None or name in ("source", "record_offset", "record_length", "offset_kind", "url"):
            continue
        shown = f"{value:,}" if isinstance(value, int) and name in ("bytes_in", "chars_out") else str(value)
        yield f"  {name:16}{short(shown, 500)}"
    yield ""


def _stages(answer: Mapping[str, Any]) -> Iterator[str]:
    yield "its way"
    for stage in answer["stages"]:
        outcome = stage["outcome"]
        loud = f"{outcome.upper()}: {answer['reason']}" if outcome in ("dropped", "quarantined") else outcome
        yield f"  {safe(stage['stage']):20}{safe(loud)}"
        if outcome in ("not reached", "unknown"):
            continue
        limited = {limit["score"] for limit in stage["limits"]}
        for name, value in stage["scores"].items():
            if name not in limited and value is not None:
                yield f"      {safe(name):34}{_number(value):>14}"
        others = Counter(limit["option"] for limit in stage["limits"] if limit["mark"] == "not asked")
        asked_by = {limit["option"] for limit in stage["limits"] if limit["mark"] != "not asked"}
        for limit in stage["limits"]:
            option = limit["option"]
            many = others[option] > _OTHERS and option in asked_by  # such as a limit of perplexity for each language
            if limit["mark"] == "not reached" or (many and limit["mark"] == "not asked"):
                continue
            needs = f"kept {_KEEPS[limit['keeps']]} {_number(limit['at'])} ({limit['option']})"
            value = "-" if limit["value"] is None else _number(limit["value"])
            asked = f": only of {limit['of']}" if limit["mark"] == "not asked" and limit["of"] else ""
            yield safe(f"      {limit['score']:34}{value:>14}  {needs}: {_MARKS[limit['mark']]}{asked}")
            if limit["of"] and not asked:
                yield safe(f"      {'':50}asked of {limit['of']}")
            if many:
                yield safe(f"      {'':50}{others[option]} more limits of {option} are for other documents")
        yield from _judged(stage, limited)
    yield ""


def _judged(stage: Mapping[str, Any], limited: Collection[str]) -> Iterator[str]:
    """Of a stage that drops by no limit: what it found beside what it wants."""
    if stage["judged"] is None:
        return
    for name, value in stage["judged"].items():
        if name not in limited and (name not in stage["scores"] or value is None):
            yield f"      {safe(name):34}{'-' if value is None else _number(value):>14}"
    if stage["in_words"]:
        yield f"      DECIDED by these: {safe(stage['in_words'])}"


def _cost(answer: Mapping[str, Any]) -> str:
    how = "by the index"
    if answer["scanned_parts"]:
        how = f"by reading {answer['scanned_parts']:,} ledger parts through, which have no index"
    return f"looked up {how} in {answer['lookup_seconds']:.2f} s"


def _number(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return short(str(value), 60)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6f}".rstrip("0").rstrip(".")


# --- replay


def replay_facts(done: Replay) -> dict[str, Any]:
    """The replay as plain data, without its texts."""
    from cleanpipe.queries.explain import plain

    def differences(of: Replay) -> list[dict[str, Any]]:
        return [{"column": d.column, **plain({"ledger": d.ledger, "replay": d.replay})} for d in of.differences]

    out: dict[str, Any] = {
        "proven": done.proven, "undone": done.undone, "declined": done.declined, "same": done.same,
        "differences": differences(done), "unproven": done.unproven, "error": done.error,
        "steps": [{"stage": stage, "through": through} for stage, through in done.steps],
        "block_bytes": done.block_bytes, "seconds": round(done.seconds, 3), "windows": _windows(done),
    }  # fmt: skip
    kept = done.keeper
    out["met_again"] = (
        None if kept is None else {"same": kept.same, "differences": differences(kept), "undone": kept.undone}
    )
    return out


def _windows(done: Replay) -> list[dict[str, int]]:
    if done.windows is None:
        return []
    return list(done.windows.select(["window", "char_start", "char_end", "overlap"]).to_pylist())


def boundaries(done: Replay, *, full: bool, diff: bool) -> list[dict[str, Any]]:
    """Each text: whole or its beginning, and what changed since the one before."""
    out = []
    before = ""
    for place, b in enumerate(done.boundaries):
        lines = b.text.splitlines()
        head = b.text if full else "\n".join(line[:WIDTH] for line in lines[:LINES])
        one: dict[str, Any] = {
            "stage": b.stage, "column": b.column, "characters": len(b.text), "lines": len(lines), "text": head,
        }  # fmt: skip
        if diff and place:
            one["diff"] = _diff(before, b.text)
        before = b.text
        out.append(one)
    return out


def _diff(a: str, b: str) -> list[str]:
    """A unified diff of the beginnings, bounded."""
    left, right = ([line[:400] for line in t.splitlines()[:DIFF_INPUT]] for t in (a, b))
    lines = list(difflib.unified_diff(left, right, "before", "after", n=1, lineterm=""))
    more = [f"… and {len(lines) - DIFF_LINES:,} lines more"] if len(lines) > DIFF_LINES else []
    return [*lines[:DIFF_LINES], *more]


def words_apart(here: str | None, there: str | None) -> dict[str, Any] | None:
    """Words of two texts that only one of them has, as often as it has them more."""
    if here is None or there is None:
        return None
    a, b = here.split(), there.split()
    ours, theirs = Counter(a), Counter(b)
    common = sum((ours & theirs).values())
    only, other = ours - theirs, theirs - ours
    return {
        "here": len(a), "there": len(b), "common": common,
        "only_here": list(only)[:WORDS], "only_there": list(other)[:WORDS],
        "only_here_count": sum(only.values()), "only_there_count": sum(other.values()),
        "same_text": here == there,
    }  # fmt: skip


def replay_in_text(replay: Mapping[str, Any], *, full: bool) -> str:
    """What the replay shows and proves."""
    lines, before = ["", "replay"], None
    if replay["steps"]:
        lines.append(
            "  " + ", ".join(safe(s["stage"]) + ("" if s["through"] else " (ends here)") for s in replay["steps"])
        )
    if replay["error"]:
        lines.append(f"  {short(replay['error'], 500)}")
    for b in replay["boundaries"]:
        lines += [
            "",
            f"  {safe(b['column'])} after {safe(b['stage'])}: {b['characters']:,} characters, {b['lines']:,} lines",
        ]
        shown = [line.expandtabs(4) for line in b["text"].split("\n")] if b["text"] else []
        if shown and shown == before:
            lines.append("  | (begins as the one before)")
        else:
            lines += [f"  | {safe(line) if full else short(line)}" for line in shown]
        before = shown
        if not full and b["lines"] > len(shown):
            lines.append(f"  | … {b['lines'] - len(shown):,} lines more (--full)")
        lines += [f"  {short(line.expandtabs(4))}" for line in b.get("diff", ())]
    if windows := replay["windows"]:
        spans = ", ".join(f"{w['char_start']:,}–{w['char_end']:,}" for w in windows[:10])
        more = f" and {len(windows) - 10:,} more" if len(windows) > 10 else ""
        lines += ["", f"  {len(windows):,} window{'s' * (len(windows) > 1)}: {spans}{more}"]
    if words := replay["words"]:
        lines += ["", *_words(words)]
    lines += ["", *_proof(replay), f"replayed in {replay['seconds']:.2f} s"]
    return "\n".join(lines)


def _words(words: Mapping[str, Any]) -> Iterator[str]:
    if words["same_text"]:
        yield f"  both texts are the same, {words['here']:,} words"
        return
    counts = f"{words['here']:,} words here, {words['there']:,} there, {words['common']:,} in common"
    yield f"  beside the document that stands for it: {counts}"
    for name, said in (("only_here", "only here"), ("only_there", "only there")):
        if words[name]:
            some = ", ".join(short(w, 40) for w in words[name])
            yield f"  {said}, {words[f'{name}_count']:,}: {some}{', …' * (len(words[name]) < words[f'{name}_count'])}"


def _proof(replay: Mapping[str, Any]) -> Iterator[str]:
    if replay["undone"]:
        yield f"not {'run' if replay['declined'] else 'proven'}: {safe(replay['undone'])}"
    met = replay["met_again"]
    if not replay["undone"] and not replay["differences"]:
        same = f"the replay gives the same {len(replay['same']):,} columns of the ledger"
        yield f"{same}: fate, content_id, windows and every score among them"
        yield f"  (no document alone tells: {', '.join(replay['unproven'])})"
    yield from _differences("", replay["differences"])
    if met is not None and not met["undone"] and not replay["undone"]:
        yield "the document that stands for it was treated again too, and the two met: that verdict stands above"
        yield from _differences(" of that document", met["differences"])
    if replay["shard_rows"] is not None:
        if replay["shard_differs"]:
            yield safe(f"DIFFERS in the shard: {', '.join(replay['shard_differs'])}")
        else:
            yield f"its rows of the shard ({replay['shard_rows']:,}) are the same, and join to the same text"
    elif replay["windows"]:
        yield "its rows of the shard were not compared: the shard is not at hand here"


def _differences(of: str, differences: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for d in differences:
        ledger, again = short(str(d["ledger"])), short(str(d["replay"]))
        yield f"DIFFERS{of}: {safe(d['column'])} is {ledger} in the ledger, {again} in the replay"
