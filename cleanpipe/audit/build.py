"""The audit of a run as plain JSON: a pure function of tallies, the same for any engine, workers and input order."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cleanpipe import batch as col
from cleanpipe.audit import sections
from cleanpipe.audit.conservation import check
from cleanpipe.audit.facts import SELECTION
from cleanpipe.audit.lines import NOT_APPLICABLE, Line, View, largest, missing, share
from cleanpipe.audit.rules import decided, rule, scores_of
from cleanpipe.builtin import READ
from cleanpipe.recipe import Recipe
from cleanpipe.stage import Stage
from cleanpipe.tally import Tally

FORMAT = 2  # 2: rules, limits and histograms of the kept, from which audit.html is drawn
ALARMS = 100  # of each kind, at most
_SECTIONS: Mapping[str, Callable[[View], Any]] = {
    "input": sections.input_section,
    "http": sections.http_section,
    "languages": sections.languages_section,
    "scrub": sections.scrub_section,
    "quality": sections.quality_section,
    "duplicates": sections.duplicates_section,
    "windows": sections.windows_section,
    "characters": sections.characters_section,
    "shards": sections.shards_section,
    "scores": sections.scores_section,
    "lost": sections.lost_section,
}
PAGE = "audit.html"


def build_audit(
    *,
    identity: Mapping[str, Any],
    recipe: Recipe,
    stages: Sequence[Stage],
    tally: Tally,
    ledger: Tally,
    samples: Mapping[str, Sequence[Mapping[str, Any]]],
    by_source: Mapping[str, Mapping[str, int]],
    meetings: Mapping[str, Mapping[str, Any]],
    shards: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """See the module.

    Args:
        identity: config_hash, recipe, code, models, inputs.
        stages: as they ran, the core's own among them.
        tally: by stage, from every pass of every unit. ledger, samples: from ``facts``, over every ledger part.
        by_source: records of each input by type.
        meetings: facts of each exchange, by its name.
        shards: file, rows, bytes, sha256, limit of each, in order; ``chars`` = Σ(length − overlap), where counted.
    """
    view = View(recipe, stages, tally, ledger, by_source, meetings, shards)
    audit: dict[str, Any] = {"format": FORMAT, "identity": dict(identity), "recipe": _recipe(recipe)}
    audit |= {name: section(view) for name, section in _SECTIONS.items()}
    audit["funnel"] = [_step(view, stage) for stage in view.order]
    audit["stages"] = {name: _stage(view, name) for name in view.order}
    audit["ledger"] = {k: ledger.get(k, {} if k == "fates" else 0) for k in ("rows", "fates", "chars_kept")}
    audit["ledger"]["totals"] = _totals(audit["ledger"]["fates"])
    audit["alarms"] = _alarms(view)
    audit["samples"] = {k: _samples(k, samples[k], audit["stages"], view) for k in sorted(samples)}
    audit["reported_elsewhere"] = _reported(audit, view)
    for line in audit["reported_elsewhere"]:
        if line["stage"] in audit["stages"]:
            audit["stages"][line["stage"]]["reported_elsewhere"].append(line)
    chars = sum(int(s["chars"]) for s in shards) if all("chars" in s for s in shards) else None
    audit["conservation"] = check(view, chars)
    return audit


def stage_files(audit: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """For each stage what the audit says of it: the content of ``audit/<stage>.json``."""
    out = {}
    for row in audit["funnel"]:
        name = row["stage"]
        stage = audit["stages"][name]
        out[name] = {
            "stage": name,
            "anchor": f"{PAGE}#{anchor(name)}",
            "config_hash": audit["identity"].get("config_hash"),
            **stage,
            "funnel": row,
            "sections": {s: audit[s] for s in stage["sections"]},
            "samples": {k: v for k, v in audit["samples"].items() if k.partition("/")[0] == name},
            "conservation": [li for li in audit["conservation"]["lines"] if li["what"].endswith(f" of {name}")],
        }
    return out


def _totals(fates: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Rows and bytes of each fate."""
    zero = {"documents": 0, "bytes": 0}
    out = {col.KEPT: dict(fates.get(col.KEPT, zero))}
    for fate in (col.DROPPED, col.QUARANTINED):
        entries = [e for by in fates.get(fate, {}).values() for e in by.values()]
        out[fate] = {k: sum(e[k] for e in entries) for k in zero}
    return out


