"""Codings: (declared, bytes, what comes out), the lies, the breaks, and bombs."""

from __future__ import annotations

import gzip
import hashlib
import resource
import time
import zlib
from collections.abc import Callable
from functools import cache, partial

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from cleanpipe.io.content_coding import MAX_MEMBERS, undo
from cleanpipe.io.record import MIB, ReadLimits

packed = partial(gzip.compress, mtime=0)  # the clock must not get into the tests' names


LIMITS = ReadLimits()
PAGE = ("<html><p>Łódź, " + "the kiln cools for two days. " * 40 + "</p></html>").encode()


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def chunked(data: bytes, size: int = 100, end: bytes = b"0\r\n\r\n") -> bytes:
    parts = [data[i : i + size] for i in range(0, len(data), size)]
    return b"".join(b"%X\r\n%s\r\n" % (len(p), p) for p in parts) + end


PACKERS = {"gzip": packed, "deflate": zlib.compress, "br": brotli.compress, "zstd": zstd}
HALF = len(PAGE) // 2


def noise(size: int) -> bytes:
    """Bytes that no coding packs, the same every time."""
    return hashlib.shake_128(b"noise").digest(size)


UNDONE = [
    # transfer, content, stored bytes, note
    (None, None, PAGE, None),
    (None, "identity", PAGE, None),
    (None, "", PAGE, None),
    (None, "gzip", packed(PAGE), None),
    (None, "foo, gzip", packed(PAGE), "unknown_coding"),
    ("chunked", "gzip", chunked(PAGE), "encoding_lie"),
    (None, " GZIP ", packed(PAGE), None),
    (None, "x-gzip", packed(PAGE), None),
    (None, "gzip", packed(PAGE[:HALF]) + packed(PAGE[HALF:]), None),  # two members are one stream
    (None, "gzip", packed(PAGE) + b"\0" * 20, None),  # padding is nothing
    (None, "gzip", packed(PAGE) + b"\r", "trailing_bytes"),  # the byte too many of old wget
    (None, "gzip", packed(PAGE)[:-8], "no_trailer"),  # all data is there, its checksum is not
    (None, "gzip", packed(PAGE)[:-3], "no_trailer"),
    (None, "gzip", zstd(PAGE), None),  # the magic says which coding it is
    (None, "deflate", zlib.compress(PAGE), None),
    (None, "deflate", raw_deflate(PAGE), None),
    (None, "deflate", packed(PAGE), None),
    (None, "br", brotli.compress(PAGE), None),
    (None, "zstd", zstd(PAGE), None),
    (None, "zstd", zstd(PAGE[:HALF]) + zstd(PAGE[HALF:]), None),
    (None, "zstd", b"\x50\x2a\x4d\x18\x04\0\0\0note" + zstd(PAGE), None),  # a skippable frame
    (None, "zstd", zstd(PAGE) + b"\r\n", "trailing_bytes"),
    (None, "gzip, br", brotli.compress(packed(PAGE)), None),  # in the order they were applied
    (None, "br,gzip", packed(brotli.compress(PAGE)), None),
    (None, "gzip,gzip", packed(packed(PAGE)), None),
    ("chunked", "gzip", chunked(packed(PAGE)), None),
    ("gzip, chunked", None, chunked(packed(PAGE)), None),
    ("identity", "gzip", packed(PAGE), None),
    ("chunked", None, chunked(PAGE), None),
    ("Chunked", None, chunked(PAGE, 7), None),
    ("chunked", None, b"%x;name=value\r\n%s\r\n0\r\n\r\n" % (len(PAGE), PAGE), None),  # an extension
    ("chunked", None, b"%08X  \r\n%s\r\n0\r\n\r\n" % (len(PAGE), PAGE), None),  # padded sizes
    ("chunked", None, b"%x\n%s\n0\n\n" % (len(PAGE), PAGE), None),  # bare line feeds
    ("chunked", None, chunked(PAGE, end=b"0\r\nX-Checksum: 12\r\nX-More: 3\r\n\r\n"), None),  # trailers
    ("chunked", None, chunked(PAGE, end=b"0\r\n"), None),
    ("chunked", None, chunked(PAGE) + b"HTTP/1.1 200 OK\r\n", None),  # behind the last chunk is not the body
    ("chunked", None, chunked(PAGE, end=b""), "cut"),  # no last chunk: nothing that the archive had is missing
    ("chunked", None, chunked(PAGE, end=b"1f"), "cut"),  # cut inside a size
]
# lies: the bytes are plain, so they are the body
PLAIN = [
    ("chunked", None, PAGE, "not_chunked"),
    ("chunked", None, b"cafe\xcc\x81 " + PAGE, "not_chunked"),  # begins with hexadecimal digits
    ("chunked", None, b"8\r\n" + PAGE, "not_chunked"),  # a number on a line of its own, but no chunk
    ("chunked", None, b"12 angry men\r\n" + PAGE, "not_chunked"),
    (None, "gzip", PAGE, "encoding_lie"),
    (None, "deflate", PAGE, "encoding_lie"),
    (None, "br", PAGE, "encoding_lie"),
    (None, "zstd", PAGE, "encoding_lie"),
    (None, "gzip", "Wörter ohne Markup".encode("latin-1"), "encoding_lie"),
    (None, "gzip", "<p>wide</p>".encode("utf-16-le"), "encoding_lie"),
    (None, "gzip", b"%PDF-1.4\n\x01\x02", "encoding_lie"),  # a format of its own: the type table judges it
    ("chunked", "gzip", PAGE, "not_chunked"),
    (None, "utf-8", PAGE, None),  # a charset in the wrong place
    (None, "compress", PAGE, "unknown_coding"),
    (None, "gzip", b"", None),
    ("chunked", "br", b"", None),
    (None, "none", PAGE, None),
]


