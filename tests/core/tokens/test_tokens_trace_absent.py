"""Documents that a store does not have: what its own ledger says of them."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_tokens import HERE, content_id, doc_id, make_store, url_of

from cleanpipe import batch as col
from cleanpipe.errors import DamagedFileError
from cleanpipe.io.store import open_store
from cleanpipe.options import StorageOptions
from cleanpipe.recipe import fingerprint
from cleanpipe.tokens import open_tokens
from cleanpipe.tokens.decisions import Decision
from cleanpipe.tokens.making import ledger
from cleanpipe.tokens.tracing.absent import Absent, ids_left_out, left_out

# number of the document, which part, fate, reason, detail
GONE = [
    (100, 0, "quarantined", "decision", "line 2: host host2.example"),
    (101, 0, "dropped", "empty", None),
    (102, 1, "quarantined", "resource_limit", "too much memory"),
    (103, 1, "quarantined", "broken_windows", "window 1 is missing"),
    (107, 1, "quarantined", "decision", "line 2: host host2.example"),
]


@pytest.fixture
def made(tmp_path):
    """Two shards of five documents, and five more that did not come into the store."""
    root = make_store(tmp_path / "made", [[n] * 5 for n in range(10, 20)], per_shard=5)
    files = open_store(root, HERE)
    manifest = json.loads((Path(root) / "manifest.json").read_text())
    for part in (0, 1):
        name = ledger.part_name(part)
        before = pq.read_table(Path(root) / name)
        rows = [
            {
                col.DOC_ID: doc_id(n), col.URL: url_of(n), col.CONTENT_ID: content_id([n]), col.FATE: fate,
                col.STAGE: "tokenize", col.REASON: reason, ledger.DETAIL: detail,
            }
            for n, where, fate, reason, detail in GONE
            if where == part
        ]  # fmt: skip
        (Path(root) / name).unlink()
        table = pa.concat_tables([before, pa.Table.from_pylist(rows, schema=ledger.SCHEMA)])
        facts = ledger.write_part(files, name, table, "again")
        manifest["files"][name] = {k: facts[k] for k in ("bytes", "sha256")}
    del manifest["digest"]
    (Path(root) / "manifest.json").write_text(json.dumps({**manifest, "digest": fingerprint(manifest)}))
    return root


def numbers(found):
    """The numbers of documents, and which keys named them."""
    known = {doc_id(n).hex(): n for n in range(200)}
    return {known[one.doc_id]: one.keys for one in found}


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        ([("doc_id", doc_id(101).hex())], {101: (0,)}),
        ([("url", url_of(102))], {102: (0,)}),
        ([("url", url_of(102).removeprefix("https://"))], {102: (0,)}),
        ([("url", url_of(102).replace("https", "http"))], {}),  # another URL
        ([("content_id", content_id([103]).hex())], {103: (0,)}),
        ([("host", "host2.example")], {100: (0,), 107: (0,)}),  # and not 2 and 9, which are in the store
        ([("host", "example")], {100: (0,), 101: (0,), 102: (0,), 103: (0,), 107: (0,)}),
        ([("url", url_of(3)), ("doc_id", doc_id(7).hex())], {}),  # kept
        ([("url", url_of(100)), ("doc_id", doc_id(55).hex()), ("host", "host2.example")], {100: (0, 2), 107: (2,)}),
        ([], {}),
    ],
)
def test_what_the_build_left_out(made, keys, wanted):
    store = open_tokens(made)
    assert numbers(left_out(store, [Decision("mask", kind, key).checked() for kind, key in keys])) == wanted


def test_why(made):
    found = left_out(open_tokens(made), [Decision("mask", "host", "example").checked()])
    assert [(one.fate, one.reason, one.detail, one.decided) for one in found] == [
        (fate, reason, detail, reason == "decision") for _, _, fate, reason, detail in GONE
    ]
    assert found[1] == Absent((0,), doc_id(101).hex(), url_of(101), "tokenize", "dropped", "tokenize", "empty")


def test_beginnings_of_ids(made):
    store = open_tokens(made)
    whole = doc_id(102).hex()
    assert ids_left_out(store, "doc_id", whole[:7].upper()) == [whole]
    assert ids_left_out(store, "content_id", content_id([107]).hex()[:6]) == [content_id([107]).hex()]
    assert ids_left_out(store, "doc_id", doc_id(3).hex()[:8]) == []
    assert len(ids_left_out(store, "doc_id", "")) == len(GONE)


@pytest.mark.parametrize("how", ["changed", "gone"])
def test_a_damaged_ledger_proves_nothing(made, how):
    store, file = open_tokens(made), Path(made) / ledger.part_name(1)
    data = bytearray(file.read_bytes())
    file.unlink()
    if how == "changed":
        data[40] ^= 1
        file.write_bytes(bytes(data))
    with pytest.raises(DamagedFileError, match=r"ledger/part-00001\.parquet"):
        left_out(store, [Decision("mask", "host", "example").checked()])


def test_a_store_of_an_object_store(s3):
    """The ledger is fetched there; a made store leaves nothing out, and a page it never knew is not in it."""
    options = StorageOptions(endpoint=s3.url)
    root = make_store("s3://crawls/tokens", [[n] * 5 for n in range(10, 20)], per_shard=5, storage=options)
    store = open_tokens(root, options)
    assert left_out(store, [Decision("mask", "host", "example").checked()]) == []
    s3.client.delete_object(Bucket="crawls", Key="tokens/" + ledger.part_name(0))
    with pytest.raises(DamagedFileError, match="is gone"):
        left_out(store, [Decision("mask", "host", "example").checked()])
