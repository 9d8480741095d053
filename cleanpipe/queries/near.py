"""Keys like one that names nothing: the same page spelled otherwise, one letter off, the same host or path, a word.

With an index all hosts and paths of the ledger are compared, by their hashes: every host that is one letter off is
looked up, and no URL is read but those that are offered. A word is looked for in the URLs themselves, of so many parts.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cleanpipe import batch as col
from cleanpipe.queries.index import Index, bare_url, host_key, prefix_range, url_ranges
from cleanpipe.queries.shelf import Place, Shelf

BRIEF = (
    col.DOC_ID, col.SOURCE, col.RECORD_OFFSET, col.RECORD_ID, col.URL, col.DATE, col.FATE, col.STAGE, col.REASON,
)  # fmt: skip
NEAREST = 5
PARTS = 24  # ledger parts that are read for it
_LOOKED_AT = 400  # rows whose URLs are compared with a key that names nothing
_HOSTS = 8  # hosts one letter off whose pages are looked at
_WORD = range(3, 101)  # characters of a word that is looked for
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789-."
_DIGITS = "0123456789abcdef"


@dataclass(frozen=True, slots=True)
class Near:
    """A key that would be found. why: what it has in common with the one given, in words."""

    key: str
    why: str
    doc_id: str
    url: str | None


def near_of(row: Mapping[str, Any], by: str, why: str) -> Near:
    """A row (columns BRIEF) by its URL, record id or "offset", else by its doc_id."""
    doc_id = row[col.DOC_ID].hex()
    keys = {col.URL: row.get(col.URL), col.RECORD_ID: row.get(col.RECORD_ID)}
    keys["offset"] = f"{row[col.SOURCE]}@{row[col.RECORD_OFFSET]}"
    return Near(str(keys.get(by) or doc_id), why, doc_id, row.get(col.URL))


# --- one letter off


def one_off(text: str, letters: str = _LETTERS) -> set[str]:
    """Every text that is one letter off: one missing, too many, another, or two in the wrong order."""
    out: set[str] = set()
    for i in range(len(text) + 1):
        head, tail = text[:i], text[i:]
        out.update(head + c + tail for c in letters)
        if tail:
            out.add(head + tail[1:])
            out.update(head + c + tail[1:] for c in letters)
        if len(tail) > 1:
            out.add(head + tail[1] + tail[0] + tail[2:])
    return out - {text, ""}


def is_one_off(a: str, b: str) -> bool:
    """Whether ``b`` is in ``one_off(a)``, whatever its letters are."""
    if a == b or abs(len(a) - len(b)) > 1:
        return False
    head, tail = _alike(a, b)
    a, b = a[head : len(a) - tail], b[head : len(b) - tail]
    return max(len(a), len(b)) <= 1 or (len(a) == len(b) == 2 and a == b[::-1])


def _alike(a: str, b: str) -> tuple[int, int]:
    """How many characters two texts have in common at their beginnings, and then at their ends."""
    least = min(len(a), len(b))
    head = next((i for i in range(least) if a[i] != b[i]), least)
    return head, next((i for i in range(least - head) if a[-1 - i] != b[-1 - i]), least - head)


def _unlike(a: str, b: str) -> float:
    """How unlike two texts are, by how they begin and end: 0 for the same, 1 for nothing in common."""
    return 1 - 2 * sum(_alike(a, b)) / (len(a) + len(b)) if a != b else 0.0


def near_digits(shelf: Shelf, indexes: Mapping[int, Index], name: str, digits: str) -> list[Near]:
    """Ids (doc_id or record_id) that are one hex digit off; only their first 8 digits are indexed."""
    head = digits[:8]
    ranges = [prefix_range(head)] if len(digits) > len(head) else []
    ranges += [prefix_range(h) for h in sorted(one_off(head, _DIGITS)) if len(h) == len(head)]
    places = [(p, r) for p, i in indexes.items() for low, high in ranges for r in i.between(name, low, high)]
    out = []
    for row in shelf.rows(places[:_LOOKED_AT], BRIEF):
        value = row[name].hex() if name == col.DOC_ID else str(row[name] or "").lower().strip("<>")
        if is_one_off(digits, value.removeprefix("urn:uuid:")[: len(digits)]):
            out.append(near_of(row, name, "one digit off"))
    return out[:NEAREST]


# --- URLs


def near_urls(shelf: Shelf, indexes: Mapping[int, Index], key: str) -> list[Near]:
    """The likeliest first."""
    host, path = bare_url(key)
    rows: dict[str, Place] = {}

    def take(found: Mapping[int, Sequence[int]], fits: Callable[[str, str], bool]) -> bool:
        places = _spread({p: r for p, r in found.items() if r})
        urls = [row.get(col.URL) for row in shelf.rows(places, (col.URL,))]
        fitting = [(u, p) for u, p in zip(urls, places, strict=True) if u is not None and fits(*bare_url(u))]
        for url, place in fitting:
            rows.setdefault(url, place)
        return bool(fitting)

    def of(low: int, high: int) -> dict[int, list[int]]:
        return {p: i.between(col.URL, low, high) for p, i in indexes.items()}

    for low, high in url_ranges(host, path):
        take(of(low, high), lambda h, _: h == host)
        if len(rows) >= NEAREST:
            break
    if not any(h == host and (p == path or is_one_off(path, p)) for h, p in map(bare_url, rows)):
        for other in _hosts(indexes, host)[:_HOSTS]:
            any(take(of(low, high), lambda h, _, other=other: h == other) for low, high in url_ranges(other, path))  # type: ignore[misc]
        if path:
            take({p: i.same_path(path) for p, i in indexes.items()}, lambda _, p: p == path)
    ranked = sorted(((_common(key, host, path, url), url) for url in rows), key=lambda r: (r[0][0], r[0][1], r[1]))
    best = shelf.rows([rows[url] for _, url in ranked[:NEAREST]], BRIEF)
    return [near_of(row, col.URL, why) for row, ((_, _, why), _) in zip(best, ranked, strict=False)]


def _hosts(indexes: Mapping[int, Index], host: str) -> list[str]:
    """Hosts of the ledger that are one letter off."""
    if not 3 < len(host) < 254:
        return []
    others = sorted(one_off(host))
    keys = np.array([host_key(h) for h in others], np.uint64)
    there = np.zeros(len(keys), np.bool_)
    for index in indexes.values():
        there |= index.has_hosts(keys)
    return [others[i] for i in np.flatnonzero(there)]


def _common(key: str, host: str, path: str, url: str) -> tuple[int, float, str]:
    """What a URL has in common with the key: rank, how unlike it is, and words."""
    its_host, its_path = bare_url(url)
    apart = _unlike(path, its_path)
    if its_host == host and its_path == path:
        same = key.partition("://")[2] == url.partition("://")[2]
        return 0, 0.0, "the same page, of the other scheme" if same else "the same page, spelled so"
    if its_host == host:
        close = is_one_off(path, its_path)
        return (2, apart, "of the same host, one letter off") if close else (3, apart, "of the same host")
    if is_one_off(host, its_host):
        off = "its host is one letter off"
        return (1, 0.0, f"{off}, the path the same") if its_path == path else (4, apart, off)
    return 5, _unlike(host, its_host), "of the same path, on another host"


def _spread(rows: Mapping[int, Sequence[int]]) -> list[Place]:
    """So many places, over so many parts, evenly."""
    step = -(-len(rows) // PARTS) or 1
    parts = list(rows)[::step]
    each = max(1, _LOOKED_AT // max(1, len(parts)))
    return [(p, r) for p in parts for r in rows[p][:: -(-len(rows[p]) // each) or 1]]


# --- words


def word_of(key: str) -> str:
    """What may be looked for of a key in URLs: all of it, or of a URL the name of its host; "" for nothing."""
    if "://" in key:
        labels = bare_url(key)[0].split(".")
        key = max(labels[:-1] or labels, key=len)
    return key if len(key) in _WORD and any(c.isalnum() for c in key) else ""


def near_word(shelf: Shelf, word: str) -> Iterator[Near]:
    """Inputs whose names, and pages whose URLs have a word in them; URLs of the first PARTS ledger parts."""
    names = {str(i["source"]).rpartition("/")[2]: str(i["source"]) for i in shelf.run.facts["inputs"]}
    having = [n for n in names if word.lower() in n.lower()]
    for name in having[:2] or difflib.get_close_matches(word, names, 2, 0.7):
        if (row := _first_of(shelf, names[name])) is not None:
            like = "has this word in it" if having else "is like it"
            yield near_of(row, "offset", f"first record of an input whose name {like}")
    for part in shelf.parts[:PARTS]:
        urls = shelf.columns(part, (col.URL,))
        if not urls.num_columns:
            continue
        try:
            found = pc.fill_null(pc.match_substring(urls.column(0), word, ignore_case=True), False)
        except pa.ArrowInvalid:  # no pattern of any text
            return
        places = [(part, int(r)) for r in np.flatnonzero(found.to_numpy())[:NEAREST]]
        yield from (near_of(row, col.URL, f"its URL has {word!r} in it") for row in shelf.rows(places, BRIEF))


def _first_of(shelf: Shelf, source: str) -> dict[str, Any] | None:
    for part in shelf.units_of(source):
        offsets = shelf.offsets(part, source, -(2**62), 2**62)
        if offsets:
            return shelf.rows([(part, min(offsets, key=lambda o: o[1])[0])], BRIEF)[0]
    return None
