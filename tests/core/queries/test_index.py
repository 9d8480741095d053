"""The index beside the ledger: its bytes, its keys, its proof; a look in it finds what reading the column finds."""

import hashlib
import json
import shutil
import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleanpipe import batch as col
from cleanpipe.io.hashing import sha256_of
from cleanpipe.io.store import spelled
from cleanpipe.queries import index as indexes
from cleanpipe.queries.index import Index, bare_id, bare_url, id_key, index_of, prefix_range, url_key, url_ranges
from cleanpipe.recipe import fingerprint
from cleanpipe.run import run
from cleanpipe.verify import verify

SCHEMA = pa.schema(
    [(col.DOC_ID, col.ID), (col.RECORD_ID, pa.string()), (col.URL, pa.string()), (col.KEPT_DOC_ID, col.ID)]
)


def table(rows):
    return pa.table([pa.array([r[i] for r in rows], f.type) for i, f in enumerate(SCHEMA)], SCHEMA)


def test_the_bytes_are_those_of_the_description():
    low, high = bytes([0, 0, 0, 1]) + bytes(12), bytes([255, 0, 0, 2]) + bytes(12)
    uuid = "<urn:uuid:0000000A-1111-2222-3333-444444444444>"
    data = index_of(table([(high, uuid, None, low), (low, None, "http://a.b/c/d?e", None)]))
    assert data[:8] == b"cpindex1"
    rows, width, *counts = struct.unpack_from("<6I", data, 8)
    assert (rows, width, counts) == (2, 2, [2, 1, 1, 1])
    assert struct.unpack_from("<2I", data, 32) == (1, 0xFF000002)  # ascending
    assert struct.unpack_from("<2H", data, 40) == (1, 0)  # the rows they are of
    assert struct.unpack_from("<I", data, 48) == (10,)  # the UUID's first digits
    assert struct.unpack_from("<H", data, 56) == (0,)
    parts = [("a.b", 4), ("c", 2), ("c/d?e", 2)]
    key = b"".join(hashlib.blake2b(t.encode(), digest_size=n).digest() for t, n in parts)
    assert struct.unpack_from("<Q", data, 64) == (int.from_bytes(key, "big"),)
    assert struct.unpack_from("<H", data, 72) == (1,)
    assert struct.unpack_from("<I", data, 80) == (1,)
    assert struct.unpack_from("<H", data, 88) == (0,)
    assert len(data) == 90


def test_a_part_without_a_row_and_one_of_more_rows_than_16_bits_count():
    assert Index.of(index_of(table([]))).rows == 0
    n = (1 << 16) + 1
    big = index_of(table([(i.to_bytes(16, "big"), None, None, None) for i in range(n)]))
    assert struct.unpack_from("<I", big, 12) == (4,)
    assert Index.of(big).between(col.DOC_ID, 0, 0) == list(range(n))


def test_bytes_that_are_no_index_are_refused_at_any_length():
    data = index_of(table([(bytes(16), "x", "http://a/", None), (bytes(16), None, None, bytes(16))]))
    for short in range(len(data)):
        with pytest.raises(ValueError, match=r"."):
            Index.of(data[:short])
    for wrong in (b"X" + data[1:], data + b"\0", data[:12] + b"\3" + data[13:]):
        with pytest.raises(ValueError, match=r"."):
            Index.of(wrong)


SAME_PAGE = [
    "http://example.com/a/b",
    "https://example.com/a/b",
    "HTTP://EXAMPLE.com/a/b",
    "http://www.example.com/a/b",
    "http://example.com:80/a/b",
    "https://example.com:443/a/b",
    "http://example.com/a/b/",
    "http://example.com/a/b#part",
    "http://example.com/a/b?",
    "http://example.com/%61/b",
    "http://example.com/A/B",
    "http://user:word@example.com/a/b",
    "http://example.com./a/b",
    "example.com/a/b",
]
OTHER_PAGES = [
    "http://example.com/a/c",
    "http://example.com:81/a/b",
    "http://en.example.com/a/b",
    "http://example.org/a/b",
    "http://example.com/a/b?q=1",
    "http://example.com/",
    "ftp://example.com/a/b",
]


@pytest.mark.parametrize("url", SAME_PAGE)
def test_spellings_of_a_page_are_one(url):
    assert bare_url(url) == ("example.com", "a/b")


@pytest.mark.parametrize("url", OTHER_PAGES)
def test_other_pages_are_not(url):
    assert bare_url(url) != ("example.com", "a/b")


def test_a_host_in_other_letters_is_its_punycode():
    assert bare_url("http://münchen.de/x") == bare_url("http://xn--mnchen-3ya.de/x")


@pytest.mark.parametrize("given", ["<urn:uuid:ABC>", "urn:uuid:abc", "abc", " <abc> ", "URN:UUID:abc"])
def test_a_record_id_is_the_same_without_what_people_leave_out(given):
    assert bare_id(given) == "abc"


