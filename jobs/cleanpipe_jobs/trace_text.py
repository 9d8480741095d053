"""The answers of ``cleanpipe trace`` as plain data and in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cleanpipe_jobs.explain_text import printable, safe, short
from cleanpipe_jobs.tokens_said import counted, fate_in_text, percent, plan_in_text

if TYPE_CHECKING:
    from cleanpipe.tokens.decisions import Effects
    from cleanpipe.tokens.store import TokenStore
    from cleanpipe.tokens.tracing import Origin, Part, Range, Traced
    from cleanpipe.tokens.tracing.absent import Absent

AROUND = 20  # tokens before and behind that --text shows
TEXT_WIDTH = 4000  # characters of a sequence's text in words; JSON has all
_SEQUENCES = 8  # of a document, in words
_AGAIN = 20  # documents that are told to be named too


def origin_facts(origin: Origin) -> dict[str, Any]:
    """A document, plain."""
    return {**asdict(origin), "scores": dict(origin.scores), "windows": len(origin.windows)}


def _characters(found: Any) -> dict[str, Any] | None:
    return None if found is None else asdict(found)


def _decision(decided: Effects, document: int, sequence: int | None) -> dict[str, Any] | None:
    """What is decided of a document, at a sequence or in the end."""
    from cleanpipe.tokens.decisions_effects import NAMES, RELEASED
    from cleanpipe.tokens.decisions_lines import FOREVER

    row = int(decided.rows(document, FOREVER - 1 if sequence is None else sequence))
    if row < 0 or decided.actions[row] == RELEASED:
        return None
    weight = float(decided.weights[row])
    return {"action": NAMES[int(decided.actions[row])], "weight": weight, "line": int(decided.line[row])}


def token_facts(traced: Traced, tokenizer: Any, decided: Effects) -> dict[str, Any]:
    """A token, plain."""
    return {
        "token": traced.token,
        "id": traced.id,
        "kind": traced.kind,
        "bytes": None if traced.bytes is None else traced.bytes.hex(),
        "piece": tokenizer.decode([traced.id]) if traced.kind == "text" else "",
        "characters": _characters(traced.characters),
        "windows": [asdict(w) for w in traced.windows],
        "document": origin_facts(traced.origin),
        "decided": _decision(decided, traced.origin.document, None),
    }


def around(store: TokenStore, tokenizer: Any, traced: Traced) -> dict[str, str]:
    """The text before, of and behind a token, of its document."""
    from cleanpipe.tokens.tracing.characters import text_of

    low, high, at = traced.origin.token_start, traced.origin.token_stop, traced.token
    parts = {
        "before": (max(low, at - AROUND), at),
        "token": (at, at + 1),
        "behind": (at + 1, min(high, at + 1 + AROUND)),
    }
    return {name: text_of(tokenizer, store, store.read(a, b)) for name, (a, b) in parts.items()}


def part_facts(name: str, part: Part, decided: Effects) -> dict[str, Any]:
    """A document's tokens in a sequence, plain. name: of its store."""
    return {
        "sequence": part.sequence,
        "store": name,
        "token_start": part.token_start,
        "token_stop": part.token_stop,
        "place": part.place,
        "characters": _characters(part.characters),
        "tokens": part.tokens,
        "rare": part.rare,
        "rare_share": round(part.rare_share, 6),
        "rare_excess": part.rare_excess,
        "repeats": {"period": part.repeats.period, "times": part.repeats.times, "many": part.repeats.many},
        "decided": _decision(decided, part.origin.document, part.sequence),
        "document": origin_facts(part.origin),
    }


def range_facts(found: Range, decided: Effects) -> dict[str, Any]:
    """Where a document's tokens are, and what is decided of it, plain."""
    told = _decision(decided, found.document, None)
    return {**asdict(found), "shard": f"tokens/{found.shard}.bin", "decided": told}


# --- in words


def _line(name: str, text: str) -> str:
    return f"  {name:<11}{text}"


def _record(document: Mapping[str, Any]) -> str:
    kind = "" if document["offset_kind"] == "file" else f" ({document['offset_kind']})"
    return f"{document['source']}, {document['record_length']:,} bytes from {document['record_offset']:,}{kind}"


