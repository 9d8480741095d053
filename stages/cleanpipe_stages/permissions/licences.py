"""Creative Commons licences by their URLs, where they were named, and which of several counts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from cleanpipe_stages.html.names import names_of

SOURCES = ("header", "rel", "jsonld", "meta", "link")
"""Where a licence was named, the surest first: HTTP ``Link; rel=license``, a link with that relation, JSON-LD of the
page, a meta tag, or any link to it."""
SEVERAL = "several"

_URL = re.compile(
    r"(?:https?:)?\\?/\\?/(?:[a-z0-9-]+\.)?creativecommons\.org\\?/(?:choose\\?/)?(?:(licenses)|(publicdomain|licenses\\?/publicdomain))"
    r"\\?/?([a-z+-]*)(?:\\?/(\d\.\d))?(?:\\?/([a-z]{2,3})(?=[\\/?#\s\"'>]|$))?",
    re.IGNORECASE,
)
_CONDITIONS = ("by", "nc", "nd", "sa")  # in the order in which the licences name them
_LINK = re.compile(r"<([^>]*)>((?:\s*;\s*[a-z-]+\*?\s*(?:=\s*(?:\"[^\"]*\"|[^\s;,\"]*))?)*)", re.IGNORECASE)
_RELATION = re.compile(r"rel\s*=\s*(?:\"([^\"]*)\"|([^\s;,\"]+))", re.IGNORECASE)
_OTHER_THINGS = names_of(
    "ImageObject VideoObject AudioObject MediaObject SoftwareApplication SoftwareSourceCode Dataset DataDownload"
    " Photograph Product Map 3DModel"
)
_DEEPEST, _LARGEST = 16, 1 << 18


def licence_id(url: str) -> str | None:
    """``cc-by-sa-4.0`` of a licence's URL, deed or legal code; with its country where it was ported (``cc-by-3.0-de``);
    ``cc0-1.0``; ``cc-pdm-1.0`` (public domain mark), ``cc-pd`` (the old dedication). None of other URLs.
    """
    found = _URL.match(url.strip())
    if not found:
        return None
    licence, _, code, version, country = found.groups()
    code = code.lower().strip("-")
    if licence is None:
        names = {"zero": "cc0", "mark": "cc-pdm", "": "cc-pd"}
        if code not in names:
            return None
        return names[code] + (f"-{version}" if version and code else "")
    parts = code.split("-")
    if code == "publicdomain":
        return "cc-pd"
    if code in ("sampling", "sampling+", "nc-sampling+", "devnations"):
        name = code
    elif parts and set(parts) <= set(_CONDITIONS) and len(set(parts)) == len(parts):
        name = "-".join(c for c in _CONDITIONS if c in parts)
    else:
        return None
    ported = f"-{country.lower()}" if country and version and version < "4" else ""
    return f"cc-{name}" + (f"-{version}" if version else "") + ported


def conditions(licence: str) -> frozenset[str]:
    """What it asks for: by, nc, nd, sa."""
    return frozenset(licence.split("-")) & frozenset(_CONDITIONS)


def strictest(licences: Iterable[str]) -> str | None:
    """Of several the one whose conditions include those of all others, of equal ones the older; else ``several``."""
    found = sorted(set(licences))
    if not found:
        return None
    asked = frozenset[str]().union(*map(conditions, found))
    return next((licence for licence in found if conditions(licence) == asked), SEVERAL)


def has_licence(words: str | None) -> bool:
    """Whether a ``rel``, ``itemprop``, ``property`` or ``name`` says licence: ``license``, ``cc:license``, …"""
    return bool(words) and any(
        word.rpartition(":")[2].rpartition(".")[2] in ("license", "licence") for word in (words or "").lower().split()
    )


def of_header(value: str) -> Iterator[str]:
    """Licences of an HTTP Link header."""
    for url, parameters in _LINK.findall(value):
        relation = _RELATION.search(parameters)
        if relation and has_licence(relation[1] or relation[2]):
            found = licence_id(url)
            if found:
                yield found


def of_json(content: bytes) -> Iterator[str]:
    """Licences of the page in a block of JSON-LD; those of its images, videos, software and data are not its own."""
    if len(content) > _LARGEST:
        return
    try:
        data = json.loads(content.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return
    yield from _walk(data, _DEEPEST)


def _walk(data: Any, depth: int) -> Iterator[str]:
    if depth == 0:
        return
    if isinstance(data, list):
        for item in data:
            yield from _walk(item, depth - 1)
    elif isinstance(data, dict):
        kinds = data.get("@type")
        named = {str(k).rpartition("/")[2] for k in (kinds if isinstance(kinds, list) else [kinds])}
        if named & _OTHER_THINGS:
            return
        for key, value in data.items():
            if has_licence(str(key)):
                for one in value if isinstance(value, list) else [value]:
                    url = one.get("@id", one.get("url")) if isinstance(one, dict) else one
                    if isinstance(url, str) and (found := licence_id(url)):
                        yield found
            elif isinstance(value, (dict, list)):
                yield from _walk(value, depth - 1)
