"""What two runs were told: settings, models, code, packages and inputs, one beside the other."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from cleanpipe.errors import CleanpipeError
from cleanpipe.queries.opened_run import OpenRun
from cleanpipe.recipe import Recipe

NOT_SET, ABSENT = "not set", "absent"
Difference = dict[str, Any]  # what, a, b: plain JSON; words: for people


def recipes(a: OpenRun, b: OpenRun) -> dict[str, Any]:
    """Everything of the module; empty lists where both are the same. unknown: what a run has not noted, in words.

    ``inputs.same``: whether both read the same bytes, under whatever names.
    """
    one, other = _identity(a), _identity(b)
    stages = [_stages(i) for i in (one, other)]
    settings = _order(stages[0], stages[1])
    for name in dict.fromkeys([*stages[0], *stages[1]]):
        limits = (in_force(run.recipe, name) for run in (a, b))
        settings += _stage(name, stages[0].get(name), stages[1].get(name), *limits)
    tables = [{k: v for k, v in i["settings"].items() if k != "stages"} for i in (one, other)]
    for name in sorted({*tables[0], *tables[1]}):
        settings += _values(name, tables[0].get(name, {}), tables[1].get(name, {}))
    code = [_code(i) for i in (one, other)]
    unknown = [side for side, run in (("A", a), ("B", b)) if "versions" not in run.facts]
    return {
        "settings": settings,
        "models": _values("", one.get("models", {}), other.get("models", {}), digest=True),
        "code": [_difference("code", *code)] if code[0] != code[1] else [],
        "versions": [] if unknown else _values("", a.facts["versions"], b.facts["versions"]),
        "unknown": [f"versions of {side} are not known before its end" for side in unknown],
        "formats": _values("", {"audit": a.audit.get("format")}, {"audit": b.audit.get("format")}),
        "inputs": _inputs(a, b),
    }


def _identity(run: OpenRun) -> Mapping[str, Any]:
    """As the run noted it; of an unfinished run that did not, what its recipe says."""
    found = run.facts.get("identity") or run.audit.get("identity") or {}
    return found if "settings" in found else {**found, "settings": json.loads(json.dumps(run.recipe.canonical()))}


def _stages(identity: Mapping[str, Any]) -> dict[str, tuple[bool, dict[str, Any]]]:
    return {name: (bool(enabled), options) for name, enabled, options in identity["settings"].get("stages", [])}


def _order(a: Sequence[str] | Mapping[str, Any], b: Sequence[str] | Mapping[str, Any]) -> list[Difference]:
    left, right = ([s for s in one if s in two] for one, two in ((a, b), (b, a)))
    if left == right:
        return []
    return [_difference("order of the stages", ", ".join(left), ", ".join(right))]


def _stage(
    name: str, a: tuple[bool, dict[str, Any]] | None, b: tuple[bool, dict[str, Any]] | None,
    force_a: Mapping[str, str], force_b: Mapping[str, str],
) -> list[Difference]:  # fmt: skip
    if a is None or b is None:
        said = [ABSENT if x is None else "in the recipe" if x[0] else "switched off" for x in (a, b)]
        return [_difference(f"stage {name}", *said)]
    out = []
    if a[0] != b[0]:
        out.append(_difference(f"stage {name}", *("on" if x[0] else "switched off" for x in (a, b))))
    return out + _values(name, a[1], b[1], force_a, force_b)


def _values(
    table: str, a: Mapping[str, Any], b: Mapping[str, Any],
    force_a: Mapping[str, str] | None = None, force_b: Mapping[str, str] | None = None, *, digest: bool = False,
) -> list[Difference]:  # fmt: skip
    """Options with other values; force: by option the limit that an option which is not set stands for."""
    out = []
    for name in sorted({*a, *b}):
        if name in a and name in b and a[name] == b[name] and type(a[name]) is type(b[name]):
            continue
        said = []
        for values, force in ((a, force_a), (b, force_b)):
            text = ABSENT if name not in values else spelled(values[name])
            text = text[:12] if digest and name in values else text
            said.append(f"{text} ({force[name]} in force)" if text == NOT_SET and force and name in force else text)
        entry = _difference(f"{table}.{name}" if table else name, *said)
        out.append({**entry, "a": a.get(name), "b": b.get(name)})
    return out


def in_force(recipe: Recipe, name: str) -> dict[str, str]:
    """Of a stage by option the limit of its cuts in words: one, or one for each language; {} where a model is gone."""
    setting = next((s for s in recipe.settings if s.ref.name == name and s.enabled), None)
    try:
        cuts = setting.build().cuts() if setting else ()
    except (CleanpipeError, OSError):
        return {}
    limits: dict[str, dict[str, float]] = {}
    for cut in cuts:
        limits.setdefault(cut.option, {})[", ".join(cut.where.values())] = cut.at
    said: dict[str, str] = {}
    for option, by in limits.items():
        one = len({*by.values()}) == 1
        said[option] = ", ".join(
            f"{at:,.6g}" if one else f"{at:,.6g} {of}" for of, at in [*by.items()][: 1 if one else None]
        )
    return said


def spelled(value: Any) -> str:
    """An option's value as a person writes it."""
    if value is None:
        return NOT_SET
    if isinstance(value, str):
        return value or '""'
    return json.dumps(value, ensure_ascii=False)


def _difference(what: str, a: str, b: str) -> Difference:
    return {"what": what, "a": a, "b": b, "words": f"{what} {a} → {b}"}


def _code(identity: Mapping[str, Any]) -> str:
    code = str(identity.get("code", "unknown"))[:12]
    return f"{code} and {str(identity['kept_code'])[:12]}" if identity.get("kept_code") else code


def _inputs(a: OpenRun, b: OpenRun) -> dict[str, Any]:
    """By name and content. renamed: the same content under another name, as (A, B)."""
    left, right = ({i["source"]: i for i in _listed(run)} for run in (a, b))
    both = sorted({*left} & {*right})
    changed = [s for s in both if not _alike(left[s], right[s])]
    only = [sorted({*left} - {*right}), sorted({*right} - {*left})]
    by_content = {c: s for s in only[1] if (c := _content(right[s]))}
    renamed = [(s, by_content[c]) for s in only[0] if (c := _content(left[s])) in by_content]
    only_a = [s for s in only[0] if s not in {r[0] for r in renamed}]
    only_b = [s for s in only[1] if s not in {r[1] for r in renamed}]
    failed = {s for run in (a, b) for s in run.facts.get("failed") or {}}
    return {
        "both": len(both) - len(changed),
        "changed": changed,
        "renamed": [list(r) for r in renamed],
        "only_a": only_a,
        "only_b": only_b,
        "unread": sorted(failed),
        "same": a.finished and b.finished and not (changed or only_a or only_b or failed) and bool(both or renamed),
    }


def _listed(run: OpenRun) -> Sequence[Mapping[str, Any]]:
    """Inputs with a digest where the run knows one."""
    found = (run.audit.get("identity") or {}).get("inputs") or run.facts.get("inputs") or ()
    return [i for i in found if isinstance(i, Mapping) and "source" in i]


def _content(entry: Mapping[str, Any]) -> str:
    return str(entry.get("sha256") or "")


def _alike(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    if _content(a) and _content(b):
        return _content(a) == _content(b)
    return a.get("size") == b.get("size")
