"""What a page says its charset is: the standard's prescan of the first bytes, and metas behind them."""

from __future__ import annotations

import re

from cleanpipe.io.charset_labels import encoding

META, XML = "meta", "xml"
PRESCAN = 1024  # bytes
LATE_META = 1 << 20  # bytes; a declaration behind them is not looked for

_BLANK = rb"\t\n\x0c\r "
_TAG = re.compile(rb"<(?:(!--)|(meta)(?=[" + _BLANK + rb"/])|(/?[a-z])|([!/?]))", re.IGNORECASE)
_TAG_NAME_ENDS = re.compile(rb"[" + _BLANK + rb">]")
_ATTRIBUTE = re.compile(
    rb"[" + _BLANK + rb"/]*(?:>|(?P<name>=?[^" + _BLANK + rb"/>=]*)(?P<end>[" + _BLANK + rb"]*=[" + _BLANK + rb"]*)?)"
)
_VALUE = re.compile(
    rb"\"([^\"]*)\"|'([^']*)'|([^" + _BLANK + rb">\"'][^" + _BLANK + rb">]*)(?=[" + _BLANK + rb">])|(?=>)"
)
_IN_CONTENT = re.compile(
    rb"charset[" + _BLANK + rb"]*=[" + _BLANK + rb"]*"
    rb"(?:\"([^\"]*)\"|'([^']*)'|([^\"'" + _BLANK + rb";][^" + _BLANK + rb";]*))?",
    re.IGNORECASE,
)
_XML_LINE = re.compile(rb"\s*<\?xml\s[^>]*?\bencoding\s*=\s*(?:\"([^\"<>\s]+)\"|'([^'<>\s]+)')")
_LATE = re.compile(
    rb"<!--.*?(?:-->|\Z)|<(script|style|textarea|title|noscript|xmp)\b.*?(?:</\1|\Z)|(<meta)(?=[" + _BLANK + rb"/])",
    re.IGNORECASE | re.DOTALL,
)


def prescan(head: bytes) -> tuple[str, str] | None:
    """What the first bytes declare, as (charset, "meta" or "xml"): the standard's prescan; a meta goes before XML."""
    if b"charset" in head.lower():
        position = 0
        while found := _TAG.search(head, position):
            position = found.end()
            if found[1]:
                position = head.find(b"-->", found.start() + 2) + 3
                if position < 3:
                    break
            elif found[2]:
                declared, position = _meta(head, position)
                if declared:
                    return declared, META
            elif found[3]:
                name = _TAG_NAME_ENDS.search(head, position)
                if not name:
                    break
                position = name.start()
                while (attribute := _next_attribute(head, position)) and attribute[0]:
                    position = attribute[2]
                if not attribute:
                    break
                position = attribute[2]
            else:
                position = head.find(b">", position) + 1
                if not position:
                    break
    xml = _XML_LINE.match(head)
    named = encoding((xml[1] or xml[2]).decode("latin-1")) if xml else None
    return (_as_declared(named), XML) if named else None


def late_meta(body: bytes) -> str | None:
    """The first declaration by a meta anywhere in the first MiB, comments and raw text elements passed over."""
    if not re.search(rb"charset", body[PRESCAN:LATE_META], re.IGNORECASE):
        return None
    head, position = body[:LATE_META], 0
    while found := _LATE.search(head, position):
        position = found.end()
        if found[2]:
            declared, position = _meta(head, position)
            if declared:
                return declared
    return None


def _next_attribute(head: bytes, position: int) -> tuple[bytes, bytes, int] | None:
    """Name and value in lower case and where they end; an empty name at the tag's end; None if the bytes end first."""
    found = _ATTRIBUTE.match(head, position)
    assert found is not None  # it fits the empty string
    name, at = found["name"], found.end()
    if name is None:
        return b"", b"", at
    if at >= len(head) and not found["end"]:
        return None
    if not found["end"]:
        return name.lower(), b"", at
    value = _VALUE.match(head, at)
    if not value:
        return None
    return name.lower(), (value[1] or value[2] or value[3] or b"").lower(), value.end()


def _meta(head: bytes, position: int) -> tuple[str | None, int]:
    """The charset that the meta tag with attributes from ``position`` on declares, if any, and where the tag ends."""
    seen: dict[bytes, bytes] = {}
    while True:
        attribute = _next_attribute(head, position)
        if attribute is None:
            return None, len(head)
        name, value, position = attribute
        if not name:
            break
        seen.setdefault(name, value)
    if b"charset" in seen:
        named = encoding(seen[b"charset"].decode("latin-1"))
    elif seen.get(b"http-equiv") == b"content-type":
        named = _from_content(seen.get(b"content", b""))
    else:
        named = None
    return (_as_declared(named) if named else None), position


def _from_content(content: bytes) -> str | None:
    found = _IN_CONTENT.search(content)
    if not found:
        return None
    written = found[1] or found[2] or found[3]
    return encoding(written.decode("latin-1")) if written else None


def _as_declared(named: str) -> str:
    """A declaration that can be read as ASCII is not UTF-16; x-user-defined is what pages called windows-1252."""
    return {"utf-16le": "utf-8", "utf-16be": "utf-8", "x-user-defined": "windows-1252"}.get(named, named)
