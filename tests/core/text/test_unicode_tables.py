"""Our tables against the ones this Python has, over characters that both know."""

from __future__ import annotations

import unicodedata

import pytest

from cleanpipe.text import unicode_tables as tables

NAMES = sorted(name for name in vars(tables) if name.isupper() and name != "UNICODE_VERSION")


def points(name: str) -> set[int]:
    return {p for a, b in tables.spans(getattr(tables, name)) for p in range(a, b + 1)}


ASSIGNED = {p for p in range(0x110000) if unicodedata.category(chr(p)) != "Cn"}


@pytest.mark.parametrize("name", NAMES)
def test_ranges_ascend(name: str) -> None:
    ends = [end for span in tables.spans(getattr(tables, name)) for end in (span[0], span[1] + 1)]
    assert ends == sorted(ends)
    assert len(set(ends)) == len(ends), "two ranges touch"


def test_marks() -> None:
    here = {p for p in ASSIGNED if unicodedata.category(chr(p)) in ("Mn", "Me") or unicodedata.combining(chr(p))}
    ours = points("MARKS")
    assert ours & ASSIGNED - here <= {0x1734}  # changed its category after Unicode 13
    assert len(here - ours) <= 60, "more than a few additions of later versions"
    if unicodedata.unidata_version <= "15.0.0":
        assert here <= ours


def test_right_to_left_letters() -> None:
    here = {
        p
        for p in ASSIGNED
        if unicodedata.bidirectional(chr(p)) in ("R", "AL") and unicodedata.category(chr(p))[0] == "L"
    }
    assert points("RTL_LETTERS") & ASSIGNED <= here
    if unicodedata.unidata_version <= "15.0.0":
        assert here <= points("RTL_LETTERS")


def test_every_conjunct_linker_is_a_virama() -> None:
    assert all(unicodedata.combining(chr(p)) == 9 for p in points("CONJUNCT_LINKER"))
    assert {0x915, 0x995, 0xA95, 0xB15, 0xC15, 0xD15} <= points("CONJUNCT_CONSONANT")  # ka of each script


def test_joiner_letters_know_their_scripts() -> None:
    letters = points("JOINER_LETTERS")
    assert {ord(c) for c in "یکها۱ـकক਼കකကកᠠܐߊ"} - points("TAIL") <= letters
    assert letters.isdisjoint(points("TAIL"))
    assert letters.isdisjoint({ord(c) for c in "aéяα日가あא1٬ ."})
