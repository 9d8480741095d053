"""What storage over a network has in common: tries with growing waits, files read by ranges, URLs without secrets."""

from __future__ import annotations

import random
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from cleanpipe.errors import StopError
from cleanpipe.options import StorageOptions

FIRST_WAIT, LONGEST_WAIT = 0.25, 20.0  # seconds before the second try; the most between two
UNMET = 6  # tries of a server that never answered
LONGEST_ASKED = 60.0  # the most that a server's Retry-After is heeded
AHEAD = 8 << 20  # bytes asked for at a time where a file is read in order
_PIECE = 256 << 10
_ENOUGH = 64 << 10  # bytes, or a quarter of what is wanted: that much is something
NOT_KNOWN = frozenset({"NotImplemented", "MethodNotAllowed"})
_T = TypeVar("_T")

_USER = re.compile(r"(://)[^/?#\s'\"@]*@")
_QUERY = re.compile(  # the bracket that closes one before the URL is the text's, not the query's
    r"((\()?\bhttps?://[^\s'\"?#<>]*)[?#](?(2)[^\s'\"<>]*?(?=\)(?:[,;:.]*(?:\s|$)))|[^\s'\"<>]*)", re.IGNORECASE
)
_SECRET = re.compile(
    r"\b((?:x-(?:amz|goog|ms)-[\w-]+|aws_?(?:secret_?)?access_?key(?:_?id)?|signature|sig|token|password|secret"
    r"|access_?token|api_?key|credential|session_?token)\s*[=:]\s*)[^\s&'\"<>,;]+",
    re.IGNORECASE,
)


def redacted(text: str) -> str:
    """A URL, or a message that holds some, as it may be shown, logged and stored: without user names and passwords, the
    queries of web addresses (signatures are there) and values of fields that are secret by their name. A local path
    stays as it is.
    """
    return _bare(text) if "://" in text else text


def _bare(text: str) -> str:
    return _SECRET.sub(r"\1…", _QUERY.sub(r"\1", _USER.sub(r"\1", text)))


def said(error: BaseException) -> str:
    """What an error says, in one line without secrets."""
    if isinstance(error, Refused):
        return error.why
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return _bare(" ".join(text.split()) or type(error).__name__)


class LostError(StopError):
    """Storage gave no answer in all the tries."""


class ChangedError(StopError):
    """A remote file changed while it was read: its bytes fit no one state of it."""


class Again(Exception):  # noqa: N818  # a request, not a fault
    """The request failed for now and is worth another try. after: seconds that the server asks to wait. unmet: this
    server never answered this process: the address may be wrong, and fewer tries are enough.
    """

    def __init__(self, why: str, after: float = 0.0, *, unmet: bool = False) -> None:
        super().__init__(why)
        self.why, self.after, self.unmet = _bare(why), after, unmet


class Refused(Exception):  # noqa: N818  # its handlers decide what it is
    """The server's final no. status: of HTTP, 0 where none came. code: its short name, as S3 has them. everywhere: it
    speaks of the whole store, and not of one name in it.
    """

    def __init__(self, why: str, status: int = 0, code: str = "", *, everywhere: bool = False) -> None:
        super().__init__(why)
        self.why, self.status, self.code, self.everywhere = _bare(why), status, code, everywhere

    @property
    def missing(self) -> bool:
        """Nothing has the name."""
        return self.status in (404, 410) and self.code != "NoSuchBucket"

    @property
    def unknown(self) -> bool:
        """The server does not know the operation, or a condition of it."""
        return self.status == 501 or self.code in NOT_KNOWN


class Patience:
    """Tries of one request: waits grow twofold with jitter, so that many workers do not come back at once.

    Raises (from ``wait``):
        StopError: the tries are used up.
    """

    def __init__(self, options: StorageOptions, place: str) -> None:
        self._attempts, self._place, self.tries = options.attempts, place, 1

    def wait(self, error: Again) -> None:
        """Sleeps before the next try."""
        if self.tries >= (min(self._attempts, UNMET) if error.unmet else self._attempts):
            times = f" ({self.tries} tries)" if self.tries > 1 else ""
            lost = f"storage lost: {self._place}: {error.why}{times}; start the same line again"
            raise LostError(lost + (" once the address answers" if error.unmet else "")) from error
        longest = min(FIRST_WAIT * 2 ** (self.tries - 1), LONGEST_WAIT)
        self.tries += 1
        time.sleep(max(random.uniform(longest / 2, longest), min(error.after, LONGEST_ASKED)))  # noqa: S311

    def progressed(self) -> None:
        """Something came: the next failure is the first again."""
        self.tries = 1


