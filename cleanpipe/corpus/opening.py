"""The bytes of a corpus file, inflated."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from typing import IO, TYPE_CHECKING

from cleanpipe.corpus.files import CorpusFile

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

DAMAGE = (OSError, EOFError, zlib.error, lzma.LZMAError, ValueError)  # what reading a damaged file raises
_BLOCK = 1 << 20
_SLICE = 1 << 10  # of zstd at a time: each can become 32 MiB


def open_bytes(file: CorpusFile) -> IO[bytes]:
    """The file's bytes, inflated; reading raises one of DAMAGE where they break off or are broken."""
    if file.codec == "gz":
        return gzip.open(file.path, "rb")  # type: ignore[return-value]
    if file.codec == "bz2":
        return bz2.open(file.path, "rb")
    if file.codec == "xz":
        return lzma.open(file.path, "rb")
    if file.codec == "zst":
        return io.BufferedReader(_Zst(file.path), _BLOCK)
    return open(file.path, "rb")  # noqa: PTH123  the caller closes it


class _Zst(io.RawIOBase):
    """Frames of zstd one after the other. The library's own reader takes one that breaks off for its end."""

    def __init__(self, path: str) -> None:
        import zstandard

        self._source = open(path, "rb")  # noqa: PTH123, SIM115  closed with this
        self._context = zstandard.ZstdDecompressor(max_window_size=1 << 31)
        self._broken: type[Exception] = zstandard.ZstdError
        self._frame = self._context.decompressobj()
        self._inside = False
        self._held = memoryview(b"")

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Some bytes. Raises OSError for what is no zstd, EOFError where a frame has no end."""
        place = memoryview(buffer)
        while not self._held:
            data = self._source.read(_SLICE)
            if not data:
                if self._inside:
                    raise EOFError("the file ends inside a frame of zstd")
                return 0
            self._held = memoryview(self._inflated(data))
        n = min(len(place), len(self._held))
        place[:n] = self._held[:n]
        self._held = self._held[n:]
        return n

    def _inflated(self, data: bytes) -> bytes:
        out = []
        while data:
            try:
                out.append(self._frame.decompress(data))
            except self._broken as error:
                if any(out):  # of frames that were whole
                    self._frame, self._inside = self._context.decompressobj(), True
                    return b"".join(out)
                raise OSError(f"damaged zstd: {error}") from error
            data, self._inside = b"", True
            if self._frame.eof:
                data, self._inside = self._frame.unused_data, False
                self._frame = self._context.decompressobj()
        return b"".join(out)

    def close(self) -> None:
        """The file too."""
        self._source.close()
        super().close()
