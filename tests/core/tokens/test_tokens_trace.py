"""Every token's way back: to its document, its archive bytes and its characters."""

import random
import shutil
import unicodedata
from pathlib import Path

import made_tokenizers
import numpy as np
import pyarrow as pa
import pytest
from made_tokens import doc_id, make_store, url_of
from traced_runs import make_run, make_tokens

from cleanpipe import batch as col
from cleanpipe.errors import DamagedFileError
from cleanpipe.run import run
from cleanpipe.tokens import open_tokens
from cleanpipe.tokens.tracing import (
    Key,
    documents_with,
    origin_of,
    ranges_of,
    tokenizer_of,
    trace_token,
)
from cleanpipe.tokens.tracing.characters import characters
from cleanpipe.tokens.tracing.figures import rare_ids
from cleanpipe.tokens.tracing.proof import open_prover


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("traced")


@pytest.fixture(scope="module")
def many(folder):
    """A run of many languages."""
    return make_run(folder / "many")


@pytest.fixture(scope="module")
def sample(folder):
    """The sample run, and its store."""
    out = folder / "sample"
    run("sample", [], out, engine="serial")
    return out, make_tokens(out, folder / "sample-tokens")


TOKENIZERS = {
    "gpt2": ("gpt2", {}),
    "cleanpipe-16k": ("cleanpipe-16k", {"bos": "none", "eos": "none"}),
    "llama3": (made_tokenizers.llama3_like, {}),
    "per-window": ("cleanpipe-16k", {"per_window": True}),
    "tiny": (made_tokenizers.tiktoken_ranks, {"pattern": "gpt2", "bos": "none", "eos": "none"}),
}


@pytest.fixture(scope="module", params=TOKENIZERS)
def traced_store(request, folder, many):
    """A lossless store of the run of many languages."""
    made, options = TOKENIZERS[request.param]
    spec = made
    if callable(made):
        spec = folder / f"{request.param}.{'tiktoken' if request.param == 'tiny' else 'json'}"
        spec.write_bytes(made())
    return open_tokens(make_tokens(many, folder / request.param, spec, **options))


@pytest.fixture(scope="module")
def whole(folder, many):
    """A store of that run by the embedded tokenizer."""
    return open_tokens(make_tokens(many, folder / "whole"))


@pytest.fixture(scope="module")
def prover(many):
    with open_prover(many) as found:
        yield found


def test_random_tokens_of_many_languages_are_in_the_archives(traced_store, prover):
    """1,000 of all stores together: the record re-read gives the token's bytes, at the characters that are told."""
    tokenizer = tokenizer_of(traced_store)
    random.seed(7)
    seen = set()
    for token in random.sample(range(traced_store.tokens), 150):
        traced = trace_token(traced_store, token, tokenizer=tokenizer)
        found = prover.token(traced_store, tokenizer, traced)
        assert found.same, (token, found)
        if traced.kind != "text":
            continue
        assert traced.bytes == tokenizer.token_bytes(traced.id)
        assert traced.characters.exact
        assert found.text
        inside = bool(traced.characters.before or traced.characters.behind)
        assert inside == (tokenizer.decode([traced.id]) != found.text)
        assert any(w.char_start <= traced.characters.begin < w.char_end for w in traced.windows)
        seen.add(inside)
    assert False in seen


def encoded_apart(store, origin, text):
    """(first token, behind the last, first code point, behind the last) of each text that was encoded by itself."""
    last = len(text.rstrip())
    if store.info["per_window"]:
        return [
            (w.token_start, w.token_stop, max(w.char_start, w.stripped), min(w.char_end, last)) for w in origin.windows
        ]
    low = origin.token_start + (store.bos is not None)
    return [(low, origin.token_stop - (store.eos is not None), len(text) - len(text.lstrip()), last)]


