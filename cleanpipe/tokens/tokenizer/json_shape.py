"""Whether a tokenizer.json has the shape that its format has, so that whoever reads it may rely on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cleanpipe.errors import ConfigError

KIND = "tokenizer.json"
WAY = "export the tokenizer again"
_TYPES = {dict: "an object", list: "a list", str: "a string", bool: "true or false", int: "a whole number"}
FLAGS = ("special", "single_word", "lstrip", "rstrip", "normalized")
_DEEPEST = 50  # Sequences within each other


def check(document: Mapping[str, Any]) -> None:
    """document: an object with a ``model``, an object with a ``vocab``, ``model.type`` and ``added_tokens`` in place.

    Raises:
        ConfigError: something in it has another shape; the place is named.
    """
    for at, token in enumerate(document["added_tokens"] if _is(document["added_tokens"], "added_tokens", list) else ()):
        place = f"added_tokens[{at}]"
        _is(token, place, dict)
        _is(token.get("content"), f"{place}.content", str)
        _is(token.get("id"), f"{place}.id", int)
        if token["id"] < 0:
            raise ConfigError(f"{KIND}: {place}.id is {token['id']}: ids are whole numbers from 0; {WAY}")
        for flag in FLAGS:
            _may(token.get(flag), f"{place}.{flag}", bool)
    for name, inner in (("normalizer", "normalizers"), ("pre_tokenizer", "pretokenizers")):
        _steps(document.get(name), name, inner, 0)
    for name in ("decoder", "post_processor", "truncation", "padding"):
        _may(document.get(name), name, dict)
    _model(document["model"])


def _steps(node: Any, place: str, inner: str, depth: int) -> None:
    if not _may(node, place, dict):
        return
    _is(node.get("type"), f"{place}.type", str)
    if depth > _DEEPEST:
        raise ConfigError(f"{KIND}: {place} is a Sequence within more than {_DEEPEST} others; {WAY}")
    for name in ("behavior", "replacement", "prepend_scheme", "content"):
        if name != "content" or isinstance(node.get(name), str):
            _may(node.get(name), f"{place}.{name}", str)
    for name in ("add_prefix_space", "use_regex", "trim_offsets", "invert", "individual_digits"):
        _may(node.get(name), f"{place}.{name}", bool)
    if node["type"] == "Sequence":
        for at, step in enumerate(node[inner] if _is(node.get(inner), f"{place}.{inner}", list) else ()):
            _is(step, f"{place}.{inner}[{at}]", dict)
            _steps(step, f"{place}.{inner}[{at}]", inner, depth + 1)


def _model(model: Mapping[str, Any]) -> None:
    _is(model["type"], "model.type", str)
    vocab = model["vocab"]
    if model["type"] == "Unigram":
        _is(vocab, "model.vocab", list)
        for at, entry in enumerate(vocab):
            if not (isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], str) and _number(entry[1])):
                raise ConfigError(f"{KIND}: model.vocab[{at}] is {_short(entry)}, not a piece and its score; {WAY}")
        _may(model.get("unk_id"), "model.unk_id", int)
        if model.get("unk_id") is not None and not 0 <= model["unk_id"] < len(vocab):
            raise ConfigError(f"{KIND}: model.unk_id is {model['unk_id']}, of {len(vocab):,} pieces; {WAY}")
    else:
        _is(vocab, "model.vocab", dict)
    for name in ("unk_token", "continuing_subword_prefix", "end_of_word_suffix"):
        _may(model.get(name), f"model.{name}", str)
    for name in ("byte_fallback", "fuse_unk", "ignore_merges"):
        _may(model.get(name), f"model.{name}", bool)
    if (drop := model.get("dropout")) is not None and not _number(drop):
        raise ConfigError(f"{KIND}: model.dropout is {_short(drop)}, not a number; {WAY}")
    if model["type"] == "BPE":
        prefix = model.get("continuing_subword_prefix") or ""
        for at, merge in enumerate(model["merges"] if _is(model.get("merges"), "model.merges", list) else ()):
            pair = merge.split(" ") if isinstance(merge, str) else merge
            if not (isinstance(pair, list) and len(pair) == 2 and all(isinstance(part, str) for part in pair)):
                raise ConfigError(f"{KIND}: model.merges[{at}] is {_short(merge)}, not two tokens; {WAY}")
            if not pair[1].startswith(prefix):  # the library would cut its first bytes off, whatever they are
                raise ConfigError(f"{KIND}: model.merges[{at}] is {_short(pair[1])} without {prefix!r} in front; {WAY}")


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _may(value: Any, place: str, kind: type) -> bool:
    """Whether there is anything; of this kind then."""
    return value is not None and _is(value, place, kind)


def _is(value: Any, place: str, kind: type) -> bool:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ConfigError(f"{KIND}: {place} is {_short(value)}, not {_TYPES[kind]}; {WAY}")
    return True


def _short(value: Any) -> str:
    if value is None:
        return "missing"
    if isinstance(value, (dict, list)):
        return f"{_TYPES[type(value)]} of {len(value):,}"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
