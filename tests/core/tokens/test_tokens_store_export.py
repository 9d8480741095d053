"""MDS and LitData, read here by their layouts; their own readers read them in tests/readers."""

import hashlib
import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from made_tokens import doc_id, make_store, url_of

from cleanpipe.errors import ConfigError, DamagedFileError
from cleanpipe.io.store import open_store
from cleanpipe.options import StorageOptions
from cleanpipe.tokens.decisions import Decision, append
from cleanpipe.tokens.store import open_tokens
from cleanpipe.tokens.store.export import export
from cleanpipe.tokens.store.verify_export import is_export, verify_export

LENGTHS = [3, 0, 255, 254, 253, 70_000, 1, 65_533, 65_534, 12, 40, 8]
DOCUMENTS = [[3 + (i * 31 + j) % 900 for j in range(n)] for i, n in enumerate(LENGTHS)]
WHOLE = [[1, *d, 2] for d in DOCUMENTS]


@pytest.fixture
def store(tmp_path):
    urls = [None if i == 2 else f"https://ü.example/{i}" if i == 3 else url_of(i) for i in range(len(DOCUMENTS))]
    return open_tokens(make_store(tmp_path / "t", DOCUMENTS, per_shard=5, urls=urls))


def mds(folder):
    """Every sample of a folder in the format's layout: (doc_id, ids, URL)."""
    out = []
    for shard in json.loads((folder / "index.json").read_bytes())["shards"]:
        data = (folder / shard["raw_data"]["basename"]).read_bytes()
        assert len(data) == shard["raw_data"]["bytes"]
        assert hashlib.sha256(data).hexdigest() == shard["raw_data"]["hashes"]["sha256"]
        count = int(np.frombuffer(data, "<u4", 1)[0])
        assert count == shard["samples"]
        places = np.frombuffer(data, "<u4", count + 1, 4).tolist()
        config = json.loads(data[4 + 4 * (count + 1) : places[0]])
        assert {k: shard[k] for k in config} == config
        assert places[-1] == len(data)
        for start, stop in pairwise(places):
            at, parts = start + 12, []
            for size in np.frombuffer(data, "<u4", 3, start).tolist():
                parts.append(data[at : at + size])
                at += size
            assert at == stop
            kind, width = parts[1][0] >> 2, 1 << (parts[1][0] & 3)
            length = int.from_bytes(parts[1][1 : 1 + width], "little")
            ids = np.frombuffer(parts[1][1 + width :], config["column_encodings"][1].partition(":")[2])
            assert (kind, length) == (1, len(ids))
            out.append((parts[0].decode(), ids.tolist(), parts[2].decode()))
    return out


def lit(folder):
    """Ids of each chunk."""
    index = json.loads((folder / "index.json").read_bytes())
    dtype = {"no_header_tensor:20": "<u2", "no_header_tensor:16": "<i4"}[index["config"]["data_format"][0]]
    out = []
    for chunk in index["chunks"]:
        data = (folder / chunk["filename"]).read_bytes()
        assert np.frombuffer(data, "<u4", 3).tolist() == [1, 12, len(data)]
        assert chunk["chunk_bytes"] == len(data)
        out.append(np.frombuffer(data, dtype, offset=12).tolist())
        assert chunk["dim"] == len(out[-1])
    return out


@pytest.mark.parametrize("file_bytes", [1, 2_000, 200_000, 1 << 26])
def test_mds_holds_whole_documents_with_id_and_url(tmp_path, store, file_bytes):
    done = export(store, str(tmp_path / "out"), "mds", file_bytes=file_bytes)
    samples = mds(tmp_path / "out")
    assert [ids for _, ids, _ in samples] == WHOLE
    assert [i for i, _, _ in samples] == [doc_id(n).hex() for n in range(12)]
    assert [u for _, _, u in samples][:4] == [url_of(0), url_of(1), "", "https://ü.example/3"]
    sizes = [p.stat().st_size for p in sorted((tmp_path / "out").glob("*.mds"))]
    assert len(sizes) == {1: 12, 2_000: 8, 200_000: 5, 1 << 26: 3}[file_bytes]
    assert (done.documents, done.tokens, done.left_out, done.already) == (12, sum(map(len, WHOLE)), 0, False)
    assert done.bytes == sum(sizes) + (tmp_path / "out/index.json").stat().st_size


