"""A backend is believed after it has given the reference's ids: for a set of hard texts, and for documents at hand."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from cleanpipe.tokens.backend import Backend, Encoded, first_line, is_failure
from cleanpipe.tokens.backends import versions
from cleanpipe.tokens.tokenizer.fingerprint import PROBE
from cleanpipe.tokens.tokenizer.model import Tokenizer

_SHOWN = 12  # ids of a differing text that the proof repeats


@dataclass(frozen=True, slots=True)
class Proof:
    """asked, used: names of backends. reason: why they differ, "" if they do not. probe_texts, sampled_texts: how
    many were compared. differing: the first text that differed: which (``probe 3``, ``sample 17``), from which token,
    and the ids of both from there; None where all agree. versions: of the libraries.
    """

    asked: str
    used: str
    reason: str = ""
    probe_texts: int = 0
    sampled_texts: int = 0
    differing: Mapping[str, Any] | None = None
    versions: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for a report."""
        return asdict(self)


def probe_texts(tokenizer: Tokenizer) -> list[str]:
    """Hard texts: scripts, blanks, line ends, runs, emoji, marks, code points of no character, control strings."""
    atoms = ["a", "A", "é", "1", "Ⅷ", " ", "\t", "\n", "\r", "\u00a0", "\u3000", "'", "s", "!", "中", "\u0301", "/"]
    mixed = ["".join(chosen) for chosen in itertools.product(atoms, repeat=3)]
    runs = [
        letter * size
        for letter in ("a", " ", "\n", "\r\n", "é", "!", "7", "\u0301", "中", "aB")
        for size in (1, 2, 3, 64, 257)
    ]
    wide = [
        chr(start) + chr(start + 1) + "a" + chr(start + 37)
        for start in (*range(0x80, 0x3000, 89), *range(0x3000, 0x2FFFF, 1789))
        if not 0xD7B0 <= start < 0xE000
    ]
    contractions = [
        f"x{mark}{tail}y {mark}{tail.upper()}"
        for mark in "'’"
        for tail in ("s", "t", "re", "ve", "m", "ll", "d", "ſ", "K", "St")
    ]
    forged = [text for name in tokenizer.controls for text in (name, f"a{name}b", f" {name} \n{name}")]
    return [
        "",
        PROBE,
        *PROBE.split(" "),
        " ".join(mixed),
        "".join(mixed),
        "\n".join(mixed),
        *runs,
        *wide,
        *contractions,
        *forged,
    ]


def prove(asked: str, candidate: Backend, truth: Backend, sample: Sequence[str], tokenizer: Tokenizer) -> Proof:
    """Compare both on the probe and on the sample; the first differing id decides for the reference."""
    probes = probe_texts(tokenizer)
    found: dict[str, Any] | None = None
    for kind, texts in (("probe", probes), ("sample", list(sample))):
        if found is None and texts:
            found = _compared(kind, texts, candidate, truth)
    reason = ""
    if found is not None:
        reason = (
            (
                f"{candidate.name} is not exact here: {found['text']}, token {found['token']}: "
                f"{found['got']} where {truth.name} gives {found['expected']}"
            )
            if "got" in found
            else f"{candidate.name} failed on {found['text']}: {found['error']}"
        )
    return Proof(
        asked=asked,
        used=candidate.name if found is None else truth.name,
        reason=reason,
        probe_texts=len(probes),
        sampled_texts=len(sample),
        differing=found,
        versions=versions(truth, candidate),
    )


def _compared(kind: str, texts: list[str], candidate: Backend, truth: Backend) -> dict[str, Any] | None:
    try:
        expected = truth.encode(texts)
    except BaseException as error:  # some text of the corpus that nobody can encode: it is no text for a proof
        if not is_failure(error):
            raise
        if len(texts) == 1:
            return None
        return next((found for text in texts if (found := _compared(kind, [text], candidate, truth))), None)
    try:
        got = candidate.encode(texts)
    except BaseException as error:
        if not is_failure(error):
            raise
        return {"text": f"{kind} texts", "error": first_line(error)}
    return first_difference(kind, got, expected)


def first_difference(kind: str, got: Encoded, expected: Encoded) -> dict[str, Any] | None:
    """The first text whose ids differ, as ``Proof.differing`` shows it; None: there is none."""
    if np.array_equal(got.ids, expected.ids) and np.array_equal(got.ends, expected.ends):
        return None
    before = 0, 0
    for place, ends in enumerate(zip(got.ends.tolist(), expected.ends.tolist(), strict=True)):
        ours, theirs = got.ids[before[0] : ends[0]], expected.ids[before[1] : ends[1]]
        before = ends
        if not np.array_equal(ours, theirs):
            common = min(len(ours), len(theirs))
            unequal = np.flatnonzero(ours[:common] != theirs[:common])
            token = int(unequal[0]) if len(unequal) else common
            shown = slice(token, token + _SHOWN)
            return {
                "text": f"{kind} {place}",
                "token": token,
                "got": ours[shown].tolist(),
                "expected": theirs[shown].tolist(),
            }
    return None
