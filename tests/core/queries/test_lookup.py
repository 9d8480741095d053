"""Keys: every spelling of every key finds its row, by index and without; what names nothing is answered with the
nearest; nothing that a person can type breaks it.
"""

import json
import shutil
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cleanpipe import batch as col
from cleanpipe.observer import Observer
from cleanpipe.options import StorageOptions
from cleanpipe.queries import lookup
from cleanpipe.queries.lookup import Finder, UnknownKeyError
from cleanpipe.queries.shelf import open_shelf
from cleanpipe.run import run


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("lookup") / "run"
    run("sample", [], out, engine="serial")
    return out


def without_index(out):
    """The run as an older version left it."""
    shutil.rmtree(out / "index")
    manifest = json.loads((out / "manifest.json").read_text())
    manifest["files"] = {n: f for n, f in manifest["files"].items() if not n.startswith("index/")}
    (out / "manifest.json").write_text(json.dumps(manifest))
    return out


@pytest.fixture(scope="module")
def bare(made, tmp_path_factory):
    return without_index(Path(shutil.copytree(made, tmp_path_factory.mktemp("bare") / "run")))


@contextmanager
def finder(out, storage=None):
    with open_shelf(out, storage or StorageOptions()) as shelf:
        yield Finder(shelf)


def rows_of(out):
    """(part, row) → the ledger row, read by pyarrow alone."""
    parts = sorted((out / "ledger").iterdir())
    return {(p, i): r for p, path in enumerate(parts) for i, r in enumerate(pq.read_table(path).to_pylist())}


@pytest.mark.parametrize("indexed", [True, False])
def test_every_key_of_every_row_finds_the_rows_that_have_it(made, bare, indexed):
    rows = rows_of(made)
    places = {}
    for place, row in rows.items():
        record_id = row["record_id"]
        bare_id = (record_id or "").strip("<>")
        keys = {
            "url": [row["url"]],
            "doc_id": [row["doc_id"].hex(), row["doc_id"].hex().upper(), row["doc_id"].hex()[:12]],
        }
        if record_id:  # ARC has none
            keys["record_id"] = [record_id, bare_id, bare_id.removeprefix("urn:uuid:"), f" {record_id.upper()} "]
        keys["offset"] = [f"{row['source']}@{row['record_offset']}", f"{row['source']}@{row['record_offset']:,}+99"]
        for kind, some in keys.items():
            for key in some:
                if key is not None:
                    places.setdefault((kind, key), []).append(place)
    assert any(len(p) > 1 for p in places.values())  # captures of one URL
    chosen = list(places) if indexed else list(places)[::7]
    with finder(made if indexed else bare) as f:
        for kind, key in chosen:
            found = f.find(key)
            assert (found.kind, found.places) == (kind, places[kind, key]), key
            assert [r["doc_id"] for r in found.rows] == [rows[p]["doc_id"] for p in found.places]
            assert bool(found.scanned) is (not indexed and kind != "offset")


def test_a_url_may_lack_its_scheme_and_a_source_its_folders(crawl, tmp_path):
    run("web", [str(crawl)], tmp_path / "out", engine="serial", source_root=str(tmp_path))
    for out in (tmp_path / "out", without_index(Path(shutil.copytree(tmp_path / "out", tmp_path / "bare")))):
        with finder(out) as f:
            assert f.find("a.example.org/1").rows[0]["url"] == "http://a.example.org/1"
            row = f.find("http://a.example.org/1").rows[0]
            assert row["source"] == "crawl/one.warc.gz"
            for key in ("one.warc.gz", "crawl/one.warc.gz", f"{crawl}/one.warc.gz"):
                assert f.find(f"{key}@{row['record_offset']}").rows == [row]


def nearest(f, key):
    with pytest.raises(UnknownKeyError) as caught:
        f.find(key)
    assert caught.value.exit_code == 2
    assert len(caught.value.nearest) <= 5
    return caught.value.nearest


NEAR = [
    # typed; the first that is offered; why
    ("https://a.example.org/1", "http://a.example.org/1", "the same page"),
    ("http://www.a.example.org/1", "http://a.example.org/1", "the same page"),
    ("http://a.example.org:80/1", "http://a.example.org/1", "the same page"),
    ("http://A.Example.ORG/1/", "http://a.example.org/1", "the same page"),
    ("http://a.example.org/%31", "http://a.example.org/1", "the same page"),
    ("http://a.example.org/1#top", "http://a.example.org/1", "the same page"),
    ("a.example.org/1/", "http://a.example.org/1", "the same page"),
    ("http://a.example.org/gon", "http://a.example.org/gone", "of the same host"),
    ("http://a.example.org/pdff", "http://a.example.org/pdf", "of the same host"),
]


