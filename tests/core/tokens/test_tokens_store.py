"""A token store is written once and read by number: ids, documents, spans, whatever the borders of shards."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import xxhash
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_tokens import doc_id, make_store, url_of

from cleanpipe.errors import StageContractError
from cleanpipe.io.store import LocalStore
from cleanpipe.tokens.layout import BLOCK
from cleanpipe.tokens.store import PayloadWriter, open_tokens

DOCUMENTS = [[10, 11, 12], [], [13], [14, 15, 16, 17, 18], [19, 20], [21]]
FLAT = [1, 10, 11, 12, 2, 1, 2, 1, 13, 2, 1, 14, 15, 16, 17, 18, 2, 1, 19, 20, 2, 1, 21, 2]


@pytest.fixture(params=[0, 1, 2, 4])
def store(tmp_path, request):
    return open_tokens(make_store(tmp_path / "t", DOCUMENTS, per_shard=request.param))


def test_every_range_of_tokens_is_read_whatever_shards_it_crosses(store):
    assert store.tokens == len(FLAT)
    for start in range(len(FLAT) + 1):
        for stop in range(start, len(FLAT) + 1):
            found = store.read(start, stop)
            assert found.tolist() == FLAT[start:stop]
            assert found.dtype == np.uint16


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (0, 25), (5, 4), (24, 25), (-3, -1)])
def test_a_range_that_is_not_in_the_store_is_an_error(store, start, stop):
    with pytest.raises(IndexError):
        store.read(start, stop)


def test_documents_by_number_and_by_token(store):
    ends = np.cumsum([len(d) + 2 for d in DOCUMENTS])
    assert store.documents == 6
    for number, body in enumerate(DOCUMENTS):
        start, stop = store.document_range(number)
        assert (start, stop) == (int(ends[number]) - len(body) - 2, int(ends[number]))
        assert store.read(start, stop).tolist() == [1, *body, 2]
        for token in range(start, stop):
            assert store.document_of(token) == number
    expected = np.searchsorted(ends, np.arange(len(FLAT)), side="right")
    np.testing.assert_array_equal(store.document_of(np.arange(len(FLAT))), expected)
    np.testing.assert_array_equal(store.document_of(np.arange(len(FLAT))[::-1]), expected[::-1])
    assert store.document_of(np.empty(0, np.int64)).shape == (0,)
    for wrong in (-1, len(FLAT)):
        with pytest.raises(IndexError):
            store.document_of(wrong)
        with pytest.raises(IndexError):
            store.document_of(np.array([3, wrong]))
    for wrong in (-1, 6):
        with pytest.raises(IndexError):
            store.document_range(wrong)


def test_spans_and_offsets_of_a_shard(store):
    seen = []
    for number, name in enumerate(store.shards):
        offsets, spans = store.offsets(number), store.spans(number)
        assert name == f"tokens-{number:05d}-of-{len(store.shards):05d}"
        assert offsets[0] == 0
        assert offsets[-1] == store.token_starts[number + 1] - store.token_starts[number]
        assert not offsets.flags.writeable
        assert spans.column("document").to_pylist() == list(range(len(offsets) - 1))
        assert spans.column("document_start").to_pylist() == offsets[:-1].tolist()
        seen += zip(spans.column("doc_id").to_pylist(), spans.column("url").to_pylist(), strict=True)
    assert seen == [(doc_id(i), url_of(i)) for i in range(6)]
    assert store.document_starts[-1] == 6


def test_what_is_read_cannot_be_written(store):
    with pytest.raises(ValueError, match="read-only"):
        store.read(0, 3)[0] = 7


def test_the_digest_is_of_the_tokens(tmp_path):
    def of(folder, documents=DOCUMENTS, **given):
        return open_tokens(make_store(tmp_path / folder, documents, **given)).digest

    assert of("a") == of("b") == of("c", urls=["x"] * 6, salt="other")
    others = [
        of("d", [*DOCUMENTS[:-1], [22]]),
        of("e", per_shard=2),
        of("f", bos=None),
        of("g", vocabulary=70_000),
        of("h", name="another"),
    ]
    assert len({of("a2"), *others}) == 6


def test_files_are_the_same_byte_for_byte_however_they_were_added(tmp_path):
    rng = np.random.default_rng(5)
    documents = [rng.integers(3, 900, n).tolist() for n in rng.integers(0, 9_000, 60)]
    ids = np.concatenate([np.array(d, np.int64) for d in documents])
    ends = np.cumsum([len(d) for d in documents])
    found = {}
    for how, cuts in {"one": [60], "each": range(1, 61), "some": [7, 7, 8, 31, 60]}.items():
        writer = PayloadWriter(LocalStore(str(tmp_path / how)), "tokens-00000-of-00001", "uint16", "a")
        before = 0
        for cut in cuts:
            start = int(ends[before - 1]) if before else 0
            stop = int(ends[cut - 1])
            writer.add(ids[start:stop], ends[before:cut] - start)
            before = cut
        assert (writer.tokens, writer.documents) == (len(ids), 60)
        facts = writer.close()
        found[how] = {p.name: p.read_bytes() for p in (tmp_path / how / "tokens").iterdir()}
        assert {f"tokens/{n}" for n in found[how]} == set(facts)
        assert all(facts[f"tokens/{n}"]["bytes"] == len(data) for n, data in found[how].items())
    assert found["one"] == found["each"] == found["some"]
    payload = found["one"]["tokens-00000-of-00001.bin"]
    assert payload == ids.astype("<u2").tobytes()
    sums = [xxhash.xxh3_64_intdigest(payload[i : i + BLOCK]) for i in range(0, len(payload), BLOCK)]
    assert len(sums) > 3
    assert found["one"]["tokens-00000-of-00001.sums"] == np.array(sums, "<u8").tobytes()


def test_offsets_are_a_real_npy_file_that_numpy_maps(tmp_path):
    root = Path(make_store(tmp_path / "t", DOCUMENTS))
    found = np.load(root / "tokens/tokens-00000-of-00001.offsets.npy", mmap_mode="r", allow_pickle=False)
    assert (found.dtype, found.tolist()) == (np.int64, [0, 5, 7, 10, 17, 21, 24])


def test_indexes_of_the_dialects_by_hand(tmp_path):
    """Two documents of 3 and 2 ids; every byte as Megatron's and datatrove's formats have it."""
    for dtype, code, width in (("uint16", 8, 2), ("int32", 4, 4)):
        writer = PayloadWriter(LocalStore(str(tmp_path / dtype)), "x", dtype, "a")
        writer.add([5, 6, 7, 8, 9], [3, 5])
        writer.close()
        folder = tmp_path / dtype / "tokens"
        head = b"MMIDIDX\0\0" + (1).to_bytes(8, "little") + bytes([code])
        numbers = head + (2).to_bytes(8, "little") + (3).to_bytes(8, "little")
        lengths = np.array([3, 2], "<i4").tobytes()
        places = np.array([0, 3 * width], "<i8").tobytes()
        assert (folder / "x.idx").read_bytes() == numbers + lengths + places + np.array([0, 1, 2], "<i8").tobytes()
        assert (folder / "x.ds.index").read_bytes() == np.array([3, 5], "<u8").tobytes()
        assert (folder / "x.bin").read_bytes() == np.array([5, 6, 7, 8, 9], f"<{dtype[0]}{width}").tobytes()
        assert (folder / "x.ds").samefile(folder / "x.bin")


@pytest.mark.parametrize(
    ("dtype", "vocabulary", "ids", "ends", "said"),
    [
        ("uint16", None, [5, 65_535, 65_536], [1, 3], "id 65536 at token 1 of document 4"),
        ("uint16", 1000, [5, 999, 1000], [3], "id 1000 at token 2 of document 3"),
        ("uint16", None, [-1, 4], [2], "id -1 at token 0 of document 3"),
        ("int32", None, [2**31 - 1, 2**31], [1, 2], "id 2147483648 at token 0 of document 4"),
        ("int32", 70_000, [7, 7, 70_000], [1, 1, 3], "id 70000 at token 1 of document 5"),
        ("uint16", None, [5, 6], [1], "ends of documents do not fit 2 ids"),
        ("uint16", None, [5, 6], [2, 1, 2], "ends of documents do not fit"),
        ("uint16", None, [5], [], "ends of documents do not fit"),
    ],
)
def test_ids_that_cannot_be_written_are_told_and_nothing_of_them_is_kept(tmp_path, dtype, vocabulary, ids, ends, said):
    writer = PayloadWriter(LocalStore(str(tmp_path)), "x", dtype, "a", vocabulary=vocabulary)
    writer.add([3, 4, 5], [1, 2, 3])
    with pytest.raises(StageContractError, match=said):
        writer.add(np.array(ids, np.int64), ends)
    writer.add([9], [1])
    facts = writer.close()
    assert facts["tokens/x.bin"]["documents"] == 4
    assert np.fromfile(tmp_path / "tokens/x.bin", np.dtype(dtype)).tolist() == [3, 4, 5, 9]


def test_a_document_longer_than_megatron_can_count_is_refused(tmp_path):
    writer = PayloadWriter(LocalStore(str(tmp_path)), "x", "uint16", "a")
    long = np.lib.stride_tricks.as_strided(np.zeros(1, np.uint16), (2**31,), (0,))  # takes no memory
    with pytest.raises(StageContractError, match="document 0 has 2,147,483,648 tokens"):
        writer.add(long, [2**31])
    writer.abandon()
    assert not list((tmp_path / "tokens").iterdir())


def test_only_the_two_types_of_ids_are_written(tmp_path):
    writer = PayloadWriter(LocalStore(str(tmp_path)), "x", "uint16", "a")
    with pytest.raises(StageContractError, match="whole numbers, not float64"):
        writer.add([1.5, 2.0], [2])
    writer.abandon()
    for dtype in ("int64", "uint32", "int16", "float32"):
        with pytest.raises(StageContractError, match="uint16 or int32"):
            PayloadWriter(LocalStore(str(tmp_path)), "x", dtype, "a")


def test_an_abandoned_attempt_leaves_nothing_and_a_new_one_replaces_what_was_published(tmp_path):
    place = LocalStore(str(tmp_path))
    for attempt, ids in (("a", [3, 4]), ("b", [5, 6, 7])):
        writer = PayloadWriter(place, "x", "uint16", attempt)
        writer.add(ids, [len(ids)])
        writer.close()
    lost = PayloadWriter(place, "x", "uint16", "c")
    lost.add([1], [1])
    lost.abandon()
    names = sorted(p.name for p in (tmp_path / "tokens").iterdir())
    assert names == ["x.bin", "x.ds", "x.ds.index", "x.idx", "x.offsets.npy", "x.sums"]
    assert np.fromfile(tmp_path / "tokens/x.ds", "<u2").tolist() == [5, 6, 7]


def test_where_there_are_no_links_the_store_does_without_and_says_so(tmp_path, monkeypatch):
    def none(*_):
        raise PermissionError(1, "no links here")

    monkeypatch.setattr(os, "link", none)
    root = Path(make_store(tmp_path / "t", DOCUMENTS, per_shard=3))
    assert not list(root.glob("tokens/*.ds"))
    assert json.loads((root / "manifest.json").read_bytes())["without"]["shards"] == 2
    assert open_tokens(root).read(0, 24).tolist() == FLAT


def test_a_store_without_documents(tmp_path):
    for name, per in (("none", 0), ("some", 2)):
        root = make_store(tmp_path / name, [] if name == "none" else DOCUMENTS, per_shard=per)
        store = open_tokens(root)
        assert store.read(0, 0).tolist() == []
        assert store.document_starts[0] == 0
    assert store.documents == 6


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    documents=st.lists(st.lists(st.integers(3, 69_999), max_size=12), max_size=12),
    per=st.integers(1, 5),
    bos=st.sampled_from([None, 1]),
    eos=st.sampled_from([None, 1, 2]),
    data=st.data(),
)
def test_what_was_written_is_read(tmp_path_factory, documents, per, bos, eos, data):
    root = make_store(tmp_path_factory.mktemp("s"), documents, per_shard=per, bos=bos, eos=eos, vocabulary=70_000)
    store = open_tokens(root)
    bodies = [[*([bos] if bos else []), *d, *([eos] if eos else [])] for d in documents]
    flat = [i for b in bodies for i in b]
    start = data.draw(st.integers(0, len(flat)))
    stop = data.draw(st.integers(start, len(flat)))
    assert store.read(start, stop).tolist() == flat[start:stop]
    for number, body in enumerate(bodies):
        assert store.read(*store.document_range(number)).tolist() == body
    owners = [n for n, b in enumerate(bodies) for _ in b]
    assert [store.document_of(t) for t in range(len(flat))] == owners
    assert store.document_of(np.arange(len(flat))).tolist() == owners
