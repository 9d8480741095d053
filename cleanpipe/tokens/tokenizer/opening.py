"""Tokenizers opened by path or embedded name; the kind is told by the content."""

from __future__ import annotations

import re
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

import numpy as np

from cleanpipe.errors import ConfigError
from cleanpipe.tokens.tokenizer.fingerprint import fingerprint
from cleanpipe.tokens.tokenizer.model import Tokenizer
from cleanpipe.tokens.tokenizer.parts import parts_of
from cleanpipe.tokens.tokenizer.policy import resolve

LARGEST = 512 << 20  # bytes of a tokenizer's file; the largest known have 35 MB
_RANK = re.compile(rb"\s*[A-Za-z0-9+/]+=*[ \t]+-?\d+[ \t]*(?:\r?\n|$)")


def open_tokenizer(spec: str, *, bos: str | int = "auto", eos: str | int = "auto", pattern: str = "") -> Tokenizer:
    """A tokenizer from a file or from this package.

    Args:
        spec: path of a tokenizer.json, a SentencePiece model or a ranks file (tiktoken); or an embedded name.
        bos: id before each document: ``auto`` (as the file says, or by well-known names), ``none``, an id, or a
            control token's string.
        eos: id after each document, in the same way.
        pattern: how a ranks file splits: a known name (gpt2, cl100k, o200k) or a regex; "" guesses by its size.

    Raises:
        ConfigError: no such file, a kind that is unknown, a broken file, or a BOS or EOS that it does not have.
    """
    name, data = _read(spec)
    return made(name, kind_of(data, name), data, pattern, bos, eos)


def made(name: str, kind: str, data: bytes, pattern: str, bos: str | int, eos: str | int) -> Tokenizer:
    """A tokenizer of these bytes.

    Raises:
        ConfigError: see ``open_tokenizer``.
    """
    parts = parts_of(kind, data, pattern)
    begin, end, controls = resolve(parts, bos, eos)
    lengths = np.fromiter(map(len, parts.pieces), np.int32, len(parts.pieces))
    if len(lengths):
        lengths[list(controls.values())] = 0
    lengths.flags.writeable = False
    bare = Tokenizer(
        name=name,
        kind=kind,
        data=data,
        pattern=pattern,
        vocabulary=parts.vocabulary,
        bos=begin,
        eos=end,
        unk=parts.unk,
        controls=controls,
        byte_ids=parts.byte_ids,
        lossless=parts.lossless,
        byte_lengths=lengths,
        fingerprint={},
    )
    return fingerprint(bare)


def embedded() -> dict[str, Traversable]:
    """The tokenizers that come with this package: name → its file."""
    found: dict[str, Traversable] = {}
    folder = resources.files("cleanpipe.tokens").joinpath("models")
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name) if folder.is_dir() else []:
        for file in sorted(entry.iterdir(), key=lambda file: file.name) if entry.is_dir() else []:
            if file.name == "tokenizer.json" or file.name.endswith((".tiktoken", ".model")):
                found.setdefault(entry.name, file)
    return found


def _read(spec: str) -> tuple[str, bytes]:
    own = embedded()
    if spec in own:
        return spec, own[spec].read_bytes()
    path = Path(spec)
    try:
        if path.is_dir():
            raise ConfigError(f"{spec} is a folder; give the file in it: tokenizer.json, *.model or *.tiktoken")
        if path.stat().st_size > LARGEST:
            raise ConfigError(f"{spec} has more than {LARGEST >> 20} MB: that is no tokenizer; give its tokenizer.json")
        return path.name, path.read_bytes()
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"no tokenizer at {spec!r} ({getattr(error, 'strerror', None) or error}); give the path of a "
            "tokenizer.json, a SentencePiece .model or a tiktoken ranks file, or an embedded one: "
            + (", ".join(own) or "(none)")
        ) from error


def kind_of(data: bytes, name: str) -> str:
    """json, tiktoken or sentencepiece, by the content.

    Raises:
        ConfigError: none of them.
    """
    head = data[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    if head[:1] in (b"{", b"["):
        return "json"
    if _RANK.match(data[:4096]):
        return "tiktoken"
    if data[:1] == b"\n" and b"\0" in data[:4096]:  # a protocol buffer whose first field is a piece
        return "sentencepiece"
    if head.startswith(b"version https://git-lfs"):
        raise ConfigError(f"{name} is a Git LFS pointer, not the file itself: run `git lfs pull` or download it")
    raise ConfigError(
        f"{name} is no tokenizer that this program knows: a tokenizer.json, a SentencePiece .model or a tiktoken ranks "
        "file (lines of base64 and rank); convert it to tokenizer.json"
    )
