"""The audit of a store of tokens as a few lines for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cleanpipe.audit.console import percent, size
from cleanpipe.tokens.audit.borders import agreement, borders_words
from cleanpipe.tokens.making.ledger import DECISION

ROUND_TRIP = "changed by a round trip"  # the gate
_SHOWN = 4  # control strings, reasons
_PLAIN = 8  # columns of a line's name


def summary(audit: Mapping[str, Any], width: int = 100) -> str:
    """What was made, what it costs, how it was proven, and what is wrong. No line is longer than ``width``."""
    lines = [
        ("tokens", _tokens(audit)),
        ("", _rates(audit["rates"])),
        ("ids", _ids(audit["ids"])),
        ("borders", borders_words(audit["borders"])),
        ("control", _controls(audit["controls"])),
        ("decoded", _decoded(audit)),
        ("backend", backend_words(audit["backend"])),
        ("windows", _windows(audit["windows"]) if audit["per_window"] else ""),
        ("packing", _packing(audit["packing"])),
        ("left out", _decided(audit["funnel"])),
        ("lost", _lost(audit["funnel"])),
        ("shards", _shards(audit["totals"])),
        ("balance", _balance(audit)),
        *(("WARNING", alarm["told"]) for alarm in audit["alarms"]),
        *(("GATE", f"{g['what']}: {g['told']}") for g in audit["gates"] if not g["ok"]),
    ]
    out = []
    for name, words in lines:
        text = "".join(c if c.isprintable() else "\ufffd" for c in f"{name:<{_PLAIN}}  {words}")
        if words:
            out.append(text if len(text) <= width else f"{text[: width - 1]}…")
    return "\n".join(out)


def _tokens(audit: Mapping[str, Any]) -> str:
    totals, card = audit["totals"], audit["tokenizer"]
    return (
        f"{totals['stored']:,} in {many(totals['documents'], 'document')} ({many(totals['windows'], 'window')}"
        f"{', each by itself' if audit['per_window'] else ''}) by {card['name']}, {card['vocabulary']:,} ids"
    )


def _rates(rates: Mapping[str, Any]) -> str:
    unk, spelled = rates["unk"], rates["byte_fallback"]
    each = rates["bytes_per_token"]["value"]
    told = f"{each:.2f} bytes a token" if isinstance(each, float) else "no tokens"
    parts = (("unk", unk), ("byte fallback", spelled))
    return ", ".join([told, *(f"{name} {n['numerator']:,} ({percent(n)})" for name, n in parts)])


def _ids(ids: Mapping[str, Any]) -> str:
    never = ids["never"]
    bits = ids["entropy_bits"]
    told = f"; {bits:.2f} bits a token" if isinstance(bits, float) else ""
    return f"{never['numerator']:,} of {never['denominator']:,} never seen ({percent(never)}){told}"


def _controls(controls: Mapping[str, Any]) -> str:
    if not controls["occurrences"]:
        return "no control string in the text of any page"
    shown = list(controls["by_string"].items())[:_SHOWN]
    more = len(controls["by_string"]) + controls["left_out"] - len(shown)
    names = ", ".join([*(f"{s} {n['occurrences']:,}" for s, n in shown), *([f"{more:,} more"] if more else [])])
    return f"strings in {many(controls['documents']['numerator'], 'page')}, kept as plain text: {names}"


def _decoded(audit: Mapping[str, Any]) -> str:
    trip = audit["round_trip"]
    n, of = trip["failed"]["numerator"], trip["documents"]
    if not of:
        return ""
    state = next(g["state"] for g in audit["gates"] if g["what"] == ROUND_TRIP)
    if not n:
        return f"{many(of, 'sampled document')} gave {'its' if of == 1 else 'their'} text back"
    word = "declared" if state == "declared" else "BROKEN"
    return f"{n:,} of {many(of, 'sampled document')} came back changed: {word}" + (
        f" ({trip['lossy'].partition(':')[0]})" if trip["lossy"] else ""
    )


def backend_words(proof: Mapping[str, Any]) -> str:
    """Which backend encoded, why, and what proved it."""
    used, asked = proof.get("used"), proof.get("asked")
    if not used:
        return ""
    told = f"{used}" if used == asked else f"{used} (asked: {asked})"
    if proof.get("reason"):
        told += f": {proof['reason']}"
    if used != "hf" and not proof.get("differing"):
        sampled = proof.get("sampled_texts", 0)
        told += f"; the same ids as hf on {many(proof.get('probe_texts', 0), 'probe text')} and {sampled:,} sampled"
    return told


def _windows(windows: Mapping[str, Any]) -> str:
    cost, cut = windows["cost"], windows["cut"]
    told = f"{cost['value']:.2f}× the tokens of whole documents; " if "numerator" in cost else ""
    return f"{told}{cut['numerator']:,} of {cut['denominator']:,} inner starts cut a token ({percent(cut)})"


def _packing(packing: Mapping[str, Any]) -> str:
    part = packing["4096"]
    each = part["window_each"]["fill"]
    told = [f"sequences of 4,096 full: concat {percent(part['concat']['fill'])}",
            f"best-fit {percent(part['best_fit']['fill'])}"]  # fmt: skip
    return ", ".join(told + ([f"one window each {percent(each)}"] if "numerator" in each else []))


def _decided(funnel: Mapping[str, Any]) -> str:
    n = funnel["quarantined"].get(DECISION, {}).get("documents", 0)
    return f"{many(n, 'document')} by decisions" if n else ""


def _lost(funnel: Mapping[str, Any]) -> str:
    lost = {f"{fate}: {r}": e["documents"] for fate in ("dropped", "quarantined") for r, e in funnel[fate].items()}
    lost.pop(f"quarantined: {DECISION}", None)
    ranked = sorted(lost.items(), key=lambda item: (-item[1], item[0]))[:_SHOWN]
    return ", ".join(f"{name} {n:,}" for name, n in ranked)


def _shards(totals: Mapping[str, Any]) -> str:
    return f"{many(totals['shards'], 'payload')}, {size(totals['payload_bytes'])}"


def _balance(audit: Mapping[str, Any]) -> str:
    conservation = audit["conservation"]
    broken = [line for line in conservation["lines"] if not line["ok"]]
    if not broken:
        return f"closes: {len(conservation['lines'])} laws hold; {agreement(audit['borders'])}"
    first = broken[0]
    rest = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
    return f"BROKEN: {first['what']}: {first['left']:,} ≠ {first['right']:,}{rest}"


def many(n: int, what: str) -> str:
    """A number with its noun."""
    return f"{n:,} {what}{'' if n == 1 else 's'}"
