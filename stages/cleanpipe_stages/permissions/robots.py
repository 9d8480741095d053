"""Crawler rules of meta tags and of X-Robots-Tag, and TDM reservations: https://www.w3.org/community/reports/tdmrep/"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from cleanpipe_stages.html.names import names_of

DIRECTIVES = (
    "noindex",
    "nofollow",
    "noarchive",
    "nosnippet",
    "noai",
    "noimageai",
    "noimageindex",
    "notranslate",
    "nocache",
)
_KNOWN = frozenset(DIRECTIVES)
_VALUED = re.compile(r"\b(?:max-[a-z-]+|unavailable_after)\s*:[^,]*+,?", re.IGNORECASE)
_DATED = re.compile(r"\bunavailable_after\s*:.*", re.IGNORECASE | re.DOTALL)  # dates hold commas
_WORD = re.compile(r"[a-z]+")
_FOR = re.compile(r"\s*([a-z][a-z0-9._-]*)\s*:\s*(.*)", re.DOTALL)
_OTHER_NAMES = names_of(
    "slurp teoma bytespider baiduspider google-extended applebot-extended anthropic-ai claude-web cohere-ai ia_archiver"
    " facebookexternalhit meta-externalagent mediapartners-google omgili diffbot yandex duckduckgo"
)
_BOT = re.compile(r"[a-z0-9._-]{0,40}(?:bot|spider|agent)(?:-[a-z]{1,20})?")
EVERYONE = "robots"


@dataclass(slots=True)
class Rules:
    """of: directives by crawler, ``robots`` for all of them. reservation: None where nothing is said. policy: a URL."""

    of: dict[str, set[str]] = field(default_factory=dict)
    reservation: int | None = None
    policy: str | None = None

    def add(self, crawler: str, directives: Iterable[str]) -> None:
        """More directives: those that forbid add up."""
        if found := set(directives):
            self.of.setdefault(crawler, set()).update(found)

    def reserve(self, value: str) -> None:
        """A ``tdm-reservation``: 1 or 0; anything else is as if it were absent. Of several the reservation wins."""
        if (value := value.strip()) in ("0", "1"):
            self.reservation = max(int(value), self.reservation or 0)

    def robots(self) -> str:
        """The directives for all crawlers, in the order of DIRECTIVES, joined by commas."""
        return _joined(self.of.get(EVERYONE, set()))

    def bots(self) -> str:
        """Those for single crawlers: ``ccbot:noindex gptbot:noai,noindex``."""
        return " ".join(f"{name}:{_joined(found)}" for name, found in sorted(self.of.items()) if name != EVERYONE)


def _joined(found: set[str]) -> str:
    return ",".join(d for d in DIRECTIVES if d in found)


def directives(value: str) -> set[str]:
    """The known directives in a list of them; ``none`` is noindex and nofollow."""
    value = value.lower()
    if ":" in value:
        value = _VALUED.sub(" ", _DATED.sub(" ", value))
    words = set(_WORD.findall(value.replace("-", "")))
    return (words & _KNOWN) | ({"noindex", "nofollow"} if "none" in words else set())


def crawler(name: str) -> str | None:
    """The crawler that a meta tag's name speaks to: ``robots`` for all; None if it names none."""
    name = name.strip().lower()
    if name == EVERYONE:
        return EVERYONE
    return name if name in _OTHER_NAMES or _BOT.fullmatch(name) else None


def read_header(rules: Rules, value: str) -> None:
    """X-Robots-Tag, one line for each header field. ``googlebot: noindex`` speaks to one crawler, until the line ends
    or another is named.
    """
    for line in value.lower().split("\n"):
        line = _DATED.sub("", line)
        who = EVERYONE
        for part in line.split(","):
            found = _FOR.fullmatch(part)
            if found and not found[1].startswith("max-"):
                who, part = found[1], found[2]
            rules.add(EVERYONE if who in (EVERYONE, "*") else who[:64], directives(part))


def read_meta(rules: Rules, attributes: dict[str, str]) -> None:
    """One ``<meta>`` tag."""
    value = attributes.get("content", "")
    for name in (attributes.get("name", ""), attributes.get("http-equiv", "")):
        name = name.strip().lower()
        if name == "tdm-reservation":
            rules.reserve(value)
        elif name == "tdm-policy":
            rules.policy = rules.policy or value.strip()[:2048] or None
        elif name == "x-robots-tag":
            read_header(rules, value.replace("\n", " "))
        elif (who := crawler(name)) is not None:
            rules.add(who, directives(value))