def persist(request: Callable[[int], _T], options: StorageOptions, place: str) -> _T:
    """Calls ``request`` with the number of the try (from 1) until it does not raise Again."""
    patience = Patience(options, place)
    while True:
        try:
            return request(patience.tries)
        except Again as error:
            patience.wait(error)


class Body(Protocol):
    """An answer's body."""

    def read(self, size: int, /) -> bytes:
        """The next bytes, none at the end. Raises Again where the line broke."""

    def close(self) -> None:
        """Drops the connection if bytes are left."""


class NoBody:
    """Of a file without a byte, whose ranges no server gives."""

    def read(self, _size: int, /) -> bytes:
        """Nothing."""
        return b""

    def close(self) -> None:
        """Nothing to do."""


class Ranged(ABC):
    """One file of a server, of which any range can be asked for. size: bytes. tag: what changes when the bytes do."""

    def __init__(self, uri: str, options: StorageOptions) -> None:
        self.uri, self.options, self.place = uri, options, redacted(uri)
        self.size, self.tag = -1, ""

    @abstractmethod
    def ask(self, begin: int, stop: int) -> Body:
        """The body of one answer, from ``begin`` on. The first tells size and tag; later ones are of the same state.

        Raises:
            Again: not now. StopError: the file changed. Refused: never.
        """

    def stream(self, begin: int, stop: int) -> Iterator[bytes]:
        """Pieces of a range, or of what the file has of it. A body that breaks off is asked for again from there; tries
        count from the last one that brought something.

        Raises:
            Refused, StopError.
        """
        patience = Patience(self.options, self.place)
        while (since := begin) < stop:
            try:
                body = self.ask(begin, stop)
                stop = min(stop, self.size)
                try:
                    while begin < stop and (piece := body.read(min(_PIECE, stop - begin))):
                        begin += len(piece)
                        yield piece
                finally:
                    body.close()
                if begin < stop:
                    raise Again("the answer's body ended early")
            except Again as error:
                if begin - since >= min(_ENOUGH, (stop - since) // 4) > 0:
                    patience.progressed()
                patience.wait(error)

    def changed(self) -> ChangedError:
        """The error for an answer of another state of the file."""
        return ChangedError("changed while it was read; start the same line again", source=redacted(self.uri))


class ReadAhead:
    """A Ranged as a binary file with ``seek`` and ``read``. Read in order it asks for 8 MiB at a time, else for what is
    wanted alone; it holds two stretches, so that a look elsewhere does not cost the one being read.

    bound: reading ahead stops there: the end of the part that is wanted.
    """

    def __init__(self, file: Ranged, start: bytes = b"") -> None:
        self._file, self._at = file, 0
        self.bound = file.size
        self._held = [(0, start)]  # the one used last comes last

    def seek(self, offset: int, whence: int = 0) -> int:
        """Goes to an offset, as files do."""
        self._at = offset + (0, self._at, self._file.size)[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        """The next bytes, fewer only at the end of a stretch that is held or of the file."""
        stop = self._file.size if size < 0 else min(self._at + size, self._file.size)
        if stop <= self._at:
            return b""
        data = self._stretch(stop)
        self._at += len(data)
        return data

    def _stretch(self, stop: int) -> bytes:
        at = self._at
        for place, (begin, data) in enumerate(self._held):
            if begin <= at < begin + len(data):
                self._held.append(self._held.pop(place))
                return data[at - begin : stop - begin]
        ordered = next((held for held in self._held if held[0] + len(held[1]) == at), None)
        if ordered is not None:
            self._held.remove(ordered)
        further = stop if ordered is None else max(stop, min(at + AHEAD, self.bound))
        data = b"".join(self._file.stream(at, further))
        self._held = [*self._held[-1:], (at, data)]
        return data[: stop - at]

    def close(self) -> None:
        """Forgets what is held."""
        self._held = []
