"""safety: counts of e-mail addresses, IP addresses and telephone numbers, and the share of words of the user's list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cleanpipe import batch as col
from cleanpipe.stage import Cut, Judge, Outcome, Stage, Step, option, rounded
from cleanpipe_stages._checks import within
from cleanpipe_stages.blocklists.lines import files_of, text_lines
from cleanpipe_stages.personal.find import EMAIL, IP, PHONE, PRIVATE_IP, pieces
from cleanpipe_stages.personal.words import WordList, word_list

EMAILS, IPS, PRIVATE_IPS, PHONES = "safety_emails", "safety_ips", "safety_private_ips", "safety_phones"
ADULT_SHARE = "safety_adult_share"
MANY_EMAILS, MANY_IPS, MANY_PHONES, ADULT = "many_emails", "many_ips", "many_phones", "adult_words"
_COUNTS = {EMAILS: EMAIL, IPS: IP, PRIVATE_IPS: PRIVATE_IP, PHONES: PHONE}
_LIMITS = {  # reason: score and option
    MANY_EMAILS: (EMAILS, "max_emails"),
    MANY_IPS: (IPS, "max_ips"),
    MANY_PHONES: (PHONES, "max_phones"),
    ADULT: (ADULT_SHARE, "max_adult_share"),
}


@dataclass(frozen=True, kw_only=True)
class Safety(Stage):
    """Scores every text; drops only what exceeds a limit that is set: by default none is.

    Versions, dates, ISBN, prices and identifiers are not counted (personal/ says how they are told apart). The words
    are those of ``adult_words``: without a list the share is null. No list comes with cleanpipe.
    """

    name: ClassVar[str] = "safety"
    reads: ClassVar[frozenset[str]] = frozenset({col.TEXT})
    scores: ClassVar[Mapping[str, pa.DataType]] = {**dict.fromkeys(_COUNTS, pa.int32()), ADULT_SHARE: pa.float64()}
    meanings: ClassVar[Mapping[str, str]] = {
        EMAILS: "e-mail addresses in the text",
        IPS: "public IP addresses in the text, of version 4 and 6",
        PRIVATE_IPS: "IP addresses that are private, local or for documentation",
        PHONES: "telephone numbers in the text",
        ADULT_SHARE: "words that are, or stand in, an entry of the user's list, 0 to 1",
    }
    reasons: ClassVar[frozenset[str]] = frozenset(_LIMITS)

    personal: bool = option(True, "count addresses and numbers; false: these scores are null")
    adult_words: tuple[str, ...] = option((), "files of words and phrases, one a line, in any language")
    max_emails: int | None = option(None, "documents with more are dropped; unset: none is")
    max_ips: int | None = option(None, "documents with more public ones are dropped; unset: none is")
    max_phones: int | None = option(None, "documents with more are dropped; unset: none is")
    max_adult_share: float | None = option(None, "documents with a larger share are dropped; unset: none is")

    def check(self) -> None:
        """Raises ConfigError: a limit below 0, or a list that is missing."""
        for _, name in _LIMITS.values():
            if getattr(self, name) is not None:
                within(self.name, name, getattr(self, name), 0)
        self.models()

    def models(self) -> Mapping[str, Path]:
        """The lists of words. Raises ConfigError."""
        return files_of(self.adult_words, self.name, "adult_words")

    def in_words(self) -> str:
        """With every limit that is set."""
        limits = [f"{score.removeprefix('safety_')} above {at:g}" for _, score, _, at in self._limits()]
        what = f"drops documents with {' or '.join(limits)}" if limits else "drops nothing"
        words = f"{len(self.adult_words)} lists of words" if self.adult_words else "no list of words"
        return f"Counts e-mail addresses, IP addresses, telephone numbers, and words of {words}; {what}."

    def looked_for(self) -> Mapping[str, str]:
        """What was counted, and whether anything was dropped for it."""
        dropped = {option for _, _, option, _ in self._limits()}
        words = "dropped by their share" if "max_adult_share" in dropped else "counted, and not dropped"
        shapes = "and documents with many dropped" if dropped - {"max_adult_share"} else "and not removed"
        said = {}
        if self.personal:
            said["personal"] = f"E-mail and IP addresses and telephone numbers were counted by their shapes, {shapes}."
        if self.adult_words:
            said["content"] = f"Texts with words of the user's lists were {words}; nothing else judged what is said."
        return said

    def _limits(self) -> list[tuple[str, str, str, float]]:
        """Reason, score, option and limit of each that is set."""
        found = [(r, s, o, getattr(self, o)) for r, (s, o) in _LIMITS.items()]
        return [(r, s, o, round(float(at), 6)) for r, s, o, at in found if at is not None]

    def cuts(self) -> Sequence[Cut]:
        """Every limit that is set."""
        return tuple(Cut(score, "<=", at, name, reason) for reason, score, name, at in self._limits())

    def judge(self) -> Judge:
        """By the scores; the first limit that is passed is the reason."""
        limits = self._limits()

        def judge(rows: pa.RecordBatch) -> pa.Array:
            out = pa.nulls(rows.num_rows, pa.string())
            for reason, score, _, at in reversed(limits):
                out = pc.if_else(pc.fill_null(pc.greater(rows.column(score), at), False), pa.scalar(reason), out)
            return out

        return Judge(frozenset(self.scores), frozenset(name for _, name in _LIMITS.values()), judge)

    def open(self) -> Step:
        """Raises ConfigError as ``check`` does, or where a list cannot be read."""
        self.check()
        files = self.models().values()
        entries = (line for path in files for line in text_lines(path, self.name))
        words: WordList | None = word_list(entries) if files else None
        judge = self.judge().judge

        def step(batch: pa.RecordBatch) -> Outcome:
            texts = [text or "" for text in batch.column(col.TEXT).to_pylist()]
            absent = np.full(len(texts), not self.personal)
            kinds = [Counter(piece.kind for piece in pieces(text)) if self.personal else Counter() for text in texts]
            counts = {n: np.fromiter((k[kind] for k in kinds), np.int32, len(texts)) for n, kind in _COUNTS.items()}
            scores = {n: pa.array(values, pa.int32(), mask=absent) for n, values in counts.items()}
            shares = words.shares(texts) if words is not None else np.zeros(len(texts))
            unasked = np.full(len(texts), words is None)
            scores[ADULT_SHARE] = pa.array(rounded(shares), pa.float64(), mask=unasked)
            facts = {n.removeprefix("safety_"): int(values.sum()) for n, values in counts.items()}
            facts |= {f"documents_with_{n.removeprefix('safety_')}": int((v > 0).sum()) for n, v in counts.items()}
            return Outcome(batch, drops=judge(pa.RecordBatch.from_pydict(scores)), scores=scores, facts=facts)

        return step
