"""The embedded RoBERTa without torch: the same figures (to some 1e-5) from NumPy and the package ``tokenizers``.

It reads folders of this project's training: ``model_type`` roberta, a ``model.safetensors``, a ``tokenizer.json``.
Rows of a forward pass stand behind each other, so that nothing is padding, and the last layer answers for the asked
places only. All is 32-bit but the sum over the vocabulary.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cleanpipe.errors import ConfigError

Array = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

_TYPES: dict[str, npt.DTypeLike] = {"F16": "<f2", "F32": "<f4"}


class Roberta:
    """A masked model ready to be asked, as ``neural.Language``: same attributes, same methods.

    Raises:
        ConfigError: ``tokenizers`` is missing, or the folder is of another kind.
    """

    def __init__(self, folder: Path) -> None:
        try:
            import tokenizers
        except ImportError as e:
            raise ConfigError("perplexity = 'mlm' needs tokenizers: pip install \"cleanpipe[neural]\"") from e
        try:
            config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            self._weights = read_safetensors(folder / "model.safetensors")
            self._tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
            self._heads, self._layers = int(config["num_attention_heads"]), int(config["num_hidden_layers"])
            self._tiny, self.pad = float(config["layer_norm_eps"]), int(config["pad_token_id"])
            self.before, self.after = [int(config["bos_token_id"])], [int(config["eos_token_id"])]
            self.mask = self._tokenizer.get_vocab()["<mask>"]
            self._words = self._weights["roberta.embeddings.word_embeddings.weight"]
            places = self._weights["roberta.embeddings.position_embeddings.weight"][self.pad + 1 :]
            self._places = places + self._weights["roberta.embeddings.token_type_embeddings.weight"][0]
            known = config["model_type"] == "roberta" and config["hidden_act"] == "gelu"
        except Exception as e:  # whatever the files' content makes the readers stumble over
            raise ConfigError(f"{folder} cannot be read as a RoBERTa: {type(e).__name__}: {e}") from e
        if not known:
            raise ConfigError(f"{folder} is no RoBERTa with GELU: this reader knows no other")
        self._tokenizer.encode_special_tokens = True  # a page's <mask> is text
        self.length, self.vocabulary = len(self._places), len(self._words)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each text, without control tokens."""
        return [x.ids for x in self._tokenizer.encode_batch(list(texts), add_special_tokens=False)]

    def losses(
        self, rows: Sequence[Sequence[int]], row: Integers, column: Integers, truth: Integers
    ) -> npt.NDArray[np.float64]:
        """Negative log-likelihood, nats, of the tokens ``truth`` by the model's words at (row, column); each [n]."""
        sizes = np.array([len(x) for x in rows])
        groups = [(n, len(list(same))) for n, same in groupby(sizes.tolist())]  # rows of one length, one after another
        asked = (np.cumsum(sizes) - sizes)[row] + column
        at = np.concatenate([np.arange(n) for n in sizes])
        x = self._norm(self._words[np.concatenate(rows)] + self._places[at], "roberta.embeddings.LayerNorm")
        for i in range(self._layers):
            layer = f"roberta.encoder.layer.{i}."
            seen = self._attend(x, layer + "attention.self.", groups)
            if i == self._layers - 1:
                x, seen = x[asked], seen[asked]
            x = self._norm(
                self._linear(seen, layer + "attention.output.dense") + x, layer + "attention.output.LayerNorm"
            )
            wide = gelu(self._linear(x, layer + "intermediate.dense"))
            x = self._norm(self._linear(wide, layer + "output.dense") + x, layer + "output.LayerNorm")
        x = self._norm(gelu(self._linear(x, "lm_head.dense")), "lm_head.layer_norm")
        words = x @ self._words.T
        words += self._weights["lm_head.bias"]
        told = words[np.arange(len(truth)), truth].astype(np.float64)
        highest = words.max(1)
        np.exp(np.subtract(words, highest[:, None], out=words), out=words)
        return np.asarray(np.log(words.sum(1, dtype=np.float64)) + highest - told, np.float64)

    def _attend(self, x: Array, name: str, groups: Sequence[tuple[int, int]]) -> Array:
        query, key, value = (self._linear(x, name + part) for part in ("query", "key", "value"))
        size = x.shape[1] // self._heads
        query *= np.float32(size**-0.5)
        out, start = np.empty_like(x), 0
        for n, count in groups:
            end = start + n * count
            q, k, v = (
                y[start:end].reshape(count, n, self._heads, size).transpose(0, 2, 1, 3) for y in (query, key, value)
            )
            weights = q @ k.transpose(0, 1, 3, 2)
            np.exp(np.subtract(weights, weights.max(-1, keepdims=True), out=weights), out=weights)
            weights /= weights.sum(-1, keepdims=True)
            out[start:end] = (weights @ v).transpose(0, 2, 1, 3).reshape(end - start, -1)
            start = end
        return out

    def _linear(self, x: Array, name: str) -> Array:
        out: Array = x @ self._weights[name + ".weight"].T
        out += self._weights[name + ".bias"]
        return out

    def _norm(self, x: Array, name: str) -> Array:
        x -= x.mean(1, keepdims=True)
        x *= 1 / np.sqrt(np.einsum("ij,ij->i", x, x)[:, None] / np.float32(x.shape[1]) + np.float32(self._tiny))
        x *= self._weights[name + ".weight"]
        x += self._weights[name + ".bias"]
        return x


def gelu(x: Array) -> Array:
    """Each x times the share of the normal distribution below it (Abramowitz and Stegun 7.1.26: off by 1e-7 |x|)."""
    a = np.abs(x) * np.float32(0.5**0.5)
    t = 1 / (1 + np.float32(0.3275911) * a)
    p = np.float32(1.061405429) * t
    for c in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        p += np.float32(c)
        p *= t
    np.multiply(a, -a, out=a)
    np.exp(a, out=a)
    p *= a  # 1 - erf
    p *= np.float32(0.5)
    return np.asarray(np.where(x < 0, x * p, x - x * p), np.float32)


def read_safetensors(path: Path) -> dict[str, Array]:
    """The tensors of a file by name, 32-bit. Raises ValueError or KeyError where it holds another thing."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    head: dict[str, Any] = json.loads(data[8 : 8 + size])
    return {name: _tensor(data, 8 + size, told) for name, told in head.items() if name != "__metadata__"}


def _tensor(data: bytes, start: int, told: dict[str, Any]) -> Array:
    first, end = told["data_offsets"]
    found = np.frombuffer(data[start + first : start + end], np.dtype(_TYPES[told["dtype"]]))
    return np.asarray(found.reshape(told["shape"]), np.float32)
