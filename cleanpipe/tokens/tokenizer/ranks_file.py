"""Ranks files (tiktoken): one line a token, its bytes in base64 and its rank; the same as a tokenizer.json."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

from cleanpipe.errors import ConfigError
from cleanpipe.tokens.tokenizer.parts import Parts, canonical, check_ids
from cleanpipe.tokens.tokenizer.patterns import KNOWN, spelled

KIND = "ranks file"


def ranks_of(data: bytes) -> dict[bytes, int]:
    """Bytes → rank of every line.

    Raises:
        ConfigError: a line that is none, or a token that is there twice.
    """
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            text, rank = line.split()
            token, value = base64.b64decode(text, validate=True), int(rank)
        except (ValueError, binascii.Error) as error:
            raise ConfigError(f"{KIND}: line {number} is not `base64 rank`: {error}; download it again") from error
        if token in ranks:
            raise ConfigError(f"{KIND}: line {number}: {token!r} is there twice; download it again")
        ranks[token] = value
    return ranks


def split_of(ranks: Mapping[bytes, int], pattern: str) -> str:
    """The regex: by a known name, as given, or guessed from the number of ranks.

    Raises:
        ConfigError: nothing was given and the number is no known one.
    """
    if pattern:
        return KNOWN[pattern].pattern if pattern in KNOWN else pattern
    for known in KNOWN.values():
        if known.ranks == len(ranks):
            return known.pattern
    raise ConfigError(
        f"{KIND}: {len(ranks)} ranks are none of the known encodings, and the file does not hold its splitting "
        f"pattern: give it (pattern=), as a regex or as one of {', '.join(KNOWN)}"
    )


def controls_of(ranks: Mapping[bytes, int]) -> dict[str, int]:
    """The published control tokens of an encoding of this size; of others ``<|endoftext|>`` on the first free id."""
    for known in KNOWN.values():
        if known.ranks == len(ranks) and not {*known.controls.values()} & {*ranks.values()}:
            return dict(known.controls)
    return {"<|endoftext|>": max(ranks.values(), default=-1) + 1}


def read(data: bytes, pattern: str = "") -> Parts:
    """Raises: ConfigError: broken, or a pattern that no engine takes."""
    ranks = ranks_of(data)
    controls = controls_of(ranks)
    for value in controls.values():
        if value < 0:
            raise ConfigError(f"{KIND}: ranks are whole numbers from 0; download it again")
    check_ids(ranks.values(), KIND, holes=controls.values())
    missing = [byte for byte in range(256) if bytes([byte]) not in ranks]
    if missing:
        raise ConfigError(
            f"{KIND}: no rank for {len(missing)} of the 256 single bytes, the first is 0x{missing[0]:02x}: "
            "some text could not be encoded; download it again"
        )
    split = split_of(ranks, pattern)
    size = max(*ranks.values(), *controls.values()) + 1
    pieces = [b""] * size
    for token, value in ranks.items():
        pieces[value] = token
    for name, value in controls.items():
        pieces[value] = name.encode()
    ids = {spelled(token): value for token, value in ranks.items()}
    return Parts(
        ids={**ids, **controls},
        specials=controls,
        vocabulary=size,
        fixed=frozenset(ranks.values()),
        lossless=True,
        pieces=tuple(pieces),
        content=canonical({"ranks": ids, "pattern": split, "controls": controls}),
        facts={"model": "BPE", "ranks": len(ranks), "split": split},
    )


def in_short(ranks: Mapping[bytes, int], pattern: str) -> dict[str, Any]:
    """The same tokenizer as a tokenizer.json without its control tokens, its vocabulary and its merges."""
    split = {"type": "Split", "pattern": {"Regex": split_of(ranks, pattern)}, "behavior": "Isolated", "invert": False}
    plain = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    return {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, plain]},
        "post_processor": None,
        "decoder": plain,
        "model": {"type": "BPE", "ignore_merges": True},
    }


def body(data: bytes, pattern: str) -> str:
    """The same tokenizer as a tokenizer.json without its control tokens. Every way to split a token in two is a merge
    of the token's rank: of these only the one that the ranks themselves lead to can ever meet (see ``fast_ranks``).
    """
    ranks = ranks_of(data)
    names = {token: spelled(token) for token in ranks}
    merges = []
    for token in sorted(ranks, key=ranks.__getitem__):
        for cut in range(1, len(token)):
            left, right = names.get(token[:cut]), names.get(token[cut:])
            if left is not None and right is not None:
                merges.append([left, right])
    document = in_short(ranks, pattern)
    document["model"] |= {"vocab": {names[token]: ranks[token] for token in ranks}, "merges": merges}
    return json.dumps(document)
