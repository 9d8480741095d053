"""What a sample reads: the records that begin in its blocks, each in one block, and of remote files little more."""

import gzip
import random
import re

import pytest
import zstandard
from web_server import WebServer

from cleanpipe.errors import ShardError, StopError
from cleanpipe.io import remote
from cleanpipe.io.inputs import resolve_inputs
from cleanpipe.planning.places import Chosen, Places, Stratum, choose
from cleanpipe.planning.reading import Reading
from cleanpipe.recipe import load_recipe


@pytest.fixture
def records(make):
    chance = random.Random(3)
    pages = (make.page(make.prose(n, chance.randrange(1, 60))) for n in range(40))
    return [make.warcinfo(), *(make.response(f"http://x.example/{n}", page) for n, page in enumerate(pages))]


def blocks_of(path, block, chosen=None):
    (one,) = resolve_inputs([str(path)], source_root=None)
    count = -(-one.size // block)
    numbers = tuple(range(count)) if chosen is None else chosen
    return Places((Stratum("warc", 1, one.size, count),), (Chosen(one, 0, numbers),), block, whole=False)


def read(places):
    reading = Reading(load_recipe("sample"), places)
    rows = [(place, o) for place, part in reading.batches() for o in part.batch.column("record_offset").to_pylist()]
    return rows, reading


ARC_HEAD = b"filedesc://x.arc 0.0.0.0 20080101000000 text/plain 76\n1 0 Internet\nURL IP-address Archive-date "
ARC_HEAD += b"Content-type Archive-length\n\n\n"


def arc(number):
    body = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>" + b"words and more of them %d " % number * 40
    return b"http://x.example/%d 127.0.0.1 20080101000000 text/html %d\n%b\n" % (number, len(body), body)


@pytest.mark.parametrize("block", [97, 1000, 7777, 40_000, 10**6])
@pytest.mark.parametrize("kind", ["gzip", "plain", "arc"])
def test_all_blocks_together_hold_each_record_once(tmp_path, records, kind, block):
    path = tmp_path / {"gzip": "x.warc.gz", "plain": "x.warc", "arc": "x.arc.gz"}[kind]
    data = [ARC_HEAD, *map(arc, range(40))] if kind == "arc" else records
    path.write_bytes(b"".join(data if kind == "plain" else [gzip.compress(r, mtime=0) for r in data]))
    rows, reading = read(blocks_of(path, block))
    offsets = [o for _, o in rows]
    assert offsets == sorted(set(offsets))
    assert len(offsets) == 40
    assert all(place * block <= offset < (place + 1) * block for place, offset in rows)
    assert sum(p.size for p in reading.places) == sum(p.length for p in reading.places) == path.stat().st_size
    assert reading.uncut == []
    assert reading.unread == {}


def test_a_head_within_a_page_is_no_record_of_a_plain_file(tmp_path, make):
    inner = "<pre>\r\n\r\nWARC/1.0 is how a record begins\r\n\r\nWARC/1.0\r\nas in this one</pre>"
    path = tmp_path / "x.warc"
    path.write_bytes(b"".join(make.response(f"http://x.example/{n}", inner * 20) for n in range(20)))
    for block in (300, 5000):
        rows, _ = read(blocks_of(path, block))
        assert len({o for _, o in rows}) == len(rows) == 20


@pytest.mark.parametrize("kind", ["member", "zstd", "plain arc"])
def test_what_cannot_be_cut_is_read_from_its_start(tmp_path, records, kind):
    name = {"member": "x.warc.gz", "zstd": "x.warc.zst", "plain arc": "x.arc"}[kind]
    data = b"".join(records) if kind != "plain arc" else b"".join([ARC_HEAD, *map(arc, range(40))])
    if kind == "zstd":
        data = b"".join(zstandard.ZstdCompressor().compress(r) for r in records)
    (tmp_path / name).write_bytes(gzip.compress(data, 1) if kind == "member" else data)
    size = (tmp_path / name).stat().st_size
    block = size // 10
    rows, reading = read(blocks_of(tmp_path / name, block, (2, 3, 7, 8, 9)))
    assert reading.uncut == [name]
    assert 10 <= len(rows) <= 30  # about half of the 40 lie in five tenths
    assert [o for _, o in rows] == sorted(o for _, o in rows)
    assert len(reading.places) == 5
    assert {p for p, _ in rows} == set(range(5))
    assert sum(p.size for p in reading.places) == sum(p.length for p in reading.places) == 5 * block
    whole, reading = read(blocks_of(tmp_path / name, block))
    assert len(whole) == 40
    assert reading.uncut == []


def test_an_input_that_vanished_is_told_and_the_others_go_on(tmp_path, make, records):
    make.write_gz(tmp_path / "a.warc.gz", records)
    make.write_gz(tmp_path / "b.warc.gz", records)
    inputs = resolve_inputs([str(tmp_path)], source_root=None)
    (tmp_path / "a.warc.gz").unlink()
    places = choose(inputs, seed=1, places=10, sample_bytes=12_000)
    rows, reading = read(places)
    assert list(reading.unread) == ["a.warc.gz"]
    assert rows
    assert all(reading.places[p].read for p, _ in rows)


def test_an_input_that_changed_stops(tmp_path, make, records):
    make.write_gz(tmp_path / "a.warc.gz", records)
    places = choose(resolve_inputs([str(tmp_path)], source_root=None), seed=1, places=10, sample_bytes=2000)
    make.write_gz(tmp_path / "a.warc.gz", records[:-1])
    with pytest.raises((StopError, ShardError), match="changed"):
        read(places)


@pytest.fixture
def web(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(remote, "FIRST_WAIT", 0.01)
    with WebServer() as server:
        yield server


def test_of_a_web_server_only_ranges_are_read(web, make):
    chance = random.Random(5)
    noise = [chance.randbytes(10_000).hex() for _ in range(2000)]  # 40 MB, 24 MB compressed
    data = b"".join(
        gzip.compress(make.response(f"http://x.example/{n}", make.page([text])), 1, mtime=0)
        for n, text in enumerate(noise)
    )
    web.files["/x.warc.gz"] = data
    inputs = resolve_inputs([web.url + "/x.warc.gz"], source_root=None)
    places = choose(inputs, seed=2, places=2, sample_bytes=200_000)
    del web.requests[:]
    rows, _ = read(places)
    assert 40 < len(rows) < 90
    ranges = [re.fullmatch(r"bytes=(\d+)-(\d+)", asked) for _, _, asked in web.requests]
    assert all(ranges)
    fetched = sum(int(r[2]) - int(r[1]) + 1 for r in ranges if r)
    assert fetched < len(places.chosen[0].blocks) * (3 << 19) < len(data) / 1.5
