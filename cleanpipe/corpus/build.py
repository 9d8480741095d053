"""The audit of a corpus as plain JSON: a pure function of tallies, the same for any workers and order of inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cleanpipe import batch as col
from cleanpipe.audit.bins import WIDTH, by_edge, quantiles
from cleanpipe.audit.facts import SELECTION, THRESHOLDS
from cleanpipe.audit.lines import BINNED, EXACT, NOT_APPLICABLE, Line, count, largest, missing, share
from cleanpipe.corpus import damage
from cleanpipe.corpus.files import Columns, CorpusFile
from cleanpipe.corpus.meeting import Met
from cleanpipe.corpus.recurring import Recurring
from cleanpipe.corpus.rows import PROBLEMS
from cleanpipe.corpus.sampling import Samples, interval
from cleanpipe.corpus.textstages import TextStages
from cleanpipe.corpus.tokens import METHOD, PER_TOKEN
from cleanpipe.corpus.verdicts import verdicts, wipeouts
from cleanpipe.recipe import Recipe
from cleanpipe.stage import Cut
from cleanpipe.tally import Tally
from cleanpipe.text.mojibake import NAMES

FORMAT, TOP = 1, 50
SAMPLED = "sampled, with its 95 % interval"
INSIDE = "copies inside the sample alone: the corpus holds more"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the passes and the meeting found. rows: of the whole corpus, where only a sample was judged."""

    recipe: Recipe
    stages: TextStages
    tally: Tally
    samples: Samples
    met: Met
    lines: Recurring
    top_lines: Sequence[str]
    problems: Mapping[str, Sequence[Mapping[str, Any]]]
    failed: Mapping[str, str]
    files: Sequence[CorpusFile]
    passed_over: int
    columns: Mapping[str, Columns]
    options: Any
    rows: int | None
    identity: Mapping[str, Any]

    @property
    def documents(self) -> int:
        """Judged."""
        return int(self.tally.get("documents", 0))

    @property
    def sampled(self) -> bool:
        """Whether only a part of the corpus was judged."""
        return self.rows is not None and self.rows > self.options.sample

    def of(self, name: str) -> Mapping[str, Any]:
        """A part of the tally."""
        part: Mapping[str, Any] = self.tally.get(name, {})
        return part

    def number(self, name: str) -> int:
        """A number of the tally."""
        return int(self.tally.get(name, 0))

    def part(
        self, numerator: int, denominator: int | None = None, unit: str = "documents", *, copies: bool = False
    ) -> Line:
        """A share; of documents unless another whole is given. copies: a sample says little of the corpus' own."""
        line = share(numerator, self.documents if denominator is None else denominator, unit)
        if self.sampled and copies:
            line |= {"method": INSIDE}
        elif self.sampled and line["value"] != NOT_APPLICABLE:
            line |= {"method": SAMPLED, "interval": interval(line["numerator"], line["denominator"])}
        return line


def build_audit(facts: Facts) -> dict[str, Any]:
    """See the module."""
    audit: dict[str, Any] = {"format": FORMAT, "kind": "corpus", "identity": dict(facts.identity)}
    wiped = wipeouts(facts)
    audit["verdicts"] = verdicts(facts, wiped)
    audit["input"] = _input(facts)
    audit["documents"] = _documents(facts)
    audit["damage"] = _damage(facts)
    audit["languages"] = _languages(facts)
    audit["scores"] = _scores(facts)
    audit["cuts"] = {s.name: [_cut(c) for c in s.cuts()] for s in facts.stages.stages}
    audit["lines"] = _lines(facts)
    audit["duplicates"] = _duplicates(facts)
    audit["tokens"] = _tokens(facts)
    audit["groups"] = _groups(facts)
    audit["wipeouts"] = wiped
    audit["would_drop"] = _would_drop(facts)
    audit["samples"] = {g: [_shown(s) for s in facts.samples[g]] for g in sorted(facts.samples)}
    return audit


def _shown(sample: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in sample.items() if k != "order"}


def _input(facts: Facts) -> dict[str, Any]:
    problems = facts.of("problems")
    read = facts.number("rows_read")
    return {
        "files": count(len(facts.files), "files"),
        "file_bytes": count(sum(f.size for f in facts.files), "bytes as the files lie"),
        "formats": _tallied(f"{f.kind}{' ' + f.codec if f.codec else ''}" for f in facts.files),
        "passed_over": count(facts.passed_over, "files of other names"),
        "unreadable_files": {source: damage.told(why) for source, why in sorted(facts.failed.items())},
        "columns": _columns(facts),
        "rows": count(facts.rows if facts.rows is not None else read, "rows"),
        "rows_read": count(read, "rows"),
        "rows_judged": facts.part(facts.documents, read, "rows"),
        "bad_rows": facts.part(sum(n for k, n in problems.items() if k != "window_missing"), read, "rows"),
        "problems": {
            kind: {"what": PROBLEMS[kind], "count": n, "first": list(facts.problems.get(kind, []))}
            for kind, n in sorted(problems.items())
        },
        "sampled": {"asked": facts.options.sample, "seed": facts.options.seed} if facts.sampled else None,
    }


