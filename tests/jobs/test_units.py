"""Inputs read in parts: the same documents, the same bytes however it ran, and a deceived part set right."""

import gzip
import json
import random
import zlib
from dataclasses import replace
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from cleanpipe.errors import StopError
from cleanpipe.opening import ledger, shards
from cleanpipe.run import run
from cleanpipe.verify import verify

SMALL = ["read.unit_bytes=4096"]
COLUMNS = ["text", "doc_id", "window", "record_offset"]


def published(out):
    out = Path(out)
    folders = ("data", "ledger", "index", "quarantine", "audit")
    keep = [p for folder in folders for p in sorted((out / folder).iterdir()) if p.name != "audit.html"]  # has costs
    return {str(p.relative_to(out)): p.read_bytes() for p in [*keep, out / "config_hash.txt"]}


def rows(out):
    """Every ledger row but its shard, in file order."""
    found = ledger(out).to_table().to_pylist()
    for row in found:
        del row["shard"]
    return sorted(found, key=lambda r: (r["source"], r["record_offset"]))


@pytest.fixture
def archive(make, tmp_path):
    """Forty pages in some twenty parts of 4 KiB, some longer than a part, one of them damaged."""
    records = [make.warcinfo()]
    for i in range(40):
        length = 400 if i % 11 == 5 else 12
        noise = random.Random(i).randbytes(3000 if i % 7 == 3 else 0).hex()
        records.append(
            make.response(f"http://a.example.org/{i}", make.page([*make.prose(i, length), f"<!--{noise}-->"]))
        )
    path = make.write_gz(tmp_path / "many.warc.gz", records)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x55
    path.write_bytes(data)
    return path


def test_parts_give_what_the_whole_gives(archive, tmp_path):
    whole = run("web", [str(archive)], tmp_path / "whole", engine="serial")
    parts = run("web", [str(archive)], tmp_path / "parts", engine="serial", sets=SMALL)
    assert parts.facts["units"]["total"] > 8
    assert rows(parts.out) == rows(whole.out)
    assert shards(parts.out).to_table(columns=COLUMNS) == shards(whole.out).to_table(columns=COLUMNS)
    for section in ("input", "funnel", "conservation"):
        assert parts.audit[section] == whole.audit[section] or section == "input"
    a, b = parts.audit["input"], whole.audit["input"]
    for name in ("files", "file_bytes", "block_bytes", "records", "documents", "quarantined", "damaged"):
        assert a[name] == b[name], name
    assert parts.facts["inputs"][0]["size"] == archive.stat().st_size
    assert verify(parts.out).findings == []


def test_engines_and_workers_give_the_same_bytes_of_parts(archive, tmp_path):
    one = run("web", [str(archive)], tmp_path / "one", engine="serial", sets=SMALL)
    two = run("web", [str(archive)], tmp_path / "two", engine="local", workers=2, sets=SMALL)
    assert published(one.out) == published(two.out)


def stored_member(data):
    """A gzip member whose deflate blocks are stored: what lies in it lies in the file, byte for byte."""
    packer = zlib.compressobj(0, zlib.DEFLATED, 31)
    return packer.compress(data) + packer.flush()


def test_an_archive_within_an_archive_deceives_nobody(make, tmp_path):
    """A part that begins within a stored .warc.gz finds members there; they are no records of the outer archive."""
    inner = b"".join(
        gzip.compress(make.response(f"http://inner.example.org/{i}", make.page(make.prose(i))), 6, mtime=0)
        for i in range(60)
    )
    download = make.response("http://a.example.org/dump.warc.gz", inner, content_type="application/gzip")
    members = [gzip.compress(make.response("http://a.example.org/0", make.page(make.prose(100))), mtime=0)]
    members += [stored_member(download)]
    members += [gzip.compress(make.response("http://a.example.org/1", make.page(make.prose(101))), mtime=0)]
    path = tmp_path / "nested.warc.gz"
    path.write_bytes(b"".join(members))
    assert len(inner) > 5 * 4096
    done = run("web", [str(path)], tmp_path / "out", engine="serial", sets=SMALL)
    urls = [r["url"] for r in rows(done.out)]
    assert urls == ["http://a.example.org/0", "http://a.example.org/dump.warc.gz", "http://a.example.org/1"]
    whole = run("web", [str(path)], tmp_path / "whole", engine="serial")
    assert rows(done.out) == rows(whole.out)


