"""What stands before and after a document, by name and id; and whether anything does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cleanpipe.tokens.audit.vocabulary import piece_of

MARKS = ("bos", "eos")


def borders(tokenizer: Any) -> dict[str, Any]:
    """``bos`` and ``eos``: {"name", "id"}, None where a document has none."""
    names = {id_: name for name, id_ in sorted(tokenizer.controls.items(), reverse=True)}
    out: dict[str, Any] = {}
    for mark in MARKS:
        id_ = getattr(tokenizer, mark)
        out[mark] = None if id_ is None else {"name": names.get(id_) or piece_of(tokenizer, id_), "id": id_}
    return out


def alarms(tokenizer: Any) -> list[dict[str, str]]:
    """What a person should know before training, though no law is broken and no limit passed."""
    if any(getattr(tokenizer, mark) is not None for mark in MARKS):
        return []
    told = f"nothing stands between documents: {tokenizer.name} names no EOS; give --eos TOKEN"
    return [{"what": "borders", "told": told}]


def borders_words(found: Mapping[str, Any]) -> str:
    """``BOS <s> (1), EOS none``."""
    told = [f"{found[mark]['name']} ({found[mark]['id']:,})" if found[mark] else "none" for mark in MARKS]
    return ", ".join(f"{mark.upper()} {words}" for mark, words in zip(MARKS, told, strict=True))


def agreement(found: Mapping[str, Any]) -> str:
    """What a balance that closes says of the borders."""
    there = [mark.upper() for mark in MARKS if found[mark]]
    none = ", ".join(f"no {mark.upper()}" for mark in MARKS if not found[mark])
    if not there:
        return f"{none} by policy"
    return f"{', '.join(there)} and documents agree" + (f", {none} by policy" if none else "")
