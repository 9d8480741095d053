"""Files mapped for reading without a handle that stays open: thousands of shards may be mapped at once, whatever
``ulimit -n`` says. (``mmap.mmap`` and ``numpy.memmap`` keep a copy of the handle as long as the map lives.)
"""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from functools import lru_cache
from pathlib import Path
from typing import Any

_FAILED = ctypes.c_void_p(-1).value


def mapped_bytes(path: Path) -> memoryview:
    """A file's bytes, read-only; the map goes with the last view of it, arrays over it included.

    Raises:
        OSError: it cannot be opened or mapped.
    """
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(handle).st_size
        if not size:
            return memoryview(b"")
        libc = _libc()
        address = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, handle, 0)
        if address == _FAILED:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(path))
    finally:
        os.close(handle)
    region = (ctypes.c_ubyte * size).from_address(address)
    weakref.finalize(region, libc.munmap, address, size).atexit = False  # the process's end unmaps too
    return memoryview(region).cast("B").toreadonly()


@lru_cache(1)
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return libc
