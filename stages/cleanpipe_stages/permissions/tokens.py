"""The tags of a page as a browser finds them: nothing in comments, scripts, other raw text, values or templates."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape

_TOKEN = re.compile(rb"<(?:(!--)|(/?)([a-zA-Z][^\s/>]*+)|[!?/][^>]*+>)")
TAG_REST = re.compile(rb"((?:[^>=]++|=\s*+(?:\"[^\"]*+\"|'[^']*+')?+)*+)>")
"""A tag from behind its name to its end; a quote is one only behind ``=``."""
_COMMENT_END = re.compile(rb"--!?>")
_ATTRIBUTE = re.compile(
    rb"""([^\s/>="'<][^\s/>=]*+)(?:\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s>"']?[^\s>]*+)))?+""", re.DOTALL
)
_RAW = frozenset([b"script", b"style", b"textarea", b"title", b"xmp", b"iframe", b"noembed", b"noframes"])
_LONGEST = 4096  # bytes of an attribute's value that are read
Attributes = dict[str, str]


@dataclass(frozen=True, slots=True)
class Tag:
    """name: in lower case. at, end: bytes of the page; of a script, ``content`` is what it holds."""

    name: str
    at: int
    end: int
    raw: bytes
    content: bytes = b""

    def attributes(self) -> Attributes:
        """Names in lower case, the first of each; values with their character references undone."""
        out: Attributes = {}
        for found in _ATTRIBUTE.finditer(self.raw):
            name = found[1].decode("utf-8", "replace").lower()
            if name not in out:
                value = found[2] or found[3] or found[4] or b""
                out[name] = unescape(value[:_LONGEST].decode("utf-8", "replace")).strip()
        return out


def tags(page: bytes, names: frozenset[str], last: int) -> Iterator[Tag]:
    """The opening tags of these names that begin at or before ``last``, in order."""
    wanted = {name.encode() for name in names}
    at, templates = 0, 0
    while (found := _TOKEN.search(page, at)) is not None and found.start() <= last:
        at = found.end()
        if found[1]:
            at = _after_comment(page, at)
            continue
        if found[3] is None:
            continue
        rest = TAG_REST.match(page, at)
        if rest is None:  # the page ends within the tag: to a browser there is none
            return
        begin = at = rest.end()
        name, content = found[3].lower(), b""
        if name == b"template":
            templates = max(templates + (-1 if found[2] else 1), 0)
        elif name == b"plaintext" and not found[2]:
            return
        if found[2]:
            continue
        if name in _RAW:
            at = _after_raw(page, at, name)
            content = page[begin:at] if name == b"script" else b""
        if name in wanted and not templates:
            yield Tag(name.decode(), found.start(), begin, rest[1], content)


def _after_comment(page: bytes, at: int) -> int:
    if page.startswith((b">", b"->"), at):
        return page.index(b">", at) + 1
    found = _COMMENT_END.search(page, at)
    return found.end() if found else len(page)


_ENDS = {name: re.compile(rb"</" + name + rb"(?=[\s/>])", re.IGNORECASE) for name in _RAW}


def _after_raw(page: bytes, at: int, name: bytes) -> int:
    found = _ENDS[name].search(page, at)
    return found.start() if found else len(page)
