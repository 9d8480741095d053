"""The audit of a store of tokens as plain JSON: a pure function of tallies, the same for any order of merging."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cleanpipe import batch as col
from cleanpipe.audit.bins import QUANTILES
from cleanpipe.audit.lines import Line, missing, share
from cleanpipe.audit.tables import many
from cleanpipe.tally import Tally
from cleanpipe.tokens.audit.balance import check
from cleanpipe.tokens.audit.borders import alarms, borders
from cleanpipe.tokens.audit.console import ROUND_TRIP
from cleanpipe.tokens.audit.limits import OURS, Limits
from cleanpipe.tokens.audit.packing import fills
from cleanpipe.tokens.audit.told import UNK_ELSEWHERE, WINDOW_ELSEWHERE, card, proof_of, round_trips
from cleanpipe.tokens.audit.vocabulary import ids_section
from cleanpipe.tokens.making.ledger import DECISION

FORMAT, KIND = 1, "tokens"
CONTROLS = 200  # strings shown
SECTIONS = (
    "format", "kind", "identity", "per_window", "tokenizer", "backend", "funnel", "totals", "rates", "languages",
    "lengths", "packing", "windows", "ids", "borders", "controls", "round_trip", "shards", "samples", "conservation",
    "gates", "alarms", "reported_elsewhere",
)  # fmt: skip
_MEASURES = ("documents", "windows", "characters", "bytes")


def build_token_audit(
    *,
    identity: Mapping[str, Any],
    tally: Tally,
    histogram: npt.NDArray[np.int64],
    tokenizer: Any,
    proof: Any,
    shards: Sequence[Mapping[str, Any]],
    run: Mapping[str, Any],
    samples: Sequence[Mapping[str, Any]] = (),
    per_window: bool = False,
    limits: Limits = OURS,
) -> dict[str, Any]:
    """See the module.

    Args:
        identity: what decides the bytes: run, code, decisions …; shown as it is.
        tally: of ``tally.tally_of`` and ``tally.lost_of``, over all batches.
        histogram: (vocabulary,) of ``tally.histogram``, over all batches.
        tokenizer: ``cleanpipe.tokens.tokenizer.Tokenizer``.
        proof: how the backend was chosen: asked, used, reason, probe_texts, sampled_texts, differing …
        shards: of the store, in order: name, tokens, documents, windows, and ``bytes`` of the payload if known.
        run: the run's audit.json; {} where there is none.
        samples: of ``sample_of``, the smallest orders of all shards.
        per_window: whether each window was encoded by itself.
        limits: what the gates judge by.
    """
    lengths = {int(n): c for n, c in tally.get("lengths", {}).items()}
    tokens = tally.get("tokens", 0)
    audit: dict[str, Any] = {
        "format": FORMAT,
        "kind": KIND,
        "identity": dict(identity),
        "per_window": per_window,
        "tokenizer": card(tokenizer),
        "backend": proof_of(proof),
        "funnel": _funnel(tally),
        "totals": _totals(tally, shards),
        "rates": _rates(tally),
        "languages": _languages(tally, tokens),
        "lengths": _lengths(lengths),
        "packing": fills(lengths, tally.get("windows", 0), tally.get("window_tokens", 0)),
        "windows": _windows(tally, per_window),
        "ids": ids_section(histogram, tokenizer),
        "borders": borders(tokenizer),
        "controls": _controls(tally, tokenizer),
        "round_trip": round_trips(tally.get("round_trip", {}), tokenizer),
        "shards": [dict(s) for s in shards],
        "samples": [{k: v for k, v in s.items() if k != "order"} for s in samples],
    }
    marks = {i for i in (tokenizer.bos, tokenizer.eos) if i is not None}
    never = {*marks, *tokenizer.controls.values()} - ({tokenizer.unk} - marks)
    forged = int(histogram[sorted(i for i in never if 0 <= i < len(histogram))].sum())
    audit["conservation"] = check(tally, int(histogram.sum()), forged, shards, run, audit["tokenizer"])
    audit["gates"] = _gates(audit, limits)
    audit["alarms"] = alarms(tokenizer)
    audit["reported_elsewhere"] = _reported(audit)
    return audit


def failed_gates(audit: Mapping[str, Any], limits: Limits | None = None) -> list[str]:
    """What a person must be told loudly: broken laws, rates beyond their limits; each in one line.

    limits: None: those that the audit was built with.
    """
    gates = audit["gates"] if limits is None else _gates(audit, limits)
    broken = [
        f"the balance is broken: {li['what']}: {li['left']:,} ≠ {li['right']:,}"
        for li in audit["conservation"]["lines"]
        if not li["ok"]
    ]
    return broken + [f"{g['what']}: {g['told']}" for g in gates if not g["ok"]]


def _funnel(tally: Tally) -> dict[str, Any]:
    """Documents in, lost by fate and reason, kept; with their windows, characters and bytes as they came."""
    kept = {m: tally.get(m, 0) for m in _MEASURES}
    kept["characters"] += tally.get("stripped", 0)  # as they came; bytes are of what was encoded
    lost = tally.get("lost", {})
    fates = {fate: _sorted(lost.get(fate, {})) for fate in (col.DROPPED, col.QUARANTINED)}
    entries = [kept, *(e for by in fates.values() for e in by.values())]
    whole = {m: sum(e.get(m, 0) for e in entries) for m in _MEASURES}
    return {
        "in": whole,
        **fates,
        col.KEPT: kept,
        "share_kept": share(kept["documents"], whole["documents"], "documents"),
    }


def _totals(tally: Tally, shards: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    names = (*_MEASURES, "tokens", "bos", "eos", "stripped", "unk", "byte_fallback")
    out = {name: int(tally.get(name, 0)) for name in names}
    out["stored"] = out["tokens"] + out["bos"] + out["eos"]
    return out | {"shards": len(shards), "payload_bytes": sum(int(s.get("bytes", 0)) for s in shards)}


def _rates(counts: Mapping[str, Any]) -> dict[str, Line]:
    tokens, characters = counts.get("tokens", 0), counts.get("characters", 0)
    return {
        "bytes_per_token": share(counts.get("bytes", 0), tokens, "bytes to tokens"),
        "tokens_per_character": share(tokens, characters, "tokens to characters"),
        "unk": share(counts.get("unk", 0), tokens, "tokens"),
        "byte_fallback": share(counts.get("byte_fallback", 0), tokens, "tokens"),
    }


def _languages(tally: Tally, tokens: int) -> dict[str, Any]:
    names = ("documents", "characters", "bytes", "tokens")
    return {
        language: {
            **{m: c.get(m, 0) for m in names},
            "share": share(c.get("tokens", 0), tokens, "tokens"),
            **_rates(c),
        }
        for language, c in _sorted(tally.get("languages", {})).items()
    }


def _lengths(counts: Mapping[int, int]) -> dict[str, Any]:
    """Exact quantiles, and a histogram with edges at 2^k and 3·2^k."""
    sizes = sorted(counts)
    bins: dict[int, int] = {}
    for n in sizes:
        edge = _edge(n)
        bins[edge] = bins.get(edge, 0) + counts[n]
    upto = np.cumsum([counts[n] for n in sizes], dtype=np.int64)
    documents = int(upto[-1]) if sizes else 0
    ranks = {f"{q:.2f}": -(-documents * round(q * 100) // 100) for q in QUANTILES}
    return {
        "mean": share(sum(n * c for n, c in counts.items()), documents, "tokens a document"),
        "quantiles": {q: sizes[int(np.searchsorted(upto, r))] for q, r in ranks.items()} if sizes else {},
        "longest": sizes[-1] if sizes else 0,
        "histogram": {str(edge): bins[edge] for edge in sorted(bins)},
    }


def _edge(n: int) -> int:
    """The largest of 0, 1, 2, 3, 4, 6, 8, 12, 16 … that is not above ``n``."""
    if n < 2:
        return n
    power = 1 << (n.bit_length() - 1)
    return power + power // 2 if n >= power + power // 2 else power


def _windows(tally: Tally, per_window: bool) -> dict[str, Any]:
    starts = tally.get("starts", {})
    whole = tally.get("whole_tokens", 0) if per_window else tally.get("tokens", 0)
    apart = tally.get("tokens", 0) if per_window else tally.get("window_tokens", 0)
    return {
        "a_document": share(tally.get("windows", 0), tally.get("documents", 0), "windows to documents"),
        "cut": share(starts.get("cut", 0), starts.get("seen", 0), "window starts within a document"),
        "tokens": apart,
        "cost": share(apart, whole, "tokens of windows to tokens of whole documents")
        if apart and whole
        else missing("the same documents were not encoded both ways"),
    }


def _controls(tally: Tally, tokenizer: Any) -> dict[str, Any]:
    met = tally.get("controls", {})
    own = set(tokenizer.controls)
    ranked = sorted(met.get("by_string", {}).items(), key=lambda item: (-item[1]["occurrences"], item[0]))
    return {
        "documents": share(met.get("documents", 0), tally.get("documents", 0), "documents"),
        "occurrences": met.get("occurrences", 0),
        "by_string": {s: {**dict(sorted(n.items())), "of_tokenizer": s in own} for s, n in ranked[:CONTROLS]},
        "left_out": max(0, len(ranked) - CONTROLS),
    }


def _gates(audit: Mapping[str, Any], limits: Limits) -> list[dict[str, Any]]:
    out = []
    asked = (("unk", "unk", limits.unk, audit["tokenizer"]["unk"] is not None),
             ("byte_fallback", "byte fallback", limits.byte_fallback, audit["tokenizer"]["byte_ids"] > 0))  # fmt: skip
    for name, what, limit, has in asked:
        line = audit["rates"][name]
        above = {
            language
            for language, part in audit["languages"].items()
            if part[name]["numerator"] > limit * part["tokens"]
        }
        ok = line["numerator"] <= limit * line["denominator"]
        told = f"{line['numerator']:,} of {many(line['denominator'], 'token')}, the limit is {limit * 100:.4g} %"
        gate = {"what": f"{what} tokens", "ours": line, "limit": limit, "ok": ok, "told": told}
        note = "" if has else f"the tokenizer has no {what}"
        out.append(gate | {"languages_above": sorted(above), "note": note})
    trip = audit["round_trip"]
    failed = trip["failed"]
    told = f"{failed['numerator']:,} of {many(failed['denominator'], 'sampled document')}"
    ok = not audit["tokenizer"]["lossless"] or not failed["numerator"]
    gate = {"what": ROUND_TRIP, "ours": failed, "limit": 0, "ok": ok, "told": told}
    out.append(gate | {"languages_above": [], "note": trip["lossy"]})
    lost = {r: e["documents"] for r, e in audit["funnel"][col.QUARANTINED].items() if r != DECISION}
    line = share(sum(lost.values()), audit["funnel"]["in"]["documents"], "documents")
    told = f"{line['numerator']:,} of {many(line['denominator'], 'document')} could not be encoded ({', '.join(lost)})"
    ok = line["numerator"] <= limits.lost * line["denominator"]
    gate = {"what": "quarantined", "ours": line, "limit": limits.lost, "ok": ok, "told": told}
    out.append(gate | {"languages_above": [], "note": ""})
    return [gate | {"state": _state(gate)} for gate in out]


def _state(gate: Mapping[str, Any]) -> str:
    """The one word that every form of the audit says; ``declared``: it happens, and the tokenizer says that it may."""
    if not gate["ok"]:
        return "beyond"
    return "declared" if gate["note"] and gate["ours"]["numerator"] else "holds"


def _reported(audit: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Figures that others reported on their own text, beside ours; never asserted."""
    lines = [
        (*UNK_ELSEWHERE, audit["rates"]["unk"]),
        (*WINDOW_ELSEWHERE, audit["packing"]["4096"]["window_each"]["fill"]),
    ]
    return [{"what": what, "reported": said, "ours": line} for what, said, line in lines]


def _sorted(by: Mapping[str, Any]) -> dict[str, Any]:
    return {k: dict(sorted(by[k].items())) for k in sorted(by)}
