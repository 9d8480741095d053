"""The same ids from hf, fast and torch: 63 languages, random Unicode, adversarial runs, three families of tokenizers.

The large run is benchmarks/token_parity.py; what it finds comes into cases_parity.jsonl and stays there.
"""

from __future__ import annotations

import base64
import functools
import json
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from fastwarc.warc import ArchiveIterator, WarcRecordType
from hypothesis import given, settings
from hypothesis import strategies as st

for package in ("tokenizers", "tiktoken", "torch"):
    pytest.importorskip(package)

import made_tokenizers  # noqa: E402
import torch  # noqa: E402
from parity_texts import BLANKS, FORGED, UNITS, adversarial, differing, random_unicode, smallest  # noqa: E402

from cleanpipe.errors import ConfigError  # noqa: E402
from cleanpipe.tokens.backend import Backend, Encoded  # noqa: E402
from cleanpipe.tokens.backends import build, open_backend  # noqa: E402
from cleanpipe.tokens.tokenizer import Tokenizer, open_tokenizer  # noqa: E402

torch.set_num_threads(1)

CASES = Path(__file__).parent / "cases_parity.jsonl"
FAMILIES = ("cleanpipe-16k", "gpt2", "llama3_like")
OTHERS = ("fast", "torch")
PIECES = [
    *UNITS,
    *BLANKS,
    *FORGED,
    "the",
    " of",
    "Straße",
    "日本語",
    "हिन्दी",
    "עברית",
    "123",
    "it's",
    "don’t",
    "\u0345",
    "ꟊ",
]


@functools.cache
def tokenizer(family: str) -> Tokenizer:
    return open_tokenizer(family if family in ("cleanpipe-16k", "gpt2") else str(made_tokenizers.on_disk(family)))


@functools.cache
def backend(family: str, name: str) -> Backend:
    """Unproven: a difference must show here, not be caught by the proof."""
    return build(tokenizer(family), name)


@functools.cache
def pages() -> tuple[str, ...]:
    """Bodies of the sample archives that come with the package, markup included, cut at 8,000 bytes."""
    found = []
    folder = resources.files("cleanpipe") / "recipes" / "sample-archives"
    for archive in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if archive.name.endswith((".warc.gz", ".wet.gz")):
            with resources.as_file(archive) as path, path.open("rb") as stream:
                for record in ArchiveIterator(stream, record_types=WarcRecordType.response | WarcRecordType.conversion):
                    found.append(record.reader.read(8_000).decode("utf-8", "replace"))
    return tuple(found)


def assert_equal(family: str, texts: list[str]) -> None:
    expected = backend(family, "hf").encode(texts, starts=True)
    assert len(expected.ends) == len(texts)
    for name in OTHERS:
        got = backend(family, name).encode(texts, starts=True)
        wrong = differing(got, expected)
        assert not wrong, f"{name} differs for {family} on {len(wrong)} texts, first {texts[wrong[0]][:80]!r}"
        assert got.starts is not None and expected.starts is not None
        assert np.array_equal(got.starts, expected.starts), f"{name}: tokens of {family} begin elsewhere"


@pytest.mark.parametrize("family", FAMILIES)
def test_real_text(family: str) -> None:
    texts = [text for _, text in made_tokenizers.languages()]
    assert len({tag for tag, _ in made_tokenizers.languages()}) >= 60
    assert_equal(family, [*texts, *pages()])


@pytest.mark.parametrize("family", FAMILIES)
def test_adversarial_texts(family: str) -> None:
    assert_equal(family, adversarial(list(tokenizer(family).controls)[:20]))


@pytest.mark.parametrize("family", FAMILIES)
def test_random_unicode(family: str) -> None:
    assert_equal(family, random_unicode(2_000, seed=5))


@pytest.mark.parametrize("family", FAMILIES)
@given(texts=st.lists(st.lists(st.sampled_from(PIECES) | st.characters(exclude_categories=["Cs"]), max_size=30)))
@settings(max_examples=60, deadline=None)
def test_any_text(family: str, texts: list[str]) -> None:
    assert_equal(family, ["".join(text) for text in texts])


@pytest.mark.parametrize("family", FAMILIES)
def test_known_cases(family: str) -> None:
    """What differed once: one object a line, {"text", "comment"}."""
    texts = [json.loads(line)["text"] for line in CASES.read_text(encoding="utf-8").split("\n") if line]
    assert_equal(family, [form for text in texts for form in (text, f"{text} {text}\n", f"a{text}b ")])


@pytest.mark.parametrize("family", FAMILIES)
def test_ids_do_not_depend_on_the_texts_around(family: str) -> None:
    texts = [*adversarial()[::17], *random_unicode(100, seed=6), *(text for _, text in made_tokenizers.languages())]
    for name in ("hf", *OTHERS):
        found = backend(family, name)
        together = found.encode(texts)
        apart = np.concatenate([found.encode([text]).ids for text in texts])
        assert np.array_equal(together.ids, apart), name


