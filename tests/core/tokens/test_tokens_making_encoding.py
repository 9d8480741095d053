"""A backend is not believed: wrong ids, errors and differences cost the text they are in, or the shard its speed."""

from types import SimpleNamespace

import numpy as np
import pytest

from cleanpipe.errors import ConfigError
from cleanpipe.tokens.backend import Backend, Encoded
from cleanpipe.tokens.making.encoding import CONTROL, FAILED, RANGE, Differs, Encoder

TOKENIZER = SimpleNamespace(vocabulary=300, bos=256, eos=257, unk=258, controls={"<s>": 256, "</s>": 257, "<unk>": 258})


class Bytes(Backend):
    """One id a byte. wrong: text → what comes instead."""

    name = "bytes"

    def __init__(self, wrong=None):
        self.wrong, self.calls = wrong or {}, []

    def encode(self, texts, *, starts=False):
        self.calls.append(list(texts))
        ids = []
        for text in texts:
            found = self.wrong.get(text, list(text.encode()))
            if isinstance(found, BaseException):
                raise found
            ids.append(np.array(found, np.uint32))
        ends = np.cumsum([len(i) for i in ids], dtype=np.int64)
        at = [np.arange(len(i)) for i in ids]
        return Encoded(np.concatenate(ids), ends, np.concatenate(at) if starts else None)


def encoded(encoder, texts, **options):
    found, refused = encoder.encode(texts, **options)
    begins = [0, *found.ends.tolist()][: len(found.ends)]
    return [found.ids[a:b].tolist() for a, b in zip(begins, found.ends, strict=True)], refused


class PanicException(BaseException):
    """Of this name are the panics of packages in Rust, which are no ``Exception``."""


TEXTS = ["ab", "", "cd", "efg"]


def test_sound_ids_are_taken_as_they_come():
    backend = Bytes()
    assert encoded(Encoder(TOKENIZER, backend, Bytes()), TEXTS) == ([list(t.encode()) for t in TEXTS], {})
    assert backend.calls == [TEXTS]  # one call, no text asked twice
    assert encoded(Encoder(TOKENIZER, Bytes(), Bytes()), []) == ([], {})


@pytest.mark.parametrize("wrong", [ValueError("what?"), KeyError("x"), PanicException("index out of bounds")])
def test_what_a_backend_fails_on_the_reference_does(wrong):
    encoder = Encoder(TOKENIZER, Bytes({"cd": wrong}), Bytes())
    assert encoded(encoder, TEXTS) == ([list(t.encode()) for t in TEXTS], {})
    assert encoder.rescued == 1
    found, _ = encoder.encode(TEXTS, starts=True)
    assert found.starts.tolist() == [0, 1, 0, 1, 0, 1, 2]


@pytest.mark.parametrize(("wrong", "reason"), [([256, 99], CONTROL), ([1, 300], RANGE), ([4_000_000_000], RANGE)])
def test_an_id_that_may_not_be_there_ends_the_use_of_a_backend(wrong, reason):
    """Also where it gives it in company only."""
    with pytest.raises(Differs, match=f"2 code points: {reason}"):
        Encoder(TOKENIZER, Bytes({"cd": wrong}), Bytes()).encode(TEXTS)
    fickle = Bytes({"cd": wrong})
    told = fickle.encode(TEXTS)
    fickle.wrong = {}
    fickle.encode = lambda texts, starts=False: told if len(texts) > 1 else Bytes().encode(texts)
    with pytest.raises(Differs):
        Encoder(TOKENIZER, fickle, Bytes()).encode(TEXTS)


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_what_ends_the_program_is_no_failure_of_a_text(stop):
    with pytest.raises(type(stop)):
        Encoder(TOKENIZER, Bytes({"cd": stop}), Bytes()).encode(TEXTS)


@pytest.mark.parametrize("backends", [1, 2])
def test_the_first_line_of_an_error_is_kept(backends):
    error = PanicException("called `Option::unwrap()` on a \x1b value\nnote: run with RUST_BACKTRACE")
    found = Bytes({"cd": error})
    other = found if backends == 1 else Bytes({"cd": KeyError("other")})
    _, refused = Encoder(TOKENIZER, found, other).encode(TEXTS)
    assert refused == {2: (FAILED, "PanicException: called `Option::unwrap()` on a \ufffd value")}


@pytest.mark.parametrize(
    ("wrong", "reason"), [([257], CONTROL), ([1, 300], RANGE), (ValueError("what?"), FAILED), ([256, 301], CONTROL)]
)
def test_what_nobody_can_encode_is_refused_alone(wrong, reason):
    encoder = Encoder(TOKENIZER, Bytes({"cd": wrong}), Bytes({"cd": wrong}))
    got, refused = encoded(encoder, TEXTS)
    assert got == [list(b"ab"), [], [], list(b"efg")]
    assert {at: why.reason for at, why in refused.items()} == {2: reason}
    assert encoder.rescued == 0


def test_unk_may_stand_in_a_body_unless_it_is_a_mark():
    assert encoded(Encoder(TOKENIZER, Bytes({"ab": [258]}), Bytes()), ["ab"]) == ([[258]], {})
    marked = SimpleNamespace(**{**vars(TOKENIZER), "eos": 258})
    encoder = Encoder(marked, Bytes({"ab": [258]}), Bytes())
    with pytest.raises(Differs, match=CONTROL):
        encoded(encoder, ["ab"])


def test_our_own_errors_and_a_lack_of_memory_are_not_the_texts_fault():
    for error in (ConfigError("no device"), MemoryError()):
        with pytest.raises(type(error)):
            Encoder(TOKENIZER, Bytes({"cd": error}), Bytes()).encode(TEXTS)


def test_an_id_that_differs_from_the_reference_is_told_with_its_place():
    encoder = Encoder(TOKENIZER, Bytes(), Bytes())
    encoder.prove(b"\1" * 16, "abc", np.array(list(b"abc"), np.uint32))
    for other, place in (([97, 98, 100], 2), ([97, 98], 2), ([97, 98, 99, 1], 3), ([], 0)):
        with pytest.raises(Differs, match=rf"01010101.*token {place}:"):
            encoder.prove(b"\1" * 16, "abc", np.array(other, np.uint32))
    alone = Bytes()
    Encoder(TOKENIZER, alone, alone).prove(b"", "abc", np.array([1], np.uint32))  # it is the reference
    assert not alone.calls
