"""The limits of quality_score as cuts of single scores, and in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from cleanpipe import batch as col
from cleanpipe.errors import ConfigError
from cleanpipe.stage import Cut
from cleanpipe_stages._checks import within
from cleanpipe_stages.quality import judge
from cleanpipe_stages.quality.judge import Bounds, Limits

_Rule = tuple[str, str, Literal[">=", ">", "<=", "<"], str, str, str]
Sides = tuple[str, str]
"""The options that the lowest and the highest perplexity come from."""


_EASIEST = "even the easiest tenth of whose paragraphs {} above that"


def _rules(limits: Limits) -> Sequence[_Rule]:
    """Option, score, how it keeps, reason, of which documents, in words what goes."""
    entropy = judge.CORRECTED if limits.correct_entropy else col.ENTROPY
    latin = "text in a language of Latin letters"
    half = f"{latin}, or of unknown language and half ASCII"
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
        (
            "max_paragraph_perplexity",
            judge.PARAGRAPH_MEAN,
            "<=",
            judge.HIGH_PERPLEXITY,
            "text whose perplexity was measured",
            "a mean perplexity of paragraphs above {}",
        ),
        ("max_entropy", entropy, "<=", judge.HIGH_ENTROPY, half, "entropy above {} bits in Latin letters"),
    )


def check(stage: str, limits: Limits) -> None:
    """Raises ConfigError for a limit below 0 (which is off), or a pair that nothing passes."""
    values = dict(vars(limits))
    by_language: Mapping[str, Bounds] = values.pop("perplexity")
    for name, value in values.items():
        within(stage, name, value, 0)
    pairs = {"": (values["min_entropy"], values["max_entropy"])}
    sides = {language: bounds[:2] for language, bounds in by_language.items()}
    for what, of in (("entropy", pairs), ("perplexity", sides)):
        for language, (low, high) in of.items():
            within(stage, f"min_{what}", low, 0)
            within(stage, f"max_{what}", high, 0)
            if 0 < high <= low:
                where = f" ({language})" if language else ""
                raise ConfigError(f"max_{what} = {high:,}{where}: it must be above min_{what} = {low:,}", stage=stage)


def cuts(limits: Limits, sides: Sides) -> Sequence[Cut]:
    """One for each limit that is not off; of perplexity one a language, where they differ."""
    least = limits.judge_from
    long = f"text of {least:,} characters or more" if least > 0 else ""
    first = Cut(judge.CHARS, ">=", limits.min_chars, "min_chars", judge.TOO_SHORT)
    measured = ", ".join(filter(None, ("text whose perplexity was measured", long)))
    over = measured + (f", {_EASIEST.format('is')}" if any(_by_language(limits, 2)) else "")
    return (
        *([first] if limits.min_chars else []),
        *(
            Cut(score, keeps, at, option, reason, ", ".join(filter(None, (of, long))))
            for option, score, keeps, reason, of, _ in _rules(limits)
            if (at := getattr(limits, option))
        ),
        *(
            Cut(col.PERPLEXITY, ">=", at, sides[0], judge.LOW_PERPLEXITY, _of(language, measured), _where(language))
            for language, at in _by_language(limits, 0)
        ),
        *(
            Cut(col.PERPLEXITY, "<=", at, sides[1], judge.HIGH_PERPLEXITY, _of(language, over), _where(language))
            for language, at in _by_language(limits, 1)
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
    for side, words in enumerate(("perplexity below", "perplexity above")):
        if found := [f"{at:,g}{f' ({k})' if k else ''}" for k, at in _by_language(limits, side)]:
            what.append(f"{words} {', '.join(found)}")
    if any(_by_language(limits, 2)):
        what[-1] += f" ({_EASIEST.format('being')})"
    least = f"Of texts of at least {limits.judge_from:,} characters, drops" if limits.judge_from else "Drops"
    if not what:
        return f"{short}No other limit is on: scores are only measured." if short else "Measures; no limit is on."
    return f"{short}{least} those with {', '.join(what[:-1])}{' or ' if what[1:] else ''}{what[-1]}."


def _by_language(limits: Limits, side: int) -> Iterator[tuple[str, float]]:
    """The bounds of one side (see Bounds) that are on, by language; ("", value) where all are one."""
    values = {k: v[side] for k, v in limits.perplexity.items()}
    if len(set(values.values())) == 1:
        values = {"": next(iter(values.values()))}
    yield from ((k, v) for k, v in sorted(values.items()) if v)


def _of(language: str, what: str) -> str:
    return f"{language} {what}" if language else what


def _where(language: str) -> Mapping[str, str]:
    return {col.LANGUAGE: language} if language else {}
