"""Every figure of an audit by its path, and how a person reads the path."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from cleanpipe import batch as col
from cleanpipe.audit.lines import NOT_MEASURED

Path = tuple[str, ...]
# parts that say the same again, or nothing of the documents
_SKIPPED = frozenset({
    "alarms", "conservation", "format", "identity", "ledger", "reported_elsewhere", "samples", "stages", "rules",
    "recipe", "lost",
})  # fmt: skip
_HISTOGRAMS = frozenset(
    {"histogram", "histogram_kept", "quantiles", "quantiles_kept", "s_curve", "s_curve_measured", "bins", "bins_kept"}
)
_RUN_OWN = frozenset({"files", "by_source", "readers", "reread", "meeting", "facts"})  # of the run's own work


def lines(audit: Mapping[str, Any]) -> dict[Path, Mapping[str, Any]]:
    """Every line with a numerator and a denominator, and those that are absent with their reason."""
    return {p: v for p, v in _nodes(audit) if isinstance(v, Mapping)}


def counts(audit: Mapping[str, Any]) -> dict[Path, int]:
    """Every number in a table of the sections (status, charsets, …), by table and row."""
    return {p: v for p, v in _nodes(audit) if isinstance(v, int) and p[0] != "funnel"}


def absent_sections(audit: Mapping[str, Any]) -> dict[str, str]:
    """Sections that say in one word that they do not apply."""
    return {k: v for k, v in audit.items() if isinstance(v, str) and k not in _SKIPPED}


def _nodes(audit: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    for name, part in audit.items():
        if name == "funnel":
            for row in part:
                yield from _inside(row, ("funnel", str(row["stage"])))
        elif name not in _SKIPPED:
            yield from _inside(part, (name,))


def _inside(part: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(part, bool) or not isinstance(part, (Mapping, int)):
        return
    if isinstance(part, int) or ("value" in part and ("numerator" in part or "reason" in part)):
        yield path, part
    else:
        for key, value in part.items():
            if key not in _HISTOGRAMS and not (key in _RUN_OWN and isinstance(value, (Mapping, list))):
                yield from _inside(value, (*path, str(key)))


def pending(audit: Mapping[str, Any]) -> Callable[[Path], bool]:
    """Which lines of an unfinished run's audit say nothing yet: those of stages that not all units have come to, and of
    what is made at the end; where documents are not decided yet, those of what is kept too.
    """
    state = audit.get("unfinished")
    if state is None:
        return lambda _: False
    run = {
        row["stage"]: [m["share_of_run_input"]["value"] for m in row.values() if isinstance(m, Mapping)]
        for row in audit["funnel"]
    }
    through = {stage for stage, values in run.items() if NOT_MEASURED not in values}
    late = {"windows", "duplicates", col.JACCARD, col.WINDOWS, col.KEPT} if state["undecided"] else set()

    def not_yet(path: Path) -> bool:
        return path[0] == "shards" or (path[0] == "funnel" and path[1] not in through) or bool(late & {*path})

    return not_yet


def spoken(score: str) -> str:
    """A score's name; in plain words where the column's name says little."""
    return _SPOKEN.get(score, score)


def words(path: Path, factor: bool = False) -> str:
    """A path for people. factor: its value is no part of a whole but may exceed 1."""
    section, rest = path[0], [p.replace("_", " ") for p in path[1:]]
    if section == "funnel":
        if path[-1] == "share_of_run_input":
            return f"after {path[1]}: {path[2]} {'for each one' if factor else ''} of the run".replace("  ", " ")
        return f"{path[1]}: {path[2]} out for each one in" if factor else f"{path[1]} lets through: {path[2]}"
    if path[1:2] == ("removed_by_stage",) and len(path) == 4:
        return f"dropped by {path[2]}: {path[3]}"
    if path[1:2] == ("removed",) and len(path) == 3:
        return f"{section}: dropped as {path[2]}"
    if "scores" in path[:2]:
        name, *more = path[path.index("scores") + 1 :]
        negated = "not " if more == ["not_measured"] else ""
        if more in (["measured"], ["not_measured"]):
            return f"documents of which {spoken(name)} was {negated}measured"
        return ": ".join([spoken(name), ", ".join(more)]) if more else spoken(name)
    if path[1:2] == ("keep_curve",):
        return f"keep-curve of {path[2]}: score of {path[3]} or more"
    for length in range(len(path), 1, -1):
        if said := _SAID.get(".".join(path[:length])):
            more = list(path[length:])
            if said.count("{}") == len(more):
                return said.format(*more)
    return f"{section}: {', '.join(rest)}" if rest else section


_SPOKEN = {
    col.CHARS_OUT: "length in characters",
    col.BYTES_IN: "length in bytes, as read",
    col.WINDOWS: "windows a document",
    col.JACCARD: "jaccard with the kept copy",
}
_SAID = {  # by path, with {} for each further name
    "characters.documents_with_invisible_after": "documents with invisible characters, cleaned",
    "characters.documents_with_invisible_before": "documents with invisible characters, as read",
    "characters.left_of_the_removed_set": "invisible characters left though they are to be removed",
    "characters.invisible": "invisible characters {}, {} cleaning",
    "characters.invalid_bytes": "invalid bytes, {} cleaning",
    "characters.mojibake_lines": "lines of mojibake, {} cleaning",
    "characters.documents_with_mojibake_after": "documents with mojibake, cleaned",
    "characters.documents_with_mojibake_before": "documents with mojibake, as read",
    "characters.nuls": "NUL characters, {} cleaning",
    "characters.white_runs": "runs of white space, {} cleaning",
    "duplicates.exact": "dropped as exact duplicates",
    "duplicates.near": "dropped as near duplicates",
    "duplicates.cluster_sizes": "groups of {} copies of one document",
    "duplicates.jaccard_of_removed": "dropped duplicates of jaccard {} or a little more",
    "duplicates.jaccard_of_verified_pairs": "compared pairs of jaccard {} or a little more",
    "duplicates.top_hosts": "duplicates dropped of host {}",
    "http.declared_by_sniffed": "documents declared as {}, found to be {}",
    "http.declared_types_left_out": "declared types of few documents, not listed",
    "http.identified_types": "documents identified as {}",
    "http.media_types": "documents of media type {}",
    "http.non_200": "documents of another HTTP status than 200",
    "http.other_types": "documents of other types than text",
    "http.partial": "documents of HTTP status {} (partial content)",
    "http.status": "documents of HTTP status {}",
    "input.block_bytes": "bytes of the records, uncompressed",
    "input.body_bytes": "bytes of the bodies, decoded",
    "input.charsets": "documents in charset {}",
    "input.damaged.bytes": "bytes in damaged parts of the files",
    "input.damaged.ranges": "damaged parts of the files",
    "input.documents.by_type": "documents of record type {}",
    "input.documents.total": "documents read",
    "input.file_bytes": "bytes of the files as they lie",
    "input.quarantined": "quarantined while reading: {}",
    "input.records.total": "records of type {}",
    "input.truncated.by_reason": "documents truncated: {}",
    "input.truncated.share": "documents truncated",
    "input.undecodable": "documents that could not be decoded",
    "languages.judged": "documents judged to be in {}",
    "languages.kept": "kept documents in {}",
    "languages.preview": "documents previewed as {}",
    "languages.removed": "dropped by any language stage",
    "quality.failed_by_rule": "documents that fail the quality rule {}",
    "quality.joint_failures": "of those dropped for quality: fail more than one rule",
    "quality.removed_by_one_rule_alone": "documents that fail the quality rule {} alone",
    "scrub.characters_in": "characters of markup that was scrubbed",
    "scrub.characters_out": "characters left by scrubbing",
    "scrub.documents": "documents scrubbed",
    "scrub.left": "characters left of the markup by scrubbing",
    "scrub.not_applicable": "documents without markup",
    "shards.bytes": "bytes of the shards",
    "shards.retained": "bytes of the shards, of the bytes of the records",
    "shards.rows": "rows of the shards (windows)",
    "windows.duplication": "characters in windows for each one of the kept documents",
    "windows.overlap_characters": "characters written again where windows overlap",
    "windows.per_document": "kept documents, by windows: {}",
    "windows.windows": "windows for each kept document",
}
