"""IP addresses. Public ones are personal data; private, local and documentation ranges are told apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address

Found = tuple[int, int, bool]  # start, end, public

# each begins with what is rare, and looks back from there: found fast
_V4_SIGN = re.compile(r"\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]")
_V4_HEAD = re.compile(r"(?<![\w.:])(?<![A-Za-z_]-)[0-9]{1,3}\Z")
_V4_TAIL = re.compile(r"(?:\.[0-9]{1,3}){3}(?![\w]|\.[0-9]|-[A-Za-z])")
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
_SMALL = 32  # octets below look like parts of a version
_BEFORE = 40


def v4_addresses(text: str) -> Iterator[Found]:
    """IPv4 addresses, but not what is a version, a section or an object identifier."""
    for sign in _V4_SIGN.finditer(text):
        head, tail = _V4_HEAD.search(text, max(0, sign.start() - 5), sign.start()), _V4_TAIL.match(text, sign.start())
        if head is None or tail is None:
            continue
        start, end = head.start(), tail.end()
        octets = text[start:end].split(".")
        parts = [int(octet) for octet in octets]
        if max(parts) > 255 or parts[0] == 0 or any(len(o) > 1 and o[0] == "0" for o in octets):
            continue
        if _is_address(text, start, end, parts):
            yield start, end, _is_public(IPv4Address(text[start:end]))


def _is_address(text: str, start: int, end: int, parts: list[int]) -> bool:
    after = text[end : end + 6]
    if re.match(r":\d{2,5}\b|/\d{1,2}\b(?!\.)", after):
        return True
    before = text[max(0, start - _BEFORE) : start]
    if before.endswith(("://", "@", "//")):
        return True
    if _VERSION.search(before):
        return False
    if _ADDRESS.search(before):
        return True
    return max(parts) >= _SMALL and not (parts[0] < _SMALL and _PRODUCT.search(before))


def v6_addresses(text: str) -> Iterator[Found]:
    """IPv6 addresses: global unicast ones, or local ones that are surely meant (fe80::, fc00::)."""
    at = 0
    while (sign := _V6_SIGN.search(text, at)) is not None:
        at = sign.start() + 1
        head = _V6_HEAD.search(text, max(0, sign.start() - 5), sign.start())
        found = _V6.match(text, head.start() if head else sign.start())
        if found is None:
            continue
        at = max(at, found.end())
        try:
            address = IPv6Address(found[0])
        except ValueError:
            continue
        first = found[0][:4].lower()
        if _is_public(address) and first[:1] in ("2", "3"):
            yield found.start(), found.end(), True
        elif address.is_link_local or first[:2] in ("fc", "fd") or found[0].lower().startswith("2001:db8"):
            yield found.start(), found.end(), False


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    return address.is_global and not address.is_multicast
