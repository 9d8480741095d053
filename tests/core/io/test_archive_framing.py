"""Where records begin and end, on small inputs written out with what must come of them (tests/data/archive)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import zstandard

from cleanpipe.io.archive import read_archive
from cleanpipe.io.record import RawRecord

CASES = json.loads((Path(__file__).parents[2] / "data/archive/framing.json").read_bytes())


def shape(path: Path, reader: str) -> list[Any]:
    items = list(read_archive(str(path), reader=reader))
    return [[i.type, i.block.decode("latin-1")] if isinstance(i, RawRecord) else i.error for i in items]


@pytest.mark.parametrize("reader", ["fast", "member", "warcio"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["what"])
def test_plain(case: dict[str, Any], reader: str, tmp_path: Path) -> None:
    path = tmp_path / "a.warc"
    path.write_bytes(case["input"].encode("latin-1"))
    assert shape(path, reader) == case["expected"]


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress], ids=["gzip", "zstd"])
@pytest.mark.parametrize("case", [c for c in CASES if len(c["expected"]) > 1], ids=lambda case: case["what"])
def test_the_same_in_one_member(case: dict[str, Any], pack: Any, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(pack(case["input"].encode("latin-1")))
    if case["what"] == "no length, a block":  # the member would tell the end, but another record follows
        assert shape(path, "fast")[-1] == case["expected"][-1]
    else:
        assert shape(path, "fast") == case["expected"]


def test_heads_come_under_one_set_of_names(tmp_path: Path) -> None:
    path = tmp_path / "a.arc"
    path.write_bytes(
        b"filedesc://x.arc 0.0.0.0 20080430204825 text/plain 3\nabc\n"
        b"http://a.example/a b 192.0.2.1 20080430204826 text/html 3\ndef\n"
    )
    head, response = read_archive(str(path))
    assert (head.offset, head.length, response.offset, response.length) == (0, 57, 57, 62)
    assert isinstance(response, RawRecord)
    assert response.headers == {
        "warc-target-uri": "http://a.example/a b",
        "warc-date": "2008-04-30T20:48:26Z",
        "warc-ip-address": "192.0.2.1",
        "content-type": "text/html",
        "content-length": "3",
    }


def test_names_values_and_addresses(tmp_path: Path) -> None:
    path = tmp_path / "a.warc"
    path.write_bytes(
        "WARC/1.0\r\nWARC-TYPE: Response\r\nWARC-Target-URI: <http://a.example/>\r\nX: first\r\nx: second\r\n"
        "Umlaut: é\r\nContent-Length: 1\r\n\r\nx\r\n\r\n".encode()
    )
    for reader in ("fast", "member", "warcio"):
        (record,) = read_archive(str(path), reader=reader)
        assert isinstance(record, RawRecord)
        assert record.headers == {
            "warc-type": "Response",
            "warc-target-uri": "http://a.example/",
            "x": "first",
            "umlaut": "é",
            "content-length": "1",
        }
        assert record.type == "response"
