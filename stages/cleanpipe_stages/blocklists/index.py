"""Rules as sorted 64-bit hashes: ten bytes each, looked up for a whole batch at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cleanpipe.errors import ConfigError
from cleanpipe_stages.blocklists.address import address
from cleanpipe_stages.blocklists.lines import BELOW, DOMAIN, HOST, PARTS, PREFIX, Rule, chunks, rules_of
from cleanpipe_stages.dedup.hashing import Words, mix, token_hashes

_TAIL = bytes(16)
_KINDS = np.array([0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179, 0x9B05688C2B3E6C1F, 0x510E527FADE682D1], np.uint64)
_MOST_ODD = 0.01  # share of lines that may be no rule before a file is refused
_PLAIN = np.zeros(256, bool)
_PLAIN[np.frombuffer(b"abcdefghijklmnopqrstuvwxyz0123456789.-_", np.uint8)] = True
_LOWER = np.arange(256, dtype=np.uint8)
_LOWER[0x41:0x5B] += 0x20
_BORDERS = np.zeros(256, bool)
_BORDERS[np.frombuffer(b"/?&=", np.uint8)] = True
_MOST_LISTS = 1 << 16
NONE = -1


@dataclass(frozen=True, slots=True)
class Index:
    """keys: hashes of rules, ascending and distinct. lists: number of the first list that has each. paths: whether any
    rule is a URL prefix.
    """

    keys: Words
    lists: npt.NDArray[np.uint16]
    paths: bool

    def find(self, urls: Sequence[str | None]) -> npt.NDArray[np.int64]:
        """For each URL the number of the first list that has it, or NONE; shape [n]."""
        out = np.full(len(urls), _MOST_LISTS, np.int64)
        texts, hosts, rows = [], [], []
        for row, url in enumerate(urls if self.keys.size else ()):
            found = address(url) if url else None
            if found is not None:
                host, rest = found[0].encode("utf-8", "replace"), found[1].encode("utf-8", "replace")
                texts.append(host + rest if self.paths else host)
                hosts.append(len(host))
                rows.append(row)
        if texts:
            self._look_up(texts, np.array(hosts), np.array(rows), out)
        out[out == _MOST_LISTS] = NONE
        return out

    def _look_up(
        self, texts: list[bytes], hosts: npt.NDArray[np.int64], rows: npt.NDArray[np.int64], out: npt.NDArray[np.int64]
    ) -> None:
        data, starts, sizes = _join(texts)
        ends = starts + hosts
        owner = np.repeat(np.arange(len(texts)), sizes + 1)  # of each byte, the separator included
        dots = np.flatnonzero(data[: len(owner)] == 0x2E)
        dots = dots[dots < ends[owner[dots]]]
        below = owner[dots]
        spans = [
            (HOST, starts, hosts, rows),
            (DOMAIN, starts, hosts, rows),
            (DOMAIN, dots + 1, ends[below] - dots - 1, rows[below]),
            (BELOW, dots + 1, ends[below] - dots - 1, rows[below]),
        ]
        if self.paths:
            places = np.arange(len(owner))
            behind = places >= ends[owner]
            whole = places == (starts + sizes)[owner]
            border = np.flatnonzero(behind & (_BORDERS[data[: len(owner)]] | whole))
            inner = border[~whole[border]]  # a prefix may end before its border, or with it
            for stop, mine in ((border, owner[border]), (inner + 1, owner[inner])):
                spans.append((PREFIX, starts[mine], stop - starts[mine], rows[mine]))
        for kind, start, size, row in spans:
            if not len(start):
                continue
            keys = _keys(data, start, size, kind)
            at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
            hit = self.keys[at] == keys
            np.minimum.at(out, row[hit], self.lists[at[hit]].astype(np.int64))


def build(files: Sequence[Path]) -> Index:
    """The rules of lists, in their order. One of the two files of a category of UT1 may be empty, as they come.

    Raises:
        ConfigError: a file cannot be read or has no rule, or more than one line in a hundred is no rule.
    """
    if len(files) >= _MOST_LISTS:
        raise ConfigError(f"{len(files):,} lists: at most {_MOST_LISTS - 1:,}")
    parts: list[tuple[Words, int]] = []
    paths = False
    empty: list[Path] = []
    full: set[Path] = set()
    for number, path in enumerate(files):
        lines = odd = 0
        first = ""
        for chunk in chunks(path):
            plain, rest, count = _plain_lines(chunk)
            parts.append((plain, number))
            lines += count
            rules: list[Rule] = []
            for line in rest:
                found = rules_of(line.decode("utf-8", "replace"))
                lines += found != []
                if found is None:
                    odd += 1
                    first = first or line[:80].decode("utf-8", "replace").strip()
                else:
                    rules += found
            paths = paths or any(kind == PREFIX for kind, _ in rules)
            parts += [(keys, number) for keys in _rule_keys(rules)]
        if lines:
            full.add(path.parent)
        else:
            empty.append(path)
        if odd > max(1, lines * _MOST_ODD) or (odd and odd == lines):
            raise ConfigError(f"{path}: {odd:,} of {lines:,} lines are no domain, host or URL; the first: {first!r}")
    for path in empty:
        if path.name not in PARTS or path.parent not in full:
            raise ConfigError(f"the list {path} names none: one domain, host or URL a line")
    keys = np.concatenate([np.empty(0, np.uint64), *(k for k, _ in parts)])
    lists = np.concatenate([np.empty(0, np.uint16), *(np.full(len(k), n, np.uint16) for k, n in parts)])
    del parts
    order = np.lexsort((lists, keys))
    keys, lists = keys[order], lists[order]
    fresh = np.ones(len(keys), bool)
    fresh[1:] = keys[1:] != keys[:-1]
    return Index(keys[fresh], lists[fresh], paths)


def _plain_lines(chunk: bytes) -> tuple[Words, list[bytes], int]:
    """Keys of the lines that are a bare ASCII domain, by arrays alone; the other lines; how many of the first kind."""
    data = _LOWER[np.frombuffer(chunk + _TAIL, np.uint8)]
    ends = np.flatnonzero(data[: len(chunk)] == 0x0A)
    starts = np.concatenate(([0], ends[:-1] + 1))
    stops = ends - ((ends > starts) & (data[ends - 1] == 0x0D))
    bad = np.concatenate(([0], np.cumsum(~_PLAIN[data[: len(chunk)]])))
    dots = np.concatenate(([0], np.cumsum(data[: len(chunk)] == 0x2E)))
    full = stops > starts
    plain = full & (bad[stops] == bad[starts]) & (dots[stops] > dots[starts]) & (stops - starts < 256)
    last = np.maximum(stops - 1, 0)
    plain &= (data[starts] != 0x2E) & (data[last] != 0x2E)
    beginning = np.stack([data[np.minimum(starts + i, len(chunk))] for i in range(4)])
    www = (beginning == np.frombuffer(b"www.", np.uint8)[:, None]).all(axis=0)
    coded = np.concatenate(([0], np.cumsum(_has(data, b"xn--", len(chunk)))))
    plain &= ~(www | (coded[stops] > coded[starts]))
    keys = _keys(data, starts[plain], (stops - starts)[plain], DOMAIN)
    others = np.flatnonzero(full & ~plain)
    rest = [chunk[a:b] for a, b in zip(starts[others].tolist(), stops[others].tolist(), strict=True)]
    return keys, rest, int(plain.sum())


def _has(data: npt.NDArray[np.uint8], word: bytes, size: int) -> npt.NDArray[np.bool_]:
    """Where the word begins."""
    found = np.ones(size, bool)
    for i, byte in enumerate(word):
        found &= data[i : size + i] == byte
    return found


def _rule_keys(rules: list[Rule]) -> list[Words]:
    out = []
    for kind in (DOMAIN, BELOW, HOST, PREFIX):
        texts = [text.encode("utf-8", "replace") for k, text in rules if k == kind]
        if texts:
            data, starts, sizes = _join(texts)
            out.append(_keys(data, starts, sizes, kind))
    return out


def _join(texts: list[bytes]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """One buffer with a byte 0 behind each text, where each begins, and its bytes."""
    data = np.frombuffer(b"\0".join((*texts, _TAIL)), np.uint8)
    sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    return data, np.concatenate(([0], np.cumsum(sizes + 1)[:-1])), sizes


def _keys(data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64], kind: int) -> Words:
    return mix(token_hashes(data, starts, sizes) ^ _KINDS[kind])
