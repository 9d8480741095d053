"""A private local folder of this process for files on their way to or from an object store."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from multiprocessing.util import Finalize
from pathlib import Path

from cleanpipe.errors import ConfigError, StopError

_NAME, _LOCK = "cleanpipe-scratch-", "in-use"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_UNLOCKED = 3600.0  # seconds after which a folder without a lock file belongs to nobody


def scratch(base: str) -> Path:
    """The folder of this process below ``base`` (empty: the system's temporary folder): made at the first call, removed
    when the process ends. Folders of this user whose process was killed are removed here.

    Raises:
        ConfigError: none can be made there. StopError: the disk is full.
    """
    return _scratch(base or tempfile.gettempdir(), os.getpid())


@lru_cache(maxsize=8)
def _scratch(base: str, _pid: int) -> Path:
    try:
        Path(base).mkdir(exist_ok=True)  # without its parents: a path that was mistyped is told
        _sweep(Path(base))
        while True:
            folder = Path(tempfile.mkdtemp(prefix=_NAME, dir=base))  # only this user may enter
            lock = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX)  # the kernel gives it back when the process ends, however that ends
            if (folder / _LOCK).exists():  # else another process took it for a dead one's
                break
            os.close(lock)
    except OSError as error:
        kind = StopError if error.errno in _FULL else ConfigError
        raise kind(
            f"no scratch folder can be made in {base} ({error.strerror}): --set storage.scratch=FOLDER names another"
        ) from error
    # atexit alone is not called in the children of multiprocessing
    Finalize(None, shutil.rmtree, args=(folder,), kwargs={"ignore_errors": True}, exitpriority=1)
    return folder


def _sweep(base: Path) -> None:
    """Removes what dead processes left."""
    for folder in base.glob(f"{_NAME}*"):
        with suppress(OSError):
            stat = folder.lstat()
            if stat.st_uid != os.getuid() or folder.is_symlink():
                continue
            try:
                lock = os.open(folder / _LOCK, os.O_RDWR)
            except FileNotFoundError:
                if time.time() - stat.st_mtime > _UNLOCKED:
                    shutil.rmtree(folder, ignore_errors=True)
                continue
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


@contextmanager
def disk(folder: Path) -> Iterator[None]:
    """Local disk faults as what they are: the run stops, and loses nothing."""
    try:
        yield
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise
        what = "is full" if error.errno in _FULL else f"fails: {error.strerror or error}"
        raise StopError(f"local scratch {folder} {what}: --set storage.scratch=FOLDER names another place") from error