@pytest.mark.parametrize("indexed", [True, False])
def test_the_nearest_are_offered(crawl, tmp_path, indexed):
    out = tmp_path / "out"
    run("web", [str(crawl)], out, engine="serial")
    if not indexed:
        without_index(out)
    with finder(out) as f:
        for key, first, why in NEAR:
            near = nearest(f, key)[0]
            assert (near.key, near.url) == (first, first), key
            assert near.why.startswith(why)
            assert f.find(near.key).rows[0]["doc_id"].hex() == near.doc_id
        row = f.find("http://a.example.org/1").rows[0]
        offset, doc_id = row["record_offset"], row["doc_id"].hex()
        near = nearest(f, f"one.warc.gz@{offset + 1}")[0]
        assert (near.key, near.doc_id) == (f"one.warc.gz@{offset}", doc_id)
        assert near.why == "the record that this offset lies in"
        assert nearest(f, f"ome.warc.gz@{offset}")[0].key == f"one.warc.gz@{offset}"
        other = f"{doc_id[:7]}{'0' if doc_id[7] != '0' else '1'}"
        assert nearest(f, other)[0].key == doc_id
        assert nearest(f, doc_id[:31] + ("0" if doc_id[31] != "0" else "1"))[0].key == doc_id
        record = row["record_id"]
        assert nearest(f, record[:-3] + ("00>" if record[-3:] != "00>" else "11>"))[0].key == record
        assert nearest(f, "http://nowhere.example/") == []


def test_the_beginning_of_two_ids_is_not_enough(made):
    ids = sorted(r["doc_id"].hex() for r in rows_of(made).values())
    with pytest.MonkeyPatch.context() as patch, finder(made) as f:
        patch.setattr(lookup, "LEAST", 1)
        key = next(a[:2] for a, b in pairwise(ids) if a[:2] == b[:2])
        many = [i for i in ids if i.startswith(key)]
        assert {n.key for n in nearest(f, key)} <= set(many)
        with pytest.raises(UnknownKeyError, match=f"begins {len(many)} doc_ids"):
            f.find(key)


ODD = [
    "", " ", "\n", "\0", "a\0b", "\x1b[31m", "@", "@@", "@1", "x@1", "x@99999999999999999999999999", "x@-1", "<>",
    "<urn:uuid:>", "urn:uuid:", "://", "http://", "http://[", "http://[::1", "%", "%%%", "http://a/%zz", "/", ".", "..",
    "../../etc/pass", "*", "?", "' or 1=1 --", "\u202eabc", "é", "\ud800", "0", "000000", "f" * 33, "g" * 32, "1" * 31,
    "http://" + "a" * 1_000_000, "http://\u4e2d" + "a" * 100_000, "a" * 1_000_000, "@" * 100_000,
    "http://x/" + "%41" * 300_000, "1" * 1_000_000, "x@" + "1" * 1_000_000,
]  # fmt: skip


@pytest.mark.parametrize("indexed", [True, False])
def test_odd_keys_are_unknown_keys(made, bare, indexed):
    with finder(made if indexed else bare) as f:
        for key in ODD:
            with pytest.raises(UnknownKeyError) as caught:
                f.find(key)
            assert len(str(caught.value)) < 1000, key[:50]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(key=st.text(max_size=60) | st.from_regex(r"(http://)?[a-z.:@%/?#\[\]]{0,20}@?[0-9]{0,4}", fullmatch=True))
def test_no_text_breaks_a_look(made, key):
    with finder(made) as f:
        try:
            found = f.find(key)
        except UnknownKeyError as error:
            assert len(error.nearest) <= 5
        else:
            assert found.places


@pytest.mark.parametrize("indexed", [True, False])
def test_how_many_documents_a_kept_one_stands_for(made, bare, indexed):
    rows = rows_of(made).values()
    with finder(made if indexed else bare) as f:
        for row in [r for r in rows if r["fate"] == "kept"][:: 1 if indexed else 9]:
            assert f.stands_for(row["doc_id"]) == sum(r["kept_doc_id"] == row["doc_id"] for r in rows)


