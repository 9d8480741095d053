"""A tokenizer as plain data: everything about it that does not depend on who encodes, or on where its file lay."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from cleanpipe.errors import ConfigError
from cleanpipe.tokens.tokenizer.parts import Parts, names_of, parts_of

FILES = {"json": "tokenizer.json", "tiktoken": "ranks.tiktoken", "sentencepiece": "tokenizer.model"}
POLICY = "policy.json"


@dataclass(frozen=True, slots=True, eq=False)
class Tokenizer:
    """name: of the embedded one, or of its file. kind: json, tiktoken or sentencepiece. data: the file, byte for byte.
    pattern: regex or known name that was given for a ranks file. vocabulary: largest id + 1, added tokens included.
    bos, eos: what stands around a document. controls: strings that must stay text in a page, with their ids (special
    tokens of the file, BOS, EOS); none of these ids comes out of text, but ``unk`` where a character is unknown.
    Added tokens that the file does not call special, such as ``<tool_call>``, are ordinary vocabulary.
    byte_ids: byte-fallback ids. lossless: byte-level without a normalizer, decode(encode(x)) == x.
    byte_lengths: int32 (vocabulary,), bytes of text of each id, 0 for controls; lossless only, else empty.
    fingerprint: hex SHA-256 of ``content``, ``policy``, ``probe``, and of these three, ``digest``.
    """

    name: str
    kind: str
    data: bytes
    pattern: str
    vocabulary: int
    bos: int | None
    eos: int | None
    unk: int | None
    controls: Mapping[str, int]
    byte_ids: tuple[int, ...]
    lossless: bool
    byte_lengths: npt.NDArray[np.int32]
    fingerprint: Mapping[str, str]

    @property
    def parts(self) -> Parts:
        """What the file holds; read once in a process."""
        return parts_of(self.kind, self.data, self.pattern)

    def body_json(self) -> str:
        """The tokenizer.json that encodes page text (json and tiktoken): control tokens are out of its reach."""
        return _body(self.kind, self.data, self.pattern, tuple(sorted(self.controls.items())))

    def token_bytes(self, token: int) -> bytes:
        """The text of one id in UTF-8, a control's name included; b"" for an id that no token has.

        Of a tokenizer that is not lossless: its piece, "▁" as a blank, a byte-fallback token as its byte.
        """
        if self.lossless:
            return self.parts.pieces[token]
        piece = names_of(self.kind, self.data, self.pattern).get(token, "")
        if token in self.byte_ids:
            return bytes([int(piece[3:5], 16)])
        return piece.replace("▁", " ").encode()

    def decode(self, ids: Iterable[int]) -> str:
        """The text of these ids; controls are shown by name. Bytes that are no UTF-8 become U+FFFD."""
        wanted = [int(token) for token in ids]
        if self.lossless:
            pieces = self.parts.pieces
            return b"".join([pieces[token] for token in wanted]).decode("utf-8", "replace")
        from cleanpipe.tokens.tokenizer.decoding import decode

        return decode(self.kind, self.data, wanted)

    def files(self) -> dict[str, bytes]:
        """Name below ``tokenizer/`` → bytes: the file as it was given, and policy.json."""
        policy: dict[str, Any] = {
            "format": 1,
            "name": self.name,
            "kind": self.kind,
            "pattern": self.pattern,
            "vocabulary": self.vocabulary,
            "bos": self.bos,
            "eos": self.eos,
            "controls": dict(self.controls),
            "fingerprint": dict(self.fingerprint),
        }
        text = json.dumps(policy, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
        return {FILES[self.kind]: self.data, POLICY: text.encode()}

    @classmethod
    def from_files(cls, files: Mapping[str, bytes]) -> Tokenizer:
        """The tokenizer of ``files()``. Its fingerprint is that of the libraries at work now: compare the digests.

        Raises:
            ConfigError: a file is missing, broken or of another format.
        """
        from cleanpipe.tokens.tokenizer.opening import made

        try:
            policy = json.loads(files[POLICY])
            if policy["format"] != 1:
                raise ConfigError(f"{POLICY} has format {policy['format']!r}, this cleanpipe reads 1: update it")
            data = files[FILES[policy["kind"]]]
            ends = ["none" if policy[key] is None else policy[key] for key in ("bos", "eos")]
            return made(policy["name"], policy["kind"], bytes(data), policy["pattern"], *ends)
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"tokenizer files: {error!r} is missing or broken; tokenize the run again") from error


@lru_cache(maxsize=2)
def _body(kind: str, data: bytes, pattern: str, controls: tuple[tuple[str, int], ...]) -> str:
    if kind == "tiktoken":
        from cleanpipe.tokens.tokenizer.ranks_file import body as of_ranks

        return of_ranks(data, pattern)
    from cleanpipe.tokens.tokenizer.json_file import body

    return body(data, dict(controls))