@pytest.mark.parametrize(("transfer", "content", "stored", "note"), UNDONE)
def test_what_comes_out(transfer: str | None, content: str | None, stored: bytes, note: str | None) -> None:
    done = undo(stored, transfer, content, LIMITS)
    assert (done.body, done.error, done.note) == (PAGE, None, note)


@pytest.mark.parametrize(("transfer", "content", "stored", "note"), PLAIN)
def test_plain_bytes_stay(transfer: str | None, content: str | None, stored: bytes, note: str | None) -> None:
    done = undo(stored, transfer, content, LIMITS)
    assert (done.body, done.error, done.note) == (stored, None, note)


def flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


NOISE = noise(3000)
BROKEN = [
    ("gzip", packed(NOISE)[:1500]),
    ("gzip", flip(packed(PAGE), -6)),  # fails its own checksum
    ("gzip", packed(PAGE) + packed(NOISE)[:900]),  # a second member that ends early
    ("gzip", packed(PAGE)[:12]),
    ("gzip", packed(b"") * (MAX_MEMBERS + 1)),
    ("deflate", zlib.compress(NOISE)[:1500]),
    ("deflate", raw_deflate(PAGE)[:60]),
    ("br", brotli.compress(PAGE)[:60]),
    ("zstd", zstd(NOISE)[:1500]),
    ("zstd", zstd(PAGE)[:60]),
    ("gzip", NOISE),  # binary, and in no coding
    ("br", NOISE),
    ("zstd", NOISE),
    ("chunked", chunked(PAGE[:300]) [:-5] + b"<p>no size</p>" + PAGE),
    ("gzip, gzip, gzip, gzip, gzip, gzip", packed(PAGE)),  # six codings
]  # fmt: skip


@pytest.mark.parametrize(("coding", "stored"), BROKEN)
def test_breaks_are_errors(coding: str, stored: bytes) -> None:
    transfer, content = (coding, None) if coding == "chunked" else (None, coding)
    done = undo(stored, transfer, content, LIMITS)
    assert (done.error, done.body) == ("bad_content_encoding", b"")
    assert done.message


