"""How much of a text its repeated runs of words are (Gopher, Rae et al. 2021, table A1), without an object for a run.

A run of n words can only be repeated where its first n - 1 are, so each length looks at what the one before left: all
of a text's runs are sorted once, for n = 2. Equality is that of 46 bits or more of a hash, within one document.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cleanpipe_stages.dedup.hashing import Words, mix, token_hashes
from cleanpipe_stages.heuristics.units import CHARACTERS_A_WORD, Ints, Units, quotient

TOP = (2, 3, 4)
REPEATED = (5, 6, 7, 8, 9, 10)
_K = np.uint64(0xD6E8FEB86659FD93)
_PLACES = 18  # bits of a word's place among those of a block of documents; a longer document is alone


@dataclass(slots=True)
class _Runs:
    """Runs of ``width`` words that stand twice or more in their document, in the order of their hashes.

    places: the first word of each. groups: which are equal, 0, 1, …; within a group the places ascend.
    firsts: the first place of each group.
    """

    width: int
    places: Ints
    groups: Ints
    firsts: Ints


def gram_shares(units: Units) -> dict[int, npt.NDArray[np.float64]]:
    """For each of TOP the characters of the most frequent run of n words, for each of REPEATED those of runs that stood
    before, by all characters of the document; 0 where none is repeated, NaN for an empty document.

    Characters of a run: with one blank between its words for TOP, those of its words alone for REPEATED, as datatrove
    counts. Of equally frequent runs the first counts. A run that stood before is counted once, and the search goes on
    behind it, so that no character counts twice. In scripts without blanks n words are 1.6 n characters.
    """
    words = units.words
    sizes = units.characters(words.starts, words.ends)
    hashes = token_hashes(units.data, words.starts, words.ends - words.starts)
    total = units.lengths
    unspaced = units.unspaced()
    made = {n: np.zeros(total.size) for n in (*TOP, *REPEATED)}
    for packed in (False, True):
        chosen = unspaced == packed
        if not chosen.any():
            continue
        widths = {n: round(n * CHARACTERS_A_WORD) if packed else n for n in (*TOP, *REPEATED)}
        found = _Search(units, hashes, chosen)
        lengths = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
        for n, width in widths.items():
            runs = found.repeated(width)
            if not runs.places.size:
                break
            if n in TOP:
                made[n] += _top(runs, found.owner, lengths, total.size, 0 if packed else width - 1)
            else:
                starts = np.array(_again(runs), np.int64)
                spent = lengths[starts + width] - lengths[starts]
                made[n] += np.bincount(found.owner[starts], spent, total.size)
    return {n: quotient(spent, total) for n, spent in made.items()}


class _Search:
    """Repeated runs of ever longer widths, of the chosen documents."""

    def __init__(self, units: Units, hashes: Words, chosen: npt.NDArray[np.bool_]) -> None:
        self.owner = units.words.owner
        self._stop = units.words.at[1:][self.owner]
        self._hashes = hashes
        self._places = np.flatnonzero(chosen[self.owner])
        self._sums = hashes.copy()
        self._width = 1
        bits = max(_PLACES, int(hashes.size).bit_length())
        self._low = np.uint64((1 << bits) - 1)

    def repeated(self, width: int) -> _Runs:
        """The repeated runs of ``width`` words; widths must ascend from call to call."""
        places = self._places
        while self._width < width:
            places = places[places + self._width < self._stop[places]]
            self._sums[places] = self._sums[places] * _K + self._hashes[places + self._width]
            self._width += 1
        keys = mix(self._sums[places]) & ~self._low | places.astype(np.uint64)
        keys.sort()
        places = (keys & self._low).astype(np.int64)
        keys &= ~self._low
        near = np.flatnonzero(keys[1:] == keys[:-1])
        near = near[self.owner[places[near]] == self.owner[places[near + 1]]]
        again = np.zeros(places.size, np.bool_)
        again[near + 1] = True
        member = again.copy()
        member[near] = True
        places, fresh = places[member], ~again[member]
        self._places = np.sort(places)
        return _Runs(width, places, np.cumsum(fresh) - 1, places[fresh])


def _top(runs: _Runs, owner: Ints, lengths: Ints, documents: int, blanks: int) -> npt.NDArray[np.float64]:
    """Characters of the most frequent run of each document, all its places together."""
    counts = np.bincount(runs.groups)
    spent = (lengths[runs.firsts + runs.width] - lengths[runs.firsts] + blanks) * counts
    whose = owner[runs.firsts]
    order = np.lexsort((runs.firsts, -counts, whose))
    best = order[np.unique(whose[order], return_index=True)[1]]
    made = np.zeros(documents)
    made[whose[best]] = spent[best]
    return made


def _again(runs: _Runs) -> Sequence[int]:
    """Places of runs that stood before, none of which overlaps another: read from the left.

    A run counts as seen if it was read at an earlier place, not stepped over there; its first place nearly always was.
    """
    width = runs.width
    repeats = runs.places != runs.firsts[runs.groups]
    order = np.argsort(runs.places[repeats])
    places = runs.places[repeats][order].tolist()
    groups = runs.groups[repeats][order].tolist()
    firsts = runs.firsts.tolist()
    seen = bytearray(len(firsts))
    free, found, at, last = -1, list[int](), 0, len(places)
    while at < last:
        place = places[at]
        if place < free:
            at += 1
            continue
        group = groups[at]
        at += 1
        if not seen[group]:
            seen[group] = 1
            first = firsts[group]
            before = bisect_left(found, first)
            if before and first < found[before - 1] + width:  # it was stepped over there
                continue
        found.append(place)
        free = place + width
        ahead = at + width - 1
        if ahead <= last and places[ahead - 1] == free - 1:  # what is stepped over now
            at = ahead
    return found
