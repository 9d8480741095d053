"""The limits of quality_score as cuts of single scores, and in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from cleanpipe import batch as col
from cleanpipe.errors import ConfigError
from cleanpipe.stage import Cut
from cleanpipe_stages._checks import within
from cleanpipe_stages.quality import judge
from cleanpipe_stages.quality.judge import Limits

_Rule = tuple[str, str, Literal[">=", ">", "<=", "<"], str, str, str]


def _rules(limits: Limits) -> Sequence[_Rule]:
    """Option, score, how it keeps, reason, of which documents, in words what goes."""
    entropy = judge.CORRECTED if limits.correct_entropy else col.ENTROPY
    latin = "text in a language of Latin letters"
    half = f"{latin}, or of unknown language and half ASCII"
    measured = "text whose perplexity was measured"
    return (
        (
            "max_repetition",
            judge.REPETITION,
            "<=",
            judge.REPETITIVE,
            "",
            "more than {} of characters in repeated lines",
        ),
        ("min_deflate_ratio", judge.DEFLATE, ">=", judge.REPETITIVE, "", "deflating below {}"),
        ("max_digit_share", judge.DIGITS, "<=", judge.MANY_DIGITS, "", "more than {} digits"),
        ("min_ascii_share", col.ASCII_SHARE, ">=", judge.LOW_ASCII, latin, "less than {} ASCII in Latin letters"),
        ("min_entropy", entropy, ">", judge.LOW_ENTROPY, "", "entropy of {} bits or less"),
        ("max_entropy", entropy, "<=", judge.HIGH_ENTROPY, half, "entropy above {} bits in Latin letters"),
        ("min_perplexity", col.PERPLEXITY, ">=", judge.LOW_PERPLEXITY, measured, "perplexity below {}"),
        ("max_perplexity", col.PERPLEXITY, "<=", judge.HIGH_PERPLEXITY, measured, "perplexity above {}"),
    )


def check(stage: str, limits: Limits) -> None:
    """Raises ConfigError for a limit below 0 (which is off), or a pair that nothing passes."""
    values = vars(limits)
    for name, value in values.items():
        within(stage, name, value, 0)
    for what in ("entropy", "perplexity"):
        low, high = values[f"min_{what}"], values[f"max_{what}"]
        if 0 < high <= low:
            raise ConfigError(f"max_{what} = {high:,}: it must be above min_{what} = {low:,}", stage=stage)


def cuts(limits: Limits) -> Sequence[Cut]:
    """One for each limit that is not off."""
    least = limits.judge_from
    long = f"text of {least:,} characters or more" if least > 0 else ""
    first = Cut(col.CHARS_OUT, ">=", limits.min_chars, "min_chars", judge.TOO_SHORT)
    return (
        *([first] if limits.min_chars else []),
        *(
            Cut(score, keeps, at, option, reason, ", ".join(filter(None, (of, long))))
            for option, score, keeps, reason, of, _ in _rules(limits)
            if (at := getattr(limits, option))
        ),
    )


def in_words(limits: Limits) -> str:
    """What goes, with every limit that is on."""
    short = f"Drops texts of fewer than {limits.min_chars:,} characters. " if limits.min_chars else ""
    what = [
        words.format(f"{100 * at:g} %" if "share" in option or option == "max_repetition" else f"{at:,g}")
        for option, *_, words in _rules(limits)
        if (at := getattr(limits, option))
    ]
    least = f"Of texts of at least {limits.judge_from:,} characters, drops" if limits.judge_from else "Drops"
    if not what:
        return f"{short}No other limit is on: scores are only measured." if short else "Measures; no limit is on."
    return f"{short}{least} those with {', '.join(what[:-1])}{' or ' if what[1:] else ''}{what[-1]}."