def anchor(stage: str) -> str:
    """Where the page speaks of a stage."""
    return f"stage-{stage}"


def _recipe(recipe: Recipe) -> dict[str, Any]:
    """What the recipe says of itself, and its tables that are no stages and decide bytes."""
    tables = {name: dataclasses.asdict(getattr(recipe, name)) for name in ("read", "shards", "audit")}
    return {"name": recipe.name, "description": recipe.description, **tables}


def _samples(
    key: str, found: Sequence[Mapping[str, Any]], stages: Mapping[str, Any], view: View
) -> list[dict[str, Any]]:
    """Samples of one group, each with what decided about it; how they were ordered is not said."""
    own = next((s for s in view.stages if s.name == key.partition("/")[0]), None)
    stage = stages.get(key.partition("/")[0])
    out = []
    for sample in found:
        shown = {n: v for n, v in sample.items() if n != "order"}
        out.append({**shown, "decided": decided(key, sample, stage["cuts"], own)} if stage else shown)
    return out


def _step(view: View, stage: str) -> dict[str, Any]:
    """One row of the funnel; shares are of what entered the stage, and of what entered the run."""
    c = view.counts(stage)
    first = view.counts(READ)
    characters = next((n for s in view.order if (n := view.counts(s)["chars_out"])), 0)  # of the first text there was
    whole = {"docs": first["docs_in"], "bytes": first["bytes_in"], "chars": characters}
    row: dict[str, Any] = {"stage": stage, "not_applicable": c["skipped"]}
    if not any(view.counts(s)["chars_out"] for s in view.order[: view.order.index(stage) + 1]):
        whole["chars"] = 0  # there is no text yet: not applicable, which is not 0
    for measure, name in (("docs", "documents"), ("bytes", "bytes"), ("chars", "characters")):
        entered, left = c[f"{measure}_in"], c[f"{measure}_out"]
        row[name] = {
            "in": entered,
            "out": left,
            "share_of_stage_input": share(left, entered, name),
            "share_of_run_input": share(left, whole[measure], name),
        }
    row["characters"] |= {k: c[f"chars_{k}"] for k in ("dropped", "removed", "added")}
    row["rows_out"] = c["rows_out"]
    row["dropped"] = sum(view.dropped(stage).values())
    row["quarantined"] = sum(view.quarantined(stage).values())
    row["applies"] = not (c["docs_in"] and c["skipped"] >= c["docs_in"])
    return row


def _stage(view: View, stage: str) -> dict[str, Any]:
    c = view.counts(stage)
    roles: dict[str, list[Stage | None]] = {
        "http": [view.http()],
        "languages": [*view.languages()],
        "scrub": [view.scrub()],
        "quality": [view.quality()],
        "duplicates": [view.duplicates()],
        "windows": [view.windows()],
    }
    held = [name for name, of in roles.items() if any(s is not None and s.name == stage for s in of)]
    if stage == READ:
        held.append("input")
    if any(f.startswith(("before ", "after ")) for f in view.facts(stage)):
        held.append("characters")
    everywhere = c["docs_in"] > 0 and c["skipped"] >= c["docs_in"]
    itself = next((s for s in view.stages if s.name == stage), None)
    own, meanings = (scores_of(itself), itself.meanings) if itself is not None else ([], {})
    facts = view.facts(stage)
    return {
        **rule(view, stage),
        "scores": [n for n in own if n in view.ledger.get("scores", {})],
        **{k: c[k] for k in c if k != "skipped"},
        "not_applicable": NOT_APPLICABLE if everywhere else c["skipped"],
        "dropped": view.dropped(stage),
        "quarantined": view.quarantined(stage),
        "facts": facts,
        "meanings": {fact: meanings[fact] for fact in facts if fact in meanings},
        "sections": held,
        "reported_elsewhere": [],
    }


