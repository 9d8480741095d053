"""``cleanpipe stages`` and ``cleanpipe recipe``: what there is to choose from, printed from the code itself."""

from __future__ import annotations

import inspect
import json
import textwrap
from dataclasses import MISSING, fields
from typing import Any

from cleanpipe.builtin import Decode, Normalise
from cleanpipe.recipe import load_recipe, names, plain_of, toml_of
from cleanpipe.registry import catalogue, find, load
from cleanpipe.stage import Stage
from cleanpipe_jobs.output import show

CORE: dict[str, type[Stage]] = {"decode": Decode, "normalise": Normalise}


def describe(kind: type[Stage], pack: str) -> dict[str, Any]:
    """One stage as plain data."""
    options = []
    for spec in fields(kind):
        default = (
            spec.default
            if spec.default is not MISSING
            else spec.default_factory()
            if spec.default_factory is not MISSING
            else None
        )
        if not callable(default):
            options.append(
                {
                    "name": spec.name,
                    "default": default,
                    "doc": spec.metadata.get("doc", ""),
                    "source": spec.metadata.get("source", ""),
                }
            )
    return {
        "name": kind.name,
        "pack": pack,
        "does": _in_words(kind),
        "doc": (inspect.getdoc(kind) or "").replace("``", "`"),
        "reads": sorted(kind.reads),
        "reads_optional": sorted(kind.reads_optional),
        "writes": {n: str(t) for n, t in kind.writes.items()},
        "scores": {n: str(t) for n, t in kind.scores.items()},
        "reasons": sorted(kind.reasons),
        "options": options,
    }


def show_stages(name: str | None, *, as_json: bool) -> int:
    """All stages in a table, or one in full."""
    if name is not None and name not in CORE:
        ref = find(name)
        found = [describe(load(ref), ref.pack)]
    elif name is not None:
        found = [describe(CORE[name], "core")]
    else:
        found = [describe(k, "core") for k in CORE.values()] + [describe(load(r), r.pack) for r in catalogue().values()]
    if as_json:
        show(json.dumps(found if name is None else found[0], indent=2, default=_json))
    elif name is None:
        width = max(len(s["name"]) for s in found)
        for stage in found:
            show(
                f"{stage['name']:{width}}  "
                + textwrap.fill(stage["does"], 110 - width, subsequent_indent=" " * (width + 2))
            )
        show("\n`cleanpipe stages STAGE` shows options, columns and reasons of one.")
    else:
        _show(found[0])
    return 0


def _show(stage: dict[str, Any]) -> None:
    show(f"{stage['name']}  (pack {stage['pack']})\n\n{textwrap.fill(stage['does'], 110)}\n\n{stage['doc']}\n")
    for what in ("reads", "reads_optional", "writes", "scores", "reasons"):
        value = stage[what]
        listed = [f"{n} ({t})" for n, t in value.items()] if isinstance(value, dict) else value
        if listed:
            show(textwrap.fill(f"{what.replace('_', ' ')}: {', '.join(listed)}", 110, subsequent_indent="    "))
    show("\noptions")
    for option in stage["options"]:
        source = f" ({option['source']})" if option["source"] else ""
        show(
            textwrap.fill(
                f"{option['name']} = {_default(option['default'])}  {option['doc']}{source}",
                110,
                initial_indent="    ",
                subsequent_indent="        ",
            )
        )
    show("    enabled = true  whether the stage runs")


def _default(value: Any) -> str:
    return "not set" if value is None else toml_of(plain_of(value))


def _in_words(kind: type[Stage]) -> str:
    """What it does by its defaults."""
    try:
        return kind().in_words()
    except Exception:  # a stage of the user's own whose options have no defaults, or whose words fail
        return (inspect.getdoc(kind) or "").partition("\n\n")[0].replace("\n", " ")


def _json(value: Any) -> Any:
    return sorted(value) if isinstance(value, (set, frozenset)) else str(value)


def show_recipe(name: str | None, sets: list[str], *, as_json: bool) -> int:
    """The effective recipe, or the names of those that come along."""
    if name is None:
        listed = [load_recipe(n) for n in names()]
        if as_json:
            show(json.dumps({r.name: r.description for r in listed}, indent=2))
        else:
            for recipe in listed:
                show(f"{recipe.name:10} {recipe.description}")
        return 0
    recipe = load_recipe(name, sets)
    show(json.dumps(recipe.canonical(), indent=2) if as_json else recipe.to_toml().rstrip("\n"))
    return 0