def test_members_of_several_records_count_inflated_bytes_from_the_file_s_start(make, tmp_path):
    records = [make.response(f"http://a.example.org/{i}", make.page(make.prose(i, 30))) for i in range(60)]
    path = tmp_path / "pairs.warc.gz"
    path.write_bytes(b"".join(gzip.compress(b"".join(records[i : i + 3]), mtime=0) for i in range(0, 60, 3)))
    parts = run("web", [str(path)], tmp_path / "parts", engine="local", workers=2, sets=SMALL)
    whole = run("web", [str(path)], tmp_path / "whole", engine="serial")
    assert parts.facts["units"]["total"] > 3
    assert rows(parts.out) == rows(whole.out)
    assert {r["record_offset"] for r in rows(parts.out)} == {sum(map(len, records[:i])) for i in range(60)}


@pytest.mark.parametrize("kind", ["one member", "plain", "zstd", "text", "empty"])
def test_files_that_cannot_be_cut_are_read_whole_by_the_first_part(kind, make, tmp_path):
    import zstandard

    records = [make.response(f"http://a.example.org/{i}", make.page(make.prose(i, 60))) for i in range(30)]
    noise = [make.response(f"http://n.example.org/{i}", random.Random(i).randbytes(900).hex()) for i in range(30)]
    data = b"".join(records + noise)
    content = {
        "one member": gzip.compress(data, mtime=0),
        "plain": data,
        "zstd": b"".join(zstandard.compress(r) for r in records + noise),
        "text": random.Random(1).randbytes(9000).hex().encode(),
        "empty": b"",
    }[kind]
    path = tmp_path / "odd.warc.gz"
    path.write_bytes(content)
    parts = run("web", [str(path)], tmp_path / "parts", engine="serial", sets=SMALL)
    whole = run("web", [str(path)], tmp_path / "whole", engine="serial")
    assert parts.facts["units"]["total"] > 1 or kind == "empty"
    assert rows(parts.out) == rows(whole.out)
    assert parts.facts["inputs"][0]["sha256"] == whole.facts["inputs"][0]["sha256"]
    assert parts.audit["conservation"]["balanced"]


def test_an_input_of_which_nothing_can_be_read_is_damaged_ranges_that_tile(archive, tmp_path):
    """It vanishes after it was listed: every part says so, and the next start reads it."""
    from cleanpipe import run as runs

    away = tmp_path / "away"
    real = runs.prepare

    def prepare(*args, **more):
        found = real(*args, **more)
        archive.rename(away)
        return found

    runs.prepare = prepare
    try:
        done = run("web", [str(archive)], tmp_path / "out", engine="serial", sets=SMALL)
    finally:
        runs.prepare = real
    assert done.exit_code == 1
    lost = rows(done.out)
    assert {r["reason"] for r in lost} == {"damaged_range"}
    size = away.stat().st_size
    starts = [r["record_offset"] for r in lost]
    assert starts[0] == 0
    assert [r["record_offset"] + r["record_length"] for r in lost] == [*starts[1:], size]
    away.rename(archive)
    again = run("web", [str(archive)], tmp_path / "out", engine="serial", sets=SMALL)
    fresh = run("web", [str(archive)], tmp_path / "fresh", engine="serial", sets=SMALL)
    assert published(again.out) == published(fresh.out)


def test_an_input_of_another_size_than_was_planned_stops_the_run(archive, tmp_path, monkeypatch):
    """Its units were cut by that size: what lies behind would be nobody's."""
    from cleanpipe import run as runs

    real = runs.resolve_inputs
    monkeypatch.setattr(runs, "resolve_inputs", lambda *a, **k: [replace(i, size=i.size - 5000) for i in real(*a, **k)])
    with pytest.raises(StopError, match="changed since the run was planned"):
        run("web", [str(archive)], tmp_path / "out", engine="serial", sets=SMALL)