def _alarms(view: View) -> dict[str, Any]:
    """Hosts, languages and types of which nearly nothing is left.

    ``by_design``: they would raise none if documents that the recipe does not want (SELECTION) were not counted.
    """
    options = view.recipe.audit
    hosts = view.ledger.get("hosts", {})
    unwanted, kept_by = hosts.get("unwanted", {}), hosts.get("kept", {})
    groups: dict[str, list[tuple[str, int, int, int, dict[str, int]]]] = {
        "host": [(h, n, kept_by.get(h, 0), unwanted.get(h, 0), {}) for h, n in hosts.get("documents", {}).items()]
    }
    for kind in ("language", "type"):
        groups[kind] = []
        for name, fates in view.ledger.get(f"by_{kind}", {}).items():
            lost = {r: n for r, n in fates.items() if r != col.KEPT}
            chosen = sum(n for r, n in lost.items() if r.rpartition("/")[2] in SELECTION)
            groups[kind].append((name, sum(fates.values()), fates.get(col.KEPT, 0), chosen, lost))

    def wiped(whole: int, kept: int) -> bool:
        return whole >= options.alarm_rows and whole - kept > options.alarm * whole

    raised: list[dict[str, Any]] = []
    left_out = 0
    for kind, members in groups.items():
        found: list[dict[str, Any]] = [
            {
                "kind": kind,
                "name": name,
                "lost": share(whole - kept, whole, "documents"),
                "reasons": dict(list(largest(reasons, 3).items())[:3]),
                "by_design": not wiped(whole - chosen, kept),
            }
            for name, whole, kept, chosen, reasons in members
            if wiped(whole, kept)
        ]
        found.sort(key=lambda a: (a["by_design"], -a["lost"]["denominator"], a["name"]))
        raised += found[:ALARMS]
        left_out += max(0, len(found) - ALARMS)
    return {"above": options.alarm, "least_documents": options.alarm_rows, "raised": raised, "left_out": left_out}


def _reported(audit: Mapping[str, Any], view: View) -> list[dict[str, Any]]:
    """Figures that others reported on their own crawls, beside ours; never asserted."""

    def ours(section: str, *path: str) -> Line | str:
        value: Any = audit[section]
        for key in path:
            if not isinstance(value, Mapping):
                return NOT_APPLICABLE
            value = value.get(key, NOT_APPLICABLE)
        return value  # type: ignore[no-any-return]

    def name(stage: Stage | None) -> str | None:
        return stage.name if stage is not None else None

    http, languages, duplicates = name(view.http()), view.languages(), name(view.duplicates())
    entropy = ours("quality", "scores", col.ENTROPY, "quantiles_kept")
    median = entropy.get("0.50", missing("no document has an entropy")) if isinstance(entropy, dict) else entropy
    lines = [
        ("responses of another status than 200", "18.3 %", http, ours("http", "non_200")),
        ("other types", "9.1 %", http, ours("http", "other_types")),
        ("removed by language", "41.2 %", name(languages[-1] if languages else None), ours("languages", "removed")),
        ("speed against BeautifulSoup", "3.8×", name(view.scrub()), missing("speed is measured in benchmarks/")),
        ("entropy of English, bits a character (ours: median of the kept)", "~4.0", name(view.quality()), median),
        ("mirror duplicates removed", "92 %", duplicates, ours("duplicates", "mirrors")),
        ("text written, by its overlap", "1.33×", name(view.windows()), ours("windows", "duplication")),
        (
            "documents with invisible controls such as U+200E after cleaning",
            "17.4 %",
            "normalise",
            ours("characters", "documents_with_invisible_after"),
        ),
        ("retained (186 TB → 12.7 TB)", "6.8 %", None, ours("shards", "retained")),
    ]
    return [{"what": what, "reported": said, "stage": stage, "ours": line} for what, said, stage, line in lines]
