"""Which stores are opened and which refused; and an open one in other processes, in threads, with many shards."""

import gc
import json
import multiprocessing
import pickle
import resource
from pathlib import Path

import numpy as np
import pytest
from made_tokens import make_store
from signed_tokens import resigned

from cleanpipe.errors import ConfigError, DamagedFileError
from cleanpipe.io.hashing import sha256_of
from cleanpipe.tokens.store import open_tokens, opened, shard
from cleanpipe.tokens.store.mapping import mapped_bytes

DOCUMENTS = [[10, 11, 12], [], [13], [14, 15, 16, 17, 18], [19, 20], [21]]
FLAT = [1, 10, 11, 12, 2, 1, 2, 1, 13, 2, 1, 14, 15, 16, 17, 18, 2, 1, 19, 20, 2, 1, 21, 2]


def test_a_store_that_is_not_finished_is_refused(tmp_path):
    root = Path(make_store(tmp_path / "t", DOCUMENTS))
    (root / "manifest.json").rename(tmp_path / "aside")
    with pytest.raises(ConfigError, match="is not finished"):
        open_tokens(root)
    (root / "store.json").unlink()
    with pytest.raises(ConfigError, match="is not finished"):
        open_tokens(root)


def test_what_is_no_store_is_told_as_what_it_is(tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    for name, said in (("file", "is a file"), ("folder", "holds no token store"), ("nothing", "does not exist")):
        with pytest.raises(ConfigError, match=said):
            open_tokens(tmp_path / name)
    with pytest.raises(ConfigError, match="empty"):
        open_tokens("")
    with pytest.raises(ValueError, match="check is"):
        open_tokens(make_store(tmp_path / "t", DOCUMENTS), check="some")


@pytest.mark.parametrize("suffix", ["bin", "idx", "ds.index", "offsets.npy", "sums", "ds"])
@pytest.mark.parametrize("cut", ["one byte", "all", "more", "gone"])
def test_a_file_cut_short_is_found_when_the_store_is_opened(tmp_path, suffix, cut):
    root = Path(make_store(tmp_path / "t", DOCUMENTS, per_shard=3))
    path = root / f"tokens/tokens-00001-of-00002.{suffix}"
    data = path.read_bytes()
    path.unlink()
    if cut != "gone":
        path.write_bytes({"one byte": data[:-1], "all": b"", "more": data + b"\0"}[cut])
    elif suffix == "ds":
        assert open_tokens(root).tokens == len(FLAT)  # a copy without links is a store
        return
    with pytest.raises(DamagedFileError, match=f"tokens-00001-of-00002.{suffix}"):
        open_tokens(root)
    assert open_tokens(root, check="none").tokens == len(FLAT)


def _changed(root, **change):
    resigned(root, {**json.loads((Path(root) / "store.json").read_bytes()), **change})


def test_a_later_format_is_refused_and_a_changed_store_json_is_found(tmp_path):
    root = make_store(tmp_path / "t", DOCUMENTS)
    _changed(root, format=2)
    with pytest.raises(ConfigError, match="format 2"):
        open_tokens(root)
    for i, wrong in enumerate(["one", None, 0, 1.5]):
        root = make_store(tmp_path / f"w{i}", DOCUMENTS)
        _changed(root, format=wrong)
        with pytest.raises(DamagedFileError, match=r"store\.json"):
            open_tokens(root)
    path = Path(make_store(tmp_path / "u", DOCUMENTS)) / "store.json"
    for data in (b"", b"[]", b"{}", b"{", b"[" * 100_000, path.read_bytes().replace(b'"tokens": 24', b'"tokens": 25')):
        path.write_bytes(data)
        with pytest.raises(DamagedFileError, match=r"store\.json"):
            open_tokens(path.parent)


def test_a_manifest_that_is_cut_or_of_another_store_is_found(tmp_path):
    path = Path(make_store(tmp_path / "t", DOCUMENTS)) / "manifest.json"
    data = path.read_bytes()
    for wrong in (b"", data[:-3], data[: len(data) // 2], b"[]", b"7", data.replace(b'"bytes": 48', b'"bytes": 49', 1)):
        path.write_bytes(wrong)
        with pytest.raises(DamagedFileError, match=r"manifest\.json: was cut short or changed"):
            open_tokens(path.parent)
    other = Path(make_store(tmp_path / "o", DOCUMENTS, per_shard=2)) / "manifest.json"
    path.write_bytes(other.read_bytes())
    with pytest.raises(ConfigError, match="is not finished"):
        open_tokens(path.parent)


def test_another_tokenizer_is_refused_and_both_are_named(tmp_path):
    root = make_store(tmp_path / "t", DOCUMENTS, name="mine")
    have = open_tokens(root).info["fingerprint"]
    assert open_tokens(root, tokenizer=have["digest"]).tokens == len(FLAT)
    assert open_tokens(root, tokenizer=have["content"]).tokens == len(FLAT)
    with pytest.raises(ConfigError, match=r"holds ids of mine .* not of the tokenizer with fingerprint 0000"):
        open_tokens(root, tokenizer="0" * 64)

    class Other:
        name, fingerprint = "other", dict(have)

    assert open_tokens(root, tokenizer=Other).tokens == len(FLAT)
    for key, why in (("content", "another content"), ("probe", "probe text"), ("policy", "another policy")):
        Other.fingerprint = {**have, key: "f" * 64, "digest": "e" * 64}
        with pytest.raises(ConfigError, match=f"of mine .* not of other .*eeee.*{why}"):
            open_tokens(root, tokenizer=Other)


# processes, threads, many shards


def _read_in_child(store, start, stop, queue):
    queue.put(store.read(start, stop).tolist())


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("touched", [False, True])
def test_a_store_goes_to_other_processes(tmp_path, method, touched):
    store = open_tokens(make_store(tmp_path / "t", DOCUMENTS, per_shard=2))
    if touched:
        store.read(0, store.tokens)
    context = multiprocessing.get_context(method)
    queue = context.SimpleQueue()
    child = context.Process(target=_read_in_child, args=(store, 3, 20, queue))
    child.start()
    assert queue.get() == FLAT[3:20]
    child.join()
    assert child.exitcode == 0


def test_a_pickled_store_is_small_and_reads_the_same(tmp_path):
    store = open_tokens(make_store(tmp_path / "t", DOCUMENTS, per_shard=2))
    store.read(0, 24)
    data = pickle.dumps(store)
    assert len(data) < 1_000  # whatever the number of shards
    again = pickle.loads(data)
    assert (again.digest, again.info, again.read(1, 23).tolist()) == (store.digest, store.info, FLAT[1:23])


def test_a_pickled_store_that_was_made_again_is_not_taken_for_the_same(tmp_path):
    root = make_store(tmp_path / "t", DOCUMENTS)
    data = pickle.dumps(open_tokens(root))
    _changed(root, windows=0)
    with pytest.raises(ConfigError, match="made again since"):
        pickle.loads(data)


def test_threads_read_at_once(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    documents = [[3 + (i * j) % 900 for j in range(i % 50)] for i in range(400)]
    store = open_tokens(make_store(tmp_path / "t", documents, per_shard=40))
    flat = store.read(0, store.tokens).tolist()
    fresh = open_tokens(tmp_path / "t")
    places = [(s * 7 % store.tokens, min(s * 7 % store.tokens + 300, store.tokens)) for s in range(600)]
    with ThreadPoolExecutor(8) as pool:
        for (start, stop), found in zip(places, pool.map(lambda p: fresh.read(*p).tolist(), places), strict=True):
            assert found == flat[start:stop]


def _handles():
    return len(list(Path("/proc/self/fd").iterdir()))


def test_opening_touches_no_shard_and_reading_keeps_no_handle_of_any(tmp_path, monkeypatch):
    documents = [[3 + i % 90] * (i % 4) for i in range(120)]
    root = make_store(tmp_path / "t", documents, per_shard=3)
    before = _handles()
    monkeypatch.setattr(opened, "_OPEN", 5)
    store = open_tokens(root)
    assert _handles() == before
    for document in [*range(120), *range(0, 120, 7)]:
        assert store.read(*store.document_range(document)).tolist() == [1, *documents[document], 2]
        assert store.document_of(store.document_range(document)[0]) == document
        assert len(store._open) <= 5
        assert store.spans(document // 3).num_rows == 3
        assert _handles() == before


def test_a_small_file_is_proven_once_however_often_its_shard_is_opened_again(tmp_path, monkeypatch):
    root = make_store(tmp_path / "t", [[3 + i] for i in range(20)], per_shard=1)
    proven = []
    monkeypatch.setattr(shard, "sha256_of", lambda path: proven.append(path.name) or sha256_of(path))
    monkeypatch.setattr(opened, "_OPEN", 3)
    store = open_tokens(root)
    for document in [*range(20), *range(20)]:
        assert store.read(*store.document_range(document)).tolist() == [1, 3 + document, 2]
    assert (len(proven), len(set(proven))) == (40, 40)  # offsets and sums of each shard
    again = pickle.loads(pickle.dumps(store))  # another process would not believe this one
    again.document_range(0)
    assert proven[40:] == ["tokens-00000-of-00020.offsets.npy"]


def test_a_thousand_shards_are_open_at_once_with_a_handful_of_handles(tmp_path):
    root = make_store(tmp_path / "t", [[3 + i % 900] for i in range(1_000)], per_shard=1)
    store = open_tokens(root)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (_handles() + 20, hard))
    try:
        for document in range(1_000):
            assert store.read(*store.document_range(document)).tolist() == [1, 3 + document % 900, 2]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(store._open) == 1_000


def test_a_map_goes_with_its_last_view(tmp_path):
    path = tmp_path / "mapped"
    path.write_bytes(bytes(range(256)) * 100)
    data = mapped_bytes(path)
    view = np.frombuffer(data, np.uint8)[3:6]
    del data
    gc.collect()
    assert view.tolist() == [3, 4, 5]
    assert str(path) in Path("/proc/self/maps").read_text()
    with pytest.raises(ValueError, match="WRITEABLE"):
        view.flags.writeable = True
    del view
    gc.collect()
    assert str(path) not in Path("/proc/self/maps").read_text()
    path.write_bytes(b"")
    assert mapped_bytes(path) == b""
    with pytest.raises(FileNotFoundError):
        mapped_bytes(tmp_path / "none")


def test_views_outlive_the_shard_they_came_from(tmp_path, monkeypatch):
    monkeypatch.setattr(opened, "_OPEN", 1)
    store = open_tokens(make_store(tmp_path / "t", DOCUMENTS, per_shard=1))
    views = [store.read(*store.document_range(i)) for i in range(6)]
    assert [v.tolist() for v in views] == [[1, *d, 2] for d in DOCUMENTS]
