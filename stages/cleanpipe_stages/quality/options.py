"""What quality_score's options come to: the scorer asked for, its files, and the limits that belong to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cleanpipe.errors import ConfigError
from cleanpipe_stages._checks import one_of, within
from cleanpipe_stages.quality import limits as tell
from cleanpipe_stages.quality.judge import Bounds, Limits
from cleanpipe_stages.quality.percentiles import Table, digest, read
from cleanpipe_stages.quality.scorers import ENGINES, ScorerOptions, engine

if TYPE_CHECKING:
    from cleanpipe_stages.quality_score import QualityScore

SIDES = (("min_perplexity", "min_percentile"), ("max_perplexity", "max_percentile"))
_DEVICES, _DTYPES = ("auto", "cpu", "cuda"), ("float32", "bfloat16", "float16")


def check(o: QualityScore) -> None:
    """Raises ConfigError for an unknown word, or limits that nothing passes or that belong to another model."""
    one_of(o.name, "perplexity", o.perplexity, ENGINES)
    one_of(o.name, "device", _of(o, "device"), _DEVICES)
    one_of(o.name, "dtype", _of(o, "dtype"), _DTYPES)
    within(o.name, "chars", o.chars, 1)
    within(o.name, "sample", o.sample, 0, 1)
    within(o.name, "batch_tokens", _of(o, "batch_tokens"), 1)
    for name in ("mlm_passes", "context", "stride"):
        within(o.name, name, _of(o, name), 0)
    for _, percentile in SIDES:
        if (value := _of(o, percentile)) is not None:
            within(o.name, percentile, value, 0, 100)
    if o.perplexity == "ngram" and o.model and not o.percentiles and any(_given(o, *side) is None for side in SIDES):
        raise ConfigError(
            "the perplexity limits belong to the shipped model: with `model`, set min_perplexity and "
            "max_perplexity measured with it (0 switches one off), or `percentiles`", stage=o.name,
        )  # fmt: skip
    tell.check(o.name, limits(o))


def scorer(o: QualityScore) -> ScorerOptions:
    """What the engine is told."""
    own = {f.name: _of(o, f.name) for f in fields(ScorerOptions) if f.name != "language"}
    return ScorerOptions(**own, language=o.model_language)


def files(o: QualityScore) -> Mapping[str, Path]:
    """Every file that decides results. Raises ConfigError where one is not there."""
    if o.perplexity == "off":
        return {}
    by, told = engine(o.perplexity), scorer(o)
    found = dict(by.files(told))
    tables = {f"{o.model_language}.percentiles": Path(o.percentiles)} if o.percentiles else {
        f"{language}.percentiles": path for language, path in by.percentiles(told).items()
    }  # fmt: skip
    found |= {name: path for name, path in tables.items() if path not in found.values()}  # limits come from them
    for path in found.values():
        if not path.is_file():
            raise ConfigError(f"model file not found: {path}", stage=o.name)
    return found


def limits(o: QualityScore) -> Limits:
    """The limits in force: as given, else by percentile, else the table's own. Raises ConfigError as ``check`` does."""
    values = {f.name: _of(o, f.name) for f in fields(Limits) if f.name != "perplexity"}
    values = {k: round(v, 6) if isinstance(v, float) else v for k, v in values.items()}
    given = o.max_perplexity is not None or o.max_percentile is not None
    by_language: dict[str, Bounds] = {"": (_number(o.min_perplexity), _number(o.max_perplexity), 0.0)}
    for language, table in _tables(o).items():
        low, high, easiest = table.limits
        low, high = (
            _number(absolute if absolute is not None else table.at(percentile) if percentile is not None else own)
            for absolute, percentile, own in (
                (o.min_perplexity, o.min_percentile, low),
                (o.max_perplexity, o.max_percentile, high),
            )
        )
        by_language[language] = (low, high, 0.0 if given else _number(easiest))
    return Limits(**values, perplexity=by_language)


def sides(o: QualityScore) -> tuple[str, str]:
    """The options that set the lowest and the highest perplexity."""
    low, high = (
        percentile if _of(o, absolute) is None and _of(o, percentile) is not None else absolute
        for absolute, percentile in SIDES
    )
    return low, high


def in_words(o: QualityScore) -> str:
    """Which model the perplexities are of, and of which documents."""
    if o.perplexity == "off":
        return ""
    which = f"{o.model} ({o.model_language})" if o.model else "the shipped model of each text's language"
    share = f", of {100 * o.sample:g} % of the documents" if o.sample < 1 else ""
    return f" Perplexity is that of {o.perplexity} by {which}, of the first {o.chars:,} characters{share}."


def _tables(o: QualityScore) -> Mapping[str, Table]:
    if o.perplexity == "off":
        return {}
    told, by = scorer(o), engine(o.perplexity)
    if not o.percentiles:
        tables = {k: _shipped(path) for k, path in by.percentiles(told).items() if path.is_file()}
    else:
        table = read(Path(o.percentiles))
        if table.sha256 not in {
            _digest(path, path.stat().st_mtime_ns) for path in by.files(told).values() if path.is_file()
        }:
            raise ConfigError(f"{o.percentiles} is the table of another model than the one in use", stage=o.name)
        tables = {o.model_language: table}
    for _, percentile in SIDES:
        if _of(o, percentile) is not None and not tables:
            raise ConfigError(f"{percentile} needs the model's percentile table: set `percentiles`", stage=o.name)
        if _of(o, percentile) is not None and any(t.chars != o.chars for t in tables.values()):
            raise ConfigError(f"{percentile}: the table is of another number of characters than chars = {o.chars:,}",
                              stage=o.name)  # fmt: skip
    return tables


_shipped = cache(read)  # asked again by every look at the limits


@cache
def _digest(path: Path, _changed: int) -> str:
    return digest(path)


def _of(o: QualityScore, name: str) -> Any:  # Any: an option has its own type
    return getattr(o, name)


def _given(o: QualityScore, *names: str) -> Any:
    return next((value for name in names if (value := _of(o, name)) is not None), None)


def _number(value: float | None) -> float:
    return round(value or 0.0, 6)
