"""What the shipped tokenizer is learnt from, and how: without a package fetched."""

from __future__ import annotations

import json
import struct

import pytest

pytest.importorskip("tokenizers")
pytest.importorskip("tiktoken")

from made_tokenizers import languages, texts
from tokenizers import Tokenizer

from cleanpipe_jobs import tokenizer_corpus, train_tokenizer
from cleanpipe_jobs.tokenizer_corpus import SHARES, SOURCES, Corpus, Source, Told, base, part, share, size


def test_no_package_is_named_twice_and_every_share_is_of_a_language() -> None:
    names = [source.name for source in SOURCES]
    found = {language for source in SOURCES for language in source.files}
    assert len(names) == len(set(names))
    assert set(SHARES) <= found
    assert len(found) > 100
    assert all(source.version and source.licence for source in SOURCES)


def test_the_shares_stay_below_150_megabytes_of_what_is_given() -> None:
    found = {language for source in SOURCES for language in source.files}
    declared = sum(language in tokenizer_corpus._DECLARED for language in found)
    rest = len(found - set(SHARES)) - declared
    most = sum(SHARES.values()) + declared * tokenizer_corpus.DECLARED + rest * tokenizer_corpus.REST
    assert most < 175  # half of the small languages have less than their share


@pytest.mark.parametrize(("tag", "expected"), [
    ("de-DE", "de"), ("pt-br", "pt"), ("zh_CN", "zh-cn"), ("zh-tw", "zh-tw"), ("zh-TW", "zh-tw"), ("en-us", "en"),
    ("pa-in", "pa"), ("ar-MA", "ar"), ("en", "en"),
])  # fmt: skip
def test_base(tag: str, expected: str) -> None:
    assert base(tag) == expected


def test_a_page_gives_its_new_lines_and_empty_lines_between_them() -> None:
    learn: list[str] = []
    aside: list[str] = []
    known = {"Menu"}
    page = "Menu\n\nErster Satz.\n  eingerückt  \nFile menu\n\n\n\nErster Satz.\nZweiter Satz.\n"
    part(page, 10**18, known, {"File menu": None}, learn, aside)
    assert learn == ["Erster Satz.\n  eingerückt\n\nZweiter Satz.\n"]
    assert aside == []
    part("Erster Satz.\nMenu\n", 10**18, known, {}, learn, aside)
    assert len(learn) == 1


def test_what_is_held_out_is_never_learnt() -> None:
    learn: list[str] = []
    aside: list[str] = []
    known: set[str] = set()
    lines = [f"line {i}" for i in range(2_000)]
    part("\n".join(lines), 20, known, {}, learn, aside)
    part("\n".join(reversed(lines)), 20, known, {}, learn, aside)
    taken = "".join(learn).split("\n")[:-1]
    assert sorted([*taken, *aside]) == sorted(lines)
    assert 60 < len(aside) < 140


def test_a_share_is_cut_or_filled() -> None:
    long = [f"{i} " * 1_000 for i in range(1_000)]
    cut = share("uz", long)  # 0.8 MB
    assert 800_000 <= size(cut) < 800_000 + size([max(long, key=len)])
    assert set(cut) < set(long) and cut == share("uz", long[::-1])
    assert share("uz", ["x" * 300_000]) == ["x" * 300_000] * 3
    assert share("uz", ["short"]) == ["short"] * tokenizer_corpus.REPEATS
    assert share("hy", ["short"]) == ["short"] * 16
    assert share("uz", []) == []


def catalogue(pairs: list[tuple[bytes, bytes]]) -> bytes:
    """A gettext catalogue (.mo), little-endian."""
    head, at = 28, 28 + 16 * len(pairs)
    tables, blob = [b"", b""], b""
    for side in (0, 1):
        for pair in pairs:
            tables[side] += struct.pack("<2I", len(pair[side]), at + len(blob))
            blob += pair[side] + b"\0"
    return (
        struct.pack("<7I", 0x950412DE, 0, len(pairs), head, head + 8 * len(pairs), 0, 0) + tables[0] + tables[1] + blob
    )


def test_strings_are_translations_without_marks_of_keys(tmp_path) -> None:
    (tmp_path / "x.mo").write_bytes(catalogue([
        (b"", b"Content-Type: text/plain; charset=UTF-8\n"),
        (b"ctx\x04~Open", "Ö~ffnen".encode()),
        (b"_Save <b>as</b>", b"_Speichern <b>als</b> a_1"),
        (b"one\0many", b"eins\0viele"),
        (b"ctx\x04PDF", b"PDF"),
    ]))  # fmt: skip
    assert list(tokenizer_corpus._strings([tmp_path / "x.mo"])) == ["Öffnen\nSpeichern als a1\neins"]


def test_a_declaration_is_its_blocks_a_line_each(tmp_path) -> None:
    (tmp_path / "x.html").write_text("<title>no</title><h1>A &amp;\n B</h1><ol><li><b>1</b> c</li></ol><p> d\n</p>")
    assert list(tokenizer_corpus._declaration([tmp_path / "x.html"])) == ["A & B\n1 c\nd"]


def test_learning_is_the_same_each_time_and_in_any_order() -> None:
    once = train_tokenizer.learn(texts(), 800)
    assert train_tokenizer.learn(texts(), 800) == once
    assert train_tokenizer.learn(texts()[::-1], 800) == once
    made = json.loads(once)
    assert len(made["model"]["vocab"]) == 800 - 16
    assert [token["id"] for token in made["added_tokens"]] == list(range(784, 800))
    tokenizer = Tokenizer.from_str(once)
    for _, text in languages():
        assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_the_shipped_file_splits_as_the_program_says() -> None:
    shipped = json.loads(train_tokenizer.SHIPPED.read_text(encoding="utf-8"))
    made = json.loads(train_tokenizer.learn(["a"], 300))
    for key in ("version", "truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "decoder"):
        assert shipped[key] == made[key]
    assert [t["content"] for t in shipped["added_tokens"]] == list(train_tokenizer.CONTROLS)
    assert shipped["model"] | {"vocab": 0, "merges": 0} == made["model"] | {"vocab": 0, "merges": 0}


def test_the_card_names_what_was_given() -> None:
    source = Source("some-help", "debian", "1.0", "MIT", "html", {"fr": ("*",)})
    page = "Tous les êtres humains naissent libres et égaux en dignité et en droits. " * 40
    corpus = Corpus({"fr": [page], "code": ["x = 1\n"]}, {"fr": [page]}, {"fr": 3}, {"fra": [page]}, [
        Told(source, "0" * 64, {"fr": 1_234})])  # fmt: skip
    file = train_tokenizer.learn([page], 400)
    card = train_tokenizer.card(file, corpus)
    assert "| some-help | debian | 1.0 | MIT | `0000000000000000…` | fr | 1,234 |" in card
    assert "in 1 languages and code" in card
    ours = len(page.encode()) / len(Tokenizer.from_str(file).encode(page).ids)
    assert f"| fr | {ours:.2f} | " in card and f"| fra | {ours:.2f} | " in card
    assert train_tokenizer.card(file, corpus) == card