class Lost:
    """A hold that another driver took."""

    def check(self):
        raise StopError("no longer held by this process")

    def release(self):
        pass


def test_a_driver_that_lost_the_folder_publishes_nothing(archive, tmp_path, monkeypatch):
    from cleanpipe.engine import going
    from cleanpipe.io.store import LocalStore

    monkeypatch.setattr(going, "CHECK", -1.0)
    monkeypatch.setattr(LocalStore, "hold", lambda *_: Lost())
    with pytest.raises(StopError, match="no longer held"):
        run("web", [str(archive)], tmp_path / "out", engine="serial", sets=SMALL)
    assert not [p for p in (tmp_path / "out").rglob("*") if p.is_file() and "work" not in p.parts]


def test_the_manifests_are_compacted_and_the_run_resumes(archive, tmp_path, monkeypatch):
    from cleanpipe.engine import driver, journal

    monkeypatch.setattr(journal, "BOOK", 3)
    out = tmp_path / "out"

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(driver.Driver, "_meet", stop)
    with pytest.raises(KeyboardInterrupt):
        run("web", [str(archive)], out, engine="serial", sets=SMALL)
    names = [p.name for p in (out / "work" / "done" / "pass0").iterdir()]
    assert len([n for n in names if n.startswith("book-")]) >= 2
    assert len([n for n in names if n.endswith(".json")]) < 3
    monkeypatch.undo()
    resumed = run("web", [str(archive)], out, engine="serial", sets=SMALL)
    assert resumed.facts["units"]["resumed"] == resumed.facts["units"]["total"]
    fresh = run("web", [str(archive)], tmp_path / "fresh", engine="serial", sets=SMALL)
    assert published(resumed.out) == published(fresh.out)


def test_ledger_parts_are_one_a_unit(archive, tmp_path):
    done = run("web", [str(archive)], tmp_path / "out", engine="serial", sets=SMALL)
    parts = sorted((Path(done.out) / "ledger").glob("part-*.parquet"))
    assert len(parts) == done.facts["units"]["total"]
    total = ds.dataset(parts).count_rows()
    assert (
        total
        == json.loads((Path(done.out) / "audit" / "audit.json").read_text())["input"]["documents"]["total"]["value"]
        + (done.audit["input"]["damaged"]["ranges"]["value"])
    )


def test_where_all_storage_is_lost_the_run_stops_and_where_one_input_is_it_is_set_aside(make, tmp_path, s3):
    client, bucket = s3.client, "crawls"
    for n in range(10):
        path = make.write_gz(
            tmp_path / f"{n}.warc.gz", [make.response(f"http://a.example.org/{n}", make.page(make.prose(n)))]
        )
        client.put_object(Bucket=bucket, Key=f"in/{n}.warc.gz", Body=path.read_bytes())
    sets = [f"storage.endpoint={s3.url}", "storage.attempts=1"]
    s3.fail("GET", r"in/4\.warc\.gz", "503", times=1000)
    done = run("web", [f"s3://{bucket}/in/"], tmp_path / "one", engine="serial", sets=sets)
    assert (done.exit_code, list(done.failed)) == (1, ["4.warc.gz"])
    s3.forget()
    assert run("web", [f"s3://{bucket}/in/"], tmp_path / "one", engine="serial", sets=sets).exit_code == 0
    s3.fail("GET", r"in/\d\.warc\.gz", "503", times=1000)
    with pytest.raises(StopError, match="8 units in a row"):
        run("web", [f"s3://{bucket}/in/"], tmp_path / "all", engine="serial", sets=sets)
    s3.forget()
    again = run("web", [f"s3://{bucket}/in/"], tmp_path / "all", engine="serial", sets=sets)
    assert again.exit_code == 0
    assert published(again.out)["ledger/part-00003.parquet"] == published(tmp_path / "one")["ledger/part-00003.parquet"]
