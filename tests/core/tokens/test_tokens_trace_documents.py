"""From sequences and steps to documents, and from documents back to their tokens."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from made_tokens import doc_id, make_store
from traced_runs import make_run, make_tokens

from cleanpipe.errors import ConfigError
from cleanpipe.run import run
from cleanpipe.tokens import Plan, open_tokens
from cleanpipe.tokens.tracing import (
    Key,
    documents_with,
    origin_of,
    ranges_of,
    sequence,
    trace_sequence,
    trace_token,
)
from cleanpipe.tokens.tracing.clusters import duplicates_of
from cleanpipe.tokens.tracing.figures import HISTOGRAM, Repeats, rare_ids, repeats
from cleanpipe.tokens.tracing.ranges import beginning, doc_ids, sequences_of
from cleanpipe.tokens.tracing.sequence import Part, ranked


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A store of a run of many languages, by the embedded tokenizer."""
    folder = tmp_path_factory.mktemp("traced")
    return open_tokens(make_tokens(make_run(folder / "many"), folder / "whole"))


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    """A store of the sample run."""
    folder = tmp_path_factory.mktemp("traced-sample")
    run("sample", [], folder / "run", engine="serial")
    return open_tokens(make_tokens(folder / "run", folder / "tokens"))


@pytest.mark.parametrize("packing", ["concat", "best-fit"])
def test_a_sequence_is_its_documents(whole, packing):
    store = whole
    plan = Plan(store, length=700, packing=packing, seed=3)
    covered = []
    for g in range(0, plan.sequences, 9):
        found = trace_sequence(plan, g)
        pieces = plan.locate(g)
        assert found.tokens == sum(p.stop - p.start for p in pieces)
        for part in found.parts:
            assert store.document_of(part.token_start) == store.document_of(part.token_stop - 1) == part.origin.document
            assert part.place == part.token_start - max(p.start for p in pieces if p.start <= part.token_start) + next(
                p.place for p in pieces if p.start <= part.token_start < p.stop
            )
            alone = [trace_token(store, t).characters for t in (part.token_start, part.token_stop - 2)]
            if part.token_stop - part.token_start > 2 and None not in alone:
                assert part.characters.begin == alone[0].begin
                assert part.characters.end >= alone[1].end
        covered.append(sorted((p.token_start, p.token_stop) for p in found.parts))
        assert sorted({p.origin.document for p in found.parts}) == sorted(plan.documents(g).tolist())
        assert sum(b - a for a, b in covered[-1]) == found.tokens
    with pytest.raises(IndexError):
        trace_sequence(plan, -1)


def test_suspects_come_first(tmp_path, monkeypatch):
    """Of 40 ordinary documents, one of rare ids and one that repeats three ids 40 times, in sequences of all."""
    rng = np.random.default_rng(1)
    documents = [rng.integers(10, 60, 50).tolist() for _ in range(400)]
    documents[17] = list(range(500, 550))
    documents[23] = [11, 12, 13] * 40
    store = open_tokens(make_store(tmp_path / "made", documents, per_shard=150))
    plan = Plan(store, length=40 * 52 + 70, shuffle="none")
    monkeypatch.setattr(sequence, "tokenizer_of", lambda _: None)  # the made store has none
    parts = ranked(trace_sequence(plan, 0).parts)
    assert [p.origin.document for p in parts[:2]] == [23, 17]
    assert (parts[0].repeats, parts[0].tokens, parts[0].rare) == (Repeats(3, 40), 120, 0)
    assert (parts[1].repeats.many, parts[1].rare, parts[1].rare_share) == (False, 50, 1.0)


@pytest.mark.parametrize(
    ("tokens", "rare", "excess"),
    [
        (11, 1, 0.89),  # one rare id in a short page is next to nothing
        (11, 2, 1.89),
        (400, 9, 5.0),
        (4096, 13, 0.0),  # fewer than chance gives
        (4096, 81, 40.04),
        (100, 1, 0.0),
        (150, 150, 148.5),
        (0, 0, 0.0),
    ],
)
def test_rare_ids_are_weighed_by_length(tokens, rare, excess):
    part = Part(0, 0, None, 0, tokens, 0, None, tokens, rare, Repeats())
    assert part.rare_excess == excess


