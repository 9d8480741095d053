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

from cleanpipe.io.http import content_type, parse_response

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
    block = b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000 + b"\r\nBODY"
    head = parse_response(block, 100)
    assert head is not None
    assert head.body_at == 100
    assert parse_response(block, len(block)).body_at == len(block) - 4  # type: ignore[union-attr]


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