def test_ids_that_begin_alike_are_counted_apart(crawl, tmp_path):
    """Two documents whose ids share their first 4 bytes: the index alone cannot tell which one a duplicate names."""
    out = tmp_path / "out"
    run("web", [str(crawl)], out, engine="serial")
    parts = sorted((out / "ledger").iterdir())
    tables = [pq.read_table(p) for p in parts]
    twin = {}
    for row in (r for t in tables for r in t.to_pylist()):
        twin[row["doc_id"]] = bytes(4) + row["doc_id"][4:]
    from cleanpipe.queries.index import index_of

    for path, table in zip(parts, tables, strict=True):
        rows = [
            {**r, "doc_id": twin[r["doc_id"]], "kept_doc_id": twin.get(r["kept_doc_id"])} for r in table.to_pylist()
        ]
        changed = table.from_pylist(rows, table.schema)
        pq.write_table(changed, path)
        (out / "index" / f"{path.stem}.keys").write_bytes(index_of(changed))
    manifest = json.loads((out / "manifest.json").read_text())
    for name, facts in manifest["files"].items():
        facts["bytes"] = (out / name).stat().st_size
    (out / "manifest.json").write_text(json.dumps(manifest))
    all_rows = rows_of(out)
    assert sum(r["kept_doc_id"] is not None for r in all_rows.values()) > 1
    with finder(out) as f:
        for place, row in all_rows.items():
            assert f.find(row["doc_id"].hex()).places == [place]
            assert f.stands_for(row["doc_id"]) == sum(r["kept_doc_id"] == row["doc_id"] for r in all_rows.values())
        with pytest.raises(UnknownKeyError, match="give more of it"):
            f.find("00000000")


@pytest.mark.parametrize("damage", [b"", b"cpindex1", b"no index at all", None, "gone"])
def test_a_damaged_index_is_told_and_its_part_read(made, tmp_path, damage):
    out = Path(shutil.copytree(made, tmp_path / "run"))
    path = out / "index/part-00001.keys"
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1] if damage is None else damage)
    place, row = next((p, r) for p, r in rows_of(out).items() if p[0] == 1)
    with finder(out) as f:
        found = f.find(row["doc_id"].hex())
        assert (found.places, found.scanned) == ([place], 1)
        assert ("1 of 7 ledger parts have no index" if damage == "gone" else "part-00001.keys") in f.shelf.cautions[0]


def test_a_ledger_that_lacks_columns(made, tmp_path):
    """As versions before duplicates were dropped wrote it."""
    out = without_index(Path(shutil.copytree(made, tmp_path / "run")))
    for path in (out / "ledger").iterdir():
        table = pq.read_table(path)
        pq.write_table(table.drop_columns(["kept_doc_id", "jaccard", "record_id"]), path)
    manifest = json.loads((out / "manifest.json").read_text())
    for name, facts in manifest["files"].items():
        facts["bytes"] = (out / name).stat().st_size
    (out / "manifest.json").write_text(json.dumps(manifest))
    place, row = next(iter(rows_of(out).items()))
    with finder(out) as f:
        assert f.find(row["url"]).places[0] == place
        assert f.stands_for(row["doc_id"]) == 0
        nearest(f, "<urn:uuid:00000000-0000-0000-0000-000000000000>")
        nearest(f, "http://nowhere.example/")


class Stop(Observer):
    """Ends the driver after a unit."""

    def finished(self, label, documents, alive):
        raise KeyboardInterrupt


def test_an_unfinished_run_is_looked_up_in_what_it_has(crawl, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run("web", [str(crawl)], tmp_path / "out", engine="serial", observer=Stop())
    with finder(tmp_path / "out") as f:
        assert f.shelf.run.caution
        rows = [
            r
            for p in f.shelf.parts
            for r in f.shelf.columns(p, [col.URL, col.FATE, col.SOURCE, col.RECORD_OFFSET]).to_pylist()
        ]
        assert rows
        for row in rows:
            assert f.find(row["url"]).rows[0]["fate"] == row["fate"]
            assert f.find(f"{row['source']}@{row['record_offset']}").kind == "offset"
        assert any(r["fate"] is None for r in rows)
        assert nearest(f, rows[0]["url"] + "x")


def test_of_an_object_store_one_part_is_fetched(made, s3, tmp_path):
    for path in made.rglob("*"):
        if path.is_file():
            s3.client.put_object(Bucket="crawls", Key=f"one/{path.relative_to(made)}", Body=path.read_bytes())
    storage = StorageOptions(endpoint=s3.url, scratch=str(tmp_path / "scratch"))
    row = rows_of(made)[3, 0]
    s3.forget()
    with finder("s3://crawls/one", storage) as f:
        found = f.find(row["url"])
        assert found.rows[0]["doc_id"] == row["doc_id"]
        assert f.shelf.rows(found.places[:1]) == [row]
        assert f.stands_for(row["doc_id"]) == 0
    fetched = {r.path.partition("?")[0].rpartition("one/")[2] for r in s3.log("GET")}
    assert [n for n in sorted(fetched) if n.startswith("ledger/")] == ["ledger/part-00003.parquet"]
    assert sum(n.startswith("index/") for n in fetched) == len(list((made / "index").iterdir()))
    assert not any(n.startswith("data/") for n in fetched)
    assert not [p for p in (tmp_path / "scratch").rglob("*") if p.is_file() and p.name != "in-use"]