@given(st.text(max_size=300))
def test_no_text_is_too_odd_for_a_key(text):
    host, path = bare_url(text)
    assert 0 <= url_key(host, path) < 1 << 64
    assert 0 <= id_key(text) < 1 << 32
    assert list(url_ranges(host, path))[2] == (url_key(host, path) >> 32 << 32, url_key(host, path) | 0xFFFFFFFF)


@pytest.mark.parametrize(
    ("prefix", "low", "high"),
    [("00000a", 0xA00, 0xAFF), ("ffffffff", 0xFFFFFFFF, 0xFFFFFFFF), ("123456789a", 0x12345678, 0x12345678)],
)
def test_a_beginning_is_a_range(prefix, low, high):
    assert prefix_range(prefix) == (low, high)


IDS = st.binary(min_size=16, max_size=16) | st.sampled_from([bytes(16), b"\xff" * 16, b"\0\0\0\1" + bytes(12)])
URLS = st.none() | st.sampled_from(["http://a.b/", "https://a.b", "http://a.b/c", "x", ""]) | st.text(max_size=30)
ROWS = st.lists(st.tuples(IDS, st.none() | st.text(max_size=20), URLS, st.none() | IDS), max_size=40)


@pytest.mark.parametrize("collide", [False, True])
@given(rows=ROWS)
def test_a_look_finds_what_reading_the_column_finds(collide, rows):
    """For every value, as often as it stands there; where all hashes collide too, the rows do not get lost."""
    with pytest.MonkeyPatch.context() as patch:
        if collide:
            patch.setattr(indexes, "_hashed", lambda text, size: 7)
            patch.setattr(indexes, "_held", lambda text, size: 7)
        data = index_of(table(rows))
        assert data == index_of(table(rows))
        index = Index.of(data)
        for name, at, key in (
            (col.RECORD_ID, 1, id_key),
            (col.URL, 2, lambda u: url_key(*bare_url(u))),
            (col.DOC_ID, 0, lambda i: int.from_bytes(i[:4], "big")),
            (col.KEPT_DOC_ID, 3, lambda i: int.from_bytes(i[:4], "big")),
        ):
            for value in {r[at] for r in rows if r[at] is not None}:
                found = index.between(name, key(value), key(value))
                assert [i for i in found if rows[i][at] == value] == [i for i, r in enumerate(rows) if r[at] == value]
                assert found == [i for i, r in enumerate(rows) if r[at] is not None and key(r[at]) == key(value)]


# --- in a run


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("indexed") / "run"
    run("sample", [], out, engine="serial")
    return out


@pytest.fixture
def out(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / "run"))


def reseal(out, change):
    """A manifest in line with what a test did: digests alone find nothing then."""
    manifest = json.loads((out / "manifest.json").read_text())
    change(manifest["files"])
    for name in manifest["files"]:
        if name.startswith("index/"):
            manifest["files"][name] = {"bytes": (out / name).stat().st_size, "sha256": sha256_of(out / name)}
    rest = {k: v for k, v in manifest.items() if k != "digest"}
    (out / "manifest.json").write_bytes(spelled({**rest, "digest": fingerprint(rest)}))


def test_a_run_writes_the_index_of_every_part(made, tmp_path):
    for part in sorted((made / "ledger").iterdir()):
        data = (made / "index" / f"{part.stem}.keys").read_bytes()
        assert data == index_of(pq.read_table(part))
    named = json.loads((made / "manifest.json").read_text())["files"]
    assert {n for n in named if n.startswith("index/")} == {f"index/{p.name}" for p in (made / "index").iterdir()}
    run("sample", [], tmp_path / "again", engine="local", workers=2)
    assert {p.name: p.read_bytes() for p in (tmp_path / "again/index").iterdir()} == {
        p.name: p.read_bytes() for p in (made / "index").iterdir()
    }


def test_verify_proves_it(out):
    assert verify(out).findings == []
    victim, other = "index/part-00001.keys", out / "index/part-00000.keys"
    whole = (out / victim).read_bytes()
    (out / victim).write_bytes(other.read_bytes())
    reseal(out, lambda files: None)
    assert verify(out).findings == [f"{victim}: is not the index of ledger/part-00001.parquet"]
    (out / victim).write_bytes(whole)
    reseal(out, lambda files: None)
    assert verify(out).findings == []


def test_verify_misses_one_that_is_left_out_and_refuses_one_too_many(out):
    shutil.copy(out / "index/part-00000.keys", out / "index/part-00099.keys")
    (out / "index/part-00002.keys").unlink()

    def change(files):
        del files["index/part-00002.keys"]
        files["index/part-00099.keys"] = {}

    reseal(out, change)
    assert sorted(verify(out).findings) == [
        "index/part-00099.keys: is the index of no ledger part",
        "ledger/part-00002.parquet: has no index: index/part-00002.keys is not in the manifest",
    ]


def test_a_run_of_an_older_version_without_indexes_holds(out):
    shutil.rmtree(out / "index")
    reseal(out, lambda files: [files.pop(n) for n in list(files) if n.startswith("index/")])
    assert verify(out).findings == []
