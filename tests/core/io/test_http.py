"""HTTP heads as archives have them, and Content-Type values taken apart."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleanpipe import batch as col
from cleanpipe.io.documents import DocumentBatches
from cleanpipe.io.http import content_type, parse_response
from cleanpipe.io.record import RawRecord, ReadLimits

DATA = Path(__file__).parents[2] / "data" / "http"
MAX_HEAD = 1 << 20


def cases(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]


@pytest.mark.parametrize("case", cases("heads.jsonl"), ids=lambda c: c["head"][:40])
def test_heads(case: dict[str, Any]) -> None:
    block = case["head"].encode()
    head = parse_response(block, MAX_HEAD)
    if case["body"] is None:
        assert head is None
        return
    assert head is not None
    assert head.status == case["status"]
    assert head.headers.get("content-type") == case["type"]
    assert block[head.body_at :].decode() == case["body"]


@pytest.mark.parametrize("case", cases("content_types.jsonl"), ids=lambda c: str(c["value"]))
def test_content_types(case: dict[str, Any]) -> None:
    assert content_type(case["value"]) == tuple(case["expect"])


def test_a_head_without_end_is_head_up_to_its_limit() -> None:
    """Its status and first fields are known; what lies behind the limit is head as well, and no body."""
    block = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" + b"X: y\r\n" * 1000 + b"\r\nBODY"
    head = parse_response(block, 100)
    assert head is not None
    assert (head.status, head.headers["content-type"]) == (200, "text/html")
    assert head.body_at == len(block)
    assert parse_response(block, len(block)).body_at == len(block) - 4  # type: ignore[union-attr]


ENDS = [  # bytes that end a head of 100 bytes, and where its body then begins; None: nowhere
    (b"\r\n\r\n", 104),
    (b"\n\n", 102),
    (b"\r\n<html>", 102),
    (b"\r\n", None),
    (b"", None),
]


@pytest.mark.parametrize(("end", "body_at"), ENDS)
@pytest.mark.parametrize("interim", [b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 102\r\n\r\n" * 50])
@pytest.mark.parametrize(
    "behind", [b"", b"x" * 5000, b"x" * 5000 + b"\r\n\r\n<html>the page", b"HTTP/1.1 200 OK\r\n\r\n"]
)
def test_a_head_ends_within_its_limit_or_has_no_body(
    end: bytes, body_at: int | None, interim: bytes, behind: bytes
) -> None:
    """Each of several heads has a limit of its own; 110 bytes hold the end of this one, 100 do not."""
    block = interim + b"HTTP/1.1 203 OK\r\nX: ".ljust(100, b"y") + end + behind
    far = len(behind) > 1000  # else a blank line behind it is near enough to end it
    for limit in (100, 110) if far else (100,):
        head = parse_response(block, limit)
        assert head is not None
        assert head.status == 203
        inside = body_at is not None and limit > 100
        assert head.body_at == (len(interim) + (body_at or 0) if inside else len(block))


def test_the_page_behind_a_head_beyond_the_limit_is_not_read() -> None:
    """Such a record has a row, with its status, type and no bytes: what a browser shows of it."""
    lines = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nX: " + b"Words of the head. " * 60_000
    for block in (lines + b"\r\n\r\n<p>the page", lines, lines + b"\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b"):
        assert len(lines) > MAX_HEAD
        record = RawRecord(0, len(block), "file", "response", {}, block)
        (part,) = DocumentBatches().rows([record], "a", ReadLimits(max_body=8 << 20))
        (row,) = part.batch.to_pylist()
        assert (row[col.HTTP_STATUS], row[col.DECLARED_TYPE], row[col.BODY], part.failed) == (200, "text/html", b"", [])


def test_values_of_a_repeated_name_are_joined() -> None:
    head = parse_response(b"HTTP/1.1 200 OK\r\nX: a\r\nx: a\r\nY: b\r\nX:\r\n\r\n", MAX_HEAD)
    assert head is not None
    assert head.headers == {"x": "a, a, ", "y": "b"}


def test_bytes_above_ascii_are_kept_one_to_one() -> None:
    head = parse_response(b"HTTP/1.1 200 OK\r\nX: caf\xe9\xff\r\n\r\n", MAX_HEAD)
    assert head is not None
    assert head.headers["x"] == "café\xff"


@given(st.binary(max_size=200), st.sampled_from([b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 100\r\n\r\n", b"HTTP/"]))
def test_bad_heads_never_raise(data: bytes, start: bytes) -> None:
    head = parse_response(start + data, 64)
    if head is not None:
        assert 0 <= head.body_at <= len(start + data)
        content_type(head.headers.get("content-type"))


@given(st.text(max_size=80))
def test_bad_content_types_never_raise(value: str) -> None:
    essence, charset = content_type(value + "; charset=" + value)
    assert essence is None or "/" in essence
    assert charset is None or len(charset) <= 64


def cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


SLOW = [
    "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nA: " + "\r" * 900_000 + "\n x\r\n\r\n",
    "HTTP/1.1 200 OK\r\n" + "A:\r\n" * 200_000 + "\r\n",
    "HTTP/1.1 200 OK\r\nContent-Type: text/html" + ";" * 900_000 + "\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Type: text/html;" + " " * 900_000 + "x\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Type: text/html;" + "a='" * 300_000 + "\r\n\r\n",
    'HTTP/1.1 200 OK\r\nContent-Type: "' + "\\" * 900_000 + "\r\n\r\n",
    "HTTP/1.1 200 OK\r\n" + "Content-Type: a/b\r\n" * 50_000 + "\r\n",
]


@pytest.mark.parametrize("block", SLOW, ids=range(len(SLOW)))
def test_long_heads_cost_their_length(block: str) -> None:
    """A MiB of head: far below a second where cost grows with length, minutes where it grows with its square."""

    def work() -> None:
        head = parse_response(block.encode(), MAX_HEAD)
        assert head is not None
        content_type(head.headers.get("content-type"))

    assert cpu_seconds(work) < 5
