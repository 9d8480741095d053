"""Which pages may say something, found for a whole batch by arrays: no page is tokenised that says nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cleanpipe_stages.permissions.tokens import TAG_REST

Places = npt.NDArray[np.int64]

_BLOCK = 1 << 17  # bytes at a time: stays in the cache
_AHEAD = 128  # bytes of a <meta> tag in which its name stands
# letters that stand in the names of robots, crawlers and TDM metadata; digits and punctuation as `| 0x20` leaves them
_NAMES = (
    b"bot",
    b"tdm-",
    b"spider",
    b"slurp",
    b"-extended",
    b"anthropic",
    b"x-robots",
    b"-agent",
    b"cohere-ai",
    b"claude-web",
)
_RESTRICTS = re.compile(rb"no[a-z&]|tdm-|&#")  # "&": letters may be written as references
_TAG_END = 2048  # bytes of a tag that are looked at
_HOST = np.frombuffer(b"creativecommons.org", np.uint8)
_MM = 10  # where "mm" stands in it
_MOST = 256  # places of a page that are looked at


@dataclass(frozen=True, slots=True)
class Found:
    """metas, licences: by row of the batch, the places of ``<meta`` tags that restrict or reserve, and of
    ``creativecommons.org``; bytes from the row's beginning.
    """

    metas: dict[int, list[int]]
    licences: dict[int, list[int]]


def scan(column: pa.LargeStringArray, wanted: npt.NDArray[np.bool_]) -> Found:
    """What is worth a closer look in the rows that are wanted, bool of n."""
    _, offsets, buffer = column.buffers()
    if offsets is None or buffer is None or not wanted.any():
        return Found({}, {})
    edges = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    base, size = int(edges[0]), int(edges[-1] - edges[0])
    data = np.frombuffer(buffer, np.uint8)[base : base + size]
    starts = edges - base
    tags, pairs = _anchors(data)
    return Found(
        _by_row(_metas(data, tags, starts), starts, wanted, 5),
        _by_row(_hosts(data, pairs), starts, wanted, len(_HOST)),
    )


def _anchors(data: npt.NDArray[np.uint8]) -> tuple[Places, Places]:
    """Where ``<m`` begins, and where ``mm``, in letters of either case."""
    tags, pairs = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for first in range(0, data.size - 1, _BLOCK):
        part = data[first : first + _BLOCK + 1]
        is_m = (part | np.uint8(0x20)) == 0x6D
        opens = part[:-1] == 0x3C
        opens &= is_m[1:]
        tags.append(np.flatnonzero(opens) + first)
        np.logical_and(is_m[:-1], is_m[1:], out=opens)
        pairs.append(np.flatnonzero(opens) + first)
    return np.concatenate(tags), np.concatenate(pairs)


def _same(data: npt.NDArray[np.uint8], places: Places, word: npt.NDArray[np.uint8] | bytes) -> Places:
    """Those of the places where the word stands, in letters of either case; what stands behind the end is no match."""
    word = np.frombuffer(word, np.uint8) if isinstance(word, bytes) else word
    places = places[(places >= 0) & (places + len(word) <= data.size)]
    for i, byte in enumerate(word):
        places = places[(data[places + i] | 0x20) == byte]
    return places


def _metas(data: npt.NDArray[np.uint8], tags: Places, starts: Places) -> Places:
    tags = _same(data, tags, b"<meta")
    if not tags.size:
        return tags
    ends = starts[np.searchsorted(starts, tags, side="right")]  # of the row: what stands in the next is not asked
    windows = _windows(data, tags)
    text = windows.tobytes()
    near = set()
    for name in _NAMES:
        at = text.find(name)
        while at >= 0:
            near.add(at // _AHEAD)
            at = text.find(name, (at // _AHEAD + 1) * _AHEAD)
    for row in np.flatnonzero((windows != 0x3E).all(axis=1)).tolist():
        window = text[row * _AHEAD : (row + 1) * _AHEAD]
        if b"name" not in window and b"prop" not in window:  # a long tag whose name comes last
            near.add(row)
    kept = []
    looked: dict[int, int] = {}  # tags of each row, which its end names
    for row in sorted(near):
        place, end = int(tags[row]), int(ends[row])
        looked[end] = looked.get(end, 0) + 1
        if looked[end] > _MOST:
            continue
        tag = data[place : min(place + _TAG_END, end)].tobytes().lower()
        whole = TAG_REST.match(tag)
        tag = whole[1] if whole else tag
        if any(name in tag for name in _NAMES) and _RESTRICTS.search(tag):
            kept.append(place)
    return np.array(kept, np.int64)


def _windows(data: npt.NDArray[np.uint8], tags: Places) -> npt.NDArray[np.uint8]:
    """The first bytes of each tag, letters in lower case; 0 behind the end."""
    out = np.zeros((len(tags), _AHEAD), np.uint8)
    inside = tags + _AHEAD <= data.size
    if inside.any():
        views = np.ndarray((data.size - _AHEAD + 1, _AHEAD), np.uint8, data, 0, (1, 1))
        out[inside] = views[tags[inside]]
    for row in np.flatnonzero(~inside).tolist():
        rest = data[tags[row] :]
        out[row, : rest.size] = rest
    out |= 0x20
    return out


def _hosts(data: npt.NDArray[np.uint8], pairs: Places) -> Places:
    return _same(data, pairs - _MM, _HOST)


def _by_row(places: Places, starts: Places, wanted: npt.NDArray[np.bool_], size: int) -> dict[int, list[int]]:
    """Places by row, those that end within theirs. size: bytes of what was found there."""
    rows = np.searchsorted(starts, places, side="right") - 1
    out: dict[int, list[int]] = {}
    for row, place in zip(rows.tolist(), places.tolist(), strict=True):
        if wanted[row] and place + size <= starts[row + 1]:
            mine = out.setdefault(row, [])
            if len(mine) < _MOST:
                mine.append(place - int(starts[row]))
    return out
