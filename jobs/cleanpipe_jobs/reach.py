"""Small files wherever they lie, and the storage options of commands that have no recipe."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from cleanpipe.errors import ConfigError
from cleanpipe.io.bytesource import is_remote, local_path, open_remote
from cleanpipe.io.remote import Refused
from cleanpipe.options import StorageOptions
from cleanpipe_jobs.output import scrubbed


def storage_options(sets: Iterable[str]) -> StorageOptions:
    """Of ``storage.option=value`` changes.

    Raises:
        ConfigError: another table is named, or the option or its value is wrong.
    """
    from cleanpipe.recipe import load_recipe

    given = list(sets)
    for one in given:
        if not one.startswith("storage."):
            raise ConfigError(f"--set {one}: here only storage.… options matter (endpoint, region, profile, anonymous)")
    return load_recipe("sample", given).storage


def fetch(uri: str, options: StorageOptions, limit: int) -> bytes:
    """The bytes of a file: a path, http(s)://, s3:// or any other fsspec URL.

    Raises:
        ConfigError: it is not there, may not be read, or is larger than ``limit`` bytes.
        StopError: its server did not answer, however often it was asked.
    """
    path, shown = local_path(uri), scrubbed(uri)
    try:
        if path is not None:
            with Path(path).open("rb") as file:
                data = file.read(limit + 1)
        else:
            data = _remote(uri, options, limit)
    except OSError as error:
        raise ConfigError(f"{shown} cannot be read: {error.strerror or scrubbed(str(error))}") from error
    if len(data) > limit:
        raise ConfigError(f"{shown} is larger than {limit >> 20} MiB")
    return data


def _remote(uri: str, options: StorageOptions, limit: int) -> bytes:
    if not is_remote(uri):
        return _other(uri, limit)
    try:
        file, size, _ = open_remote(uri, options)
        with closing(file):
            if size > limit:
                return bytes(limit + 1)
            parts = []
            while part := file.read():
                parts.append(part)
            return b"".join(parts)
    except Refused as error:
        gone = error.status in (404, 410) or error.code in ("NoSuchKey", "NoSuchBucket")
        why = f"is not there ({error.why})" if gone else f"cannot be read: {error.why}"
        raise ConfigError(f"{scrubbed(uri)} {why}") from error


def _other(uri: str, limit: int) -> bytes:
    import fsspec

    try:
        with fsspec.open(uri, "rb") as file:
            return bytes(file.read(limit + 1))
    except (ImportError, ValueError) as error:  # no such protocol, or its package is missing
        raise ConfigError(f"{scrubbed(uri)} cannot be read: {scrubbed(str(error))}") from error
