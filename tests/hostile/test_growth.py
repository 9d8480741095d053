"""Nothing costs the square of its input, and nothing is kept of a page when the next one comes."""

from __future__ import annotations

import gc
import gzip
import importlib.util
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pytest

from cleanpipe import batch as col
from cleanpipe.flow import Flow
from cleanpipe.io.archive import read_archive
from cleanpipe.io.charset import read as decoded
from cleanpipe.io.content_coding import undo
from cleanpipe.io.documents import DocumentBatches
from cleanpipe.io.http import content_type, parse_response
from cleanpipe.io.record import ReadLimits
from cleanpipe.recipe import load_recipe
from cleanpipe.text.graphemes import Clusters
from cleanpipe.text.normalise import normalise
from cleanpipe_stages.html.paragraphs import first_paragraphs
from cleanpipe_stages.html_scrub import HtmlScrub

HERE = Path(__file__).parent
LIMITS = ReadLimits()


def _build() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hostile_build", HERE / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


BUILD = _build()
RECORD = (
    b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:x:1>\r\nWARC-Date: 2024-05-17T08:00:00Z\r\n"
    b"Content-Length: 19\r\n\r\nHTTP/1.1 200 OK\r\n\r\n\r\n\r\n"
)
MEMBER = gzip.compress(RECORD, mtime=0)
LINE = b"http://a.example/ 192.0.2.7 20240517080000 text/html 5\nabcde\n"


