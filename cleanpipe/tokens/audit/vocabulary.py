"""Which ids a corpus uses: never, once, most; from the histogram of all ids."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from cleanpipe.audit.lines import NOT_APPLICABLE, share

TOP, MOST = 25, 100  # ids shown; ids whose share is told
EXAMPLES = 20
_LONGEST = 60  # characters of a piece


def piece_of(tokenizer: Any, id_: int) -> str:
    """What an id stands for, as text that prints: bytes that are no character and what does not print are spelled as
    Python spells them, a backslash twice.
    """
    text = tokenizer.token_bytes(id_).replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"


def ids_section(counts: npt.NDArray[np.int64], tokenizer: Any) -> dict[str, Any]:
    """Of the ids of texts, BOS and EOS not among them.

    Args:
        counts: (vocabulary,) how often each id came. tokenizer: for the pieces, and the controls, which cannot come.
    """
    controls = {i for i in tokenizer.controls.values() if 0 <= i < len(counts)}
    ordinary = np.ones(len(counts), bool)
    ordinary[sorted(controls)] = False
    never = np.flatnonzero((counts == 0) & ordinary)
    total = int(counts.sum())
    ranked = np.lexsort((np.arange(len(counts)), -counts))
    top = [i for i in ranked[:TOP].tolist() if counts[i]]
    some = never[np.unique(np.linspace(0, len(never) - 1, min(EXAMPLES, len(never))).astype(np.int64))]
    return {
        "vocabulary": len(counts),
        "controls": len(controls),
        "tokens": total,
        "never": share(len(never), len(counts) - len(controls), "ids"),
        "never_examples": [_named(tokenizer, i) for i in some.tolist()],
        "once": int((counts == 1).sum()),
        "top": [
            {**_named(tokenizer, i), "count": int(counts[i]), "share": share(int(counts[i]), total, "tokens")}
            for i in top
        ],
        f"top_{MOST}": share(int(counts[ranked[:MOST]].sum()), total, "tokens"),
        "entropy_bits": entropy(counts),
    }


def entropy(counts: npt.NDArray[np.int64]) -> float | str:
    """Of the distribution of single ids, in bits a token, rounded to 6 decimals."""
    total = int(counts.sum())
    if not total:
        return NOT_APPLICABLE
    some = counts[counts > 0].tolist()
    return round(math.fsum(-n / total * math.log2(n / total) for n in some), 6) + 0.0


def _named(tokenizer: Any, id_: int) -> dict[str, Any]:
    return {"id": id_, "piece": piece_of(tokenizer, id_)}