@pytest.mark.parametrize("length", [1, 7, 100, 4096, 200_000, 10_000_000])
@pytest.mark.parametrize("file_bytes", [1, 50_000, 1 << 26])
def test_litdata_holds_one_stream_in_whole_blocks(tmp_path, store, length, file_bytes):
    if length < 1000 and file_bytes == 1:
        file_bytes = 20_000  # else as many files as blocks
    done = export(store, str(tmp_path / "out"), "litdata", length=length, file_bytes=file_bytes)
    chunks = lit(tmp_path / "out")
    flat = [t for d in WHOLE for t in d]
    assert [t for c in chunks for t in c] == flat
    assert all(len(c) % length == 0 for c in chunks[:-1])
    assert all(len(c) <= max(length, (file_bytes - 12) // 2) for c in chunks)
    assert done.unread == len(flat) % length


@pytest.mark.parametrize("form", ["mds", "litdata"])
def test_ids_of_32_bits(tmp_path, form):
    documents = [[69_999, 3, 65_536], [], [70_000 - 2] * 300]
    root = make_store(tmp_path / "t", documents, vocabulary=70_000)
    export(open_tokens(root), str(tmp_path / "out"), form, length=4 if form == "litdata" else 0)
    whole = [[1, *d, 2] for d in documents]
    if form == "mds":
        assert [ids for _, ids, _ in mds(tmp_path / "out")] == whole
    else:
        assert lit(tmp_path / "out") == [[t for d in whole for t in d]]


def test_what_was_decided_is_left_out(tmp_path, store):
    lines = [
        Decision("quarantine", "doc_id", doc_id(0).hex()),
        Decision("mask", "url", url_of(5)),
        Decision("quarantine", "url", url_of(6), from_sequence=900),
        Decision("weight", "url", url_of(7), weight=0.0),
        Decision("mask", "url", url_of(8)),
        Decision("revoke", "line", "5"),
        Decision("quarantine", "url", url_of(11)),
    ]
    append(store.root, lines)
    stay = [1, 2, 3, 4, 7, 8, 9, 10]
    done = export(store, str(tmp_path / "mds"), "mds")
    assert [ids for _, ids, _ in mds(tmp_path / "mds")] == [WHOLE[i] for i in stay]
    assert [i for i, _, _ in mds(tmp_path / "mds")] == [doc_id(i).hex() for i in stay]
    assert (done.left_out, done.documents, done.tokens) == (4, 8, sum(len(WHOLE[i]) for i in stay))
    export(store, str(tmp_path / "lit"), "litdata", length=50, file_bytes=30_000)
    assert [t for c in lit(tmp_path / "lit") for t in c] == [t for i in stay for t in WHOLE[i]]


@pytest.mark.parametrize(("form", "length"), [("mds", 0), ("litdata", 100)])
def test_weights_that_a_form_cannot_hold_are_told(tmp_path, store, form, length):
    said = [(3, 0.5), (4, 0.0), (5, 1.0), (8, 0.25)]
    append(store.root, [Decision("weight", "doc_id", doc_id(i).hex(), weight=w) for i, w in said])
    append(store.root, [Decision("mask", "doc_id", doc_id(8).hex())])  # left out: its weight is no loss
    done = export(store, str(tmp_path / form), form, length=length)
    assert (done.weighted, done.weighted_tokens, done.left_out) == (2, len(WHOLE[3]) + len(WHOLE[4]), 1)
    assert done.documents == len(DOCUMENTS) - 1
    again = export(store, str(tmp_path / form), form, length=length)
    assert (again.already, again.weighted, again.weighted_tokens) == (True, 2, done.weighted_tokens)


FAULTS = {
    "a bit": (lambda f: _flip(f), "shard.00001.mds: SHA-256 differs"),
    "cut short": (lambda f: f.write_bytes(f.read_bytes()[:-1]), "shard.00001.mds: "),
    "gone": (lambda f: f.unlink(), "shard.00001.mds: missing"),
    "one more": (lambda f: (f.parent / "note.txt").write_text("x"), "note.txt: is in the folder"),
    "the index": (lambda f: (f.parent / "index.json").write_text("{}"), "index.json: 2 bytes"),
    "the manifest": (
        lambda f: _replace(f.parent / "manifest.json", b'"bytes"', b'"bytez"'),
        "manifest.json: is no manifest",
    ),
    "its digest": (lambda f: _replace(f.parent / "manifest.json", b'"form": "mds"', b'"form": "mdx"'), "own digest"),
}


def _flip(path):
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def _replace(path, old, new):
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new))


@pytest.mark.parametrize(("damage", "words"), FAULTS.values(), ids=FAULTS)
def test_an_export_is_verified(tmp_path, store, damage, words):
    out = tmp_path / "mds"
    done = export(store, str(out), "mds", file_bytes=100_000)
    assert is_export(out) and not is_export(Path(store.root))
    report = verify_export(out)
    assert report.findings == []
    assert report.checked == {"files": done.files, "bytes": done.bytes}
    damage(out / "shard.00001.mds")
    findings = verify_export(out).findings
    assert len(findings) == 1 and words in findings[0]


def test_an_unfinished_export_is_said_to_be_one(tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "export.json").write_text("{}")
    assert is_export(tmp_path)
    assert "not finished" in verify_export(tmp_path).findings[0]