def _spans(at: Mapping[str, Any] | None) -> str:
    if at is None:
        return "none: it stands for no text"
    within = [f"{at['before']} bytes of the first before it"] * bool(at["before"])
    within += [f"{at['behind']} bytes of the last behind it"] * bool(at["behind"])
    about = "" if at["exact"] else "of its window: this tokenizer's ids do not give their bytes"
    more = "; ".join(filter(None, [*within, about]))
    return f"{at['begin']:,} to {at['end']:,} of the cleaned text" + (f" ({more})" if more else "")


def _scores(document: Mapping[str, Any]) -> str:
    found = {n: v for n, v in document["scores"].items() if v is not None}
    return ", ".join(f"{n} {v:g}" if isinstance(v, float) else f"{n} {safe(str(v))}" for n, v in found.items())


def _said(decided: Mapping[str, Any] | None) -> str:
    if decided is None:
        return ""
    weight = f" {decided['weight']:g}" if decided["action"] == "weight" else ""
    return f"{decided['action']}{weight} (line {decided['line']} of decisions.jsonl)"


def _proof(found: Mapping[str, Any]) -> str:
    if found["same"]:
        return f"proven: {found['how']}" + (f": {short(repr(found['text']))}" if found.get("text") else "")
    return "NOT PROVEN: " + "; ".join(short(w, 400) for w in found["wrong"])


def token_in_text(store: TokenStore, facts: Mapping[str, Any]) -> str:
    """``--token``."""
    document = facts["document"]
    named = repr(facts["piece"]) if facts["kind"] == "text" else facts["kind"].upper()
    data = f", bytes {facts['bytes']}" if facts["bytes"] is not None else ""
    lines = [f"token {facts['token']:,} of {store.tokens:,}: id {facts['id']:,}, {short(named)}{data}"]
    lines.append(_line("document", f"{document['doc_id']}, {document['document']:,} of {store.documents:,}"))
    lines.append(_line("url", short(document["url"] or "none")))
    lines.append(_line("record", short(_record(document))))
    lines.append(_line("date", document["date"] or "unknown"))
    lines.append(_line("characters", _spans(facts["characters"])))
    lines += [
        _line("window", f"{w['window']} of {w['windows']}: characters {w['char_start']:,} to {w['char_end']:,}")
        for w in facts["windows"]
    ]
    lines.append(_line("tokens", f"{document['token_start']:,} to {document['token_stop']:,} are the document"))
    of = f"tokens/{document['shard']}.bin"
    lines.append(_line("bytes", f"{document['byte_start']:,} to {document['byte_stop']:,} of {of}"))
    lines.append(_line("language", document["language"] or "unknown"))
    lines.append(_line("scores", _scores(document) or "none"))
    if facts["decided"]:
        lines.append(_line("decided", _said(facts["decided"])))
    if "text" in facts:
        text = facts["text"]
        lines.append(_line("text", safe(f"{text['before']}»{text['token']}«{text['behind']}")))
    if "proof" in facts:
        lines.append(_line("archive", _proof(facts["proof"])))
    return printable("\n".join(lines))


def step_in_text(facts: Mapping[str, Any], top: int) -> str:
    """``--sequence`` and ``--step``."""
    plan, sequences = facts["plan"], facts["sequences"]
    first, last = sequences[0]["sequence"], sequences[-1]["sequence"]
    what = f"sequence {first:,}" if len(sequences) == 1 else f"sequences {first:,} to {last:,}"
    step = "" if facts["step"] is None else f"step {facts['step']:,}: "
    lines = [f"{step}{what} of {plan_in_text(plan)}"]
    for one in sequences:
        lines.append(
            f"  sequence {one['sequence']:,} of {one['store']}, epoch {one['epoch']}: {one['tokens']:,} tokens, "
            f"{one['padding']:,} padding, {counted(one['documents'], 'document')}"
        )
        lines += _text(one)
    pieces = facts["documents"]
    shown = pieces[:top]
    many = len({(one["store"], one["document"]["document"]) for one in pieces})
    lines.append(
        f"{counted(len(pieces), 'piece')} of {counted(many, 'document')}, the most suspect first "
        f"({len(shown):,} of {len(pieces):,} shown):"
    )
    for one in shown:
        lines += _part(one)
    return printable("\n".join(lines))


