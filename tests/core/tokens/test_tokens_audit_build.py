"""audit.json of tokens: laws that close, laws that break, gates; the same for any order."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cleanpipe.tally import add
from cleanpipe.tokens.audit.build import SECTIONS, build_token_audit, failed_gates
from cleanpipe.tokens.audit.limits import Limits
from cleanpipe.tokens.audit.tally import histogram, lost_of, tally_of
from cleanpipe.tokens.audit.told import merge_samples, sample_of
from cleanpipe.tokens.audit.vocabulary import entropy, ids_section, piece_of
from cleanpipe.tokens.making.gates import gates_of


class Toy:
    """One id for each byte; 256 is unk, 257 EOS."""

    name, kind, vocabulary, bos, eos, unk, lossless = "toy", "json", 260, None, 257, 256, True
    controls = {"<unk>": 256, "<|stop|>": 257, "<|a|>": 258, "<|b|>": 259}  # noqa: RUF012
    byte_ids: tuple[int, ...] = ()
    fingerprint = {"digest": "00" * 32}  # noqa: RUF012

    def decode(self, ids: Any) -> str:
        return bytes(i for i in ids if i < 256).decode("utf-8", "replace")

    def token_bytes(self, id_: int) -> bytes:
        return bytes([id_]) if id_ < 256 else b"<control>"


TOY = Toy()
TEXTS = ["hello <s> world", "für dich", "x", "good bye " * 40]
LANGUAGES = ["en", "de", None, "en"]
RUN = {
    "shards": {"rows": {"value": 6}},
    "ledger": {"totals": {"kept": {"documents": 5}}},
    "conservation": {"lines": [{"what": "characters of the shards", "left": 15 + 8 + 1 + 360 + 2 + 7}]},
}
Part = tuple[dict[str, Any], Any, list[dict[str, Any]]]


def of(some: slice) -> Part:
    texts, languages = TEXTS[some], LANGUAGES[some]
    raw = [t.encode() for t in texts]
    ids = np.frombuffer(b"".join(raw), np.uint8).astype(np.uint32)
    ends = np.cumsum([len(r) for r in raw], dtype=np.int64)
    doc_ids = pa.array([(t * 16).encode()[:16] for t in texts], pa.binary(16))
    windows = np.array([1, 1, 1, 2], np.int64)[some]
    tally = tally_of(
        TOY, texts, ids, ends, doc_ids=doc_ids, languages=languages, windows=windows, eos=True,
        window_tokens=len(ids) + int(windows.sum()), starts_seen=len(texts), starts_cut=len(texts),
        sample_limit=2**64 - 1,
    )  # fmt: skip
    shown = sample_of(TOY, ids, ends, doc_ids=doc_ids, urls=[f"http://a/{t[:3]}" for t in texts], languages=languages)
    return tally, histogram(ids, TOY.vocabulary), shown


def built(parts: list[Part], lost: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    tally: dict[str, Any] = {}
    for part, _, _ in parts:
        add(tally, part)
    add(tally, lost or {"lost": {"dropped": {"empty": {"documents": 1, "windows": 1, "characters": 7, "bytes": 7}}}})
    tally["stripped"] += 2
    stored = tally["tokens"] + tally["eos"]
    shards = [{"name": "tokens-00000-of-00001", "tokens": stored, "documents": 4, "windows": 5, "bytes": stored * 2}]
    given = {
        "identity": {"recipe": "toy"}, "tally": tally, "histogram": sum(h for _, h, _ in parts), "tokenizer": TOY,
        "proof": {"asked": "auto", "used": "hf", "reason": "", "probe_texts": 9, "sampled_texts": 4, "differing": None},
        "shards": shards, "run": RUN, "samples": merge_samples(s for _, _, s in parts),
    }  # fmt: skip
    return build_token_audit(**(given | more))


def test_the_balance_closes() -> None:
    audit = built([of(slice(None))])
    assert [li["what"] for li in audit["conservation"]["lines"] if not li["ok"]] == []
    assert audit["conservation"]["balanced"]
    assert failed_gates(audit) == []
    what = {li["what"]: li["left"] for li in audit["conservation"]["lines"]}
    assert what["documents"] == 5
    assert what["EOS = documents"] == 4
    assert what["no BOS"] == 0
    assert what["tokens"] == 15 + 9 + 1 + 360 + 4


def test_any_order_of_parts_gives_the_same_bytes() -> None:
    parts = [of(slice(i, i + 1)) for i in range(4)]
    whole = json.dumps(built([of(slice(None))]))
    assert json.dumps(built(parts)) == whole
    assert json.dumps(built(parts[::-1])) == whole


@pytest.mark.parametrize(
    ("change", "law"),
    [
        (lambda t: t.update(tokens=t["tokens"] + 1), "tokens"),
        (lambda t: t.update(eos=3), "EOS = documents"),
        (lambda t: t.update(bos=1), "no BOS"),
        (lambda t: t.update(documents=5), "documents"),
        (lambda t: t.update(windows=9), "windows"),
        (lambda t: t.update(stripped=0), "characters"),
        (lambda t: t["lost"].clear(), "documents"),
        (lambda t: t["lengths"].clear(), "lengths of documents"),
        (lambda t: t["languages"].pop("de"), "tokens by language"),
    ],
)
def test_a_law_that_is_broken_is_named(change: Any, law: str) -> None:
    tally, counts, _ = of(slice(None))
    tally["stripped"] = 2
    add(tally, lost_of("dropped", "empty", characters=7))
    change(tally)
    audit = built([of(slice(None))], tally=tally, histogram=counts)
    assert law in [li["what"] for li in audit["conservation"]["lines"] if not li["ok"]]
    assert any(law in line for line in failed_gates(audit))


def test_a_control_id_in_the_text_breaks_a_law() -> None:
    tally, counts, shown = of(slice(None))
    counts[[97, 257]] += [-1, 1]
    audit = built([(tally, counts, shown)])
    assert [li["what"] for li in audit["conservation"]["lines"] if not li["ok"]] == ["control ids in the text"]
    counts[[257, 256]] += [-1, 1]  # unk is a control by its name; a text may give it
    assert built([(tally, counts, shown)])["conservation"]["balanced"]


def test_bytes_of_the_payload_are_checked() -> None:
    shard = {"name": "a", "tokens": 389, "documents": 4, "windows": 5, "bytes": 777}
    audit = built([of(slice(None))], shards=[shard])
    assert [li["what"] for li in audit["conservation"]["lines"] if not li["ok"]] == ["bytes of the payloads"]


def test_unk_beyond_the_limit_is_loud() -> None:
    tally, counts, shown = of(slice(None))
    tally["unk"] = 9
    tally["languages"]["de"]["unk"] = 9
    audit = built([(tally, counts, shown)])
    gate = audit["gates"][0]
    assert (gate["what"], gate["ok"], gate["languages_above"]) == ("unk tokens", False, ["de"])
    assert failed_gates(audit) == ["unk tokens: 9 of 385 tokens, the limit is 0.1 %"]
    assert audit["reported_elsewhere"][0]["reported"] == "2.3 %"
    assert audit["reported_elsewhere"][0]["ours"]["numerator"] == 9


def test_a_text_that_came_back_changed_is_loud_unless_the_tokenizer_is_lossy() -> None:
    tally, counts, shown = of(slice(None))
    tally["round_trip"]["failed"] = {json.dumps(["ab" * 16, 3, "text", "tex"]): 1}
    audit = built([(tally, counts, shown)])
    assert audit["round_trip"]["failures"] == [{"doc_id": "ab" * 16, "at": 3, "text": "text", "back": "tex"}]
    assert failed_gates(audit) == ["changed by a round trip: 1 of 4 sampled documents"]
    lossy = Toy()
    lossy.lossless = False
    audit = built([(tally, counts, shown)], tokenizer=lossy)
    assert failed_gates(audit) == []
    assert audit["round_trip"]["lossy"]


def test_documents_that_could_not_be_encoded_are_loud_and_decisions_are_not() -> None:
    run = {"shards": {"rows": {"value": 105}}, "ledger": {"totals": {"kept": {"documents": 104}}}}
    part = [of(slice(None))]
    one = built(part, lost_of("quarantined", "decision", documents=100, windows=100), run=run)
    assert failed_gates(one) == []
    two = built(part, lost_of("quarantined", "encoding_failed", documents=100, windows=100), run=run)
    assert failed_gates(two) == ["quarantined: 100 of 104 documents could not be encoded (encoding_failed)"]


def test_limits_are_those_of_the_build_and_a_reader_may_judge_by_others() -> None:
    tally, counts, shown = of(slice(None))
    tally["unk"] = 9
    lax = built([(tally, counts, shown)], limits=Limits(unk=0.05))
    assert (lax["gates"][0]["what"], lax["gates"][0]["limit"]) == ("unk tokens", 0.05)
    assert failed_gates(lax) == []
    assert gates_of(lax, Limits(unk=0.05)) == ()
    (line,) = gates_of(lax, Limits(unk=0.0005))  # of a later call; 9 of 385 are 2.3 %
    assert line.startswith("unk tokens: 9 of 385 tokens, the limit is 0.05 %: ") and "--max-unk" in line


@pytest.mark.parametrize(("lost", "told"), [(1, False), (2, True), (300, True)])
def test_a_store_that_lost_more_than_one_document_in_a_hundred_is_told(lost: int, told: bool) -> None:
    """100 documents came in, 4 of which are here as they are; one of a hundred is no more than the limit."""
    there = max(100, lost + 4)
    run = {"shards": {"rows": {"value": there + 1}}, "ledger": {"totals": {"kept": {"documents": there}}}}
    tally = lost_of("quarantined", "encoding_failed", documents=lost, windows=lost)
    add(tally, lost_of("quarantined", "decision", documents=there - lost - 4, windows=there - lost - 4))
    audit = built([of(slice(None))], tally, run=run)
    lines = [line for line in gates_of(audit, Limits()) if line.startswith("quarantined: ")]
    assert [f"{lost} of {there} documents" in line for line in lines] == [True] * told


def test_nothing_at_all() -> None:
    audit = build_token_audit(
        identity={}, tally={}, histogram=np.zeros(260, np.int64), tokenizer=TOY, proof={}, shards=[], run={},
    )  # fmt: skip
    assert audit["conservation"]["balanced"]
    assert audit["rates"]["unk"]["value"] == "not applicable"
    assert audit["ids"]["entropy_bits"] == "not applicable"
    assert json.loads(json.dumps(audit, allow_nan=False)) == audit
    assert tuple(audit) == SECTIONS


def test_ids() -> None:
    counts = np.zeros(260, np.int64)
    counts[[97, 98, 99]] = 4, 2, 2
    found = ids_section(counts, TOY)
    assert found["never"] == {"value": round(253 / 256, 6), "numerator": 253, "denominator": 256, "unit": "ids",
                              "method": "exact"}  # fmt: skip
    assert [t["id"] for t in found["top"]] == [97, 98, 99]  # equal counts by id
    assert found["entropy_bits"] == 1.5  # ½·1 + ¼·2 + ¼·2
    assert found["once"] == 0
    assert len(found["never_examples"]) == 20
    assert found["never_examples"][0] == {"id": 0, "piece": "\\x00"}


@pytest.mark.parametrize(
    ("counts", "bits"), [([1, 1, 1, 1], 2.0), ([5], 0.0), ([0, 0], "not applicable"), ([0, 3, 0, 3], 1.0)]
)
def test_entropy(counts: list[int], bits: float | str) -> None:
    assert entropy(np.array(counts)) == bits


@pytest.mark.parametrize(
    ("raw", "piece"),
    [
        (b" the", " the"),
        (b"\n\n", "\\n\\n"),
        (b"\\n", "\\\\n"),  # not the end of a line
        (b"\xe2\x80", "\\xe2\\x80"),  # a part of a character
        ("\u200e".encode(), "\\u200e"),
        (b"<script>", "<script>"),  # whoever shows it escapes it
        (b"x" * 100, "x" * 59 + "…"),
    ],
)
def test_piece(raw: bytes, piece: str) -> None:
    class One(Toy):
        def token_bytes(self, id_: int) -> bytes:
            return raw

    assert piece_of(One(), 0) == piece


def test_lengths() -> None:
    audit = built([of(slice(None))])
    lengths = audit["lengths"]
    # 16, 10, 2 and 361 tokens with EOS; the edges below are 16, 8, 2, 256
    assert lengths["histogram"] == {"2": 1, "8": 1, "16": 1, "256": 1}
    assert (lengths["longest"], lengths["quantiles"]["0.50"], lengths["quantiles"]["0.99"]) == (361, 10, 361)