def archive(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    for _ in read_archive(str(path)):
        pass


def between(junk: bytes, ends: bytes = MEMBER) -> Callable[[int, Path], object]:
    return lambda n, path: archive(path, ends + junk * n + ends)


def scrub(markup: Callable[[int], str]) -> Callable[[int, Path], object]:
    step = HtmlScrub().open()

    def run(n: int, _path: Path) -> object:
        page = pa.array([BUILD.page("A page", markup(n))], pa.large_string())
        return step(pa.RecordBatch.from_pydict({col.MARKUP: page, col.MEDIA_TYPE: pa.array(["text/html"])}))

    return run


def repeated(pieces: str) -> Callable[[int, Path], object]:
    return scrub(lambda n: pieces * n)


def text(pattern: str, before: str = "a") -> Callable[[int, Path], object]:
    return lambda n, _path: normalise(before + pattern * n + "b")


def flags(n: int) -> None:
    clusters = Clusters("\U0001f1e6" * n)
    for at in range(0, n, 1536):
        clusters.after(at)


FRAME = BUILD.packed(RECORD, "zstd")
# what is done, its size: the cost of four times the size must be below eight times the cost; where a limit stands
# between the two (options, attributes), the larger one is refused
BAITS: dict[str, tuple[Callable[[int, Path], object], int]] = {
    # archives: what lies between two records, and where the next one may begin
    "gzip magics": (between(b"\x1f\x8b\x08"), 12_000),
    "gzip names without end": (between(b"\x1f\x8b\x08\x08ABCDEF"), 12_000),
    "gzip stored blocks": (between(b"\x1f\x8b\x08\0\0\0\0\0\0\x03\0\xff\xff\0\0"), 12_000),
    "empty members": (between(gzip.compress(b"", mtime=0)), 10_000),
    "zstd magics": (between(b"\x28\xb5\x2f\xfd", FRAME), 12_000),
    "version lines": (between(b"WARC/1.0\r\n", RECORD), 100_000),
    "heads of wrong lengths": (between(RECORD.replace(b": 19", b": 900000"), RECORD), 5_000),
    "heads of LF and wrong lengths": (
        between(RECORD.replace(b": 19", b": 900000").replace(b"\r\n", b"\n") + RECORD, RECORD),
        3_000,
    ),
    "heads without lengths": (between(RECORD.replace(b": 19", b": x") + RECORD, RECORD), 3_000),
    "ARC lines": (between(b"http:// a b c 192.0.2.7 2020 x x x x x x\n", LINE), 10_000),
    "ARC addresses": (between(b"http:" + b" 192.0.2.7 " * 700 + b"\n", LINE), 100),
    "folded lines": (
        lambda n, path: archive(path, RECORD.replace(b"Content-L", b"X: y\r\n" + b" z\r\n" * n + b"Content-L")),
        40_000,
    ),
    # HTTP
    "chunks of one byte": (lambda n, _: undo(b"1\r\na\r\n" * n + b"0\r\n\r\n", "chunked", None, LIMITS), 100_000),
    "blanks for a chunk size": (lambda n, _: undo(b"5\r\nhello\r\n" + b" " * n + b"x", "chunked", None, LIMITS), 3_000),
    "line ends for a chunk size": (
        lambda n, _: undo(b"5\r\nhello\r\n" + b"\r\n" * n + b"x", "chunked", None, LIMITS),
        100_000,
    ),
    "members and a tail": (
        lambda n, _: undo(gzip.compress(b"", mtime=0) * n + gzip.compress(bytes(n * 2000), 0), None, "gzip", LIMITS),
        1000,
    ),
    "headers": (lambda n, _: parse_response(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * n + b"\r\n", 1 << 30), 40_000),
    "carriage returns": (lambda n, _: parse_response(b"HTTP/1.1 200 OK\n" + b"\r" * n + b"x\n\n", 1 << 30), 300_000),
    "interim responses": (
        lambda n, _: parse_response(b"HTTP/1.1 100 \r\n\r\n" * n + b"HTTP/1.1 200 OK\r\n\r\n", 1 << 20),
        10_000,
    ),
    "quotes of a type": (lambda n, _: content_type("text/html" + ';" \\"' * n), 50_000),
    # characters
    "changes of the set": (lambda n, _: decoded(b"\x1b(B\x1b$B" * n, "iso-2022-jp", True), 40_000),
    "broken pairs": (lambda n, _: decoded(b"\xff\xa1\xff" * n, "euc-jp", True), 40_000),
    "metas": (lambda n, _: decoded(b"<p>" * 400 + b"<meta a='x " * n + b"charset \xff", None, True), 20_000),
    "marks": (text("\u0301\u0323"), 100_000),
    "joiners and tones": (text("\u200d\U0001f3fb"), 20_000),
    "joiners and pictographs": (text("\U0001f468\u200d"), 20_000),
    "tags": (text("\U0001f3f4\U000e0067"), 40_000),
    "blanks": (text(" \t"), 200_000),
    "blank lines": (text(" \n\t\n"), 40_000),
    "flags": (lambda n, _: flags(n), 200_000),
    # markup
    "paragraphs": (lambda n, _: first_paragraphs(b"<p>" * n, 512), 30_000),
    "blocks": (scrub(lambda n: "<div>x</div>" * n), 10_000),
    "options": (scrub(lambda n: "<select>" + "<option>x" * n), 5_000),
    "attributes of body": (scrub(lambda n: "".join(f"<body a{k}>" for k in range(n))), 5_000),
    "attributes of the root": (scrub(lambda n: "".join(f"<html a{k}>" for k in range(n))), 5_000),
    "attributes": (scrub(lambda n: "<p " + " ".join(f"a{k}" for k in range(n)) + ">"), 6_000),
    "unclosed fonts": (scrub(lambda n: "".join(f"<font size={k}>x" for k in range(n))), 2_000),
    "references": (scrub(lambda n: ">&" * n), 50_000),
    "cells": (scrub(lambda n: "<table>" + "<tr><td>1</td></tr>" * n), 10_000),
    "fonts over objects": (
        scrub(lambda n: "".join(f"<font size={k}><object></font></object>" for k in range(n)) + "<p>x" * n),
        20_000,
    ),
    "fonts in comments": (
        scrub(lambda n: "".join(f"<font size={k}><!--</font>-->" for k in range(n)) + "<p>x" * n),
        20_000,
    ),
    "cells in a drawing": (scrub(lambda n: "<svg>" + "<td>x" * n), 4_000),
    "blocks after a drawing": (scrub(lambda n: "<svg><p>" + "<div/>x" * n), 4_000),
    "raw text in a drawing": (scrub(lambda n: "<svg><g><x></g>" + "<title>" * n), 20_000),
    "ends far from their elements": (scrub(lambda n: "<x><div>" + "<span>" * 400 + "</x>" * n), 20_000),
}
# tags that parsers nest in ways of their own, and closing tags that close nothing or something else
BAITS |= {
    f"repeated {pieces}": (repeated(pieces), n)
    for n, each in (
        (
            4_000,
            ("<rt>x", "<rp>x", "<rb>x", "<rtc>x", "<optgroup>x", "<dialog>x", "<object>x", "<template>x", "x<section>"),
        ),
        (2_000, ("<li><dd>x", "<dd><li>x", "<option><div>x", "<select><div>x", "<math><mi><p>x", "<svg><desc><p>x")),
        (
            2_000,
            (
                "<div><figure>x</div>",
                "<figure><div>x</figure>",
                "<template><div>x",
                "<table><td>x",
                "<a><table><a><td>x",
            ),
        ),
        (2_000, ("<span><div>x</span></div>", "<div><object>x</div></object>", "<div><table><td>x</div></table>")),
        (2_000, ("<form><div>x</form>", "<x><p>x</x></p>", "<div>x<!--</div>-->", "<div title='</div>'>x")),
        (2_000, ('<div a=b"c d="></div>">x', "<div>x<? </div>>", "<div><![CDATA[</div>]]>x", "<wordone>x</wordtwo>")),
        (2_000, ("<div><script></div></script>x", "<div><script><!--<script></script></div></script>x")),
        (1_000, ("<a><div></a>", "<a><div>x</a>", "<b><div>x</b>", "<nobr><div>x</nobr>", "<font><div>x</font>")),
        (1_000, ("<code><div>x</code>", "<b><i><u><div>x</b></i></u>", "<svg><dialog><svg></dialog><desc/>")),
        (
            10_000,
            (
                "<nobr>x",
                "<button>x",
                "<button><div>x",
                "<li>x",
                "<dt>x<dd>x",
                "<p><table>",
                "<table>x",
                "<table><div>x",
            ),
        ),
        (
            10_000,
            (
                "<form>x",
                "<select>x",
                "<svg><p>x",
                "<head><body>",
                "</head></body><p>x",
                "<frameset>",
                "<h1><div>x</h1>",
            ),
        ),
        (
            10_000,
            (
                "<noscript><div>x</noscript>",
                "<ul></ul>",
                "</p>",
                "</br>",
                "<image>x",
                "<ruby><rt>x</ruby>",
                "<caption>x",
            ),
        ),
        (
            10_000,
            ("<b><p>x", "<p><b>x</p>", "<select><title></select><div>x</title></select>", "<plaintext>", "<colgroup>x"),
        ),
    )
    for pieces in each
}


def _seconds(work: Callable[[], object]) -> float:
    gc.collect()
    began = time.process_time()
    work()
    return time.process_time() - began


@pytest.mark.slow
@pytest.mark.parametrize("name", BAITS)
def test_cost_is_linear(name: str, tmp_path: Path) -> None:
    work, n = BAITS[name]
    for _ in range(3):  # other programs may disturb a measurement, not three of them
        small = min(_seconds(lambda: work(n, tmp_path / "a")) for _ in range(2))
        large = _seconds(lambda: work(4 * n, tmp_path / "b"))
        if large < 8 * small + 0.02:
            return
    pytest.fail(f"{small:.3f} s, four times as large {large:.3f} s")


# --- memory -----------------------------------------------------------------------------------------------------------


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def first_pass(path: Path) -> Callable[[], None]:
    """One archive through the reader and the first pass of the default recipe, as a worker does it."""
    pipeline = load_recipe("web").pipeline()
    flow = Flow(pipeline.validate()[0].stages, pipeline.scores())

    def once() -> None:
        for part in DocumentBatches().rows(read_archive(str(path)), path.name, LIMITS):
            if part.batch.num_rows:
                flow.run(part.batch)

    return once


def growth(path: Path, warm: int, times: int) -> int:
    """Bytes by which memory grew from the ``warm``-th repetition to the ``times``-th."""
    once = first_pass(path)
    for _ in range(warm):
        once()
    gc.collect()
    before = resident()
    for _ in range(times - warm):
        once()
    gc.collect()
    return resident() - before


# of all quick cases the one that grew most from the 200th repetition on, and one whose pages the parser does see
LEAKIEST = ("plain-text-between", "deep-by-500")
BOUND = 8 << 20  # ten kB for each of 800 repetitions


@pytest.mark.slow
@pytest.mark.parametrize("name", LEAKIEST)
def test_memory_does_not_grow(name: str, tmp_path: Path) -> None:
    number, case = next((i, c) for i, c in enumerate(BUILD.load()) if c["name"] == name)
    archived = BUILD.made(case, number)
    path = tmp_path / archived.name
    path.write_bytes(archived.data)
    grown = growth(path, 200, 1000)
    sys.stdout.write(f"{name}: {grown >> 10} kB from the 200th to the 1,000th repetition\n")
    assert grown < BOUND
