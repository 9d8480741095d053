"""Segments and the shares of languages."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleanpipe import batch as col
from cleanpipe.errors import ConfigError
from cleanpipe.testing import batch, run
from cleanpipe_stages.language_id import LanguageId
from cleanpipe_stages.lid.judge import SECOND, SECOND_SHARE, SHARE
from cleanpipe_stages.lid.sample import sampled
from cleanpipe_stages.lid.segments import LEAST, MOST, SEGMENTS, segments_of, shares

ENGLISH = "The keeper weighs each hive every evening and writes the figure on the inside of the lid, as he always did. "
FRENCH = "Le gardien pèse chaque ruche tous les soirs et inscrit le chiffre à l'intérieur du couvercle, comme avant. "
RUSSIAN = "Смотритель каждый вечер взвешивает ульи и записывает число на внутренней стороне крышки, как и всегда. "


def found(text, **options):
    out = run(LanguageId(segments="all", **options), batch(text=[text]))
    return out.scores[col.LANGUAGE][0], *(out.scores[n][0] for n in (SHARE, SECOND, SECOND_SHARE)), out.reasons[0]


MIXED = [
    (ENGLISH, ("en", 1.0, "", 0.0), "one language"),
    ("\n".join([ENGLISH] * 6 + [FRENCH] * 6), ("en", 0.5, "fr", 0.5), "half and half"),
    ("\n".join([ENGLISH] * 9 + [RUSSIAN] * 3), ("en", 0.75, "ru", 0.25), "a quarter Russian"),
    ("\n".join([ENGLISH, RUSSIAN] * 6), ("en", 0.5, "ru", 0.5), "taking turns"),
    (ENGLISH * 40 + "\n" + FRENCH * 40, ("en", 0.5, "fr", 0.5), "two long lines"),
    ("\n".join([ENGLISH] * 3 + ["1 2 3 4"] * 50), ("en", 1.0, "", 0.0), "lines without letters do not count"),
    ("", ("und", None, None, None), "nothing"),
    ("2024-05-17", ("und", None, None, None), "no letter"),
]


@pytest.mark.parametrize(("text", "expected", "why"), MIXED, ids=lambda x: str(x)[:30])
def test_shares(text, expected, why):
    language, share, second, second_share, _ = found(text)
    assert (language, second) == (expected[0], expected[2]), why
    for value, right in ((share, expected[1]), (second_share, expected[3])):
        assert value == (None if right is None else pytest.approx(right, abs=0.05)), why


def test_a_least_share_drops_and_is_told():
    mixed = "\n".join([ENGLISH] * 12 + [FRENCH] * 12)
    assert found(mixed)[-1] is None
    assert found(mixed, min_share=0.4)[-1] is None
    assert found(mixed, min_share=0.8)[-1] == "mixed_languages"
    assert found(ENGLISH, min_share=1.0)[-1] is None
    assert found(FRENCH, min_share=0.8)[-1] == "other_language"
    assert found("", min_share=0.8)[-1] == "no_text"
    stage = LanguageId(segments="all", min_share=0.8)
    assert [(c.score, c.at, c.reason) for c in stage.cuts()][-1] == (SHARE, 0.8, "mixed_languages")
    assert "at least 0.8 must be in it" in stage.in_words()
    for segments in ("off", "sample"):
        with pytest.raises(ConfigError, match="min_share"):
            LanguageId(segments=segments, min_share=0.8).check()


def test_a_sample_is_by_document_and_not_by_place():
    texts = [ENGLISH] * 200
    ids = [i.to_bytes(16, "big") for i in range(200)]
    whole = run(LanguageId(sample=50), batch(text=texts, doc_id=ids)).scores[SHARE]
    assert [i for i, share in enumerate(whole) if share is not None] == [0, 50, 100, 150]
    tail = run(LanguageId(sample=50), batch(text=texts[:120], doc_id=ids[80:])).scores[SHARE]
    assert tail == whole[80:]
    assert run(LanguageId(segments="off"), batch(text=texts, doc_id=ids)).scores[SHARE] == [None] * 200
    sliced = pa.array(ids, col.ID).slice(7, 60)
    assert sampled(sliced, 50).tolist() == [43]


@given(st.text(alphabet="ab \n\u2028", max_size=4000), st.integers(1, 40))
def test_segments_hold_every_letter_once(text, repeat):
    pieces = segments_of(text * repeat)
    letters = "".join(c for c in text * repeat if c in "ab")
    assert len(pieces) <= SEGMENTS
    if len(letters) < LEAST * SEGMENTS:
        assert "".join(c for p in pieces for c in p if c in "ab") == letters
    assert all(len(p) < LEAST + MOST + 1 + LEAST for p in pieces)


# each line: characters (in tens), label, the first model's own label
OVERRULED = [
    ([(90, "no", "no"), (30, "da", "no")], {"no": 1.0}, "the first is right: more of the document is Norwegian"),
    ([(30, "no", "no"), (90, "da", "no")], {"no": 0.25, "da": 0.75}, "more of it is said to be Danish"),
    ([(60, "en", "en"), (60, "da", "no")], {"en": 0.5, "da": 0.5}, "nothing is firmly Norwegian"),
    ([(90, "en", "en"), (30, "und", "en")], {"en": 1.0}, "und is not counted, nor turned into English"),
    ([(90, "hr", "hr"), (30, "bs", "hr")], {"hr": 0.75, "bs": 0.25}, "neighbours are told by words"),
]


@pytest.mark.parametrize(("pieces", "expected", "why"), OVERRULED, ids=lambda x: str(x)[:30])
def test_a_rare_label_against_the_first_model_s(pieces, expected, why):
    text = "\n".join("a" * (10 * n) for n, _, _ in pieces)
    told = [t for n, *t in pieces for _ in range(-(-10 * n // MOST))]
    decide = lambda lines: [(label, 0.5, own, "Latn") for label, own in told]  # noqa: E731
    (one,) = shares([text], [pieces[0][1]], decide)
    assert one.share == pytest.approx(expected[pieces[0][1]]), why
    rest = {k: v for k, v in expected.items() if k != pieces[0][1]}
    assert (one.second, one.second_share) == (next(iter(rest), ""), pytest.approx(next(iter(rest.values()), 0.0))), why


def test_the_most_frequent_other_language_by_name_where_two_are_even():
    decide = lambda lines: [(("fr", "de", "en")[i % 3], 0.9, "fr", "Latn") for i, _ in enumerate(lines)]  # noqa: E731
    (one,) = shares(["\n".join([ENGLISH] * 6)], ["en"], decide)
    assert (one.second, one.share) == ("de", pytest.approx(1 / 3, abs=1e-6))