def test_all_tokens_of_a_document_are_its_text(traced_store, prover):
    """By another way: the bytes of all ids are the text, so a token's characters are those that its bytes touch."""
    tokenizer = tokenizer_of(traced_store)
    for document in (0, traced_store.documents // 2, traced_store.documents - 1):
        origin = origin_of(traced_store, document)
        text = prover.replay(origin.doc_id).text
        for low, high, begin, end in encoded_apart(traced_store, origin, text):
            data = text[begin:end].encode()
            pieces = [tokenizer.token_bytes(i) for i in traced_store.read(low, high).tolist()]
            assert b"".join(pieces) == data
            ends = np.cumsum([0, *map(len, pieces)]).tolist()
            starts = np.array([i for i, byte in enumerate(data) if byte & 0xC0 != 0x80] + [len(data)])
            for at in {*range(0, len(pieces), max(1, len(pieces) // 25)), len(pieces) - 1}:
                a = int(np.searchsorted(starts, ends[at], "right")) - 1
                b = int(np.searchsorted(starts, ends[at + 1], "left"))
                found = characters(traced_store, origin, low + at, low + at + 1, tokenizer)
                assert (found.begin, found.end) == (begin + a, begin + b)
                assert (found.before, found.behind) == (ends[at] - starts[a], starts[b] - ends[at + 1])


def test_whole_documents_and_parts_are_in_the_archives(traced_store, prover):
    tokenizer = tokenizer_of(traced_store)
    for document in range(0, traced_store.documents, 9):
        origin = origin_of(traced_store, document)
        for start, stop in ((origin.token_start, origin.token_stop), (origin.token_start + 7, origin.token_stop - 9)):
            if start < stop:
                found = prover.range(traced_store, tokenizer, origin, start, stop)
                assert found.same, found.wrong
                assert found.how == "the archive gives the same bytes"


def test_random_tokens_of_the_sample_run_are_in_its_archives(sample):
    out, tokens = sample
    store = open_tokens(tokens)
    tokenizer = tokenizer_of(store)
    random.seed(3)
    with open_prover(out) as prover:
        for token in random.sample(range(store.tokens), 300):
            traced = trace_token(store, token, tokenizer=tokenizer)
            found = prover.token(store, tokenizer, traced)
            assert found.same, (token, found)
            assert found.text.encode()[traced.characters.before :].startswith(traced.bytes)


def test_marks_stand_for_no_text(folder, many):
    spec = folder / "llama3-marks.json"
    spec.write_bytes(made_tokenizers.llama3_like())
    store = open_tokens(make_tokens(many, folder / "marks", spec))
    assert store.bos is not None
    start, stop = store.document_range(5)
    kinds = [trace_token(store, t).kind for t in (start, start + 1, stop - 1, stop)]
    assert kinds == ["bos", "text", "text" if store.eos is None else "eos", "bos"]
    mark = trace_token(store, start)
    assert (mark.characters, mark.bytes, mark.windows) == (None, None, ())
    assert mark.origin.document == 5


def test_a_store_with_another_tokenizers_files_is_told(whole, many, folder):
    copy = folder / "other-files"
    shutil.copytree(whole.root, copy)
    made = open_tokens(make_tokens(many, folder / "by-another", "gpt2"))
    shutil.rmtree(copy / "tokenizer")
    shutil.copytree(Path(made.root) / "tokenizer", copy / "tokenizer")
    with pytest.raises(DamagedFileError, match="is not the tokenizer"):
        trace_token(open_tokens(str(copy)), 5)


def test_a_lossy_tokenizer_gives_the_span_of_the_window(folder, many, prover):
    spec = folder / "nfkc.json"
    spec.write_bytes(made_tokenizers.with_normalizer())
    store = open_tokens(make_tokens(many, folder / "lossy", spec))
    tokenizer = tokenizer_of(store)
    assert not tokenizer.lossless
    random.seed(5)
    for token in random.sample(range(store.tokens), 40):
        traced = trace_token(store, token)
        if traced.kind != "text":
            continue
        assert not traced.characters.exact
        assert traced.bytes is None
        window = traced.windows[0]
        assert (traced.characters.begin, traced.characters.end) == (window.char_start, window.char_end)
        found = prover.token(store, tokenizer, traced)
        assert found.same
        assert window.char_start <= found.characters.begin < found.characters.end <= traced.windows[-1].char_end + 9
        said = unicodedata.normalize("NFKC", found.text)
        assert tokenizer.decode([traced.id]) in said or "\ufffd" in tokenizer.decode([traced.id])


def test_a_changed_archive_is_not_proven(folder, many, whole):
    """Another page at the same place: the proof says in what it differs."""
    moved, tokenizer = folder / "moved", tokenizer_of(whole)
    shutil.copytree(many.parent / "crawl", moved)
    traced = trace_token(whole, 1000)
    source = traced.origin.source
    other = "two.warc.gz" if source == "one.warc.gz" else "one.warc.gz"
    shutil.copy(moved / other, moved / source)
    with open_prover(many, [str(moved)]) as prover:
        found = prover.token(whole, tokenizer, traced)
    assert not found.same
    assert found.wrong
    with open_prover(many, [str(many.parent / "crawl")]) as prover:
        assert prover.token(whole, tokenizer, traced).same


def test_another_token_is_not_proven(folder, many, whole, prover):
    """A payload that says other ids than the text gives: by bytes, and by encoding again where ids are no bytes."""
    for name in ("lossy", "other"):
        if name == "lossy":
            spec = folder / "nfkc-too.json"
            spec.write_bytes(made_tokenizers.with_normalizer())
            store = open_tokens(make_tokens(many, folder / name, spec))
        else:
            store = open_tokens(whole.root)
        tokenizer, traced = tokenizer_of(store), trace_token(store, 2000)
        assert prover.token(store, tokenizer, traced).same
        real = store.read

        def other(start, stop, real=real):
            ids = real(start, stop).copy()
            if start <= 2000 < stop:
                ids[2000 - start] += 1
            return ids

        store.read = other
        found = prover.token(store, tokenizer, trace_token(store, 2000))
        assert not found.same
        assert "in the store" in found.wrong[0] or "other ids" in found.wrong[0]


def test_an_unknown_document_is_not_proven(whole, prover, tmp_path):
    store = open_tokens(make_store(tmp_path / "made", [[5, 6]]))
    found = prover.range(store, tokenizer_of(whole), origin_of(store, 0), 1, 2)
    assert "no document" in found.wrong[0]


def test_a_store_of_an_object_store(many, s3):
    """The same traces as of a folder; the payload is fetched, the tokenizer too."""
    from cleanpipe.options import StorageOptions
    from cleanpipe.tokens.decisions import Decision, append, effects, load

    options = StorageOptions(endpoint=s3.url)
    place = make_tokens(many, "s3://crawls/tokens", sets=[f"storage.endpoint={s3.url}"])
    store = open_tokens(place, options)
    with open_prover(many) as prover:
        for token in (0, 777, store.tokens - 2):
            assert prover.token(store, tokenizer_of(store), trace_token(store, token)).same
    assert len(ranges_of(store, Key("host", "awkward.example"))) == 12
    assert rare_ids(store).any()
    append(place, [Decision("mask", "host", "awkward.example")], options)
    assert len(effects(store, load(store))) == 12


def test_scores_are_plain(tmp_path):
    store = open_tokens(make_store(tmp_path / "made", [[5, 6]]))
    more = {
        "perplexity": pa.array([float("nan")]),
        "group": pa.array([b"\x01" * 16], col.ID),
        "fresh": pa.array([True]),
    }
    table = store.spans(0)
    for name, values in more.items():
        table = table.append_column(name, values)
    store._shard(0)._spans = table
    assert origin_of(store, 0).scores == {"perplexity": None, "group": "01" * 16, "fresh": True}


def test_columns_that_a_store_lacks_are_no_error(tmp_path):
    store = open_tokens(make_store(tmp_path / "made", [[5, 6]]))
    table = store.spans(0)
    store._shard(0)._spans = table.drop_columns([col.URL, col.DATE, col.LANGUAGE]).append_column(
        "entropy", pa.array([0.5])
    )
    found = origin_of(store, 0)
    assert (found.url, found.date, found.language, found.scores) == (None, None, None, {"entropy": 0.5})
    assert documents_with(store, [Key("url", url_of(0)), Key("host", "host0.example")]).tolist() == []


def test_documents_of_every_shard_have_their_own_row(tmp_path):
    windows = [[(0, 3, 0), (2, 3, 1)] if n % 2 else [(0, 5, 0)] for n in range(50)]
    store = open_tokens(make_store(tmp_path / "made", [[n] * 5 for n in range(10, 60)], per_shard=17, windows=windows))
    for n in range(50):
        found = origin_of(store, n)
        assert (found.document, found.doc_id, found.url) == (n, doc_id(n).hex(), url_of(n))
        assert (found.token_start, found.token_stop) == (7 * n, 7 * n + 7)
        assert found.shard == f"tokens-{n // 17:05d}-of-00003"
        assert (found.byte_start, found.byte_stop) == (14 * (n % 17), 14 * (n % 17) + 14)
        assert [(w.token_start, w.token_stop) for w in found.windows] == [
            (7 * n + 1 + a, 7 * n + 1 + a + c) for a, c, _ in windows[n]
        ]
    with pytest.raises(IndexError):
        origin_of(store, 50)
    assert found.scores == {}
