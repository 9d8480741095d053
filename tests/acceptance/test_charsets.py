"""Charsets and codings on other people's test sets and on the collected bug cases.

The samples are found by CLEANPIPE_SAMPLES, or beside the repository.
"""

from __future__ import annotations

import html
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from cleanpipe import batch as col
from cleanpipe.io.archive import read_archive
from cleanpipe.io.charset import decide, read
from cleanpipe.io.charset_labels import NAME_OF
from cleanpipe.io.documents import DocumentBatches, FailedRecord, decode_batch
from cleanpipe.io.record import ReadLimits

SAMPLES = Path(os.environ.get("CLEANPIPE_SAMPLES") or Path(__file__).parents[2].parent / "shared" / "samples")
pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"no samples at {SAMPLES} (set CLEANPIPE_SAMPLES)")
UNICODE = SAMPLES / "unicode"

# --- html5lib's encoding tests --------------------------------------------------------------------------------------


def html5lib_cases() -> list[tuple[str, bytes, str]]:
    found = []
    for path in sorted((UNICODE / "html5lib").glob("encoding-tests*.dat")):
        for number, case in enumerate(path.read_bytes().split(b"#data\n")[1:]):
            data, _, label = case.partition(b"\n#encoding\n")
            found.append((f"{path.stem}-{number}", data, label.split()[0].decode().lower()))
    return found


@pytest.mark.parametrize(("name", "data", "label"), html5lib_cases(), ids=lambda v: v if isinstance(v, str) else "")
def test_html5lib(name: str, data: bytes, label: str) -> None:
    """Where the test set names the fallback (windows-1252), nothing may have been taken for a declaration."""
    charset, source = decide(data, None, True)
    if NAME_OF[label] == "windows-1252" and source in ("utf8", "detector", "default"):
        return
    assert charset == NAME_OF[label]


def test_there_are_html5lib_cases() -> None:
    assert len(html5lib_cases()) == 81


# --- legacy pages, the truth in the folder's name -------------------------------------------------------------------

# The folder's Python codec where it is not its name. UTF-32 without a mark, EUC-TW and Johab are not for detectors.
CODEC = {"CP932": "cp932", "SHIFT_JIS": "cp932", "GB2312": "gb18030", "EUC-KR": "cp949", "MacCyrillic": "mac_cyrillic",
         "UTF-16BE": "utf-16-be", "UTF-16LE": "utf-16-le", "iso-8859-1": "cp1252", "ascii": "ascii",
         "utf-8-sig": "utf-8-sig", "TIS-620": "cp874"}  # fmt: skip
HOPELESS = {"EUC-TW", "Johab", "UTF-32BE", "UTF-32LE", "iso-2022-kr"}


def legacy_pages() -> list[tuple[str, str, bytes]]:
    return [(p.parent.name, p.name, p.read_bytes()) for p in sorted((UNICODE / "chardet").glob("*/*"))]


def truth(folder: str, body: bytes) -> str:
    name = re.sub(r"^((?:iso-8859|windows)-\d+)-[a-z]+$", r"\1", folder)
    return body.decode(CODEC.get(name, name), "replace").removeprefix("\ufeff")


@pytest.mark.parametrize("hidden", [False, True])
def test_legacy_pages_decode_as_the_truth(hidden: bool) -> None:
    wrong = []
    pages = [page for page in legacy_pages() if page[0] not in HOPELESS]
    for folder, name, body in pages:
        seen = re.sub(rb"(encoding|charset)=", rb"hidden=", body) if hidden else body
        charset, source, text = read(seen, None, True)
        expected = truth(folder, seen)
        if folder.startswith("EUC-JP") or folder == "iso-2022-jp":  # browsers read some signs as windows-31J does
            expected = expected.translate(str.maketrans("〜‖−¢£¬—", "～∥－￠￡￢―"))
        if text != expected:
            wrong.append((folder, name, charset, source))
    assert len(pages) == 68
    assert not wrong


TIKA = [
    ("big-preamble.html", "windows-1251", "meta"),
    ("testHTMLNoisyMetaEncoding_1.html", "iso-8859-6", "meta"),
    ("testHTMLNoisyMetaEncoding_3.html", "iso-8859-6", "meta"),
    ("testHTML_charset_utf16le.html", "utf-16le", "bom"),
    ("testHTML_charset_utf8.html", "utf-8", "meta"),
    ("testHTML_utf8.html", "utf-8", "utf8"),
    ("testUserDefinedCharset.mhtml", "utf-8", "utf8"),
]


@pytest.mark.parametrize(("name", "charset", "source"), TIKA)
def test_tika_pages(name: str, charset: str, source: str) -> None:
    assert decide((UNICODE / "charset" / name).read_bytes(), None, True) == (charset, source)


# --- the bug cases --------------------------------------------------------------------------------------------------

NORMALISER = {"b055", "b061"}  # what is left to do there is the normaliser's


def bug_cases() -> list[dict[str, Any]]:
    path = SAMPLES / "bugs" / "cases.jsonl"
    lines = path.read_text("utf-8").splitlines() if path.is_file() else []
    found = [json.loads(line) for line in lines]
    return [c for c in found if c["kind"] in ("archive", "encoding") and not c.get("large_recipe")]


def documents(name: str) -> tuple[dict[str, dict[str, Any]], list[FailedRecord]]:
    found: dict[str, dict[str, Any]] = {}
    failed: list[FailedRecord] = []
    for made in DocumentBatches().rows(read_archive(str(SAMPLES / "bugs" / name)), name, ReadLimits()):
        failed += made.failed
        for row in decode_batch(made.batch)[0].to_pylist():
            found[row[col.URL] or ""] = row
    return found, failed


def shown(row: dict[str, Any]) -> str:
    text = row[col.MARKUP]
    if row[col.RECORD_TYPE] != "conversion":
        text = html.unescape(re.sub(r"<[^>]*>", "", text))
    return re.sub(r"\s+", " ", text.replace("\0", ""))


@pytest.mark.parametrize("case", bug_cases(), ids=lambda c: c["id"])
def test_bug_cases(case: dict[str, Any]) -> None:
    """Charset, status and text are right before any stage has run; broken records fail, their neighbours do not."""
    found, failed = documents(case["file"])
    expected = case["expect"]
    wanted = expected.get("docs") or {next(iter(found)): expected}
    for urls, holds in wanted.items():
        row = next((found[u] for u in urls.split("|") if u in found), None)
        if holds.get("fate") != "kept":
            continue
        assert row is not None, f"{urls} is lost"
        for name, value in holds.get("columns", {}).items():
            assert row[name] in (value if isinstance(value, list) else [value])
        for part in holds.get("text_contains", []):
            assert re.sub(r"\s+", " ", part) in shown(row)
        for part in holds.get("text_not_contains", []):
            if part not in ("<?xml", "DOCTYPE"):
                assert part not in shown(row)
        if case["id"] not in NORMALISER:
            for pattern in holds.get("raw_not_regex", []):
                assert not re.search(pattern, row[col.MARKUP])
    assert len(failed) >= expected.get("quarantine_min", 0)
    assert len(failed) <= expected.get("quarantine_max", 99)
    if "rows" in expected:
        assert len(found) + len(failed) == expected["rows"]