@pytest.mark.parametrize("family", ["cleanpipe-16k", "llama3_like"])
@pytest.mark.parametrize("name", OTHERS)
def test_each_is_proven_and_used(family: str, name: str) -> None:
    sample = [text for _, text in made_tokenizers.languages()][::6]
    _, proof = open_backend(tokenizer(family), name, sample=sample)
    assert (proof.used, proof.reason, proof.differing) == (name, "", None)
    assert proof.sampled_texts == len(sample) and proof.probe_texts > 0


@pytest.mark.parametrize("family", FAMILIES)
def test_fast_takes_ordinary_text_itself(family: str) -> None:
    """Parity by sending all to the reference would be no parity."""
    found = backend(family, "fast")
    before = found.facts()["texts_by_reference"]
    texts = [
        text for tag, text in made_tokenizers.languages() if tag in ("en", "de-1996", "fr", "ru", "hi", "zh", "ar")
    ]
    found.encode(texts)
    assert len(texts) == 7 and found.facts()["texts_by_reference"] == before


@pytest.mark.parametrize("family", ["cleanpipe-16k", "llama3_like"])
def test_the_reference_is_the_library_on_the_file_as_it_is(family: str) -> None:
    from tokenizers import Tokenizer as Library

    library = Library.from_str(tokenizer(family).data.decode())
    library.encode_special_tokens = True
    texts = [*adversarial(), *(text for _, text in made_tokenizers.languages())]
    expected = [i for one in library.encode_batch(texts, add_special_tokens=False) for i in one.ids]
    assert backend(family, "hf").encode(texts).ids.tolist() == expected


def test_gpt2_is_tiktoken_on_its_ranks() -> None:
    """Built here from the ranks file by another library than the reference's."""
    import tiktoken

    rows = (line.split() for line in tokenizer("gpt2").data.splitlines())
    ranks = {base64.b64decode(token): int(rank) for token, rank in rows}
    other = tiktoken.Encoding("x", pat_str=made_tokenizers.GPT2_PATTERN, mergeable_ranks=ranks, special_tokens={})
    texts = [text for _, text in made_tokenizers.languages()]
    expected = [i for ids in other.encode_ordinary_batch(texts, num_threads=1) for i in ids]
    assert backend("gpt2", "hf").encode(texts).ids.tolist() == expected


@pytest.mark.parametrize("family", ["gpt2_like", "ignore_merges_orphans", "with_normalizer"])
def test_what_a_backend_takes_it_encodes_alike(family: str) -> None:
    """Of other families some are refused; none is encoded otherwise than by the reference."""
    texts = [*adversarial(list(tokenizer(family).controls)), *random_unicode(500, seed=7)]
    texts += [text for _, text in made_tokenizers.languages()]
    expected = backend(family, "hf").encode(texts)
    taken = []
    for name in OTHERS:
        try:
            got = backend(family, name).encode(texts)
        except ConfigError:
            continue
        taken.append(name)
        wrong = differing(got, expected)
        assert not wrong, f"{name} differs for {family} on {len(wrong)} texts, first {texts[wrong[0]][:80]!r}"
    assert "torch" in taken


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("family", ["wordpiece", "metaspace_bpe_byte_fallback", "unigram", "sentencepiece-bpe"])
def test_what_cannot_be_exact_is_refused_with_the_reason(family: str, name: str) -> None:
    if family in made_tokenizers.FILES:
        opened = tokenizer(family)
    else:
        model = made_tokenizers.unigram_model(kind=family.rpartition("-")[2])
        opened = open_tokenizer(str(made_tokenizers.on_disk(family, model)))
    with pytest.raises(ConfigError) as refused:
        build(opened, name)
    assert str(refused.value)
    used, proof = open_backend(opened, "auto")
    assert used.name in ("hf", "sentencepiece") and proof.reason


def test_every_character_of_every_block() -> None:
    """Each assigned and unassigned code point once, with a letter and a blank beside it."""
    points = [chr(c) for c in range(0x30000) if not 0xD800 <= c <= 0xDFFF]
    texts = ["".join(f"{c}a {c}1" for c in points[i : i + 64]) for i in range(0, len(points), 64 * 7)]
    for family in FAMILIES:
        assert_equal(family, texts)


def test_a_difference_would_be_seen() -> None:
    texts = ["one two", "", "three", "four five"]
    expected = backend("gpt2", "hf").encode(texts)
    other = expected.ids.copy()
    other[-1] += 1
    moved = expected.ends.copy()
    moved[0] -= 1
    assert differing(expected, expected) == []
    assert differing(Encoded(other, expected.ends), expected) == [3]
    assert differing(Encoded(expected.ids, moved), expected) == [0, 1]
    assert smallest("some text with z in it", lambda text: "z" in text) == "z"
