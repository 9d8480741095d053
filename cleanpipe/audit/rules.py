"""What each stage is: its rule in words, its options, its limits, and which of them a sample failed."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from operator import ge, gt, le, lt
from typing import Any

import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe.audit.limits import limits
from cleanpipe.audit.lines import View
from cleanpipe.builtin import READ
from cleanpipe.stage import Stage

_HOLDS: Mapping[str, Callable[[float, float], bool]] = {">=": ge, ">": gt, "<=": le, "<": lt}
_READER = (
    "Reads every record of every archive; documents are responses, resources and WET conversions. What cannot be read "
    "is set aside with its place, never passed over."
)


def rule(view: View, name: str) -> dict[str, Any]:
    """The rule of one stage, as it ran; of the reader too."""
    stage = next((s for s in view.stages if s.name == name), None)
    if stage is None:
        options = view.recipe.read if name == READ else None
        return {"rule": _READER if name == READ else "", "about": "", "options": _options(options), "cuts": []}
    return {
        "rule": stage.in_words(),
        "about": inspect.cleandoc(stage.__doc__ or ""),
        "options": _options(stage),
        "cuts": limits(view, name, stage.cuts()),
    }


def scores_of(stage: Stage) -> list[str]:
    """The stage's scores that are numbers."""
    return [n for n, t in stage.scores.items() if pa.types.is_floating(t) or pa.types.is_integer(t)]


def _options(options: Any) -> list[dict[str, Any]]:
    """Options as they are declared: value, what it does, where the default comes from, whether it is the default."""
    out: list[dict[str, Any]] = []
    for field in dataclasses.fields(options) if options is not None else ():
        if "doc" not in field.metadata:
            continue
        value = getattr(options, field.name)
        usual = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        entry = {"name": field.name, "value": _plain(value), "default": bool(value == usual)}
        out.append({**entry, "doc": field.metadata["doc"], "source": field.metadata.get("source", "")})
    return out


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(v) for v in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def decided(
    key: str, sample: Mapping[str, Any], cuts: Sequence[Mapping[str, Any]], stage: Stage | None = None
) -> list[dict[str, Any]]:
    """What decided about a sample of "stage/reason", never nothing.

    Limits of that reason of which it has the score and does not keep it: {score, value, keeps, at, of}. Of reasons that
    are no limit's, the columns that decided: {column, value, wanted}; value is None where the record did not say;
    wanted is in words, "" where the stage does not declare it.
    """
    reason = key.rpartition("/")[2]
    out: list[dict[str, Any]] = []
    for cut in cuts:
        value = sample["scores"].get(cut["score"])
        failed = isinstance(value, (int, float)) and not _HOLDS[cut["keeps"]](value, cut["at"])
        asked = all(_value(sample, c) == v for c, v in cut.get("where", {}).items())
        if cut["reason"] == reason and failed and asked:
            out.append({"score": cut["score"], "value": value, "keeps": cut["keeps"], "at": cut["at"], "of": cut["of"]})
    taken = {d["score"] for d in out}
    columns, wanted = _columns(reason, stage)
    found = [(c, _value(sample, c)) for c in columns if c not in taken]
    told = [(c, v) for c, v in found if v is not None] or ([] if out else found[:1])
    out += [{"column": c, "value": v, "wanted": wanted if i == 0 else ""} for i, (c, v) in enumerate(told)]
    return out or _otherwise(reason, sample, stage)


# of reasons that stages share: the columns that decide, in the order they are told; what was wanted, an option or words
_BY_REASON: Mapping[str, tuple[Sequence[str], str, str]] = {
    "not_http": ((col.RECORD_TYPE, col.IS_HTTP), "", "an HTTP response"),
    "unreadable_status": ((col.HTTP_STATUS,), "", "a status"),
    "bad_status": ((col.HTTP_STATUS,), "statuses", ""),
    "bad_type": ((col.MEDIA_TYPE,), "types", ""),
    "other_language": ((col.LANGUAGE, col.LANGUAGE_ID_SCORE), "languages", ""),
    "exact_duplicate": ((col.KEPT_DOC_ID, col.JACCARD), "", "no other document of the same text"),
    "near_duplicate": ((col.KEPT_DOC_ID,), "", ""),
}
_NAMED = 6  # values of an option


def _columns(reason: str, stage: Stage | None) -> tuple[Sequence[str], str]:
    columns, name, words = _BY_REASON.get(reason, ((), "", ""))
    if stage is None:
        return columns, words
    if col.LANGUAGE in columns and col.LANGUAGE_PREVIEW in stage.scores:
        columns = (col.LANGUAGE_PREVIEW,)
    if col.MEDIA_TYPE in columns and getattr(stage, "type_from", "") == "declared":
        columns = (col.DECLARED_TYPE,)
    options = getattr(stage, name, None) if name else None
    if isinstance(options, (list, tuple, set, frozenset)):
        values = [str(v) for v in (options if isinstance(options, (list, tuple)) else sorted(options))]
        words = ", ".join(values[:_NAMED]) + (f" and {len(values) - _NAMED:,} more" if len(values) > _NAMED else "")
    return columns, words


def _otherwise(reason: str, sample: Mapping[str, Any], stage: Stage | None) -> list[dict[str, Any]]:
    """What a stage that declares no limit judged by; else the error itself."""
    judge = stage.judge() if stage is not None else None
    names = [*sorted(judge.columns), *sorted(stage.scores)] if judge is not None and stage is not None else []
    names = names or (sorted({*stage.scores, *(stage.reads & set(sample.get("as_read", {})))}) if stage else [])
    told = [
        {"column": c, "value": v, "wanted": ""} for c in dict.fromkeys(names) if (v := _value(sample, c)) is not None
    ]
    return told or [{"column": col.REASON, "value": reason, "wanted": "" if stage else "a record that can be read"}]


def _value(sample: Mapping[str, Any], column: str) -> Any:
    return sample["scores"].get(column, sample.get("as_read", {}).get(column))
