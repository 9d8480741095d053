"""An archive read in spans: together they give what a reading of the whole gives, whatever the bytes and borders."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

import pytest
import span_laws
from hypothesis import given, settings
from hypothesis import strategies as st
from span_laws import READERS, Chain, blocks, members, packed, part, record, starts

from cleanpipe.io.archive import read_one
from cleanpipe.io.record import Damage, RawRecord, Span

pytestmark = pytest.mark.slow  # with others of its length in a target of their own


def check(path: Path, data: bytes, sizes: Sequence[int], readers: Sequence[str] = READERS) -> list[Chain]:
    path.write_bytes(data)
    return span_laws.check(path, sizes, readers)


EMPTY, BLANK, TEXT = packed(b""), packed(b"\r\n\r\n"), packed(b"<html>no record</html>")


def test_borders_anywhere(tmp_path: Path) -> None:
    """Every border in and around a few members; nothing is read twice."""
    data = b"".join(members(1, 4, 60))
    for chain in check(tmp_path / "a", data, range(1, len(data) + 2), ("fast", "member")):
        assert not chain.again
        assert [f.reread for f in chain.owners] == [""] * len(chain.owners)
    for chain in check(tmp_path / "a", data, range(1, len(data) + 2, 13), ("warcio",)):
        assert not chain.again


def test_a_span_owns_the_members_that_begin_in_it(tmp_path: Path) -> None:
    path, parts = tmp_path / "a", members(2, 9)
    path.write_bytes(b"".join(parts))
    at = [*starts(parts), path.stat().st_size]
    for reader in READERS:
        for begin, end, owned in [
            (0, at[3], [0, 1, 2]),
            (0, at[3] + 1, [0, 1, 2, 3]),
            (at[3], at[4], [3]),
            (at[3] + 1, at[4], []),
            (at[3] + 1, at[4] + 1, [4]),
            (at[8], at[9], [8]),
            (at[8] + 1, at[9], []),
        ]:
            items, facts = part(path, Span(begin, end), reader)
            assert [int(i.headers["x-number"]) for i in items if isinstance(i, RawRecord)] == owned
            assert facts.reader == reader
            assert (facts.first, facts.next) == ((at[owned[0]], at[owned[-1] + 1]) if owned else (-1, -1))


def test_sound_archives_need_no_second_reading(tmp_path: Path) -> None:
    data = b"".join(members(3, 60))
    for chain in check(tmp_path / "a", data, (4096, 10_007, 1 << 16, 1 << 30)):
        assert not chain.again
        assert {(f.reader, f.reread) for f in chain.owners} == {(chain.parts[0][1].reader, "")}


def mixed(dice: random.Random) -> bytes:
    """Members of all kinds that archives are known to hold, in any order."""
    out = []
    for number, block in enumerate(blocks(dice, dice.randrange(1, 30), dice.choice([10, 300, 3000, 9000]))):
        text, level = record(number, block), dice.choice([0, 1, 6])
        if dice.random() < 0.3:
            out.append(dice.choice([EMPTY, EMPTY * 3, BLANK, TEXT, b"junk", bytes(700)]))
        match dice.randrange(8):
            case 0:  # a record that goes on in the next member
                cut = dice.randrange(len(text))
                out.append(packed(text[:cut], level) + packed(text[cut:], level))
            case 1:  # a member of several records
                out.append(packed(text * dice.randrange(2, 4), level))
            case 2:  # an archive in an archive: what looks like members is none
                out.append(packed(record(number, b"".join(members(number, 4, 400))), level))
            case 3:  # the same, at the beginning of a block and with its end missing
                out.append(packed(record(number, b"".join(members(number, 3, 400))[:-40]), 0))
            case _:
                out.append(packed(text, level))
    return b"".join(out)


def damaged(data: bytes, dice: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(dice.choice([1, 1, 2, 6])):
        at = dice.randrange(len(out) + 1)
        match dice.randrange(5):
            case 0 if at < len(out):
                out[at] ^= 1 << dice.randrange(8)
            case 1:
                del out[at : at + dice.choice([1, 8, 100, 5000])]
            case 2:
                out[at:at] = dice.randbytes(dice.choice([1, 50, 5000]))
            case 3:
                out[at:at] = bytes(dice.choice([1, 10, 3000]))
            case _:
                del out[at:]
    return bytes(out)


@pytest.mark.parametrize("seed", range(10))
def test_laws_hold_on_mixed_and_damaged_archives(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    for turn in range(12):
        data = mixed(dice) if turn % 3 else b"".join(members(seed * 100 + turn, dice.randrange(1, 30)))
        sizes = [dice.choice([4096, 300]), dice.randrange(500, 20_000)]
        check(tmp_path / "a", damaged(data, dice) if turn % 2 else data, sizes, [READERS[turn % 3]])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.binary(max_size=60).map(lambda b: packed(record(1, b)))
        | st.binary(max_size=30).map(lambda b: packed(record(1, b) + record(2, b"")))
        | st.binary(max_size=60).map(packed)
        | st.binary(max_size=20)
        | st.sampled_from([EMPTY, BLANK, TEXT, b"\x1f\x8b\x08", b"\x1f"]),
        max_size=8,
    ),
    st.integers(16, 400),
    st.sampled_from(READERS),
)
def test_laws_hold_on_any_parts(parts: list[bytes], size: int, reader: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        check(Path(folder) / "a", b"".join(parts), [size], [reader])


def test_every_case_of_framing_as_a_member_among_others(tmp_path: Path) -> None:
    cases = json.loads((Path(__file__).parents[2] / "data/archive/framing.json").read_bytes())
    parts = [packed(case["input"].encode("latin-1")) for case in cases]
    check(tmp_path / "a", b"".join(parts), (300, 1111))
    check(
        tmp_path / "a",
        b"".join(p for pair in zip(parts, members(15, len(parts), 200), strict=True) for p in pair),
        (300,),
    )


NESTED = packed(record(99, b"".join(members(7, 40, 700))), 0)  # stored: its members lie there as they were


class TestAnArchiveInARecord:
    def test_what_looks_like_members_is_put_right_by_the_chain(self, tmp_path: Path) -> None:
        around = members(8, 6, 2000)
        data = b"".join([*around[:3], NESTED, *around[3:]])
        for chain in check(tmp_path / "a", data, (4096, 10_007)):
            assert chain.again  # some span was deceived, or the case shows nothing

    def test_a_span_within_it_owns_nothing_once_it_is_told(self, tmp_path: Path) -> None:
        path, around = tmp_path / "a", members(8, 2, 2000)
        path.write_bytes(around[0] + NESTED + around[1])
        begin, true = len(around[0]) + 5000, len(around[0]) + len(NESTED)
        for reader in READERS:
            deceived = part(path, Span(begin, begin + 4096), reader)[1]
            assert begin <= deceived.first < begin + 4096
            assert part(path, Span(begin, begin + 4096, true), reader)[1].first == -1
            items, told = part(path, Span(begin, 1 << 20, true), reader)
            assert [(item.offset, item.length) for item in items] == [(true, len(around[1]))]
            assert (told.first, told.next) == (true, path.stat().st_size)

    def test_packed_again_it_is_mostly_stored_too(self, tmp_path: Path) -> None:
        inner = b"".join(members(9, 60, 900))
        for level in (1, 6, 9):
            check(tmp_path / "a", packed(record(0, inner), level) + b"".join(members(10, 3)), (4096,), ("fast",))


class TestWhatLiesAtABorder:
    """A good member, the case, good members; a border at every byte of it and around."""

    CASES: ClassVar[dict[str, tuple[list[bytes], bool]]] = {  # what lies there; whether it belongs to the span before
        "empty members": ([EMPTY, EMPTY, EMPTY], True),
        "blank lines": ([BLANK, BLANK], True),
        "a member without a record": ([TEXT], True),
        "junk": ([b"junk that is no member at all"], True),
        "zeros": ([bytes(50)], True),
        "a member whose sum is wrong": ([packed(record(5, b"abc"))[:-8] + bytes(8)], False),
        "a member without its header": ([packed(record(5, b"abc"))[10:]], True),
        "a damage and a damage": ([b"junk", packed(record(5, b"abc"))[:-8] + bytes(8)], True),
        "an empty member and a damage": ([EMPTY, packed(record(5, b"abc"))[:-8] + bytes(8)], False),
        "a record in three members": ([packed(p) for p in (record(5, b"a" * 9)[:80], record(5, b"a" * 9)[80:])], False),
        "two records in a member": ([packed(record(5, b"a") + record(6, b"b"))], False),
        "two records in a member, an empty one": ([packed(record(5, b"a") + record(6, b"b")), EMPTY], False),
    }

    @pytest.mark.parametrize("reader", READERS)
    @pytest.mark.parametrize("case", CASES)
    def test_it(self, case: str, reader: str, tmp_path: Path) -> None:
        path, around = tmp_path / "a", members(11, 4, 30)
        parts, before = self.CASES[case]
        data = b"".join([*around[:2], *parts, *around[2:]])
        path.write_bytes(data)
        whole, _ = part(path, None, "member")
        start = len(around[0]) + len(around[1])
        stop = start + sum(map(len, parts))
        for border in range(start - 1, stop + 2, 1 if reader == "member" else 7):
            items, facts = part(path, Span(0, border), reader)
            rest, others = part(path, Span(border, len(data)), reader)
            if others.first != facts.next or others.relative:
                rest, others = part(path, Span(border, len(data), facts.next, facts.inflated), reader)
            assert items + rest == whole
            assert (facts.first, facts.next, others.next) == (0, others.first, len(data))
            if before and border == start:
                assert facts.next == stop
            if not before and border == start and parts[0] != EMPTY:
                assert facts.next == start

    @pytest.mark.parametrize("reader", READERS)
    def test_padding_behind_shared_members_goes_where_it_goes_in_the_whole(self, reader: str, tmp_path: Path) -> None:
        pair = packed(record(5, b"a") + record(6, b"b"))
        for data in (pair + EMPTY + b"".join(members(12, 3, 40)), (pair + EMPTY) * 5, EMPTY * 3 + pair + EMPTY * 30):
            for chain in check(tmp_path / "a", data, range(10, len(data), 9), (reader,)):
                assert len(chain.owners) <= 6

    def test_offsets_of_shared_members_need_a_base(self, tmp_path: Path) -> None:
        path = tmp_path / "a"
        parts = [packed(record(n, b"a" * 50) + record(n, b"b")) for n in range(6)]
        path.write_bytes(b"".join(parts))
        at, size = starts(parts)[3], len(record(0, b"a" * 50) + record(0, b"b"))
        for reader in READERS:
            items, facts = part(path, Span(at, 1 << 20), reader)
            assert (facts.relative, facts.inflated, items[0].offset) == (True, 3 * size, 0)
            items, facts = part(path, Span(at, 1 << 20, at, 3 * size), reader)
            assert (facts.relative, facts.inflated, items[0].offset) == (False, 3 * size, 3 * size)
            items, facts = part(path, Span(0, at), reader)
            assert (facts.relative, facts.inflated, items[0].offset) == (False, 3 * size, 0)


ENDS: dict[str, Callable[[bytes], bytes]] = {
    "trailing junk": lambda data: data + b"junk" * 3000,
    "trailing zeros": lambda data: data + bytes(20_000),
    "trailing empty members": lambda data: data + EMPTY * 600,
    "a cut last member": lambda data: data[:-7],
    "a cut last member, all but its header": lambda data: data + packed(record(1, b"abc"))[:12],
    "junk first": lambda data: b"junk" + data,
    "a broken first member": lambda data: b"\x1f\x8b\x08" + bytes(30) + data,
    "empty members first": lambda data: EMPTY * 600 + data,
    "nothing but empty members": lambda _data: EMPTY * 600,
    "nothing but junk": lambda data: data[20:5000],
    "a gzip file of something else": lambda data: packed(data, 0),
    "nothing": lambda _data: b"",
}


@pytest.mark.parametrize("end", ENDS)
def test_beginnings_and_ends(end: str, tmp_path: Path) -> None:
    check(tmp_path / "a", ENDS[end](b"".join(members(13, 8))), (4096, 9999))


def test_records_of_spans_are_read_again_one_by_one(tmp_path: Path) -> None:
    path, dice = tmp_path / "a", random.Random(5)
    path.write_bytes(damaged(mixed(dice) + mixed(dice), dice))
    for item in Chain(path, 4096).items:
        again = read_one(str(path), item.offset, item.length, item.offset_kind)
        assert again == item if isinstance(item, RawRecord) else isinstance(again, Damage)
        assert (again.offset, again.length) == (item.offset, item.length)


def test_arc(tmp_path: Path) -> None:
    version = b"1 0 x\nURL IP-address Archive-date Content-type Archive-length\n"
    lines = [b"filedesc://x.arc 0.0.0.0 20080430204825 text/plain %d\n%b\n" % (len(version), version)]
    for block in blocks(random.Random(3), 30):
        lines.append(b"http://a.example/ 192.0.2.1 20080430204826 text/html %d\n%b\n" % (len(block), block))
    for chain in check(tmp_path / "a.arc.gz", b"".join(map(packed, lines)), (4096,)):
        assert len(chain.owners) > 5  # its members are read in spans as those of WARC files are
        assert not chain.again
    (chain,) = check(tmp_path / "b.arc.gz", b"".join(lines), (4096,), ("fast",))
    assert len(chain.owners) == 1
