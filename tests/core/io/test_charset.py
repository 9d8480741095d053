"""Charsets: labels, declarations, the order of sources, and bytes with the text a browser shows."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleanpipe.io.charset import decide, decode, encoding, prescan, read, read_view
from cleanpipe.io.charset_labels import CODECS, DETECTED, LABELS_OF, NAME_OF

DATA = Path(__file__).parents[2] / "data" / "charset"


def cases(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]


LABELS = [
    ("utf-8", "utf-8"), ("UTF8", "utf-8"), (" utf-8\t", "utf-8"), ("unicode-1-1-utf-8", "utf-8"),
    ("iso-8859-1", "windows-1252"), ("latin1", "windows-1252"), ("us-ascii", "windows-1252"),
    ("iso-8859-9", "windows-1254"), ("tis-620", "windows-874"), ("iso-8859-11", "windows-874"),
    ("gb2312", "gbk"), ("x-gbk", "gbk"), ("GB18030", "gb18030"), ("big5-hkscs", "big5"), ("x-sjis", "shift_jis"),
    ("windows-31j", "shift_jis"), ("ks_c_5601-1987", "euc-kr"), ("x-euc-jp", "euc-jp"), ("logical", "iso-8859-8-i"),
    ("visual", "iso-8859-8"), ("koi8-ru", "koi8-u"), ("x-mac-ukrainian", "x-mac-cyrillic"), ("mac", "macintosh"),
    ("unicode", "utf-16le"), ("ucs-2", "utf-16le"), ("utf-16", "utf-16le"), ("unicodefffe", "utf-16be"),
    ("iso-2022-kr", "replacement"), ("iso-2022-cn-ext", "replacement"), ("hz-gb-2312", "replacement"),
    ("utf8mb4", None), ("utf-7", None), ("utf-32", None), ("iso-8859-12", None), ("windows1252", None), ("", None),
    ("none", None), ("utf-8;", None), ("\N{KELVIN SIGN}oi8-r", None),
]  # fmt: skip


@pytest.mark.parametrize(("label", "name"), LABELS)
def test_labels(label: str, name: str | None) -> None:
    assert encoding(label) == name


def test_the_label_table_is_whole_and_decodes() -> None:
    assert len(LABELS_OF) == 40  # the standard's encodings
    assert len(NAME_OF) == sum(len(labels.split()) for labels in LABELS_OF.values())  # no label twice
    for name in {*LABELS_OF, *DETECTED.values(), *CODECS}:
        assert isinstance(decode(b"\x1b$B caf\xe9 \x80\xff", name), str)


@pytest.mark.parametrize("case", cases("declared.jsonl"), ids=lambda c: c["html"][:50])
def test_declarations(case: dict[str, Any]) -> None:
    assert prescan(case["html"].encode()) == (tuple(case["expect"]) if case["expect"] else None)


@pytest.mark.parametrize("case", cases("order.jsonl"), ids=lambda c: f"{c['http']}-{c['codec']}-{c['expect']}")
def test_order_of_sources(case: dict[str, Any]) -> None:
    text = case["text"].replace("PAD", "x" * 1100)
    body = bytes.fromhex(case["hex"]) + text.encode(case["codec"])
    assert decide(body, case["http"], True) == tuple(case["expect"])
    charset, source, shown = read(body, case["http"], True)
    assert (charset, source) == tuple(case["expect"])
    if (case["codec"], charset) != ("utf-8", "windows-1252") and charset != "replacement":
        assert shown == text


def test_plain_text_has_no_declarations() -> None:
    body = "<meta charset=gbk> Łódź".encode()
    assert decide(body, None, False) == ("utf-8", "utf8")
    assert decide(body, None, True) == ("gbk", "meta")
    assert decide(b"<?xml version='1.0' encoding='gbk'?>", None, False) == ("utf-8", "utf8")


def test_a_declaration_must_end_in_the_first_1024_bytes() -> None:
    meta = b"<meta charset=iso-8859-2>"
    body = b" " * (1024 - len(meta)) + meta
    assert prescan(body[:1024]) == ("iso-8859-2", "meta")
    assert prescan((b" " + body)[:1024]) is None


DAMAGED = [
    # text, what is put into its UTF-8 bytes, stays UTF-8
    ("příliš žluťoučký kůň úpěl ďábelské ódy", b"\xe9", True),  # a stray byte
    ("příliš žluťoučký kůň úpěl ďábelské ódy", b"\xff\xfe", True),
    ("古い水車小屋は川の河口に立っている", b"\xa0", True),
    ("plain words and nothing else", b"\xe9", False),  # nothing says UTF-8
    ("one ü only", b"\xe4\xf6\xfc", False),
]


@pytest.mark.parametrize(("text", "stray", "stays"), DAMAGED)
def test_damage_is_local(text: str, stray: bytes, stays: bool) -> None:
    half = len(text) // 2
    body = text[:half].encode() + stray + text[half:].encode()
    charset, source, shown = read(body, None, False)
    assert ((charset, source) == ("utf-8", "utf8")) == stays
    if stays:
        assert shown is not None
        assert shown.startswith(text[:half]) and shown.endswith(text[half:])


def test_a_cut_last_character_is_no_damage() -> None:
    body = "Übergröße und ü".encode()[:-1]
    assert read(body, None, True) == ("utf-8", "utf8", "Übergröße und \ufffd")
    assert decide(b"caf\xe9", None, True)[0] == "windows-1252"  # the same by its bytes, but nothing else is UTF-8


KOREAN = (
    "모든 국민은 인간으로서의 존엄과 가치를 가지며, 행복을 추구할 권리를 가진다. "
    "국가는 개인이 가지는 권리를 확인하고 보장할 의무를 진다. "
)
FRAME = b"\xc9" + b"\xcd" * 60 + b"\xbb\r\n\xba" + b" " * 60 + b"\xba\r\n\xc8" + b"\xcd" * 60 + b"\xbc\r\n"
NEVER_WESTERN = [
    # body, charset, comment
    (KOREAN.encode("johab"), "replacement", "Johab"),
    (b"<html><body><p class=long>" + KOREAN.encode("johab") + b"</p></body></html>", "replacement", "in markup"),
    (bytes((i * 37) % 93 + 0xA1 if i % 2 else 0xC4 + i % 48 for i in range(400)), "replacement", "as EUC-TW is built"),
    (KOREAN.encode("johab")[:60], "windows-1252", "too short to tell"),
    (KOREAN.encode("johab") + b" plain words" * 40, "windows-1252", "as many ASCII letters: a quotation"),
    (FRAME * 4, "windows-1252", "a frame of a DOS text: few different bytes"),
    ("naïve café déjà vu à Noël".encode("cp1252"), "windows-1252", "French"),
    (("À ÉÊÈ Ü " * 40).encode("cp1252"), "windows-1252", "capitals with accents alone: few different bytes"),
    (b"\xa0" * 500 + b"x\xe9", "windows-1252", "blanks"),
]


@pytest.mark.parametrize(("body", "charset", "comment"), NEVER_WESTERN, ids=[c for _, _, c in NEVER_WESTERN])
def test_what_nothing_names_is_western_only_if_it_can_be(
    monkeypatch: pytest.MonkeyPatch, body: bytes, charset: str, comment: str
) -> None:
    monkeypatch.setattr("cleanpipe.io.charset._detect", lambda _: None)  # it guesses at short texts
    assert decide(body, None, True) == (charset, "default")
    assert read(body, None, True).text == (None if charset == "replacement" else decode(body, "windows-1252"))
    assert decide(body, "windows-1252", True) == ("windows-1252", "http")  # a label is believed


@pytest.mark.parametrize("times", [1, 2, 5, 40])
def test_a_text_in_johab_is_refused_whatever_the_detector_says(times: int) -> None:
    """It says windows-1254 of five times the text, nothing of others."""
    assert decide(KOREAN.encode("johab") * times, None, False) == ("replacement", "default")


SHOWN = [
    # charset, bytes, text
    ("windows-1252", "80 93 94 96 99 8c", "€“”–™Œ"),
    ("windows-1252", "81 8d 8f 90 9d", "\x81\x8d\x8f\x90\x9d"),  # open bytes are C1 controls, not errors
    ("windows-1250", "81 9e 9d", "\x81žť"),
    ("windows-1251", "cc b8 98", "Мё\x98"),
    ("windows-1253", "aa c1", "\ufffdΑ"),  # above 0x9F an open byte is an error
    ("windows-1255", "ca e0", "\u05baא"),
    ("windows-874", "a1 80 81", "ก€\x81"),
    ("iso-8859-2", "b3 81", "ł\x81"),
    ("iso-8859-6", "c7 a1", "ا\ufffd"),
    ("iso-8859-7", "a1 a4 e1", "‘€α"),
    ("iso-8859-8-i", "f9 ec e5 ed", "שלום"),
    ("iso-8859-15", "a4 bd", "€œ"),
    ("koi8-r", "ed c9 d2", "Мир"),
    ("koi8-u", "a4 a7 ae be", "єїўЎ"),
    ("macintosh", "8e db f0", "é€\uf8ff"),
    ("x-mac-cyrillic", "8c a2 ff", "МҐ€"),
    ("ibm866", "8c a8 e0", "Мир"),
    ("x-user-defined", "41 80 ff", "A\uf780\uf7ff"),
    ("utf-8", "ef bb bf 41", "A"),  # the mark goes, one of them
    ("utf-8", "ef bb bf ef bb bf 41", "\ufeffA"),
    ("utf-8", "41 ed a0 80 42", "A\ufffd\ufffd\ufffdB"),  # a surrogate is three errors
    ("utf-8", "f0 9f 98 41", "\ufffdA"),  # a cut sequence is one
    ("utf-16le", "ff fe 41 00 d8 3d", "A\u3dd8"),
    ("utf-16le", "00 d8 41 00", "\ufffdA"),  # half a pair
    ("utf-16be", "fe ff 00 41 00", "A\ufffd"),
    ("gbk", "d6 ec e9 46 bb f9", "朱镕基"),  # beyond GB 2312
    ("gbk", "80", "€"),
    ("gbk", "81 30 81 30", "\x80"),  # gbk is read as gb18030
    ("gb18030", "81 30 84 36 a2 e3", "¥€"),
    ("big5", "a4 a4 a4 e5", "中文"),
    ("big5", "87 40 88 62", "䏰Ê̄"),  # Hong Kong, one code for two characters
    ("euc-kr", "8c 63 b9 e6 b0 a2 c7 cf", "똠방각하"),
    ("shift_jis", "87 40 87 8a fb fc ed 95", "①㈱髙﨑"),  # NEC row 13, IBM extensions
    ("shift_jis", "81 60 5c b1", "～\\ｱ"),
    ("euc-jp", "ad a1 ad ea", "①㈱"),  # NEC row 13 in EUC
    ("euc-jp", "a1 c1 a1 dd 8e b1", "～－ｱ"),
    ("euc-jp", "a4 a2 ff 41", "あ\ufffdA"),
    ("iso-2022-jp", "1b 24 42 24 22 1b 28 42 41", "あA"),
    ("iso-2022-jp", "1b 24 40 30 21 1b 28 4a 5c 7e 1b 28 42 5c", "亜¥‾\\"),
    ("iso-2022-jp", "1b 28 49 31 32 1b 28 42", "ｱｲ"),
    ("iso-2022-jp", "1b 24 42 2d 21 0a 24 22", "①\nあ"),
    ("replacement", "41 42", ""),
]


@pytest.mark.parametrize(("charset", "hexed", "text"), SHOWN)
def test_bytes_read_as_browsers_read_them(charset: str, hexed: str, text: str) -> None:
    assert decode(bytes.fromhex(hexed), charset) == text


@given(st.binary(max_size=200), st.sampled_from(sorted({*LABELS_OF, *CODECS, "ibm855", "johab"})))
def test_decoding_never_fails_and_fits_utf8(body: bytes, charset: str) -> None:
    decode(body, charset).encode("utf-8")


@given(st.binary(max_size=300), st.sampled_from([None, "utf-8", "gbk", "x", "utf-16"]), st.booleans())
def test_read_is_decide_and_decode(body: bytes, label: str | None, is_html: bool) -> None:
    charset, source, text = read(body, label, is_html)
    assert (charset, source) == decide(body, label, is_html)
    assert charset in {*LABELS_OF, *CODECS}
    assert text == decode(body, charset) if charset != "replacement" else text is None


@given(
    st.sampled_from([b"", b"\xef\xbb\xbf", b"\xff\xfe", b"<meta charset=utf-8>", b"<meta charset=gbk>", b"\0"]),
    st.text(max_size=100).map(str.encode)
    | st.binary(max_size=60)
    | st.text(max_size=60).map(lambda t: t.encode("utf-16")),
    st.sampled_from([None, "utf-8", "UTF8", "gbk", "iso-8859-1", "x", "utf-16", "iso-2022-kr"]),
    st.booleans(),
)
def test_bytes_in_a_view_read_as_they_do_alone(start: bytes, rest: bytes, label: str | None, is_html: bool) -> None:
    alone = read(start + rest, label, is_html)
    seen = read_view(memoryview(b"<" + start + rest)[1:], label, is_html)
    assert (seen, type(seen)) == (alone, type(alone))


@given(
    st.binary(max_size=80),
    st.sampled_from([b"<meta ", b"<meta charset=", b"<a ", b"<!--", b"<?xml "]),
    st.binary(max_size=40),
)
def test_prescan_never_fails(before: bytes, tag: bytes, after: bytes) -> None:
    found = prescan(before + tag + after + b" charset=")
    assert found is None or found[1] in ("meta", "xml")


SLOW = [
    b"<meta " * 170_000 + b"charset",
    b"<meta a=" * 120_000 + b"charset\xff",
    b'<meta a="' * 110_000 + b"charset\xff",
    b"<!--" * 250_000 + b"charset\xff",
    b"<script" * 140_000 + b"charset\xff",
    b"<meta http-equiv=content-type content='" + b"charset " * 120_000 + b"'>\xff",
    b"\x1b$B" * 100_000 + b"\x1b(B" * 100_000,
]


@pytest.mark.parametrize("body", SLOW, ids=range(len(SLOW)))
def test_large_bodies_cost_their_length(body: bytes) -> None:
    """A MiB of body: about a second at most where cost grows with length, minutes where it grows with its square."""
    start = time.process_time()
    read(b" " * 1024 + body, None, True)
    assert time.process_time() - start < 10
