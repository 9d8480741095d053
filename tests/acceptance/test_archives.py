"""Archive readers on the sample archives: right counts, all readers equal, each record read again by its offset.

The samples are found by CLEANPIPE_SAMPLES, or beside the repository.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from cleanpipe.io.archive import read_archive, read_one
from cleanpipe.io.inputs import resolve_inputs
from cleanpipe.io.record import Damage, RawRecord

SAMPLES = Path(os.environ.get("CLEANPIPE_SAMPLES") or Path(__file__).parents[2].parent / "shared" / "samples")
pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"no samples at {SAMPLES} (set CLEANPIPE_SAMPLES)")
FACTS: dict[str, Any] = json.loads((Path(__file__).parents[1] / "data/archive/broken-facts.json").read_bytes())
FACTS.pop("_comment")
NAMES = re.compile(r"\.(warc|wet|wat|arc)(\.gz)?$")


def archives(*folders: str) -> list[str]:
    return [
        f"{folder}/{path.name}"
        for folder in folders
        for path in sorted((SAMPLES / folder).glob("*"))
        if NAMES.search(path.name)
    ]


def table() -> list[tuple[str, dict[str, int]]]:
    """Records by type as the samples' own tables state them (warcio's count), for the files that are sound."""
    found = []
    for folder in ("warc", "wet"):
        readme = SAMPLES / folder / "README.md"
        for line in readme.read_text("utf-8").splitlines() if readme.exists() else []:
            row = re.match(r"\| `([^`]+)` .*records \(warcio\): \d+ = ([^;|]+)", line)
            if row and f"{folder}/{row[1]}" not in FACTS:
                pairs = (part.rsplit(" ", 1) for part in row[2].strip().split(", "))
                found.append((f"{folder}/{row[1]}", {kind: int(count) for kind, count in pairs}))
    return found


def read(name: str, reader: str = "fast") -> tuple[list[RawRecord | Damage], Any]:
    archive = read_archive(str(SAMPLES / name), reader=reader)
    return list(archive), archive.facts


@pytest.mark.parametrize(("name", "records"), table(), ids=lambda v: v if isinstance(v, str) else "")
def test_sound_archives_hold_what_their_tables_say(name: str, records: dict[str, int]) -> None:
    items, facts = read(name)
    assert facts.records == records
    assert not [item for item in items if isinstance(item, Damage)]


def test_the_tables_were_found() -> None:
    assert len(table()) == len(archives("warc", "wet")) - 1  # the LF-only WET has its facts in the data file


@pytest.mark.parametrize("name", [*archives("broken"), "wet/cc_net-sample.warc.wet"])
def test_broken_archives_hold_what_was_worked_out_by_hand(name: str) -> None:
    items, facts = read(name)
    damages = [[i.offset, i.length, i.offset_kind, i.error] for i in items if isinstance(i, Damage)]
    assert (facts.records, damages) == (FACTS[name]["records"], FACTS[name]["damages"]), FACTS[name]["why"]


@pytest.mark.parametrize("name", archives("warc", "wet", "broken", "bugs"))
def test_readers_are_equal_and_records_are_read_again(name: str) -> None:
    items, facts = read(name, "member")
    data = (SAMPLES / name).read_bytes()
    assert facts.sha256 == hashlib.sha256(data).hexdigest()
    assert facts.file_bytes == len(data)
    for reader in ("fast", "warcio"):
        others, same = read(name, reader)
        assert others == items
        assert (same.sha256, same.records, same.block_bytes) == (facts.sha256, facts.records, facts.block_bytes)
    for item in items[:: max(1, len(items) // 25)]:
        again = read_one(str(SAMPLES / name), item.offset, item.length, item.offset_kind)
        if isinstance(item, RawRecord):
            assert again == item
        else:
            assert (type(again), again.offset, again.length) == (Damage, item.offset, item.length)


@pytest.mark.parametrize("name", [name for name in archives("warc", "wet") if ".arc" not in name and name not in FACTS])
def test_the_fast_reader_is_trusted_on_sound_archives(name: str) -> None:
    _, facts = read(name)
    if name == "warc/link-extraction-test.warc":  # edited by hand: a record ends with more blank lines than it should
        assert facts.reread
    else:
        assert (facts.reader, facts.reread) == ("fast", "")


def test_a_crawl_in_warc_and_in_arc_is_the_same() -> None:
    found = []
    for name in ("warc/iah-blackbook-2008.warc.gz", "warc/iah-blackbook-2008.arc.gz"):
        items = [item for item in read(name)[0] if isinstance(item, RawRecord) and item.type == "response"]
        found.append([(item.headers["warc-target-uri"], item.headers["warc-date"], item.block) for item in items])
    assert len(found[0]) == 299
    assert sorted(found[0]) == sorted(found[1])


def test_brackets_are_taken_off_addresses() -> None:
    items, _ = read("warc/wget-creativecommons-ai2-commoncrawl.warc.gz")
    responses = [item for item in items if isinstance(item, RawRecord) and item.type == "response"]
    assert len(responses) == 15
    assert all(item.headers["warc-target-uri"].startswith("http") for item in responses)


BUGS = {
    "b013-archive.warc.gz": (4, []),  # a length one too large is no loss in a member of its own
    "b015-archive.warc.gz": (4, ["bad_gzip"]),  # one member cut in the middle costs itself
    "b017-archive.warc.gz": (3, []),  # empty members
    "b021-archive.arc": (4, []),  # blanks in a URL
    "b023-archive.warc.wet.gz": (3, []),  # a head quoted in a text
    "b029-archive.warc": (3, []),  # LF alone
}


@pytest.mark.parametrize("name", archives("bugs"))
def test_bug_reports(name: str) -> None:
    items, _ = read(name)
    records, errors = BUGS.get(Path(name).name, (None, []))
    assert [item.error for item in items if isinstance(item, Damage)] == errors
    if records is not None:
        assert sum(isinstance(item, RawRecord) for item in items) == records


def test_one_byte_too_large_gives_the_block_without_half_a_line_end() -> None:
    blocks = [item.block for item in read("bugs/b013-archive.warc.gz")[0] if isinstance(item, RawRecord)]
    assert not [block for block in blocks if block.endswith(b"\r")]


def test_folders_are_searched() -> None:
    found = resolve_inputs([str(SAMPLES / "warc"), str(SAMPLES / "wet")], source_root=None)
    assert [item.source for item in found] == sorted(Path(name).name for name in archives("warc", "wet"))