def test_ranks_by_what_is_suspect():
    """The n-grams first; then how many rare ids too many, not which share of a short page; then length."""
    made = [(11, 1, 1), (400, 9, 1), (4096, 13, 1), (50, 0, 40), (5000, 0, 1), (4096, 81, 31)]
    parts = [Part(0, 0, None, 0, n, 0, None, n, rare, Repeats(1, times)) for n, rare, times in made]
    assert [p.tokens for p in ranked(parts)] == [50, 4096, 400, 11, 5000, 4096]


@pytest.mark.parametrize(
    ("ids", "period", "times"),
    [
        ([], 1, 1),
        ([7], 1, 1),
        ([1, 2, 3, 4], 1, 1),
        ([5, 5], 1, 2),
        ([1, 2, 2, 2, 3], 1, 3),
        ([1, 2] * 31, 2, 31),
        ([9, *[1, 2] * 32, 1, 9], 2, 32),
        ([*range(13)] * 33, 13, 33),
        ([*range(14)] * 40, 1, 1),  # a period of 14 is none of these
        ([*[1, 1, 2]] * 40, 3, 40),
        ([4] * 31 + [5] * 33, 1, 33),
    ],
)
def test_repeated_ngrams(ids, period, times):
    found = repeats(np.array(ids, np.uint16))
    assert (found.period, found.times, found.many) == (period, times, times >= 32)


def test_rare_ids_are_a_hundredth_of_the_tokens(sample):
    store = sample
    rare = rare_ids(store)
    counts = np.bincount(store.read(0, store.tokens), minlength=store.vocabulary)
    counts[[m for m in (store.bos, store.eos) if m is not None]] = 0
    assert (
        counts[rare].sum()
        <= counts.sum() / 100
        < counts[rare].sum() + counts[~rare & (counts > 0)].min() * (counts == counts[~rare & (counts > 0)].min()).sum()
    )
    assert not rare[[m for m in (store.bos, store.eos) if m is not None]].any()


def test_rare_ids_without_the_published_counts_are_the_same(sample, tmp_path):
    shutil.copytree(sample.root, tmp_path / "copy")
    store = open_tokens(str(tmp_path / "copy"))
    published = rare_ids(store)
    for name in store.shards:
        (tmp_path / "copy" / HISTOGRAM.format(name)).unlink()
    assert (rare_ids(store) == published).all()


def test_rare_ids_of_a_large_store_are_counted_on_pieces(tmp_path, monkeypatch):
    from cleanpipe.tokens.tracing import figures

    monkeypatch.setattr(figures, "SAMPLE", 400)
    monkeypatch.setattr(figures, "PIECE", 40)
    store = open_tokens(make_store(tmp_path / "made", [[10] * 98, [11] * 98] * 50))
    pieces = figures._sampled(store.tokens)
    assert len(pieces) == 10
    assert pieces[0] == (0, 40)
    assert pieces[-1] == (store.tokens - 40, store.tokens)
    rare = rare_ids(store)
    assert not rare[10] and not rare[11] and rare[12]


# --- and back


def brute(store, wanted):
    """Ranges of documents whose spans row fits, read out of the payload files."""
    out = []
    for shard, name in enumerate(store.shards):
        payload = np.fromfile(Path(store.root) / f"tokens/{name}.bin", store.dtype)
        seen = set()
        for row in store.spans(shard).to_pylist():
            if wanted(row) and row["document"] not in seen:
                seen.add(row["document"])
                start, stop = row["document_start"], row["document_start"] + row["document_tokens"]
                out.append((name, start, stop, payload[start:stop].tolist()))
    return out


