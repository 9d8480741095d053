"""The reference of SentencePiece models: the library itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cleanpipe.tokens.backend import Backend, Encoded, Ids
from cleanpipe.tokens.tokenizer.model import Tokenizer
from cleanpipe.tokens.tokenizer.needs import sentencepiece


class SentencePieceBackend(Backend):
    """One thread, no sampling; control symbols are no text to the library."""

    name = "hf"  # asked for as the reference, whatever the library

    def __init__(self, tokenizer: Tokenizer) -> None:
        library = sentencepiece()
        self._version = str(library.__version__)
        self._engine = library.SentencePieceProcessor(model_proto=tokenizer.data)

    def encode(self, texts: Sequence[str], *, starts: bool = False) -> Encoded:
        """See ``Backend.encode``."""
        ids, found = [], [np.zeros((0, 2), np.int64)]
        for text in texts:
            if starts:
                numbers, own = self._placed(text)
                ids.append(np.array(numbers, np.uint32))
                found.append(np.array(own, np.int64).reshape(-1, 2))
            else:
                ids.append(np.array(self._engine.encode_as_ids(text), np.uint32))
        ends = np.cumsum([len(part) for part in ids], dtype=np.int64)
        joined: Ids = np.concatenate(ids) if ids else np.empty(0, np.uint32)
        if not starts:
            return Encoded(joined, ends)
        places = np.concatenate(found)
        return Encoded(joined, ends, places[:, 0].copy(), places[:, 1].copy())

    def _placed(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Ids, and the code points at which each begins and ends."""
        if hasattr(self._engine, "encode_as_offset_mapping"):  # since 0.2.2
            found = self._engine.encode_as_offset_mapping(text)
            return found["ids"], found["offsets"]
        pieces = self._engine.encode(text, out_type="immutable_proto").pieces
        return [piece.id for piece in pieces], [(piece.begin, piece.end) for piece in pieces]

    def facts(self) -> Mapping[str, Any]:
        """Its library."""
        return {"sentencepiece": self._version}
