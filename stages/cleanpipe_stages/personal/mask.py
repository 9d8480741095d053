"""A text with placeholders for personal data, until none is left."""

from __future__ import annotations

import unicodedata
from collections import Counter
from dataclasses import dataclass

from cleanpipe_stages.personal.find import EMAIL, IP, PHONE, Piece, pieces

_ROUNDS = 8


@dataclass(frozen=True, slots=True)
class Placeholders:
    """kinds: those that are replaced. The others: what stands in the place of each."""

    kinds: frozenset[str]
    email: str
    ipv4: str
    ipv6: str
    phone: str

    def of(self, piece: Piece) -> str:
        """The placeholder of a piece."""
        if piece.kind == IP:
            return self.ipv6 if piece.v6 else self.ipv4
        return {EMAIL: self.email, PHONE: self.phone}[piece.kind]


@dataclass(frozen=True, slots=True)
class Masked:
    """The text, and by kind how many pieces were replaced."""

    text: str
    counts: Counter[str]


def masked(text: str, by: Placeholders) -> Masked | None:
    """None where nothing is to be replaced. What only shows once its neighbour is replaced is replaced too, so that a
    masked text has nothing left.
    """
    counts: Counter[str] = Counter()
    for _ in range(_ROUNDS):
        found = [p for p in pieces(text) if p.kind in by.kinds and text[p.start : p.end] != by.of(p)]
        if not found:
            break
        counts.update(piece.kind for piece in found)
        text = _replaced(text, found, by)
    return Masked(text, counts) if counts else None


def _replaced(text: str, found: list[Piece], by: Placeholders) -> str:
    out, at = [], 0
    for piece in found:
        out += [text[at : piece.start], by.of(piece)]
        at = piece.end
        while at < len(text) and unicodedata.category(text[at])[0] == "M":  # it belongs to the piece's last letter
            at += 1
    done = "".join([*out, text[at:]])
    return done if done.isascii() else unicodedata.normalize("NFC", done)