LETTERS = noise(150_000).hex().encode()  # packs to half


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
@pytest.mark.parametrize("corrupt", [False, True])
def test_a_truncated_record_keeps_what_came_out(coding: str, corrupt: bool) -> None:
    packed = PACKERS[coding](LETTERS)
    stored = packed[: len(packed) // 2] + (b"\xff" * 40 if corrupt else b"")
    done = undo(stored, None, coding, LIMITS, truncated=True)
    assert (done.note, done.error) == ("cut", None)
    start = done.body[: len(done.body) - 4096 if corrupt else None]  # the last slice may be garbled before it fails
    assert LETTERS.startswith(start)
    assert undo(stored, None, coding, LIMITS).error == "bad_content_encoding"
    if not corrupt:
        assert len(start) > 1000


def test_a_truncated_chunked_record_keeps_what_came_out() -> None:
    stored = chunked(packed(LETTERS))
    done = undo(stored[: len(stored) // 2], "chunked", "gzip", LIMITS, truncated=True)
    assert done.error is None
    assert LETTERS.startswith(done.body)
    assert len(done.body) > 1000
    cut_size = chunked(PAGE[:200], end=b"")[:-2] + b"zz"
    assert undo(cut_size, "chunked", None, LIMITS, truncated=True).error is None


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "gzip, gzip", "br, gzip", "zstd, zstd"])
def test_bombs_stop_early(coding: str) -> None:
    """256 MiB of zeros in a few kB: refused, without their memory being taken."""
    data = b"\0" * (256 * MIB)
    for name in coding.split(", "):
        data = PACKERS[name](data) if name != "br" else brotli.compress(data, quality=2)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    done = undo(data, None, coding, ReadLimits(max_body=8 * MIB))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert (done.error, done.body) == ("too_large", b"")
    assert (after - before) // 1024 < 100  # MiB


def test_the_ratio_counts_above_one_mib_only() -> None:
    small = packed(b"\0" * MIB)
    assert undo(small, None, "gzip", ReadLimits(expansion=10)).error is None
    large = packed(b"\0" * (2 * MIB))
    assert undo(large, None, "gzip", ReadLimits(expansion=10)).error == "too_large"
    assert undo(large, None, "gzip", ReadLimits(expansion=1100)).error is None


@pytest.mark.parametrize("extra", [0, 1])
def test_max_body_is_exact(extra: int) -> None:
    limits = ReadLimits(max_body=1 << 17)
    data = noise((1 << 17) + extra)
    for name, pack in PACKERS.items():
        assert (undo(pack(data), None, name, limits).error == "too_large") == bool(extra)
    assert (undo(data, None, None, limits).error == "too_large") == bool(extra)
    assert (undo(chunked(data, 70000), "chunked", None, limits).error == "too_large") == bool(extra)


@given(st.binary(max_size=400), st.sampled_from(["gzip", "deflate", "br", "zstd"]))
def test_round_trip(data: bytes, coding: str) -> None:
    assert undo(PACKERS[coding](data), None, coding, LIMITS).body == data
    assert undo(chunked(PACKERS[coding](data), 13), "chunked", coding, LIMITS).body == data


STARTS = [b"", b"\x1f\x8b\x08\0", b"\x28\xb5\x2f\xfd", b"5\r\nabcde\r\n"]


@given(
    st.binary(max_size=300),
    st.sampled_from([None, "gzip", "deflate", "br", "zstd", "x", "gzip,br,deflate"]),
    st.sampled_from([None, "chunked", "gzip, chunked"]),
    st.booleans(),
    st.sampled_from(STARTS),
)
def test_bad_bytes_never_raise(data: bytes, content: str | None, transfer: str | None, cut: bool, start: bytes) -> None:
    done = undo(start + data, transfer, content, LIMITS, truncated=cut)
    assert done.error in (None, "bad_content_encoding", "too_large")
    assert not done.body or not done.error


# --- cost: it grows as the bytes do -----------------------------------------------------------------------------------


@cache
def stored_member() -> bytes:
    return gzip.compress(noise(20 * MIB), 0, mtime=0)


COSTLY: dict[str, tuple[str, Callable[[], bytes]]] = {
    "blanks for a size": ("chunked", lambda: b"5\r\nhello\r\n" + b" " * MIB + b"x"),
    "tabs and blanks for a size": ("chunked", lambda: b"5\r\nhello\r\n" + b"\t " * (MIB // 2) + b"5" * 17),
    "blanks about a size": ("chunked", lambda: b"5\r\nhello\r\n" + b" " * MIB + b"5" + b" " * MIB + b"x"),
    "lines for a size": ("chunked", lambda: b"5\r\nhello\r\n" + b"\r\n" * MIB + b"x"),
    "lines and blanks for a size": ("chunked", lambda: b"5\r\nhello\r\n" + b"\r\n" * MIB + b" " * MIB + b"\rx"),
    "digits for a size": ("chunked", lambda: b"5\r\nhello\r\n" + b"5" * MIB),
    "blanks before all": ("chunked", lambda: b" " * MIB + b"x"),
    "members before a long one": ("gzip", lambda: packed(b"") * (MAX_MEMBERS - 1) + stored_member()),
    "as many members as there may be, before a tail": ("gzip", lambda: packed(b"") * MAX_MEMBERS + stored_member()),
    "members before one that breaks": ("gzip", lambda: packed(b"") * (MAX_MEMBERS - 1) + stored_member()[:-20] + b"x"),
    "members before bytes that are none": ("gzip", lambda: packed(b"") * MAX_MEMBERS + noise(20 * MIB)),
}


@pytest.mark.parametrize("truncated", [False, True])
@pytest.mark.parametrize("what", COSTLY)
def test_cost_grows_as_the_bytes_do(what: str, truncated: bool) -> None:
    coding, made = COSTLY[what]
    stored = made()
    transfer, content = (coding, None) if coding == "chunked" else (None, coding)
    began = time.process_time()
    undo(stored, transfer, content, LIMITS, truncated=truncated)
    assert time.process_time() - began < 1.5  # at most a third of a second; with the square it was 3 s, or hours


@given(st.lists(st.sampled_from([b" ", b"\t", b"\r", b"\n", b"5", b"a" * 15, b"x"]), max_size=12))
def test_what_a_cut_size_is(parts: list[bytes]) -> None:
    """Line ends, blanks, at most sixteen digits, blanks: the beginning of a size, as the archive's end may leave it."""
    rest = b"".join(parts)
    bare = rest.lstrip(b"\r\n")
    bare = bare.removesuffix(b"\r").strip(b" \t")
    begins = len(bare) <= 16 and not bare.strip(b"0123456789abcdefABCDEF")
    done = undo(b"2\r\nab\r\n3\r\ncde\r\n" + rest, "chunked", None, LIMITS)
    if b"\n" in rest.lstrip(b"\r\n"):  # a whole size, with what is behind it
        return
    assert (done.body, done.note) == ((b"abcde", "cut") if begins else (b"", None))


# --- members of all sizes, about the border of what zlib is given at a time ------------------------------------------

SIZES = [0, 1, 100, 65_400, 65_500, 65_513, 65_518, 65_536, 131_000, 200_000]


@pytest.mark.parametrize("tail", [b"", b"\0" * 70_000, b"\r\n", b"\0" * 70_000 + b"x"], ids=len)
@pytest.mark.parametrize("level", [0, 6])
@pytest.mark.parametrize("first", SIZES)
def test_members_end_anywhere(first: int, level: int, tail: bytes) -> None:
    parts = [noise(first), b"", noise(300), noise(65_536 + first), noise(1)]
    stored = b"".join(gzip.compress(part, level, mtime=0) for part in parts)
    done = undo(stored + tail, None, "gzip", LIMITS)
    assert (done.body, done.error) == (b"".join(parts), None)
    assert done.note == ("trailing_bytes" if tail.strip(b"\0") else None)
    for coding, pack in (("deflate", zlib.compress), ("deflate", raw_deflate)):
        assert undo(pack(parts[3]) + tail, None, coding, LIMITS).body == parts[3]


@pytest.mark.parametrize("size", SIZES)
def test_a_member_that_breaks_far_inside_keeps_what_came_before(size: int) -> None:
    """Nothing twice, nothing of the members before it lost; to within the slice that fails."""
    whole = LETTERS[: size + 20_000]
    second = packed(LETTERS)
    for at in (1000, 65_000, 70_000, len(second) - 30):
        stored = packed(whole) + second[:at] + b"\xff" * 40
        assert undo(stored, None, "gzip", LIMITS).error == "bad_content_encoding"
        done = undo(stored, None, "gzip", LIMITS, truncated=True)
        assert (done.note, done.error) == ("cut", None)
        assert (whole + LETTERS).startswith(done.body[:-4096])
        assert len(done.body) > len(whole) + at - 4096
    stored = packed(whole) + second[:-3]
    assert undo(stored, None, "gzip", LIMITS).note == "no_trailer"
    assert undo(stored, None, "gzip", LIMITS).body == whole + LETTERS
