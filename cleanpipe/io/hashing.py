"""SHA-256 of files: of one that is being written, as it passes, and of one that lies there."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from types import TracebackType
from typing import Any, Self


class HashingFile:
    """A binary file that knows its size and SHA-256; the sink that Arrow writers write into."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb", buffering=1 << 20)
        self._digest = hashlib.sha256()
        self.size = 0

    def write(self, data: Any) -> int:
        """Append bytes or an Arrow buffer."""
        view = memoryview(data).cast("B")
        self._digest.update(view)
        self._file.write(view)
        self.size += len(view)
        return len(view)

    def hexdigest(self) -> str:
        """Digest of what was written so far."""
        return self._digest.hexdigest()

    def sync(self) -> None:
        """Hand everything to the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def flush(self) -> None:
        """Arrow calls this; nothing is promised before ``sync``."""

    def close(self) -> None:
        """Close the file; a second time is no error."""
        self._file.close()

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return self._file.closed

    def tell(self) -> int:
        """Bytes written so far."""
        return self.size

    def readable(self) -> bool:
        """Never."""
        return False

    def writable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Never."""
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def sha256_of(path: Path) -> str:
    """SHA-256 (hex) of a file, read in 1 MiB pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()
