"""The reference of tokenizer.json and ranks files: the library ``tokenizers`` itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from cleanpipe.errors import ConfigError
from cleanpipe.tokens.backend import Backend, Encoded, Ids, is_failure
from cleanpipe.tokens.backends.starts import starts_of
from cleanpipe.tokens.tokenizer.model import Tokenizer
from cleanpipe.tokens.tokenizer.needs import tokenizers


class HfBackend(Backend):
    """One thread; control strings are out of its reach (``Tokenizer.body_json``)."""

    name = "hf"

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._version = str(tokenizers().__version__)
        try:
            self._engine = _engine(tokenizer.body_json())
        except BaseException as error:
            if not is_failure(error):
                raise
            reason = " ".join(str(error).split())[:200]
            raise ConfigError(f"{tokenizer.name}: tokenizers {self._version} cannot load it: {reason}") from error
        moved = [
            name
            for name, value in tokenizer.parts.ids.items()
            if name not in tokenizer.controls and self._engine.token_to_id(name) != value
        ]
        if moved:
            raise ConfigError(
                f"{tokenizer.name}: the library gives {moved[0]!r} id {self._engine.token_to_id(moved[0])}, the file "
                f"says {tokenizer.parts.ids[moved[0]]}: its added tokens must follow the vocabulary without a gap"
            )

    def encode(self, texts: Sequence[str], *, starts: bool = False) -> Encoded:
        """See ``Backend.encode``."""
        offsets = starts and not self._tokenizer.lossless
        run = self._engine.encode_batch if offsets else self._engine.encode_batch_fast
        encodings = run(list(texts), add_special_tokens=False)
        parts = [np.array(encoding.ids, np.uint32) for encoding in encodings]
        ids: Ids = np.concatenate(parts) if parts else np.empty(0, np.uint32)
        ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
        if not starts:
            return Encoded(ids, ends)
        if not offsets:
            return Encoded(ids, ends, starts_of(ids, ends, texts, self._tokenizer.byte_lengths))
        found = [np.array(encoding.offsets, np.int64).reshape(-1, 2) for encoding in encodings]
        places = np.concatenate([np.zeros((0, 2), np.int64), *found])
        return Encoded(ids, ends, places[:, 0].copy(), places[:, 1].copy())

    def facts(self) -> Mapping[str, Any]:
        """Its library."""
        return {"tokenizers": self._version}


@lru_cache(maxsize=2)
def _engine(body: str) -> Any:
    engine = tokenizers().Tokenizer.from_str(body)
    engine.encode_special_tokens = True
    return engine
