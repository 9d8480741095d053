"""E-mail addresses. Found at each ``@``, so a text without one costs a glance."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cleanpipe_stages.html.names import names_of

Span = tuple[int, int]

_LOCAL_CHARACTER = r"[\w.!#$%&'*+/=?^`{|}~-]"
_LOCAL_ASCII = re.compile(r"[A-Za-z0-9_.!#$%&'*+/=?^`{|}~-]{1,64}\Z")
_LOCAL_ANY = re.compile(rf"{_LOCAL_CHARACTER}{{1,64}}\Z")
_DOMAIN_ASCII = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+(?:[A-Za-z]{2,24}|xn--[A-Za-z0-9-]{2,59})(?![A-Za-z0-9_]|-[A-Za-z0-9])"
)
_DOMAIN_ANY = re.compile(r"(?:\w(?:[\w-]{0,61}\w)?\.)+[^\W\d_]{2,24}(?![\w-])")
_SENTENCE = re.compile(r"\.[A-Z][a-z]+\Z")  # a sentence that begins without a blank: "a@example.org.Then"
_LEADING = "!#$%&'*+/=?^`{|}~.-"
_NO_TLD = names_of("tgz whl jar deb rpm png jpg jpeg gif svg webp bmp ico avif css scss html htm php exe dll tar gz")
_SIGN = re.compile(r"[\[({<] ?(?:at|AT|@|ät|chez|arroba) ?[\])}>] ?")
_BEFORE = re.compile(r"(?<![\w.+-])[\w+-]{1,64}(?:\.[\w+-]{1,64}){0,8} ?\Z")
_SPELLED = re.compile(
    r"(?:[A-Za-z0-9-]{1,63}(?: ?[\[({<] ?(?:dot|DOT|punkt|point|punto|\.) ?[\])}>] ?|\.)){1,8}"
    r"(?:[A-Za-z]{2}|com|org|net|edu|gov|mil|int|info|biz|name|email|online|app|dev|tech|COM|ORG|NET|EDU)(?![\w-])"
)
_AHEAD = 254  # characters of a domain; the longest address has as many


def mails(text: str) -> Iterator[Span]:
    """E-mail addresses, also those spelled ``name [at] example [dot] org``; none of handles, versions, file names or
    the user part of a URL.
    """
    if "@" in text:
        end = 0
        at = text.find("@")
        while at >= 0:
            found = _around(text, at)
            if found is not None and found[0] >= end:
                yield found
                end = found[1]
            at = text.find("@", max(at + 1, end))


def spelled_mails(text: str) -> Iterator[Span]:
    """Those whose at sign is written out in brackets."""
    end = 0
    for sign in _SIGN.finditer(text):
        if sign.start() < end:
            continue
        name = _BEFORE.search(text, max(0, sign.start() - 66), sign.start())
        domain = _SPELLED.match(text, sign.end())
        if name and domain:
            yield name.start(), (end := domain.end())


def _around(text: str, at: int) -> Span | None:
    before, after = text[max(0, at - 65) : at], text[at + 1 : at + 1 + _AHEAD]
    domain = _DOMAIN_ASCII.match(after)
    if domain is None and after and not after[0].isascii():
        domain = _DOMAIN_ANY.match(after)
    if domain is None:
        return None
    name = domain[0]
    cut = _SENTENCE.search(name)
    if cut and "." in name[: cut.start()] and name[: cut.start()].islower():
        name = name[: cut.start()]
    local = _LOCAL_ASCII.search(before)
    if local is None or (local.start() and before[local.start() - 1].isalpha()):
        wide = _LOCAL_ANY.search(before)
        if wide is not None and _same_script(wide[0]):
            local = wide
    if local is None:
        return None
    mailbox = local[0].lstrip(_LEADING)
    if "://" in mailbox or "//" in mailbox:
        return None
    mailbox = (
        re.split(r"[=/?&|]|(?:mailto:)", mailbox)[-1].lstrip(_LEADING) if re.search(r"[=/?&|]", mailbox) else mailbox
    )
    if not mailbox or mailbox.endswith(".") or ".." in mailbox:
        return None
    begin = at - len(mailbox)
    if begin and text[begin - 1] == "@":
        return None  # @name@host is a handle
    if name.rpartition(".")[2].lower() in _NO_TLD or name.rpartition(".")[0].replace(".", "").isdigit():
        return None
    ahead = text[at + 1 + len(name) : at + 3 + len(name)]
    if ahead[:1] == ":" and ahead[1:2] and not ahead[1:2].isspace() and mailbox in ("git", "svn", "hg"):
        return None  # git@host:path
    if _is_user_part(text, begin):
        return None
    return begin, at + 1 + len(name)


def _same_script(mailbox: str) -> bool:
    """A mailbox in letters of another script, not a sentence that runs into it: Chinese puts no blank before it."""
    letters = [c for c in mailbox if c.isalpha()]
    ascii_letters = sum(c.isascii() for c in letters)
    return bool(letters) and (ascii_letters == 0 or all(ord(c) < 0x250 for c in letters))


def _is_user_part(text: str, begin: int) -> bool:
    """Whether it is the ``user:password@host`` of a URL."""
    head = text[max(0, begin - 80) : begin]
    at = head.rfind("://")
    if at < 0:
        return False
    rest = head[at + 3 :]
    return not any(c.isspace() or c in "/?#" for c in rest)
