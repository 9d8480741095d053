"""One spelling of a URL for comparing it with lists: host in lower-case Unicode, no scheme, user, port, ``www.``.

Both sides, lists and pages, go through ``address``, so what matters is that equal sites come out equal.
"""

from __future__ import annotations

import re
import unicodedata
from ipaddress import IPv6Address
from urllib.parse import unquote

_URL = re.compile(r"\s*(?:([A-Za-z][A-Za-z0-9+.-]*):)?[/\\]{2,}([^/\\?#]*)([^#]*)", re.DOTALL)
_PLAIN_HOST = re.compile(r"[a-z0-9._-]+")
_DOTS = str.maketrans({"\u3002": ".", "\uff0e": ".", "\uff61": "."})  # IDNA's other full stops
_DOT_SEGMENT = re.compile(r"/(?=/)|/\.(?=/|$)")
_UP = re.compile(r"/[^/]*/\.\.(?=/|$)")
_LONGEST = 2048  # characters of a path and query that are looked at
_LONGEST_HOST = 1024  # no name of the DNS is half as long


def address(url: str) -> tuple[str, str] | None:
    """Host and what follows it (path and query, "" or beginning with ``/`` or ``?``); None where there is no host.

    ``https://user@WWW.Example.COM.:8080/A/../b%7Ec?q#f`` is ``("example.com", "/b~c?q")``: letter case does not count
    in paths either, for many lists are in lower case throughout.
    """
    found = _URL.match(url)
    if not found:
        return None
    host = host_name(found[2])
    return (host, path_name(found[3])) if host else None


def host_name(authority: str) -> str:
    """The host of ``user@host:port``; "" where there is none."""
    host = authority.rpartition("@")[2][:_LONGEST_HOST].lower()
    if host.startswith("["):
        return _address_v6(host.partition("]")[0][1:])
    host = host.partition(":")[0]
    if not _PLAIN_HOST.fullmatch(host) or "xn--" in host:
        host = _unicode(host)
    host = host.strip(".")
    if host.startswith("www.") and "." in host[4:]:
        host = host[4:]
    return host


def path_name(rest: str) -> str:
    """Path and query in the one spelling."""
    if rest in ("", "/"):
        return rest
    rest = rest[:_LONGEST].replace("\\", "/")
    if "%" in rest:
        rest = unquote(rest, errors="replace")
    path, mark, query = rest.partition("?")
    if "//" in path or "/." in path:
        path = _without_dots(path)
    return (path + mark + query).lower().replace("\0", " ")


def _without_dots(path: str) -> str:
    path = _DOT_SEGMENT.sub("", path)
    out: list[str] = []
    for part in path.split("/")[1:]:
        if part == "..":
            del out[-1:]
        else:
            out.append(part)
    return "/" + "/".join(out)


def _unicode(host: str) -> str:
    if "%" in host:
        host = unquote(host, errors="replace").lower()
    host = unicodedata.normalize("NFKC", host.translate(_DOTS)).lower()
    if "xn--" not in host:
        return host.replace("\0", "")
    return ".".join(map(_label, host.split("."))).replace("\0", "")


def _label(label: str) -> str:
    if not label.startswith("xn--") or not label.isascii() or len(label) > 63:
        return label
    try:
        return unicodedata.normalize("NFKC", label[4:].encode().decode("punycode")).lower()
    except (UnicodeError, ValueError, OverflowError):
        return label


def _address_v6(text: str) -> str:
    try:
        return f"[{IPv6Address(text.partition('%')[0]).compressed}]"
    except ValueError:
        return ""
