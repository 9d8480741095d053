"""Backends: one contract (``cleanpipe.tokens.backend``), the same ids from each."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cleanpipe.errors import ConfigError
from cleanpipe.tokens.backend import Backend
from cleanpipe.tokens.tokenizer.model import Tokenizer
from cleanpipe.tokens.tokenizer.needs import tiktoken

if TYPE_CHECKING:
    from cleanpipe.tokens.backends.proving import Proof

_SPLITTERS = 4
NAMES = ("auto", "hf", "fast", "torch")


def reference(tokenizer: Tokenizer) -> Backend:
    """What the others are proven against: the library that the tokenizer's kind belongs to."""
    if tokenizer.kind == "sentencepiece":
        from cleanpipe.tokens.backends.sentencepiece import SentencePieceBackend

        return SentencePieceBackend(tokenizer)
    from cleanpipe.tokens.backends.hf import HfBackend

    return HfBackend(tokenizer)


def build(tokenizer: Tokenizer, name: str, device: str = "cpu", splitters: int | None = None) -> Backend:
    """One backend by name, unproven. splitters: see ``open_backend``.

    Raises:
        ConfigError: an unknown name, or one that cannot encode exactly with this tokenizer (the reason).
    """
    if name == "hf":
        return reference(tokenizer)
    if name == "fast":
        from cleanpipe.tokens.backends.fast import FastBackend

        tiktoken()
        try:
            return FastBackend(tokenizer)
        except ConfigError as error:
            raise ConfigError(
                f"the fast backend cannot encode with this tokenizer exactly: {error.message}; take --backend hf"
            ) from error
    if name == "torch":
        from cleanpipe.tokens.backends.torch_backend import TorchBackend

        return TorchBackend(tokenizer, device, splitters=splitters_of(device, splitters))
    raise ConfigError(f"no backend {name!r}: it is one of {', '.join(NAMES)}")


def splitters_of(device: str, asked: int | None) -> int:
    """How many processes split texts for a torch device: as many as asked for; else none for the CPU, where they would
    take processors from it, and up to four for another device, which one process cannot keep busy.

    Raises:
        ConfigError: fewer than none.
    """
    if asked is None:
        return 0 if device == "cpu" else min(_SPLITTERS, len(os.sched_getaffinity(0)))
    if asked < 0:
        raise ConfigError(f"--splitters {asked}: 0 or more processes")
    return asked


def open_backend(
    tokenizer: Tokenizer,
    name: str = "auto",
    *,
    device: str = "cpu",
    splitters: int | None = None,
    sample: Sequence[str] = (),
) -> tuple[Backend, Proof]:
    """A backend that gives the reference's ids, proven on a probe and on these texts.

    Args:
        tokenizer: what it encodes with.
        name: ``auto`` (the fast one where it is exact, else the reference), ``hf``, ``fast`` or ``torch``.
        device: of torch: ``cpu``, ``cuda``, ``cuda:1``.
        splitters: of torch: processes that split texts for the device; None: see ``splitters_of``. ``Backend.close``
            ends them.
        sample: documents of the corpus to prove it on as well.

    Returns:
        The backend and what was found. One id that differs: the reference instead, and ``Proof.reason`` says where.

    Raises:
        ConfigError: an unknown name, or a backend asked for by name that cannot be exact with this tokenizer.
    """
    from cleanpipe.tokens.backends.fast import FastBackend
    from cleanpipe.tokens.backends.proving import Proof, prove

    if name not in NAMES:
        raise ConfigError(f"no backend {name!r}: it is one of {', '.join(NAMES)}")
    truth = reference(tokenizer)
    if name == "hf":
        return truth, Proof(asked=name, used="hf", versions=versions(truth))
    try:
        candidate = FastBackend(tokenizer) if name == "auto" else build(tokenizer, name, device, splitters)
    except ConfigError as error:
        if name != "auto":
            raise
        return truth, Proof(
            asked=name, used="hf", reason=f"fast is not exact here: {error.message}", versions=versions(truth)
        )
    proof = prove(name, candidate, truth, sample, tokenizer)
    if isinstance(candidate, FastBackend):
        candidate.forget_counts()
    if proof.used != truth.name:
        return candidate, proof
    candidate.close()
    return truth, proof


def versions(*backends: Backend) -> dict[str, str]:
    """Of the libraries behind these backends."""
    return {
        key: value
        for backend in backends
        for key, value in backend.facts().items()
        if isinstance(value, str) and key in ("tokenizers", "tiktoken", "sentencepiece", "torch")
    }
