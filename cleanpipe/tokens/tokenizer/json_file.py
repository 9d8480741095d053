"""tokenizer.json: what it holds, and the form of it that encodes page text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from cleanpipe.errors import ConfigError
from cleanpipe.tokens.tokenizer.json_shape import FLAGS, KIND, check
from cleanpipe.tokens.tokenizer.names import BOS_NAMES, EOS_NAMES
from cleanpipe.tokens.tokenizer.parts import Parts, canonical, check_ids
from cleanpipe.tokens.tokenizer.patterns import alphabet_bytes, unspelled

_GUARD = "\U0010fffe"  # a noncharacter: no page text can spell a name between two of them


def read(data: bytes, pattern: str = "") -> Parts:
    """Raises: ConfigError: no tokenizer.json, or one that is broken."""
    if pattern:
        raise ConfigError("pattern is for ranks files: a tokenizer.json holds its own; leave it out")
    document = parsed(data)
    model, added = document["model"], document["added_tokens"]
    if model.get("dropout"):
        raise ConfigError(
            f"{KIND}: its merges have a dropout of {model['dropout']}: ids would be drawn by chance; "
            "set model.dropout to null in a copy of the file"
        )
    try:
        vocabulary = _vocabulary(model)
        ids = dict(vocabulary)
        check_ids([*ids.values()], KIND, holes=[token["id"] for token in added])
        for token in added:
            if ids.setdefault(token["content"], token["id"]) != token["id"]:
                raise ConfigError(
                    f"{KIND}: {token['content']!r} has id {ids[token['content']]} in the vocabulary and {token['id']} "
                    "among the added tokens; export the tokenizer again"
                )
        size = check_ids(ids.values(), KIND)
        specials = {token["content"]: token["id"] for token in added if token.get("special")}
        merges = [] if model["type"] != "BPE" else merges_of(model)
        unk = model.get("unk_id") if model["type"] == "Unigram" else ids.get(model.get("unk_token") or "")
        if model["type"] == "BPE":
            fixed = _fixed(vocabulary, merges, model)
        else:  # all that is no control by its flag or its name is text
            names = {*BOS_NAMES, *EOS_NAMES, *specials}
            fixed = frozenset(value for name, value in vocabulary.items() if name not in names and value != unk)
        lossless = _lossless(document, vocabulary)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"{KIND}: {type(error).__name__}: {error}; export the tokenizer again") from error
    specials = {name: value for name, value in specials.items() if value not in fixed}
    pieces = _pieces(ids, vocabulary, size) if lossless else ()
    return Parts(
        ids=ids,
        specials=specials,
        vocabulary=size,
        unk=unk,
        byte_ids=_byte_ids(ids) if model.get("byte_fallback") else (),
        fixed=fixed,
        lossless=lossless,
        pieces=pieces,
        content=_content(document, vocabulary, merges),
        facts={"model": model["type"], "merges": len(merges)},
    )


def parsed(data: bytes) -> dict[str, Any]:
    """The file as JSON, with ``model.type`` and ``added_tokens`` filled in.

    Raises:
        ConfigError: it is something else.
    """
    try:
        document = json.loads(data, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{KIND}: broken JSON: {error}; download or export it again") from error
    model = document.get("model") if isinstance(document, dict) else None
    if not isinstance(model, dict) or "vocab" not in model:
        raise ConfigError(
            "JSON, but no tokenizer.json (that one has a `model` with a `vocab`): "
            "vocab.json, tokenizer_config.json and the like do not hold a whole tokenizer; give its tokenizer.json"
        )
    if not model.get("type"):
        model["type"] = "Unigram" if isinstance(model["vocab"], list) else "BPE" if "merges" in model else "WordPiece"
    given = document.get("added_tokens")
    made: dict[str, Any] = {**document, "added_tokens": [] if given is None else given}
    check(made)
    return made


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} is there twice")
    return made


def _vocabulary(model: Mapping[str, Any]) -> dict[str, int]:
    if model["type"] == "Unigram":
        pieces = [piece for piece, _score in model["vocab"]]
        if len(set(pieces)) < len(pieces):
            raise ConfigError(f"{KIND}: a piece is there twice in the vocabulary; export the tokenizer again")
        return {piece: place for place, piece in enumerate(pieces)}
    return dict(model["vocab"])


def merges_of(model: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The merges of a BPE in order of priority, whichever way they are spelled."""
    made = []
    for merge in model["merges"]:
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        made.append((left, right))
    return made