@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        (Key("host", "awkward.example"), lambda r: "awkward.example/" in r["url"]),
        (Key("host", "sub.awkward.example"), lambda r: "//sub.awkward.example/" in r["url"]),
        ("http://lang3.example/3", lambda r: r["url"] == "http://lang3.example/3"),
        (Key("url", "markup.example/2?a=1&b=2"), lambda r: r["url"] == "https://markup.example/2?a=1&b=2"),
        (Key("host", "nowhere.example"), lambda _: False),
    ],
)
def test_takedown_lists_are_those_of_a_search_by_hand(whole, key, wanted):
    found = ranges_of(whole, key)
    mine = []
    for o in found:
        path = Path(whole.root) / f"tokens/{o.shard}.bin"
        with path.open("rb") as file:
            file.seek(o.byte_start)
            ids = np.frombuffer(file.read(o.byte_stop - o.byte_start), whole.dtype).tolist()
        assert ids == whole.read(o.token_start, o.token_stop).tolist()
        mine.append((o.shard, o.shard_start, o.shard_stop, ids))
    assert mine == brute(whole, wanted)


def test_keys_of_all_kinds_name_the_same_document(whole):
    origin = origin_of(whole, 7)
    for key in (origin.doc_id, Key("doc_id", origin.doc_id.upper()), Key("content_id", origin.content_id)):
        assert 7 in [o.document for o in ranges_of(whole, key)]
    assert documents_with(whole, [Key("doc_id", origin.doc_id), Key("url", origin.url)]).tolist() == [7]
    with pytest.raises(ConfigError, match="32 hex"):
        ranges_of(whole, Key("doc_id", "12"))


@pytest.mark.parametrize("packing", ["concat", "best-fit"])
@pytest.mark.parametrize("shuffle", ["feistel", "none", "block"])
def test_sequences_of_a_document_are_those_that_hold_it(whole, packing, shuffle):
    store = whole
    plan = Plan(store, length=300, packing=packing, seed=9, shuffle=shuffle)
    held = {}
    for g in range(2 * plan.sequences):
        for piece in plan.locate(g):
            for document in {*store.document_of(np.arange(piece.start, piece.stop)).tolist()}:
                held.setdefault((document, g // plan.sequences), []).append(g)
    for document in range(0, store.documents, 5):
        for epoch in (0, 1):
            found = sequences_of(plan, origin_of(store, document), epoch=epoch)
            assert found.tolist() == sorted(held[document, epoch])


def test_beginnings_of_ids(tmp_path):
    store = open_tokens(make_store(tmp_path / "made", [[5]] * 300, per_shard=70))
    ids = sorted(doc_id(n).hex() for n in range(300))
    for digits in (1, 2, 3, 31, 32):
        for one in ids[::37]:
            assert beginning(store, "doc_id", one[:digits]) == [i for i in ids if i.startswith(one[:digits])]
    assert beginning(store, "doc_id", "ffffffff") == []
    assert len(beginning(store, "content_id", "")) == 1
    documents = np.array([0, 69, 70, 299])
    assert [i.hex() for i in doc_ids(store, documents).to_pylist()] == [doc_id(n).hex() for n in documents]
    assert len(doc_ids(store, documents[:0])) == 0


def test_duplicates_that_a_document_stands_for(crawl, tmp_path):
    run("web", [str(crawl)], tmp_path / "run", engine="serial")
    store = open_tokens(make_tokens(tmp_path / "run", tmp_path / "tokens"))
    found = duplicates_of(store, np.arange(store.documents), str(tmp_path / "run"))
    urls = {origin_of(store, d).doc_id: origin_of(store, d).url for d in range(store.documents)}
    told = {urls[kept]: sorted((g["url"], g["jaccard"] == 1) for g in group) for kept, group in found.items()}
    assert told["http://a.example.org/1"] == [("http://b.example.org/same", True)]
    assert told["http://b.example.org/base"] == [("http://b.example.org/near", False)]
    assert duplicates_of(store, np.zeros(0, np.int64), str(tmp_path / "run")) == {}
