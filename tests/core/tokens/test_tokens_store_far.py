"""A token store in an object store: shards come when they are first touched, into a cache, and are proven as others."""

import json
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from made_tokens import doc_id, make_store, url_of

from cleanpipe.brought import brought
from cleanpipe.errors import ConfigError, DamagedFileError
from cleanpipe.io.store import open_store
from cleanpipe.options import StorageOptions
from cleanpipe.tokens.store import open_tokens, opened
from cleanpipe.tokens.store.verify import verify_tokens
from cleanpipe_jobs.cli import main

ROOT = "s3://crawls/tokens"
DOCUMENTS = [[3 + (i * 7 + j) % 900 for j in range(i % 9)] for i in range(20)]
FLAT = [t for d in DOCUMENTS for t in (1, *d, 2)]


@pytest.fixture
def far(s3, tmp_path):
    scratch = tmp_path / "scratch"
    options = StorageOptions(endpoint=s3.url, attempts=3, timeout=2, scratch=str(scratch))
    make_store(ROOT, DOCUMENTS, per_shard=6, storage=options)
    s3.forget()
    return options


def _fetched(s3):
    return sorted(r.path.rpartition("/")[2] for r in s3.log("GET", r"tokens-0") if "list-type" not in r.path)


def test_shards_are_fetched_when_they_are_first_touched(s3, far, tmp_path):
    store = open_tokens(ROOT, far)
    assert _fetched(s3) == []
    assert (store.spans(1).num_rows, store.offsets(2).tolist()[-1]) == (6, int(np.diff(store.token_starts)[2]))
    assert _fetched(s3) == ["tokens-00001-of-00004.arrow", "tokens-00002-of-00004.offsets.npy"]
    s3.forget()
    assert store.read(0, 5).tolist() == FLAT[:5]
    assert set(_fetched(s3)) == {"tokens-00000-of-00004.bin", "tokens-00000-of-00004.sums"}
    assert store.read(0, store.tokens).tolist() == FLAT
    assert [store.document_of(t) for t in (0, len(FLAT) - 1)] == [0, 19]
    assert store.spans(3).column("doc_id").to_pylist() == [doc_id(18), doc_id(19)]
    s3.forget()
    assert store.read(0, store.tokens).tolist() == FLAT
    assert _fetched(s3) == []


def test_the_copy_without_links_is_not_made_and_said_so(s3, far):
    manifest = json.loads(open_store(ROOT, far).read("manifest.json"))
    assert not [n for n in manifest["files"] if n.endswith(".ds")]
    assert manifest["without"][".ds"]


def test_a_cache_is_kept_and_shared(s3, far, tmp_path):
    cache = tmp_path / "cache"
    for again in (False, True):
        s3.forget()
        store = pickle.loads(pickle.dumps(open_tokens(ROOT, far, cache=str(cache))))
        assert store.read(0, store.tokens).tolist() == FLAT
        assert bool(_fetched(s3)) is not again
    files = [p for p in cache.rglob("*") if p.is_file()]
    assert len(files) == 8
    payload = next(p for p in files if p.name == "tokens-00001-of-00004.bin")
    data = bytearray(payload.read_bytes())
    data[3] ^= 1
    payload.write_bytes(data)
    with pytest.raises(DamagedFileError, match=rf"tokens-00001-of-00004\.bin: block 0 .* {doc_id(6).hex()}"):
        open_tokens(ROOT, far, cache=str(cache)).read(0, len(FLAT))


def test_a_temporary_cache_holds_no_more_than_what_is_open(s3, far, tmp_path, monkeypatch):
    monkeypatch.setattr(opened, "_FETCHED", 2)
    store = open_tokens(ROOT, far)
    for _ in range(2):
        for number in range(20):
            assert store.read(*store.document_range(number)).tolist() == [1, *DOCUMENTS[number], 2]
            held = {p.name[:21] for p in (tmp_path / "scratch").rglob("tokens-0*") if p.is_file()}
            assert len(held) <= 2


def test_a_flipped_bit_there_is_told_by_document_and_url(s3, far):
    place = open_store(ROOT, far)
    name = "tokens/tokens-00002-of-00004.bin"
    data = bytearray(place.read(name))
    data[0] ^= 8
    place.write(name, bytes(data))
    store = open_tokens(ROOT, far)
    with pytest.raises(DamagedFileError) as told:
        store.read(0, store.tokens)
    named = re.findall(r"([0-9a-f]{32}) \((\S+)\)", str(told.value))
    assert named == [(doc_id(i).hex(), url_of(i)) for i in range(12, 18)]
    with pytest.raises(DamagedFileError, match=re.escape(name)):
        open_tokens(ROOT, far, check="all")
    with brought(ROOT, far) as folder:
        assert any("block 0 is damaged" in f for f in verify_tokens(Path(folder)).findings)


def test_unfinished_and_cut_stores_are_refused_there_too(s3, far):
    place = open_store(ROOT, far)
    name = "tokens/tokens-00002-of-00004.bin"
    data = place.read(name)
    place.write(name, data[:-2])
    with pytest.raises(DamagedFileError, match="tokens-00002"):
        open_tokens(ROOT, far)
    with pytest.raises(DamagedFileError, match="tokens-00002"):
        store = open_tokens(ROOT, far, check="none")
        store.read(0, store.tokens)
    place.delete(name)
    with pytest.raises(DamagedFileError, match="tokens-00002"):
        open_tokens(ROOT, far)
    place.write(name, data)
    assert open_tokens(ROOT, far, check="all").tokens == len(FLAT)
    place.delete("manifest.json")
    with pytest.raises(ConfigError, match="is not finished"):
        open_tokens(ROOT, far)
    with pytest.raises(ConfigError, match="holds no token store"):
        open_tokens("s3://crawls/nothing", far)


def test_another_store_at_the_same_place_is_not_read_from_the_cache_of_the_first(s3, far, tmp_path):
    cache = str(tmp_path / "cache")
    assert open_tokens(ROOT, far, cache=cache).read(0, 3).tolist() == FLAT[:3]
    other = [[9] * len(d) for d in DOCUMENTS]
    make_store(ROOT, other, per_shard=6, storage=far)
    store = open_tokens(ROOT, far, cache=cache)
    assert store.read(0, store.tokens).tolist() == [t for d in other for t in (1, *d, 2)]


def test_it_is_verified_where_it_lies(s3, far, capsys):
    line = ["verify", ROOT, "--set", f"storage.endpoint={s3.url}", "--set", f"storage.scratch={far.scratch}"]
    assert main(line) == 0
    assert f"{ROOT}: everything holds" in capsys.readouterr().out
    place = open_store(ROOT, far)
    place.delete("tokens/tokens-00001-of-00004.idx")
    assert main(line) == 1
    assert "tokens/tokens-00001-of-00004.idx: missing" in capsys.readouterr().out