def _columns(facts: Facts) -> list[dict[str, Any]]:
    """The choices that were made, with the number of files of each."""
    out: dict[Columns, int] = {}
    for columns in facts.columns.values():
        out[columns] = out.get(columns, 0) + 1
    chosen = sorted(out.items(), key=lambda item: (-item[1], item[0].text, item[0].url, item[0].id))
    return [
        {
            "text": damage.told(c.text), "url": damage.told(c.url) or None, "id": damage.told(c.id) or None,
            "windows": c.windows, "files": n,
        }
        for c, n in chosen
    ]  # fmt: skip


def _tallied(names: Any) -> dict[str, int]:
    out: dict[str, int] = {}
    for name in names:
        out[name] = out.get(name, 0) + 1
    return dict(sorted(out.items()))


def _documents(facts: Facts) -> dict[str, Any]:
    windows, cut = facts.number("windows"), facts.number("cut")
    ours = any(c.windows for c in facts.columns.values())
    return {
        "documents": count(facts.documents, "documents"),
        "bytes": count(facts.number("bytes_in"), "UTF-8 bytes of text as it lies"),
        "bytes_normalised": count(facts.number("bytes"), "UTF-8 bytes after the recipe's repairs"),
        "characters": count(facts.number("characters"), "code points after the recipe's repairs"),
        "mean_length": share(facts.number("characters"), facts.documents, "code points a document"),
        "empty": facts.part(facts.number("empty")),
        "length": _score(facts, col.LENGTH),
        "with_a_fault": facts.part(facts.number("faulty")),
        "clean": facts.part(facts.number("clean"), copies=True),
        "windows": {
            "windows": count(windows, "windows"),
            "documents_in_several": facts.part(cut),
            "per_document": share(windows, facts.documents, "windows a document"),
        }
        if ours
        else NOT_APPLICABLE,
    }


def _damage(facts: Facts) -> dict[str, Any]:
    found = facts.of("faults")
    points, kept = facts.of("points"), facts.of("points_kept")
    ranked = sorted({*points, *kept}, key=lambda p: (-points.get(p, {}).get("documents", 0), int(p[2:], 16)))
    return {
        "faults": {
            fault: {
                "words": damage.FAULTS[fault],
                "documents": facts.part(int(found.get(fault, {}).get("documents", 0))),
                "occurrences": count(int(found.get(fault, {}).get("occurrences", 0)), "occurrences"),
            }
            for fault in damage.FAULTS
        },
        "code_points": [
            {
                "point": point, "name": damage.point_name(point).partition(" ")[2],
                "documents": facts.part(int(points.get(point, {}).get("documents", 0))),
                "occurrences": int(points.get(point, {}).get("occurrences", 0)),
                "needed_in": int(kept.get(point, {}).get("documents", 0)),
                "needed": int(kept.get(point, {}).get("occurrences", 0)),
            }
            for point in ranked
        ],
        "code_points_method": "removed by the recipe's repairs; `needed` stay, for their script or emoji needs them",
        "mojibake": {
            kind: {
                "words": NAMES[kind],
                "documents": facts.part(int(n["documents"])),
                "occurrences": count(int(n["occurrences"]), "characters"),
            }
            for kind, n in sorted(facts.of("mojibake_kinds").items())
        },
    }  # fmt: skip


def _languages(facts: Facts) -> dict[str, Any] | str:
    stage = facts.stages.language()
    if stage is None:
        return NOT_APPLICABLE
    by, curve = facts.of("by_language"), facts.of("keep_curve")
    judged = {label: n["documents"] for label, n in by.items()}
    shown = [label for label in largest(judged, TOP) if label in judged]
    return {
        "stage": stage.name,
        "judged": largest(judged, TOP),
        "shares": {label: facts.part(judged[label]) for label in shown},
        "would_drop": {
            label: share(sum(by[label].get("lost", {}).values()), judged[label], "documents") for label in shown
        },
        "not_wanted": {
            label: share(
                sum(n for k, n in by[label].get("lost", {}).items() if k.rpartition("/")[2] in SELECTION),
                judged[label], "documents",
            )
            for label in shown
        },
        "score": _score(facts, col.LANGUAGE_ID_SCORE),
        "keep_curve": {
            label: {f"{t:g}": share(curve[label].get(f"{t:g}", 0), curve[label]["documents"], "documents")
                    for t in THRESHOLDS}
            for label in shown if label in curve
        },
    }  # fmt: skip


def _score(facts: Facts, name: str) -> Any:
    counts = facts.of("scores").get(name)
    if not counts:
        return missing("no document has it")
    return {
        "measured": share(counts["measured"], facts.documents, "documents"),
        "quantiles": quantiles(counts["bins"]),
        "quantiles_kept": quantiles(counts["bins_kept"]),
        "histogram": by_edge(counts["bins"]),
        "histogram_kept": by_edge(counts["bins_kept"]),
        "method": f"{BINNED}: lower edges of bins {WIDTH}",
    }


def _cut(cut: Cut) -> dict[str, Any]:
    return {**asdict(cut), "at": round(float(cut.at), 6)}