def test_a_store_of_nothing(tmp_path):
    for name, documents in (("none", []), ("gone", [[5, 6]])):
        root = make_store(tmp_path / name, documents)
        append(root, [Decision("quarantine", "url", url_of(0))])
        for form, length in (("mds", 0), ("litdata", 8)):
            done = export(open_tokens(root), str(tmp_path / f"{name}-{form}"), form, length=length)
            assert (done.documents, done.tokens) == (0, 0)
        assert mds(tmp_path / f"{name}-mds") == []
        assert lit(tmp_path / f"{name}-litdata") == []


class Stop(Exception):
    pass


def _files(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in Path(folder).rglob("*") if p.is_file()}


@pytest.mark.parametrize(("form", "length"), [("mds", 0), ("litdata", 64)])
def test_an_export_that_was_stopped_goes_on_and_ends_the_same(tmp_path, store, form, length):
    whole = str(tmp_path / "whole")
    export(store, whole, form, length=length, file_bytes=20_000)
    out = tmp_path / "out"
    for stop_at in (1, 3, 4):
        seen = []

        def stop(name, _, seen=seen, stop_at=stop_at):
            seen.append(name)
            if len(seen) == stop_at:
                raise Stop

        with pytest.raises(Stop):
            export(store, str(out), form, length=length, file_bytes=20_000, tell=stop)
        assert not (out / "manifest.json").exists()
        assert not (out / "index.json").exists()
    written = {p.name: p.stat().st_ino for p in out.iterdir() if p.is_file()}
    assert len(written) == 4
    (out / ".tmp-export-torn").write_bytes(b"x")
    done = export(store, str(out), form, length=length, file_bytes=20_000)
    assert not done.already
    assert _files(out) == _files(whole)
    assert {n: (out / n).stat().st_ino for n in written} == written
    assert export(store, str(out), form, length=length, file_bytes=20_000).already


def test_what_cannot_be_exported_is_told(tmp_path, store):
    out = tmp_path / "out"
    for form, length, said in (
        ("parquet", 0, "mds or litdata"),
        ("litdata", 0, "needs --length"),
        ("litdata", -4, "needs --length"),
        ("litdata", 1 << 31, "smaller than 4 GiB"),
        ("mds", 16, "means nothing"),
    ):
        with pytest.raises(ConfigError, match=said):
            export(store, str(out), form, length=length)
    assert not out.exists()
    for inside in ("", "/", "/x", "/tokens"):
        with pytest.raises(ConfigError, match=r"in the token store itself|holds another export"):
            export(store, store.root + inside, "mds")
    out.mkdir()
    (out / "file").write_text("mine")
    with pytest.raises(ConfigError, match="is not empty"):
        export(store, str(out), "mds")
    with pytest.raises(ConfigError, match="is a file"):
        export(store, str(out / "file"), "mds")
    assert _files(out) == {"file": b"mine"}
    (out / "file").unlink()
    export(store, str(out), "mds")
    for form, length in (("litdata", 8), ("mds", 0)):
        with pytest.raises(ConfigError, match="holds another export"):
            export(store, str(out), form, length=length, file_bytes=77)
    append(store.root, [Decision("mask", "url", url_of(1))])
    with pytest.raises(ConfigError, match="holds another export"):
        export(store, str(out), "mds")


def test_an_unfinished_export_of_others_is_refused(tmp_path, store):
    def stop(*_):
        raise Stop

    with pytest.raises(Stop):
        export(store, str(tmp_path / "out"), "mds", tell=stop)
    with pytest.raises(ConfigError, match="unfinished export of other tokens"):
        export(store, str(tmp_path / "out"), "litdata", length=5)


def test_damaged_tokens_are_not_exported(tmp_path, store):
    path = Path(store.root) / "tokens/tokens-00001-of-00003.bin"
    data = bytearray(path.read_bytes())
    data[5] ^= 64
    path.write_bytes(data)
    for form, length in (("mds", 0), ("litdata", 8)):
        with pytest.raises(DamagedFileError, match=doc_id(5).hex()):
            export(open_tokens(store.root), str(tmp_path / form), form, length=length)
        assert not (tmp_path / form / "index.json").exists()


def test_to_an_object_store(tmp_path, s3, store):
    options = StorageOptions(endpoint=s3.url, attempts=3, timeout=2, scratch=str(tmp_path / "scratch"))
    export(store, str(tmp_path / "here"), "mds", file_bytes=50_000)
    done = export(store, "s3://crawls/out", "mds", file_bytes=50_000, storage=options)
    far = open_store(done.out, options)
    names = [n for n, _ in far.names()]
    assert {n: far.read(n) for n in names} == _files(tmp_path / "here")
    assert export(store, "s3://crawls/out", "mds", file_bytes=50_000, storage=options).already
