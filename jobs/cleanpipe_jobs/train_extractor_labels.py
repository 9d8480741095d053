"""Pages with marked main text as examples: each block's share of words that stand in the truth, in its order.

Words are aligned, not looked up: a menu that repeats the article's words is no main text. Runs of four words that are
unique on both sides make a chain (its longest increasing part), what lies between two links of it is compared word by
word, and runs of four words that truth holds elsewhere are taken last.
"""

from __future__ import annotations

import gzip
import json
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

from cleanpipe_stages.html.blocks.segment import Blocks

WORD = re.compile(r"\w+")
RUN = 4  # words
_LARGEST = 30_000_000  # pairs of words of a gap that are compared
_SHORT = 30  # a gap of fewer words may be matched by single ones

_SHARED = frozenset(("com", "co", "org", "net", "gov", "gob", "edu", "ac", "or", "ne", "go"))  # as in bbc.co.uk

Flags = bytearray


@dataclass(frozen=True, slots=True)
class Page:
    """A page in UTF-8 with its main text. host: pages of one host are never in two folds. kind: its type."""

    name: str
    kind: str
    host: str
    markup: bytes
    truth: str


def pages(folder: Path) -> Iterator[Page]:
    """Pages of a set in either of the two layouts, in order of their names."""
    whole = folder / "ground-truth.json"
    if whole.exists():
        told = json.loads(whole.read_text(encoding="utf-8"))
        for name in sorted(told):
            url = told[name].get("url", "")
            yield _page(folder, name, "article", url, told[name]["articleBody"])
        return
    for path in sorted((folder / "ground-truth").glob("*.json")):
        told = json.loads(path.read_text(encoding="utf-8"))
        kind = told["_internal"]["page_type"]["primary"]
        yield _page(folder, path.stem, kind, told.get("url", ""), told["ground_truth"]["main_content"])


def _page(folder: Path, name: str, kind: str, url: str, truth: str) -> Page:
    parts = urlsplit(url).netloc.split(".")
    host = ".".join(parts[-3:] if len(parts) > 2 and parts[-2] in _SHARED else parts[-2:])
    body = gzip.decompress((folder / "html" / f"{name}.html.gz").read_bytes())
    full = f"{folder.name}/{name}"
    return Page(full, kind, host or full, decoded(body).encode(errors="replace"), truth)


def decoded(body: bytes) -> str:
    """A page's characters: UTF-8, else what its bytes look like."""
    try:
        return body.decode()
    except UnicodeDecodeError:
        from resiliparse.parse.encoding import bytes_to_str, detect_encoding

        return str(bytes_to_str(body, detect_encoding(body, html5_compatible=False) or "utf-8"))


@dataclass(frozen=True, slots=True)
class Labels:
    """words: of all blocks, with the block of each. size, hits: words of each block, and those in the truth."""

    words: list[str]
    block: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]
    hits: npt.NDArray[np.int64]
    truth: Counter[str]


def labels(blocks: Blocks, truth: str) -> Labels:
    """What of each block stands in the truth."""
    words: list[str] = []
    of: list[int] = []
    for number in range(len(blocks)):
        found = WORD.findall(blocks.text(number))
        words += found
        of += [number] * len(found)
    wanted = WORD.findall(truth)
    hits = np.frombuffer(bytes(aligned(words, wanted, of)), np.uint8)
    block = np.array(of, np.int64)
    size = np.bincount(block, minlength=len(blocks))
    return Labels(words, block, size, np.bincount(block[hits > 0], minlength=len(blocks)), Counter(wanted))


def aligned(page: Sequence[str], truth: Sequence[str], block: Sequence[int]) -> Flags:
    """For each word of a page whether it is matched by a word of the truth, each of which matches one at most."""
    hit, used = Flags(len(page)), Flags(len(truth))
    ends = [(-1, -1)]
    for at, there in _chain(_runs(page), _runs(truth)):
        for step in range(RUN):
            hit[at + step] = used[there + step] = 1
            if at + step > ends[-1][0] and there + step > ends[-1][1]:
                ends.append((at + step, there + step))
    ends.append((len(page), len(truth)))
    for (at, there), (to, there_to) in pairwise(ends):
        _gap(page, truth, block, (at + 1, to), (there + 1, there_to), hit, used)
    _elsewhere(page, truth, hit, used)
    return hit


def _runs(words: Sequence[str]) -> list[tuple[str, ...]]:
    return [tuple(words[at : at + RUN]) for at in range(len(words) - RUN + 1)]


def _chain(page: list[tuple[str, ...]], truth: list[tuple[str, ...]]) -> list[tuple[int, int]]:
    """Places of runs that are unique on both sides, the most that are in order on both."""
    here, there = Counter(page), Counter(truth)
    place = {run: at for at, run in enumerate(truth)}
    pairs = [(at, place[run]) for at, run in enumerate(page) if here[run] == 1 and there.get(run) == 1]
    tails: list[int] = []
    last: list[int] = []
    before = [-1] * len(pairs)
    for number, (_, at) in enumerate(pairs):
        length = bisect_left(tails, at)
        before[number] = last[length - 1] if length else -1
        tails[length : length + 1] = [at]
        last[length : length + 1] = [number]
    chain, number = [], last[-1] if last else -1
    while number >= 0:
        chain.append(pairs[number])
        number = before[number]
    return chain[::-1]


def _gap(
    page: Sequence[str],
    truth: Sequence[str],
    block: Sequence[int],
    here: tuple[int, int],
    there: tuple[int, int],
    hit: Flags,
    used: Flags,
) -> None:
    """Matches the words between two links: two in a row at least, a whole block, or any word of a short gap."""
    left, right = page[slice(*here)], truth[slice(*there)]
    if not left or not right or len(left) * len(right) > _LARGEST:
        return
    for match in SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks():
        first, behind = here[0] + match.a, here[0] + match.a + match.size
        starts = first == 0 or (first < len(page) and block[first] != block[first - 1])
        whole = starts and (behind == len(page) or block[behind] != block[behind - 1])
        if match.size >= 2 or (match.size and (whole or len(left) < _SHORT)):
            for step in range(match.size):
                hit[first + step] = used[there[0] + match.b + step] = 1


def _elsewhere(page: Sequence[str], truth: Sequence[str], hit: Flags, used: Flags) -> None:
    """Runs of the truth that are still open, where the page has them in another order."""
    open_runs: dict[tuple[str, ...], list[int]] = {}
    for at, run in enumerate(_runs(truth)):
        if not any(used[at : at + RUN]):
            open_runs.setdefault(run, []).append(at)
    at = 0
    while open_runs and at <= len(page) - RUN:
        step = 0
        if not any(hit[at : at + RUN]):
            there = next((t for t in open_runs.get(tuple(page[at : at + RUN]), ()) if not any(used[t : t + RUN])), None)
            while (
                there is not None
                and at + step < len(page)
                and there + step < len(truth)
                and page[at + step] == truth[there + step]
                and not used[there + step]
                and not hit[at + step]
            ):
                hit[at + step] = used[there + step] = 1
                step += 1
        at += max(step, 1)


def measures(found: Counter[str], wanted: Counter[str]) -> tuple[float, float, float]:
    """Precision, recall and F1 over words with their counts."""
    common = (found & wanted).total()
    precision, recall = (common / n if (n := c.total()) else 0.0 for c in (found, wanted))
    return precision, recall, 2 * precision * recall / (precision + recall) if common else 0.0
