"""Files of a run: written beside their final name, made durable, then renamed. A name that exists is complete.

Object stores have no rename; they come with the cluster engine, behind the same functions.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any, Self

TEMPORARY = ".tmp-"  # a name that begins so is no file of the run; left by a kill, removed by the next start


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


def temporary(path: Path, attempt: str) -> Path:
    """Where to write before ``publish`` gives the final name; attempts do not meet."""
    return path.parent / f"{TEMPORARY}{attempt}-{path.name}"


def publish(temporary_path: Path, path: Path) -> None:
    """Give a complete, durable file its name. Doing it twice, with the same bytes, is no error."""
    temporary_path.replace(path)
    sync_folder(path.parent)


def publish_text(path: Path, text: str) -> dict[str, Any]:
    """Write a small file whole; its size and digest."""
    data = text.encode()
    beside = temporary(path, str(os.getpid()))
    with beside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    publish(beside, path)
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def publish_json(path: Path, value: Any) -> dict[str, Any]:
    """Plain data as JSON in its one spelling: sorted keys, two blanks, a newline at the end."""
    return publish_text(path, json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n")


def sync_folder(folder: Path) -> None:
    """Make a rename durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
