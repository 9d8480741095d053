"""Which ids stand before and after a document, and which strings are control tokens."""

from __future__ import annotations

from collections.abc import Mapping

from cleanpipe.errors import ConfigError
from cleanpipe.tokens.tokenizer.names import BOS_NAMES, EOS_NAMES
from cleanpipe.tokens.tokenizer.parts import Parts


def resolve(
    parts: Parts, bos: str | int | None, eos: str | int | None
) -> tuple[int | None, int | None, dict[str, int]]:
    """(bos, eos, controls) of a tokenizer. ``auto``: as the file says, else by well-known names among its special
    tokens, else among entries of the vocabulary that text cannot reach; none of them: none.

    Raises:
        ConfigError: an id beyond the vocabulary, an unknown token, or one that page text spells.
    """
    begin = _one(parts, "bos", bos, parts.bos, BOS_NAMES)
    end = _one(parts, "eos", eos, parts.eos, EOS_NAMES)
    names = {value: name for name, value in parts.ids.items()}
    controls = dict(parts.specials)
    for value in (begin, end):
        if value is not None:
            controls.setdefault(names[value], value)
    return begin, end, controls


def never_in_text(bos: int | None, eos: int | None, unk: int | None, controls: Mapping[str, int]) -> frozenset[int]:
    """Ids that no text may hold: those of controls and marks, but ``unk`` where it is no mark."""
    marks = {one for one in (bos, eos) if one is not None}
    return frozenset({*controls.values(), *marks} - ({unk} - marks))


def _one(parts: Parts, what: str, asked: str | int | None, own: int | None, names: tuple[str, ...]) -> int | None:
    if asked is None or asked == "none":
        return None
    if asked == "auto":
        if own is not None:
            return own
        found = _found(parts.specials, names, parts)
        return _found(parts.ids, names, parts) if found is None else found
    text, ways = str(asked), f"give `none` or one of its control tokens{_some(parts)}"
    if text.lstrip("-").isdecimal():
        value = int(text)
        if not 0 <= value < parts.vocabulary:
            raise ConfigError(f"{what}: id {value} lies beyond the vocabulary (0 to {parts.vocabulary - 1}); {ways}")
    elif text in parts.ids:
        value = parts.ids[text]
    else:
        raise ConfigError(f"{what}: the tokenizer has no token {text!r}; {ways}")
    if value in parts.fixed:
        raise ConfigError(f"{what}: {text!r} is ordinary text of this tokenizer, pages would forge it; {ways}")
    if value not in parts.ids.values():
        raise ConfigError(f"{what}: no token has id {value}; {ways}")
    return value


def _found(ids: Mapping[str, int], names: tuple[str, ...], parts: Parts) -> int | None:
    return next((ids[name] for name in names if name in ids and ids[name] not in parts.fixed), None)


def _some(parts: Parts) -> str:
    some = sorted(parts.specials, key=lambda name: parts.specials[name])[:6]
    return f": {', '.join(some)}" if some else " (it has none)"
