"""The text of blocks, all of a page at once: bytes of markup between tags to characters."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from cleanpipe_stages.html.blocks import escape
from cleanpipe_stages.html.blocks.balanced import eight
from cleanpipe_stages.html.blocks.names import ID
from cleanpipe_stages.html.blocks.segment import Blocks, Places, characters, stretches

# Signs that stand in for what the markup says until all is text; the page's own ones are control characters, and go.
_BLOCK, _BREAK, _CODE, _CODED = "\0", "\1", "\2", "\3"
_SIGNS = (_BLOCK + _BREAK + _CODE + _CODED).encode()

_NONE, _NO_BYTE = 0xFF, b"\xff"  # no byte of UTF-8
_TAG = re.compile(rb"<[^<>]*>")
_CUSTOM = re.compile(rb"</?[a-z0-9]+-")
_READING = re.compile(rb"<rtc?[\s>]")
_THREE, _RT = np.uint32(0xFFFFFF), np.uint32(int.from_bytes(b"<rt", "little"))
_BREAKS = re.compile("\1[\\s\1]*")
_IN_CODE = re.compile("([\2\3])")
_PRE_LINE = re.compile(rb"<br[^<>]*>|</(?:div|p|li|tr|h[1-6])>(?!\n|</)")
_BLANKS = bytes.maketrans(b"\t\n\x0b\x0c\r", b"     ")
_A, _BR, _CODE_ID, _OTHER = ID["a"], ID["br"], ID["code"], 0


def plain(blocks: Blocks, rows: Places) -> list[str]:
    """Each of these blocks: one line, or several where ``<br>`` parts them; runs of blanks are one."""
    return [text.strip() for text in _characters(_pieces(blocks, rows)).split(_BLOCK)]


def marked(blocks: Blocks, rows: Places, in_code: list[bool]) -> list[str]:
    """The same in Markdown: characters escaped, code between backticks. in_code: whether a block begins inside code."""
    texts = _characters(_pieces(blocks, rows, code=True)).split(_BLOCK)
    out: list[str] = []
    for first, end in pairwise(np.searchsorted(rows, blocks.pages[:, 2]).tolist()):
        some, page = texts[first:end], _BLOCK.join(texts[first:end])
        if _CODE in page or _CODED in page or any(in_code[first:end]):
            out += [_with_code(text.strip(), inside) for text, inside in zip(some, in_code[first:end], strict=True)]
        elif some:
            out += [text.strip() for text in escape.inline(page).split(_BLOCK)]
    return out


def preformatted(markup: bytes) -> str:
    """What stands in a ``<pre>``, as it is, less blank lines around it and blanks at the ends of lines."""
    text = characters(_TAG.sub(b"", _PRE_LINE.sub(b"\n", markup.translate(None, _SIGNS))))
    lines = [line.rstrip(" \t") for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    return "\n".join(lines).strip("\n")


def _pieces(blocks: Blocks, rows: Places, *, code: bool = False) -> bytes:
    """The text of blocks without tags, with signs between. code: signs for code, too.

    A custom element, and a link right behind another, have no blank around them and are read as if they had.
    """
    tags, html = blocks.tags, blocks.html
    first, last = blocks.first[rows], blocks.end[rows]
    count = np.searchsorted(tags.at, last) - first
    heads = np.cumsum(count) - count
    tag = np.arange(int(count.sum())) + np.repeat(first - heads, count)  # before each stretch of text
    begin, stop = tags.end[tag], np.append(tags.at, len(html))[tag + 1]
    begin[heads], stop[heads + count - 1] = blocks.start[rows], last
    name = tags.name[tag]
    sign = np.full(len(tag), _NONE, np.uint8)
    sign[name == _BR] = 1
    links = np.flatnonzero((name == _A) & (stop == begin) & (tags.sign[tag] < 0))
    after = tags.at[tag[links] + 1]  # inside the block, for it ends with text
    sign[links[(tags.name[tag[links] + 1] == _A) & (blocks.data[after + 2] == 0x20)]] = 0x20
    other = np.flatnonzero(name == _OTHER)
    custom = [_CUSTOM.match(html, at) is not None for at in tags.at[tag[other]].tolist()]
    sign[other[custom]] = 0x20
    if code:
        coded = np.flatnonzero(name == _CODE_ID)
        sign[coded] = np.where(tags.sign[tag[coded]] > 0, 2, 3)
    sign[heads] = 0
    _silence(blocks, tag, stop, begin, sign)
    signed = np.flatnonzero(sign != _NONE)
    # a sign takes the place of the byte before, which is a tag's end or a blank
    begin[signed] -= 1
    data = blocks.data.copy()
    own = data[: len(html)] < len(_SIGNS)
    strange = bool(own.any())
    if strange:
        data[: len(html)][own] = _NONE
    data[begin[signed]] = sign[signed]
    some = np.flatnonzero(stop > begin)
    pieces = stretches(data, begin[some], stop[some])[1:].tobytes()
    return pieces.translate(None, _NO_BYTE) if strange else pieces


def _silence(blocks: Blocks, tag: Places, stop: Places, begin: Places, sign: npt.NDArray[np.uint8]) -> None:
    """Takes the readings of ruby out, which stand beside the text and not in it."""
    tags, html = blocks.tags, blocks.html
    near = np.flatnonzero(eight(blocks.data)[tags.at[tag]].astype(np.uint32) & _THREE == _RT)
    for row in near.tolist():
        end = row + int(blocks.partner[tag[row]] - tag[row])
        if row < end and sign[row] and sign[row + 1 : end + 1].all() and _READING.match(html, tags.at[tag[row]]):
            stop[row:end], sign[row:end] = begin[row:end], _NONE


def _characters(pieces: bytes) -> str:
    data = np.frombuffer(pieces.translate(_BLANKS), np.uint8)
    blank = data == 0x20
    twice = blank[1:] & blank[:-1]
    text = characters(data[np.append(~twice, True)[: len(data)]].tobytes())
    return _broken(text) if _BREAK in text else text


def _broken(text: str) -> str:
    """With ends of lines and no blanks around them; with a no-break blank between, two are of one block."""
    out: list[str] = []
    at = 0
    for breaks in _BREAKS.finditer(text):
        out += (text[at : breaks.start()].rstrip(), "\n" if breaks[0].count(_BREAK) == 1 else "\n\n")
        at = breaks.end()
    return "".join([*out, text[at:]])


def _with_code(text: str, inside: bool) -> str:
    if not inside and _CODE not in text and _CODED not in text:
        return escape.inline(text)
    out: list[str] = []
    for part in _IN_CODE.split(text):
        if part in (_CODE, _CODED):
            inside = part == _CODE
        elif part:
            out.append(escape.code(" ".join(part.split("\n"))) if inside else escape.inline(part))
    return "".join(out).strip()
