"""IP addresses. Public ones are personal data; private, local and documentation ranges are told apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address

Found = tuple[int, int, bool]  # start, end, public

# each begins with what is rare, and looks back from there: found fast
_V4_SIGN = re.compile(r"\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]")
_V4_HEAD = re.compile(r"(?<![\w.:])(?<![A-Za-z_]-)[1-9][0-9]{0,2}\Z")
_V4_TAIL = re.compile(r"(?:\.(?:0|[1-9][0-9]{0,2})){3}(?![\w]|\.[0-9]|-[A-Za-z])")
_V6_SIGN = re.compile(r":(?:[0-9A-Fa-f]{1,4}:|:[0-9A-Fa-f])")
_V6_HEAD = re.compile(r"(?<![\w:.])[0-9A-Fa-f:]{1,5}\Z")
_V6 = re.compile(r"[0-9A-Fa-f:]{2,39}(?:(?:\.[0-9]{1,3}){3})?(?![\w:]|\.[0-9])")
_VERSION = re.compile(
    r"(?:\b(?:versions?|ver|v|releases?|rev(?:ision)?|build|firmware|update|upgrade|patch|kernel|drivers?|plugin|package|"
    r"module|library|sections?|sec|chapter|figure|fig|table|clause|article|paragraph|appendix|annex|rule|oid|edition|step|"
    r"abschnitt|kapitel|versión|versione|версия|версии)\.?|版本|バージョン|§|[=~^<>!]=|[~^]|[a-z][\w+-]*/)[\s:=(#-]{0,3}\Z",
    re.IGNORECASE,
)
_PRODUCT = re.compile(
    r"\b(?!(?:User|From|By|Anonymous|Client|And|The|At|On|To|Try|Use|See|Ban|Block)\b)[A-Z][A-Za-z+-]+ \Z"
)
_ADDRESS = re.compile(
    r"\b(?:ips?|ip-?v?4|addr(?:ess(?:es)?)?|hosts?|servers?|dns|resolvers?|ping|gateways?|routers?|proxy|proxies|nameservers?|"
    r"ssh|telnet|netmask|subnet|networks?|client|visitors?|logged|adresse|dirección|indirizzo|адрес|地址|アドレス)\b[^\n]{0,24}\Z",
    re.IGNORECASE,
)
# what must be there for the dear ones above to match: looked at first
_VERSION_END = re.compile(r"(?:[^\W\d_]\.?|[§=~^/])[\s:=(#-]{0,3}\Z")
_LETTER = re.compile(r"[^\W\d_]")
_LETTERS = re.compile(r"[^\W\d_]{2}")
_SIGNED = re.compile(r"[§=~^]")
_V6_RUN = re.compile(r"[0-9A-Fa-f:]*")
_V6_MOST = 39  # characters of hexadecimal digits and colons
_SMALL = 32  # octets below look like parts of a version
_BEFORE = 40


def v4_addresses(text: str) -> Iterator[Found]:
    """IPv4 addresses, but not what is a version, a section or an object identifier."""
    for sign in _V4_SIGN.finditer(text):
        head, tail = _V4_HEAD.search(text, max(0, sign.start() - 5), sign.start()), _V4_TAIL.match(text, sign.start())
        if head is None or tail is None:
            continue
        start, end = head.start(), tail.end()
        parts = [int(octet) for octet in text[start:end].split(".")]
        if max(parts) <= 255 and _is_address(text, start, end, parts):
            yield start, end, _is_public_v4(text[start:end])


def _is_address(text: str, start: int, end: int, parts: list[int]) -> bool:
    if text[end : end + 1] in (":", "/") and re.match(r":\d{2,5}\b|/\d{1,2}\b(?!\.)", text[end : end + 6]):
        return True
    before = text[max(0, start - _BEFORE) : start]
    if before.endswith(("@", "//")):
        return True
    named = _LETTER.search(before) is not None
    if (named or _SIGNED.search(before)) and _VERSION_END.search(before[-5:]) and _VERSION.search(before):
        return False
    if not named:
        return max(parts) >= _SMALL
    if _LETTERS.search(before) and _ADDRESS.search(before):
        return True
    return max(parts) >= _SMALL and not (parts[0] < _SMALL and _PRODUCT.search(before))


def v6_addresses(text: str) -> Iterator[Found]:
    """IPv6 addresses: global unicast ones, or local ones that are surely meant (fe80::, fc00::)."""
    at = 0
    while (sign := _V6_SIGN.search(text, at)) is not None:
        run = _V6_RUN.match(text, sign.start())
        rest = run.end() if run else sign.start()
        if rest - sign.start() > _V6_MOST:  # no address ends inside a run
            at = rest - _V6_MOST
            continue
        at = sign.start() + 1
        head = _V6_HEAD.search(text, max(0, sign.start() - 5), sign.start())
        found = _V6.match(text, head.start() if head else sign.start())
        if found is None:
            continue
        at = max(at, found.end())
        if not _may_be_v6(found[0]):
            continue
        try:
            address = IPv6Address(found[0])
        except ValueError:
            continue
        first = found[0][:4].lower()
        if _is_public(address) and first[:1] in ("2", "3"):
            yield found.start(), found.end(), True
        elif address.is_link_local or first[:2] in ("fc", "fd") or found[0].lower().startswith("2001:db8"):
            yield found.start(), found.end(), False


def _may_be_v6(written: str) -> bool:
    """Whether it can be one that counts: by its first digit, and its colons."""
    if written[0] not in "23fF" and "ffff" not in written.lower():
        return False
    short, colons = "::" in written, written.count(":")
    return colons <= 8 and (short or colons == 7 or (colons == 6 and "." in written))


@lru_cache(1 << 12)
def _is_public_v4(written: str) -> bool:
    return _is_public(IPv4Address(written))


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    return address.is_global and not address.is_multicast
