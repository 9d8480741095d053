"""The languages of one document, by the characters of its segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cleanpipe_stages.lid.line import line_of
from cleanpipe_stages.lid.names import UNDETERMINED
from cleanpipe_stages.lid.neighbours import NEAR
from cleanpipe_stages.lid.second import Decide

LEAST = 60  # characters of a segment: fewer say too little, and more join lines of two languages
MOST = 800  # a longer line is cut
READ = 300  # of a segment, its first characters are judged
SEGMENTS = 256  # of a document, evenly spread; 256 lines are a long page


@dataclass(frozen=True, slots=True)
class Shares:
    """Of the characters of a document's segments. share: in the document's language; second: the most frequent
    other language, "" if there is none, and its share. All null, where no segment's language can be told.
    """

    share: float | None
    second: str | None
    second_share: float | None


def segments_of(text: str) -> list[str]:
    """Lines, joined with the next ones while they have fewer than LEAST characters, cut where they have over MOST."""
    out: list[str] = []
    held: list[str] = []
    size = 0
    for line in text.splitlines():
        if not line.strip():
            continue
        for at in range(0, len(line), MOST):
            piece = line[at : at + MOST]
            held.append(piece)
            size += len(piece)
            if size >= LEAST:
                out.append("\n".join(held))
                held, size = [], 0
    if held:
        if out and size < LEAST // 2:  # a rest too short to be judged alone
            out[-1] += "\n" + "\n".join(held)
        else:
            out.append("\n".join(held))
    step = -(-len(out) // SEGMENTS)
    return out[::step] if step > 1 else out


def shares(texts: Sequence[str], languages: Sequence[str], decide: Decide) -> list[Shares]:
    """For each document its shares; the segments of all are judged together.

    Args:
        texts: whole texts.
        languages: each document's language, as it was told from its beginning.
        decide: labels prepared lines.
    """
    pieces = [segments_of(text) for text in texts]
    told = iter(decide([line_of(piece, READ) for found in pieces for piece in found]))
    out: list[Shares] = []
    for found, language in zip(pieces, languages, strict=True):
        sizes: dict[str, int] = {}
        firm: dict[str, int] = {}
        verdicts = [(len(piece), *next(told)[:3]) for piece in found]
        for n, label, _, own in verdicts:
            sizes[label] = sizes.get(label, 0) + n
            if label == own:
                firm[label] = firm.get(label, 0) + n
        final: dict[str, int] = {}
        for n, label, _, own in verdicts:
            # the second model has overruled the first, which said what more of the document is in
            rare = label not in NEAR and label != UNDETERMINED and firm.get(own, 0) > sizes[label]
            final[own if rare else label] = final.get(own if rare else label, 0) + n
        out.append(_shares(final, language))
    return out


def _shares(sizes: dict[str, int], language: str) -> Shares:
    known = {label: n for label, n in sizes.items() if label != UNDETERMINED}
    whole = sum(known.values())
    if not whole:
        return Shares(None, None, None)
    others = sorted((-n, label) for label, n in known.items() if label != language)
    second = others[0] if others else (0, "")
    return Shares(round(known.get(language, 0) / whole, 6), second[1], round(-second[0] / whole, 6))
