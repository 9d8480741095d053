"""mask_personal: placeholders in their places, everything else untouched, and the run's proofs with it."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleanpipe import batch as col
from cleanpipe.errors import ConfigError
from cleanpipe.pipeline import Pipeline
from cleanpipe.testing import batch, check_stage, run
from cleanpipe.text.normalise import normalise
from cleanpipe_stages.mask_personal import MaskPersonal
from cleanpipe_stages.minhash_drop import MinhashDrop
from cleanpipe_stages.minhash_sign import MinhashSign
from cleanpipe_stages.personal.find import pieces
from cleanpipe_stages.personal.mask import Placeholders, masked
from cleanpipe_stages.windowing import Windowing

FOLDER = Path(__file__).parent / "cases"
LABELLED = [
    json.loads(line)
    for name in ("personal_data", "personal_data_held_out")
    for line in (FOLDER / f"{name}.jsonl").read_text("utf-8").splitlines()
]
CASES: list[tuple[str, str, str]] = [
    ("mail", "Write to jane@firm.example now.", "Write to email@example.com now."),
    ("two", "a@b.example, c@d.example", "email@example.com, email@example.com"),
    ("public address", "from 93.184.216.34 port 22", "from 192.0.2.1 port 22"),
    ("version 6", "host 2a00:1450:4001:81b::200e up", "host 2001:db8::1 up"),
    ("number", "Tel: +49 30 901820.", "Tel: 202-555-0100."),
    ("private address stays", "router 192.168.1.1", "router 192.168.1.1"),
    ("version stays", "version 1.2.3.4", "version 1.2.3.4"),
    ("Chinese around it", "请联系support@firm.cn谢谢", "请联系email@example.com谢谢"),
    ("lines and indentation stay", "a\n\n    x@y.example\n\tz", "a\n\n    email@example.com\n\tz"),
    ("placeholders stay", "email@example.com 192.0.2.1 202-555-0100", "email@example.com 192.0.2.1 202-555-0100"),
    ("a mark behind it is part of it", "x@y.org\u0323 b", "email@example.com b"),
    ("nothing", "The keeper weighs each hive.", "The keeper weighs each hive."),
    ("empty", "", ""),
]


@pytest.mark.parametrize(("text", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_cases(text: str, expected: str) -> None:
    done = check_stage(MaskPersonal(), rows([text, "other"]))
    assert done.rows.column(col.TEXT).to_pylist() == [expected, "other"]


def rows(texts: list[str]) -> Any:
    encoded = [t.encode() for t in texts]
    ids = [hashlib.sha256(e).digest()[:16] for e in encoded]
    return batch(text=texts, length=[len(t) for t in texts], bytes=[len(e) for e in encoded], content_id=ids)


def test_columns_of_the_text_fit_it_and_the_ledger_counts() -> None:
    texts = [c["input"] for c in LABELLED]
    done = check_stage(MaskPersonal(), rows(texts))
    for row in done.rows.to_pylist():
        encoded = row[col.TEXT].encode()
        assert (row[col.LENGTH], row[col.BYTES]) == (len(row[col.TEXT]), len(encoded))
        assert row[col.CONTENT_ID] == hashlib.sha256(encoded).digest()[:16]
    for name, kind in (("emails", "email"), ("ips", "ip"), ("phones", "phone")):
        stays = {"email@example.com", "202-555-0100"}
        expected = [sum(p.kind == kind and t[p.start : p.end] not in stays for p in pieces(t)) for t in texts]
        assert done.scores[f"mask_personal_{name}"] == expected
    assert done.flowed.fates.column(col.CONTENT_ID).to_pylist() == done.rows.column(col.CONTENT_ID).to_pylist()
    assert done.flowed.tally["mask_personal"]["docs_out"] == len(texts)


def test_only_the_kinds_asked_for() -> None:
    text = ["x@y.example 93.184.216.34 +49 30 901820"]
    assert run(MaskPersonal(kinds=("email",)), rows(text)).rows.column(col.TEXT)[0].as_py() == (
        "email@example.com 93.184.216.34 +49 30 901820"
    )
    own = MaskPersonal(email="<|email|>", ipv4="<|ip|>", phone="<|phone|>")
    assert run(own, rows(text)).rows.column(col.TEXT)[0].as_py() == "<|email|> <|ip|> <|phone|>"
    none = run(MaskPersonal(kinds=()), rows(text))
    assert none.rows.column(col.TEXT).to_pylist() == text


@pytest.mark.parametrize(
    "options", [{"kinds": ("name",)}, {"email": ""}, {"phone": "a\nb"}, {"ipv4": " x "}, {"email": "e\u0301@x.org"}]
)
def test_placeholders_that_would_break_the_text_are_refused(options: Any) -> None:
    with pytest.raises(ConfigError):
        MaskPersonal(**options).open()


ALL = Placeholders(frozenset(("email", "ip", "phone")), "email@example.com", "192.0.2.1", "2001:db8::1", "202-555-0100")
PIECES = [c["input"] for c in LABELLED if c["expected"]]
PARTS = st.one_of(
    st.sampled_from(PIECES),
    st.text(st.sampled_from("0123456789 .-/()+@:abZ\n中,;\u0301"), max_size=12),
    st.text(max_size=5),
)


@given(st.lists(PARTS, max_size=6).map("".join).map(normalise))
def test_a_masked_text_is_normal_and_has_nothing_left(text: str) -> None:
    once = masked(text, ALL)
    done = once.text if once else text
    assert masked(done, ALL) is None
    assert unicodedata.is_normalized("NFC", done)
    kinds = {(p.kind, done[p.start : p.end]) for p in pieces(done) if p.kind != "private_ip"}
    assert kinds <= {("email", "email@example.com"), ("phone", "202-555-0100")}


def test_where_it_may_stand() -> None:
    """After the meeting or before it, but not behind windowing: windows are no documents."""
    after = (MinhashSign(), MinhashDrop(), MaskPersonal(), Windowing())
    before = (MaskPersonal(), MinhashSign(), MinhashDrop(), Windowing())
    assert [len(Pipeline(order).validate()) for order in (after, before)] == [2, 2]