def _fixed(
    vocabulary: Mapping[str, int], merges: Iterable[tuple[str, str]], model: Mapping[str, Any]
) -> frozenset[int]:
    """Ids of one letter, and of all that merges take or make: text needs them."""
    prefix, suffix = model.get("continuing_subword_prefix") or "", model.get("end_of_word_suffix") or ""
    needed = {token for token in vocabulary if len(token) == 1}
    for left, right in merges:
        needed |= {left, right, left + right.removeprefix(prefix)}
    if suffix:
        needed |= {token for token in vocabulary if len(token.removesuffix(suffix)) == 1}
    return frozenset(vocabulary[token] for token in needed if token in vocabulary)


def _byte_ids(ids: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(ids[name] for name in (f"<0x{byte:02X}>" for byte in range(256)) if name in ids)


def steps(node: Mapping[str, Any] | None, inner: str) -> list[Mapping[str, Any]]:
    """A normalizer or pre-tokenizer as a flat list; ``inner`` is the key under which a Sequence holds its own."""
    if not node:
        return []
    if node.get("type") != "Sequence":
        return [node]
    return [step for part in node.get(inner) or [] for step in steps(part, inner)]


def _lossless(document: Mapping[str, Any], vocabulary: Mapping[str, int]) -> bool:
    """Byte-level, nothing normalised, nothing dropped: decode(encode(x)) == x for every x."""
    model = document["model"]
    splits = steps(document.get("pre_tokenizer"), "pretokenizers")
    plain = (
        model["type"] == "BPE"
        and not any(model.get(key) for key in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"))
        and not steps(document.get("normalizer"), "normalizers")
        and all(chr(letter) in vocabulary for letter in alphabet_bytes())
        and not any(
            token.get("lstrip") or token.get("rstrip") for token in document["added_tokens"] if not token.get("special")
        )
    )
    if not plain or not splits or splits[-1].get("type") != "ByteLevel" or splits[-1].get("add_prefix_space", True):
        return False
    return all(
        step.get("type") in ("Split", "Punctuation", "Digits") and str(step.get("behavior", "")).lower() != "removed"
        for step in splits[:-1]
    )


def _pieces(ids: Mapping[str, int], vocabulary: Mapping[str, int], size: int) -> tuple[bytes, ...]:
    made = [b""] * size
    for token, value in ids.items():
        letters = unspelled(token) if token in vocabulary else None
        made[value] = token.encode("utf-8", "surrogatepass") if letters is None else letters
    return tuple(made)


def _content(document: Mapping[str, Any], vocabulary: Mapping[str, int], merges: list[tuple[str, str]]) -> str:
    """Digest of all that decides ids. Padding, truncation, post-processor and decoder do not."""
    model = {key: value for key, value in document["model"].items() if value not in (None, False, "")}
    model["vocab"] = document["model"]["vocab"] if model["type"] == "Unigram" else vocabulary
    if model["type"] == "BPE":
        model["merges"] = merges
    added = [
        {"id": token["id"], "content": token["content"], **{flag: bool(token.get(flag)) for flag in FLAGS}}
        for token in sorted(document["added_tokens"], key=lambda token: int(token["id"]))
    ]
    splits = [_defaults(step) for step in steps(document.get("pre_tokenizer"), "pretokenizers")]
    normal = steps(document.get("normalizer"), "normalizers")
    return canonical({"model": model, "added_tokens": added, "normalizer": normal, "pre_tokenizer": splits})


def _defaults(step: Mapping[str, Any]) -> dict[str, Any]:
    if step.get("type") != "ByteLevel":
        return dict(step)
    return {
        "type": "ByteLevel",
        "add_prefix_space": step.get("add_prefix_space", True),
        "use_regex": step.get("use_regex", True),
    }


def body(data: bytes, controls: Mapping[str, int]) -> str:
    """The tokenizer.json that encodes page text: no padding, no truncation, no post-processor, and control tokens
    under names that no text can spell, so that neither the search for added tokens nor the vocabulary finds them.
    """
    document = parsed(data)
    model = document["model"]
    renamed = {name: f"{_GUARD}{name}{_GUARD}" for name in controls}
    if model["type"] == "Unigram":
        model["vocab"] = [[renamed.get(piece, piece), score] for piece, score in model["vocab"]]
    else:
        model["vocab"] = {renamed.get(token, token): value for token, value in model["vocab"].items()}
        if model.get("unk_token") in renamed:
            model["unk_token"] = renamed[model["unk_token"]]
    document["added_tokens"] = [
        {**token, "content": renamed[token["content"]], "special": True} if token["content"] in renamed else token
        for token in document["added_tokens"]
    ]
    document.update(truncation=None, padding=None, post_processor=None)
    return json.dumps(document)
