"""croissant.json: the shards in Croissant 1.1 (JSON-LD of MLCommons), with its vocabulary for responsible AI.

Source: mlcommons.org/croissant/1.1 and mlcommons.org/croissant/RAI/1.0. What the specification asks for and nobody has
said (url, creator) is left out, never invented.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe.card.facts import INPUTS, LICENCE, Card, plain

ARROW = "application/vnd.apache.arrow.stream"
_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    **{
        name: f"cr:{name}"
        for name in (
            "arrayShape", "citeAs", "column", "containedIn", "equivalentProperty", "extract", "field", "fileProperty",
            "fileObject", "fileSet", "format", "includes", "isArray", "isLiveDataset", "jsonPath", "key", "md5",
            "parentField", "path", "recordSet", "references", "regex", "repeated", "replace", "samplingRate",
            "separator", "source", "subField", "transform",
        )
    },
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "description": {"@container": "@language"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "name": {"@container": "@language"},
    "prov": "http://www.w3.org/ns/prov#",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "sc": "https://schema.org/",
}  # fmt: skip
_TYPES = {
    pa.string(): "sc:Text",
    pa.large_string(): "sc:Text",
    pa.bool_(): "sc:Boolean",
    col.TIME: "sc:DateTime",
    pa.float64(): "cr:Float64",
    pa.float32(): "cr:Float32",
    **{
        kind: f"cr:{str(kind).replace('u', 'U').replace('int', 'Int')}"
        for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())
    },
}


def to_croissant(card: Card) -> str:
    """The whole file."""
    return json.dumps(_dataset(card), indent=2, ensure_ascii=False) + "\n"


def _dataset(card: Card) -> dict[str, Any]:
    days = card.days
    out: dict[str, Any] = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": ["http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0"],
        "name": card.title,
        "description": _description(card),
        "citeAs": _citation(card),
        "license": f"unknown. {LICENCE}",
        "version": f"1.0.0+{card.config}",
        "isLiveDataset": False,
    }
    if card.languages:
        out["inLanguage"] = card.languages
    if days:
        out["datePublished"] = days[1]  # the data's own newest date: that of the run differs from run to run
        out["rai:dataCollectionTimeFrame"] = list(days)
    return {
        **out,
        **_provenance(card),
        **_responsible(card),
        "distribution": _files(card),
        "recordSet": [_windows(card)],
    }


def _description(card: Card) -> str:
    return (
        f"{card.rows:,} windows of {card.documents:,} documents, {card.characters:,} characters: main content of web "
        f"pages, filtered, deduplicated and cut by the recipe {plain(card.recipe.name)!r} of cleanpipe. "
        + ("datePublished is the day of the newest capture in it. " if card.days else "")
        + card.balance()
    )


def _citation(card: Card) -> str:
    title = "".join(c for c in card.title if c.isprintable() and c not in "{}\\")
    return f"@misc{{cleanpipe-{card.config}, title = {{{title}}}, note = {{cleanpipe, configuration {card.config}}}}}"


def _provenance(card: Card) -> dict[str, Any]:
    inputs = card.inputs
    return {
        "prov:wasDerivedFrom": [
            {
                "@type": "prov:Entity",
                "name": plain(i["source"]),
                "contentSize": f"{i['size']} B",
                **({"sha256": i["sha256"]} if i["sha256"] else {}),
            }
            for i in inputs[:INPUTS]
        ],
        "prov:wasGeneratedBy": {
            "@type": "prov:Activity",
            "name": f"cleanpipe, recipe {plain(card.recipe.name)}, configuration {card.config}",
            "description": f"{len(inputs):,} archives of {sum(i['size'] for i in inputs):,} bytes, of which "
            f"{min(INPUTS, len(inputs)):,} are listed. Code: SHA-256 {card.code}. "
            + " ".join(f"Model {plain(n)}: SHA-256 {d}." for n, d in card.models.items()),
        },
    }


def _responsible(card: Card) -> dict[str, Any]:
    steps = []
    for name, words, entered, left, lost in card.steps():
        why = f" ({', '.join(f'{r} {n:,}' for r, n in lost.items())})" if lost else ""
        steps.append(plain(f"{name}: {words + ' ' if words else ''}{entered:,} documents in, {left:,} out{why}"))
    return {
        "rai:dataCollection": f"Web archives (WARC, WET, ARC) as crawlers wrote them, {card.read:,} records and "
        "damaged ranges. The pages were chosen by the crawls; cleanpipe chose none.",
        "rai:dataCollectionType": ["Web Scraping"],
        "rai:dataPreprocessingProtocol": steps,
        "rai:dataLimitations": [plain(limit) for limit in card.limits()],
        "rai:personalSensitiveInformation": [card.looked_for()["personal"]],
        "rai:machineAnnotationTools": [plain(f"{n}: SHA-256 {d}") for n, d in card.models.items()],
    }


def _files(card: Card) -> list[dict[str, Any]]:
    shards: list[dict[str, Any]] = [
        {
            "@type": "cr:FileObject",
            "@id": s["file"],
            "name": s["file"],
            "description": f"{s['rows']:,} windows, an Arrow IPC stream",
            "contentUrl": s["file"],
            "contentSize": f"{s['bytes']} B",
            "encodingFormat": ARROW,
            "sha256": s["sha256"],
        }
        for s in card.shards
    ]
    every = {
        "@type": "cr:FileSet",
        "@id": "shards",
        "name": "shards",
        "description": "Every shard, in the order of its number.",
        "encodingFormat": ARROW,
        "includes": "data-*.arrow",
    }
    return [*shards, every]


def _windows(card: Card) -> dict[str, Any]:
    return {
        "@type": "cr:RecordSet",
        "@id": "windows",
        "name": "windows",
        "description": "One record for every window of every document.",
        "key": [{"@id": f"windows/{name}"} for name in (col.DOC_ID, col.WINDOW)],
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"windows/{name}",
                "name": name,
                "description": plain(f"{meaning or name} ({kind})"),
                "dataType": _TYPES.get(kind, "sc:Text"),
                "source": {"fileSet": {"@id": "shards"}, "extract": {"column": name}},
            }
            for name, kind, meaning in card.columns()
        ],
    }