def _scores(facts: Facts) -> dict[str, Any]:
    return {
        stage.name: {name: _score(facts, name) for name in stage.scores if name in facts.of("scores")}
        for stage in facts.stages.stages
        if set(stage.scores) & set(facts.of("scores"))
    }


def _lines(facts: Facts) -> dict[str, Any]:
    lines = facts.lines
    return {
        "lines": count(lines.lines, "distinct lines"),
        "characters": count(lines.chars, "code points in lines"),
        "recurring": {
            str(k): {
                "lines": share(n, lines.lines, "distinct lines"),
                "characters": share(chars, lines.chars, "code points in lines"),
            }
            for k, (n, chars) in sorted(lines.at_least.items())
        },
        "top": [
            {
                "line": damage.excerpt(text, 200), "documents": facts.part(int(row["documents"])),
                "times": int(row["times"]), "characters": int(row["chars"]),
            }
            for row, text in zip(lines.top, facts.top_lines, strict=True)
        ],
        "method": f"{EXACT} by a 64-bit hash of each line of the normalised text, white space around it left out; "
        "copies of a document count",
    }  # fmt: skip


def _duplicates(facts: Facts) -> dict[str, Any] | str:
    stage = facts.stages.duplicates()
    if stage is None:
        return NOT_APPLICABLE
    fails = {k.partition("/")[2]: n for k, n in facts.of("fails").items() if k.partition("/")[0] == stage.name}
    met = facts.met
    jaccard = facts.of("scores").get(col.JACCARD, {}).get("bins", {})
    examples = []
    for cluster, size in met.biggest:
        keeper = facts.samples.get(f"keeper/{cluster}", [])
        members = facts.samples.get(f"cluster/{cluster}", [])
        examples.append(
            {
                "documents": size,
                "kept": _shown(keeper[0]) if keeper else None,
                "members": [_shown(m) for m in members if m["doc_id"] != cluster],
            }
        )
    return {
        "stage": stage.name,
        "by_reason": {reason: facts.part(n, copies=True) for reason, n in sorted(fails.items())},
        "all": facts.part(sum(fails.values()), copies=True),
        "cluster_sizes": {str(k): n for k, n in sorted(met.sizes.items())},
        "biggest": examples,
        "jaccard_of_duplicates": by_edge(jaccard),
        "meeting": dict(met.facts),
        "method": "every document with text meets all others, as the recipe's stage does it"
        + ("; of a sample only the copies inside it are seen" if facts.sampled else ""),
    }


def _tokens(facts: Facts) -> dict[str, Any]:
    exact = bool(facts.options.tokenizer)
    tokens, characters = facts.number("tokens"), facts.number("characters")
    return {
        "tokens": {**count(tokens, "tokens"), "method": EXACT if exact else METHOD},
        "characters_per_token": share(characters, tokens, "code points a token"),
        "characters_by_script": dict(sorted(facts.of("scripts").items(), key=lambda kv: (-kv[1], kv[0]))),
        "assumed_characters_per_token": NOT_APPLICABLE if exact else dict(PER_TOKEN),
        "tokenizer": facts.identity["options"]["tokenizer"] or None,
    }


def _groups(facts: Facts) -> dict[str, Any]:
    def table(name: str) -> list[dict[str, Any]]:
        have = facts.of(name)
        top = sorted(have, key=lambda k: (-have[k]["documents"], k))[:TOP]
        return [
            {
                "name": name_, "documents": facts.part(have[name_]["documents"]),
                "lost": share(sum(have[name_].get("lost", {}).values()), have[name_]["documents"], "documents"),
            }
            for name_ in top
        ]  # fmt: skip

    return {
        "hosts": {"distinct": count(len(facts.of("by_host")), "hosts"), "top": table("by_host")},
        "without_host": facts.part(facts.number("without_host")),
        "sources": {"distinct": count(len(facts.of("by_source")), "files"), "top": table("by_source")},
    }


def _would_drop(facts: Facts) -> dict[str, Any]:
    """What a run by the recipe would drop: by the first stage that would, and by each stage asked alone."""
    first, every = facts.of("fates"), facts.of("fails")
    words = {s.name: s.in_words() for s in facts.stages.stages}
    order = facts.stages.order
    meeting = facts.stages.duplicates()
    copies = meeting.name if meeting is not None else ""
    return {
        "recipe": facts.recipe.name,
        "order": order,
        "kept": facts.part(facts.number("kept"), copies=True),
        "characters_kept": share(facts.number("characters_kept"), facts.number("characters"), "code points"),
        "reasons": [
            {
                "stage": stage, "reason": reason,
                "would_drop": facts.part(int(first.get(key, 0)), copies=stage == copies),
                "fails": facts.part(int(n), copies=stage == copies),
            }
            for key, n in sorted(every.items(), key=lambda kv: (order.index(kv[0].partition("/")[0]), kv[0]))
            for stage, _, reason in [key.partition("/")]
        ],
        "rules": {name: words.get(name, "") for name in order},
        "method": "every stage judges every document; a document's fate is the first stage that would drop it. "
        "In a run only what is left meets, so another copy of a group may stay",
    }  # fmt: skip
