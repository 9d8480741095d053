"""How many tokens a text makes: by characters of each script, or exactly by a tokenizer's file."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cleanpipe.errors import ConfigError

# characters a token, about: byte-level BPE of 100,000 to 250,000 entries on running text; a rule of thumb, not measured
PER_TOKEN = {
    "latin": 4.4, "latin_accented": 3.2, "cyrillic": 3.0, "greek": 2.6, "arabic_hebrew": 2.7, "indic_thai": 2.2,
    "cjk": 1.3, "kana_hangul": 1.5, "other": 1.5,
}  # fmt: skip
METHOD = "estimated: characters of each script by a rule of thumb; within 10 % for English, 40 % for other languages"
SCRIPTS = tuple(PER_TOKEN)
_BLOCKS = (
    (0x0, 0x80, "latin"), (0x80, 0x250, "latin_accented"), (0x1E00, 0x1F00, "latin_accented"),
    (0x2000, 0x2070, "latin"), (0x370, 0x400, "greek"), (0x1F00, 0x2000, "greek"), (0x400, 0x530, "cyrillic"),
    (0x590, 0x780, "arabic_hebrew"), (0x8A0, 0x900, "arabic_hebrew"), (0x900, 0xE80, "indic_thai"),
    (0x1100, 0x1200, "kana_hangul"), (0x3040, 0x3100, "kana_hangul"), (0xAC00, 0xD800, "kana_hangul"),
    (0x3000, 0x3040, "cjk"), (0x3400, 0xA000, "cjk"), (0xF900, 0xFB00, "cjk"), (0xFF00, 0xFFF0, "cjk"),
    (0x20000, 0x32000, "cjk"),
)  # fmt: skip
_CHUNK = 1 << 20


@cache
def _classes() -> npt.NDArray[np.uint8]:
    out = np.full(0x110000 >> 4, SCRIPTS.index("other"), np.uint8)
    for first, last, name in _BLOCKS:
        out[first >> 4 : last >> 4] = SCRIPTS.index(name)
    return out


def script_counts(text: str) -> dict[str, int]:
    """Characters by script; punctuation and blanks count as Latin."""
    if text.isascii():
        return {"latin": len(text)} if text else {}
    total = np.zeros(len(SCRIPTS), np.int64)
    for start in range(0, len(text), _CHUNK):
        points = np.frombuffer(text[start : start + _CHUNK].encode("utf-32-le", "surrogatepass"), np.uint32)
        total += np.bincount(_classes()[points >> 4], minlength=len(SCRIPTS))
    return {name: n for name, n in zip(SCRIPTS, total.tolist(), strict=True) if n}


def estimate(counts: dict[str, int]) -> int:
    """Tokens of a text of so many characters of each script."""
    return round(sum(n / PER_TOKEN[name] for name, n in counts.items()))


def load_tokenizer(path: str) -> Callable[[list[str]], list[int]]:
    """Tokens of each text by a ``tokenizer.json``, or by a tiktoken encoding ("tiktoken:cl100k_base").

    Raises:
        ConfigError: the file cannot be read, or the package is not installed.
    """
    if path.startswith("tiktoken:"):
        try:
            import tiktoken  # type: ignore[import-not-found, unused-ignore]
        except ImportError as error:
            raise ConfigError("--tokenizer tiktoken:… needs the package tiktoken: pip install tiktoken") from error
        try:
            encoding = tiktoken.get_encoding(path.partition(":")[2])
        except Exception as error:
            raise ConfigError(f"--tokenizer {path}: {error}") from error
        return lambda texts: [len(e) for e in encoding.encode_batch(texts, num_threads=1, disallowed_special=())]
    if not Path(path).is_file():
        raise ConfigError(f"--tokenizer {path}: no such file (a tokenizer.json, or tiktoken:NAME)")
    try:
        from tokenizers import Tokenizer  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise ConfigError("--tokenizer needs the package tokenizers: pip install tokenizers") from error
    try:
        tokenizer = Tokenizer.from_file(path)
    except Exception as error:
        raise ConfigError(f"--tokenizer {path} cannot be read: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda texts: [len(e.ids) for e in tokenizer.encode_batch(texts, add_special_tokens=False)]
