"""What a worker process opens once: the tokenizer that the driver put into the store, and backends of it."""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from dataclasses import asdict, is_dataclass
from functools import lru_cache
from typing import Any

from cleanpipe.engine.base import Context
from cleanpipe.errors import ConfigError, StopError
from cleanpipe.io.store import Store, open_store
from cleanpipe.options import StorageOptions
from cleanpipe.tokens.backend import Backend
from cleanpipe.tokens.layout import TOKENIZER
from cleanpipe.tokens.making.encoding import REFERENCE


def tokenizer_of(context: Context, digest: str) -> Any:
    """The store's tokenizer.

    Raises:
        StopError: it is not the one that this job was started with, or behaves in another way here.
    """
    return _tokenizer(context.out, context.recipe.storage, digest)


def backend_of(
    context: Context, digest: str, name: str, device: str, splitters: int | None = None
) -> tuple[Backend, str, str]:
    """A backend of it, proven in this process. Where the one that is named cannot be used here, or is not exact, the
    reference, and why: what it is not able to do, or where its ids differ.
    """
    return _backend(context.out, context.recipe.storage, digest, name, device, splitters)


def close_backends() -> None:
    """End what the backends of this process started; the next one that is asked for is opened anew."""
    while _opened:
        _opened.pop().close()
    _backend.cache_clear()


def proof_of(
    context: Context, digest: str, name: str, device: str, sample: Sequence[str], splitters: int | None = None
) -> dict[str, Any]:
    """The backend that is asked for, proven on texts of the run; what the proof says, as plain data.

    Raises:
        ConfigError: it cannot be used, and no other was allowed.
    """
    from cleanpipe.tokens.backends import open_backend

    found, proof = open_backend(tokenizer_of(context, digest), name, device=device, splitters=splitters, sample=sample)
    found.close()
    return plain(proof)


def plain(proof: Any) -> dict[str, Any]:
    """A proof as plain data."""
    return dict(asdict(proof) if is_dataclass(proof) and not isinstance(proof, type) else proof)


def tokenizer_files(store: Store) -> dict[str, bytes]:
    """Files below tokenizer/, by their names there."""
    return {name.removeprefix(TOKENIZER): store.read(name) for name, _ in sorted(store.names(TOKENIZER))}


@lru_cache(4)
def _tokenizer(root: str, storage: StorageOptions, digest: str) -> Any:
    from cleanpipe.tokens.tokenizer import Tokenizer

    found = Tokenizer.from_files(tokenizer_files(open_store(root, storage)))
    mine = str(found.fingerprint["digest"])
    if mine != digest:
        raise StopError(
            f"the tokenizer in {TOKENIZER} is another one here ({mine[:12]}, not {digest[:12]}): "
            "is another version of its library installed?",
            source=root,
        )
    return found


_opened: list[Backend] = []
atexit.register(close_backends)


@lru_cache(4)
def _backend(
    root: str, storage: StorageOptions, digest: str, name: str, device: str, splitters: int | None
) -> tuple[Backend, str, str]:
    from cleanpipe.tokens.backends import open_backend

    tokenizer = _tokenizer(root, storage, digest)
    try:
        found, proof = open_backend(tokenizer, name, device=device, splitters=splitters)
        _opened.append(found)
        told = plain(proof)
        why, wrong = str(told.get("reason") or ""), "got" in (told.get("differing") or {})
        return (found, "", why) if wrong else (found, why, "")
    except ConfigError as error:
        if name == REFERENCE:
            raise
        return open_backend(tokenizer, REFERENCE)[0], error.message, ""
