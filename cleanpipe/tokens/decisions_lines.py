"""One decision about documents of a token store, as a line of ``decisions.jsonl``, and the chain that the lines make.

Every line carries the digest of the line before and its own, so that a line that was changed, lost or put in is found.
Nothing is ever deleted: a later line takes an earlier one back.

A decision holds from a global sequence on (0: for every sequence). What holds at sequence s is what was written with
``from_sequence`` ≤ s: a replay of earlier sequences sees the store as it was seen then.
"""

from __future__ import annotations

import hashlib
import json
import numbers
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import xxhash

from cleanpipe.audit.facts import HOST
from cleanpipe.errors import ConfigError, DamagedFileError
from cleanpipe.tokens.arguments import cut, shown, whole
from cleanpipe.tokens.layout import DECISIONS

MASK, WEIGHT, QUARANTINE, REVOKE = "mask", "weight", "quarantine", "revoke"
ACTIONS = (MASK, WEIGHT, QUARANTINE, REVOKE)
DOC_ID, CONTENT_ID, URL, HOST_KEY, LINE = "doc_id", "content_id", "url", "host", "line"
KINDS = (DOC_ID, CONTENT_ID, URL, HOST_KEY)
NONE = hashlib.sha256(b"").hexdigest()  # digest of no lines
FOREVER = (1 << 63) - 1  # a sequence that no run comes to
_HEX = re.compile(r"[0-9a-f]{32}")
_DIGEST = "digest"
_PLACED = b',"digest":"'  # within a string a quote is escaped: this stands in a line once, before its digest
_LONGEST = 18  # digits of a line's number
_TEXTS = ("key", "reason", "evidence", "author", "plan", "time", "previous")
_FIELDS = (
    "action", "key_kind", "key", "weight", "from_sequence", "reason", "evidence", "author", "plan", "time", "number",
    "previous",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Decision:
    """A line. Fields with a default are given by ``append``, or may be left out.

    action: mask (its tokens are not learned), weight (only in a share ``weight`` of the epochs), quarantine (as mask,
    and the next build leaves the document out), revoke (takes the line that ``key`` numbers back, for sequences from
    ``from_sequence`` on). key_kind: doc_id, content_id (of the text: finds it in other crawls too), url, host (with
    all its subdomains), line (of revoke). number: of the line, from 1. time: UTC, ISO 8601. plan: the fingerprint of
    the plan whose sequences are counted, where one is meant. previous: digest of the line before.
    """

    action: str
    key_kind: str
    key: str
    weight: float | None = None
    from_sequence: int = 0
    reason: str = ""
    evidence: str = ""
    author: str = ""
    plan: str = ""
    time: str = ""
    number: int = 0
    previous: str = NONE

    @property
    def digest(self) -> str:
        """SHA-256 of all of it, in hexadecimal."""
        return hashlib.sha256(_spelled(self.facts())).hexdigest()

    def facts(self) -> dict[str, Any]:
        """Its fields, plain."""
        return {name: getattr(self, name) for name in _FIELDS}

    def line(self) -> bytes:
        """As it stands in the file."""
        facts = self.facts()
        facts[_DIGEST] = hashlib.sha256(_spelled(facts)).hexdigest()
        return _spelled(facts) + b"\n"

    def checked(self) -> Decision:
        """With its key in the one spelling that is compared.

        Raises:
            ConfigError: action, key, weight or sequence is none, or a text is no text.
        """
        for name in _TEXTS:
            if not isinstance(getattr(self, name), str):
                raise ConfigError(f"{name} {shown(getattr(self, name))}: a text is needed")
        if self.action not in ACTIONS:
            raise ConfigError(f"{shown(self.action)} is no action: {', '.join(ACTIONS)}")
        if (self.key_kind == LINE) != (self.action == REVOKE) or self.key_kind not in (*KINDS, LINE):
            by = shown(self.key_kind)
            raise ConfigError(f"{self.action} by {by}: its key is {', '.join(KINDS)}; of revoke a line")
        if self.action == WEIGHT and not _is_share(self.weight):
            raise ConfigError(f"weight {shown(self.weight)}: a share of the epochs, 0 to 1, is needed")
        if self.action != WEIGHT and self.weight is not None:
            raise ConfigError(f"a weight means nothing to {self.action}")
        spelled: dict[str, Any] = {
            "key": key_of(self.key_kind, clean(self.key)),
            "weight": None if self.weight is None else float(self.weight),
            "from_sequence": whole("from sequence", self.from_sequence, 0, FOREVER - 1, said="0 or more is needed"),
            **{name: clean(getattr(self, name)) for name in _TEXTS[1:]},
        }
        changed = {k: v for k, v in spelled.items() if (old := getattr(self, k)) != v or type(old) is not type(v)}
        return replace(self, **changed) if changed else self  # mostly nothing: files of 100,000 lines are read


def key_of(kind: str, key: str) -> str:
    """A key in its one spelling.

    Raises:
        ConfigError: it is none of this kind.
    """
    if kind in (DOC_ID, CONTENT_ID):
        if not _HEX.fullmatch(found := key.strip().lower()):
            raise ConfigError(f"{cut(key)}: a {kind} has 32 hex digits")
        return found
    if kind == HOST_KEY:
        if not (found := bare_host(key)):
            raise ConfigError(f"{shown(key)} is no host: example.org stands for itself and all its subdomains")
        return found
    if kind == LINE:
        if not key.isascii() or not key.isdigit() or len(key) > _LONGEST or int(key) < 1:
            raise ConfigError(f"{shown(key)}: a line is a number from 1, as `cleanpipe decide TOKENS list` shows it")
        return str(int(key))
    if not key.strip():
        raise ConfigError("a URL is empty")
    return key.strip()


def bare_host(key: str) -> str:
    """The host that a key names, lower case, without a dot at its end, in its ASCII form; "" for none.

    A URL names its host; a beginning ``*.`` or ``.`` says what is meant anyway.
    """
    given = key.strip()
    if "://" in given:
        found = re.match(HOST, given)
        given = found["host"] if found else ""
    host = given.lower().removeprefix("*").removeprefix(".").removesuffix(".")
    if not host.isascii():
        try:
            host = host.encode("idna").decode("ascii")
        except UnicodeError:
            return ""
    return "" if re.search(r"[/?#@\s:*]", host) and not re.fullmatch(r"\[[0-9a-f:.%]+\]", host) else host


def clean(text: str) -> str:
    """The text as UTF-8 can hold it: of a command line it may have bytes that are none."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _is_share(weight: Any) -> bool:
    number = isinstance(weight, numbers.Real) and not isinstance(weight, bool)
    return number and bool(0 <= weight <= 1)


@dataclass(frozen=True, slots=True)
class Decisions:
    """The lines of a file, in their order. torn: bytes behind them that a crash left of a line. size, seal: how many
    bytes the lines have in the file that was read, and their checksum; 0 where that is not known.
    """

    lines: tuple[Decision, ...] = ()
    torn: bytes = b""
    size: int = field(default=0, compare=False, repr=False)
    seal: str = field(default="", compare=False, repr=False)

    @property
    def version(self) -> int:
        """How many lines there are: with the file a name for what was decided."""
        return len(self.lines)

    @property
    def digest(self) -> str:
        """Of all lines: that of the last, which holds those before."""
        return self.digest_at(self.version)

    def digest_at(self, version: int) -> str:
        """Of the first lines: ``upto(version).digest``, or "" where there are not so many."""
        if not 0 <= version <= self.version:
            return ""
        return self.lines[version - 1].digest if version else NONE

    def upto(self, version: int) -> Decisions:
        """As they were when the file had so many lines.

        Raises:
            ConfigError: it never had.
        """
        if not 0 <= version <= self.version:
            raise ConfigError(f"version {version} of the decisions: they have {self.version:,} lines")
        return Decisions(self.lines[:version])

    def spans(self) -> list[tuple[Decision, int, int]]:
        """Each decision with the sequences it holds for: from, and before. What was taken back wholly is left out."""
        ends = self.ends()
        return [
            (d, d.from_sequence, ends[d.number])
            for d in self.lines
            if d.action != REVOKE and d.from_sequence < ends[d.number]
        ]

    def ends(self) -> dict[int, int]:
        """Line → the sequence from which on it is taken back."""
        ends = dict.fromkeys(range(1, self.version + 1), FOREVER)
        for line in self.lines:
            if line.action == REVOKE:
                ends[int(line.key)] = min(ends[int(line.key)], line.from_sequence)
        return ends


class Book:
    """Decisions to which others are added. A key that is new costs the same, however many lines there are."""

    def __init__(self, decisions: Decisions) -> None:
        self._lines, self._ends, self._digest = list(decisions.lines), decisions.ends(), decisions.digest
        self._by_key: dict[tuple[str, str, str], list[Decision]] = {}
        for line in self._lines:
            self._by_key.setdefault(_key(line), []).append(line)

    def decisions(self) -> Decisions:
        """All of them."""
        return Decisions(tuple(self._lines))

    def add(self, given: Decision, time: str) -> Decision:
        """The line that says what ``given`` does: a new one, or one that stands there already.

        Raises:
            ConfigError: it takes a line back that is not there, or that takes one back itself.
        """
        if (line := self.standing(given)) is not None:
            return line
        if given.action == REVOKE:
            if int(given.key) > len(self._lines):
                raise ConfigError(f"there is no line {given.key} to revoke: {DECISIONS} has {len(self._lines):,}")
            if self._lines[int(given.key) - 1].action == REVOKE:
                raise ConfigError(f"line {given.key} is a revoke: decide again what it took back")
            self._ends[int(given.key)] = min(self._ends[int(given.key)], given.from_sequence)
        line = replace(given, number=len(self._lines) + 1, time=given.time or time, previous=self._digest)
        self._lines.append(line)
        self._ends[line.number], self._digest = FOREVER, line.digest
        self._by_key.setdefault(_key(line), []).append(line)
        return line

    def standing(self, given: Decision) -> Decision | None:
        """The line that says all that ``given`` does already, for the same sequences or more."""
        for line in self._by_key.get(_key(given), ()):
            if line.weight != given.weight or line.from_sequence > given.from_sequence:
                continue
            if line.action == REVOKE or (self._ends[line.number] == FOREVER and not self._overridden(line)):
                return line
        return None

    def _overridden(self, line: Decision) -> bool:
        """Whether a later weight may hold in place of this one."""
        if line.action != WEIGHT:
            return False
        later = self._lines[line.number :]
        return any(d.action == WEIGHT and self._ends[d.number] == FOREVER and _may_meet(line, d) for d in later)


def _key(line: Decision) -> tuple[str, str, str]:
    return line.action, line.key_kind, line.key


_HELD = 4
_read: tuple[Decisions, ...] = ()  # files that this process read: of what goes on only the rest is looked at


def parse(data: bytes) -> Decisions:
    """The file as it lies. A last line without its end that is no whole line is what a crash left: see ``torn``.

    What it begins with is not looked at again, if it was read before (its bytes are, by a checksum).

    Raises:
        DamagedFileError: a line is none, or is not as it was written; which one and what to do is said.
    """
    global _read
    known = _known(data)
    lines: list[Decision] = list(known.lines)
    before, size, torn = known.digest, known.size, b""
    for raw in data[size:].split(b"\n"):
        end = size + len(raw)
        ended = end < len(data)
        if not raw and not ended:
            break
        found = _parsed(raw)
        if found is None or found[0].number != len(lines) + 1 or found[0].previous != before:
            if not ended and found is None:
                torn = raw
                break
            raise DamagedFileError(
                f"line {len(lines) + 1} is not as it was written: put the file back from a copy, or cut it there: what "
                "stood from that line on is decided again by `cleanpipe decide`",
                source=DECISIONS,
            )
        lines.append(found[0])
        before, size = found[1], end + 1
    if size > len(data):  # the last line has no end: it may get one, and is not what the file goes on with
        return Decisions(tuple(lines))
    seal = known.seal if size == known.size else xxhash.xxh3_128_hexdigest(memoryview(data)[:size])
    out = Decisions(known.lines if size == known.size else tuple(lines), torn, size, seal)
    if size > known.size:
        others = [one for one in _read if one is not known]
        _read = (*others[-_HELD + 1 :], replace(out, torn=b""))
    return out


def _known(data: bytes) -> Decisions:
    """Of the files that were read before the longest that these bytes begin with."""
    view = memoryview(data)
    for known in sorted(_read, key=lambda k: -k.size):
        if known.size <= len(data) and xxhash.xxh3_128_hexdigest(view[: known.size]) == known.seal:
            return known
    return Decisions()


def _parsed(raw: bytes) -> tuple[Decision, str] | None:
    """A line and its digest, if it is one and its digest is right."""
    try:
        value = json.loads(raw)
        if _spelled(value) != raw:
            return None
        digest = value.pop(_DIGEST)
        head, _, tail = raw.partition(_PLACED)
        if hashlib.sha256(head + tail[len(digest) + 1 :]).hexdigest() != digest:
            return None
        found = Decision(**value)
        sound = len(value) == len(_FIELDS) and type(found.number) is int and found.checked() is found
        ahead = found.action == REVOKE and int(found.key) >= found.number
        return (found, digest) if sound and not ahead else None
    except (ValueError, TypeError, KeyError, AttributeError, ConfigError, RecursionError, OverflowError):
        return None


def _spelled(value: dict[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _may_meet(a: Decision, b: Decision) -> bool:
    """Whether one document can have both keys."""
    if a.key_kind != b.key_kind:
        return True
    if a.key_kind != HOST_KEY:
        return a.key == b.key or (a.key_kind == URL and ("://" in a.key) != ("://" in b.key))
    return f".{a.key}".endswith(f".{b.key}") or f".{b.key}".endswith(f".{a.key}")


def keys(lines: Sequence[Decision], kind: str) -> dict[str, list[int]]:
    """Key → places among ``lines``, of those with keys of a kind."""
    out: dict[str, list[int]] = {}
    for place, line in enumerate(lines):
        if line.key_kind == kind:
            out.setdefault(line.key, []).append(place)
    return out
