"""What language_id's options come to: codes, scripts and thresholds for the model at hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from cleanpipe.errors import ConfigError
from cleanpipe_stages.lid.curve import curve_of, thresholds_for
from cleanpipe_stages.lid.model import KNOWN, asked, codes, digest

STAGE = "language_id"
_PRECISION = 0.98  # of languages that the shipped table of thresholds does not name


@contextmanager
def _in_stage() -> Iterator[None]:
    """Errors name the stage."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(error.message, stage=STAGE) from error


@_in_stage()
def scripts_of(languages: Sequence[str], path: Path) -> dict[str, str]:
    """Of the languages that are named with a script, that script. Raises ConfigError: two scripts of one language."""
    out: dict[str, str] = {}
    for code, script in asked(languages, path):
        if out.setdefault(code, script) != script:
            raise ConfigError(f"languages names {code} twice; give it once, without a script, for any")
    return {code: script for code, script in out.items() if script}


@_in_stage()
def limits_of(
    languages: Sequence[str],
    path: Path,
    threshold: float | None,
    thresholds: Mapping[str, float],
    precision: float,
) -> dict[str, float]:
    """The threshold of each wanted language, by its code: its own, else the common one, else that of the precision
    asked for, else the model's.

    Raises:
        ConfigError: a language the model lacks, a threshold of a language that is not wanted, none known for this
            model, or a precision that was not measured or is not reached.
    """
    known = KNOWN.get(digest(path))
    if known is None and threshold is None and not precision and any(x not in thresholds for x in languages):
        raise ConfigError(
            f"no threshold is known for the language model {path} (SHA-256 {digest(path)}): "
            "set language_id.threshold to a score measured with it"
        )
    names = dict.fromkeys(codes(languages, path))
    own = dict(zip(codes(list(thresholds), path), thresholds.values(), strict=True))
    if extra := sorted(set(own) - set(names)):
        raise ConfigError(f"thresholds names {extra[0]!r}, which `languages` does not keep")
    missing = [] if threshold is not None else [x for x in names if x not in own]
    common: dict[str, float] = {} if threshold is None else dict.fromkeys(names, threshold)
    if missing and precision:
        common = thresholds_for(curve_of(digest(path)), missing, precision, path.name)
    elif missing and known is not None:
        curve = curve_of(digest(path))
        for code in missing:
            measured = None if curve is None or code in known.own else curve.threshold(code, _PRECISION)
            common[code] = known.threshold if measured is None else max(measured, known.least)
    return {code: round(own.get(code, common.get(code, 1.0)), 6) for code in names}


def evidence(limits: Mapping[str, float], path: Path) -> str:
    """How often labels above these thresholds were right, for people; "" where that was not measured."""
    curve = curve_of(digest(path))
    if curve is None:
        return ""
    found = {code: curve.at(code, limit) for code, limit in limits.items()}
    told = [f"{code} {right / n:.1%} of {n:,}" for code, (n, right) in found.items() if n]
    return f" Right among labelled texts of that score: {', '.join(told)} ({curve.source})." if told else ""