def _text(one: Mapping[str, Any]) -> Iterator[str]:
    if "text" in one:
        text = one["text"]
        yield from (f"    {safe(line)}" for line in text[:TEXT_WIDTH].splitlines())
        yield from [f"    … {len(text) - TEXT_WIDTH:,} more characters (--json has all)"] * (len(text) > TEXT_WIDTH)


def _again(repeats: Mapping[str, Any]) -> str:
    if repeats["times"] < 2:
        return "nothing repeated"
    what = "token" if repeats["period"] == 1 else f"{repeats['period']} tokens"
    return f"{repeats['times']:,} times the same {what} in a row"


def _part(one: Mapping[str, Any]) -> Iterator[str]:
    document, repeats = one["document"], one["repeats"]
    yield f"  {document['doc_id']}  {short(document['url'] or 'no URL', 120)}"
    mark = "  REPEATS" if repeats["many"] else ""
    rare = f"{one['rare']:,} of them rare ({percent(one['rare_share'])})"
    yield f"      {counted(one['tokens'], 'token')}, {rare}, {_again(repeats)}{mark}"
    yield (
        f"      sequence {one['sequence']:,} from {one['place']:,}; tokens {one['token_start']:,} to "
        f"{one['token_stop']:,}; characters {_spans(one['characters'])}"
    )
    yield f"      {short(_record(document))}; {document['language'] or 'unknown language'}; {_scores(document)}"
    if one["decided"]:
        yield f"      {_said(one['decided'])}"
    if "proof" in one:
        yield f"      {_proof(one['proof'])}"


def still_there(name: str, again: Sequence[Absent]) -> Iterator[str]:
    """Of documents that the store does not have: why, and which to name in their place."""
    for one in again[:_AGAIN]:
        yield f"{short(one.url or one.doc_id)} is not in {name}; {fate_in_text(one)}"
    if len(again) > _AGAIN:
        yield f"so it is of {len(again) - _AGAIN:,} more (--json has all)"


def ranges_in_text(
    name: str,
    store: TokenStore,
    rows: Sequence[Mapping[str, Any]],
    gone: Sequence[Absent] = (),
    plan: Mapping[str, Any] | None = None,
) -> str:
    """``--url`` and its like. name: of the store. gone: documents that it does not have."""
    tokens = sum(r["token_stop"] - r["token_start"] for r in rows)
    share = tokens / store.tokens if store.tokens else 0.0
    lines = [f"{counted(len(rows), 'document')}, {counted(tokens, 'token')}, {percent(share)} of {name}"]
    lines += [plan_in_text(plan)] if plan is not None else []
    for row in rows:
        lines.append(f"  {row['doc_id']}  {short(row['url'] or 'no URL', 120)}")
        lines.append(f"      tokens {row['token_start']:,} to {row['token_stop']:,} of the store")
        lines.append(
            f"      {row['shard']}: tokens {row['shard_start']:,} to {row['shard_stop']:,}, bytes "
            f"{row['byte_start']:,} to {row['byte_stop']:,}"
        )
        lines.append(f"      {short(_record(row))}")
        if "sequences" in row:
            found = row["sequences"]
            more = f" and {len(found) - _SEQUENCES:,} more" if len(found) > _SEQUENCES else ""
            lines.append(f"      sequences {', '.join(f'{g:,}' for g in found[:_SEQUENCES])}{more}")
        if row["decided"]:
            lines.append(f"      {_said(row['decided'])}")
        lines += _text(row)
    listed = {row["doc_id"] for row in rows}
    if gone:
        lines.append(f"{counted(len(gone), 'document')} that the store does not have:")
    for one in gone:
        lines.append(f"  {one.doc_id}  {short(one.url or 'no URL', 120)}")
        lines.append(f"      {fate_in_text(one, listed)}")
    return printable("\n".join(lines))
