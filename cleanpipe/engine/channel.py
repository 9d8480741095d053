"""Whole objects over the socket between a guard and its worker. The guard's end never blocks: a worker that is frozen
in the middle of a message must not freeze the driver with it.
"""

from __future__ import annotations

import pickle
import socket
import struct
from typing import Any

_LENGTH = struct.Struct("!Q")
_LARGEST = 1 << 30  # of one message; a longer one is the nonsense of a broken worker
_CHUNK, _CHUNKS = 1 << 18, 64


class Nonsense(Exception):  # noqa: N818  what came, not what went wrong
    """The worker sent what is no message."""


def packed(value: Any) -> bytes:
    """One message."""
    data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(data)) + data


class Channel:
    """The guard's end."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._in, self._out = bytearray(), bytearray()
        self.ended = False  # the worker's end is closed, and everything it sent was taken

    def fileno(self) -> int:
        """For a selector."""
        return self._sock.fileno()

    @property
    def waiting(self) -> bool:
        """Whether there is something to send that the worker has not taken yet."""
        return bool(self._out)

    def send(self, value: Any) -> None:
        """Send as much as goes now; ``flush`` sends the rest. A dead worker is seen by ``receive``, not here."""
        self._out += packed(value)
        self.flush()

    def flush(self) -> None:
        """Go on with what ``send`` left."""
        try:
            while self._out:
                del self._out[: self._sock.send(self._out)]
        except BlockingIOError:
            return
        except OSError:
            self._out.clear()

    def receive(self) -> list[Any]:
        """The messages that are there in full.

        Raises:
            Nonsense: these are no messages.
        """
        for _ in range(_CHUNKS):  # the others have something to say too
            if self.ended:
                break
            try:
                data = self._sock.recv(_CHUNK)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            self.ended = not data
            self._in += data
        out = []
        while len(self._in) >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._in)
            if size > _LARGEST:
                raise Nonsense(f"a message of {size:,} bytes")
            end = _LENGTH.size + size
            if len(self._in) < end:
                break
            try:
                out.append(pickle.loads(self._in[_LENGTH.size : end]))  # noqa: S301  from our own process
            except Exception as error:
                raise Nonsense(f"{type(error).__name__}: {error}") from error
            del self._in[:end]
        return out

    def close(self) -> None:
        """Hang up."""
        self._sock.close()


class Line:
    """The worker's end: it waits.

    Raises, from both methods: EOFError, OSError where the guard is gone.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._file = sock.makefile("rb")
        self._sock = sock

    def send(self, value: Any) -> None:
        """Send one message whole."""
        self._sock.sendall(packed(value))

    def receive(self) -> Any:
        """The next message."""
        (size,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        return pickle.loads(self._exactly(size))  # noqa: S301  from our own process

    def _exactly(self, size: int) -> bytes:
        data = self._file.read(size)
        if len(data) < size:
            raise EOFError
        return data
