"""Which column is the text, which the address; asked of a schema or of the first rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe.corpus.damage import told
from cleanpipe.corpus.files import Columns
from cleanpipe.errors import ConfigError
from cleanpipe.registry import nearest

TEXTS = ("text", "content", "raw_content", "body", "document", "markdown", "article", "page_content", "raw_text")
ADDRESSES = (
    "url", "metadata.url", "meta.url", "warc-target-uri", "warc_target_uri", "target_uri", "uri", "link", "source_url",
    "metadata.warc-target-uri", "meta.warc-target-uri", "metadata.source_url", "warc_headers.warc-target-uri",
    "metadata.warc_url", "metadata.URL", "domain", "host", "metadata.domain", "metadata.host", "source_domain",
)  # fmt: skip
IDENTIFIERS = ("id", "doc_id", "document_id", "record_id", "warc-record-id", "metadata.id", "meta.id", "_id")
_DEPTH = 4


def flat_types(schema: pa.Schema) -> dict[str, pa.DataType]:
    """Every column, those inside structs by dots."""
    out: dict[str, pa.DataType] = {}

    def walk(prefix: str, fields: Iterable[pa.Field], depth: int) -> None:
        for field in fields:
            name = prefix + field.name
            out[name] = field.type
            if pa.types.is_struct(field.type) and depth < _DEPTH:
                walk(name + ".", list(field.type), depth + 1)

    walk("", schema, 0)
    return out


def is_text(kind: pa.DataType) -> bool:
    """Whether values of the type can be text."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    view = getattr(pa.types, "is_string_view", lambda _: False)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or view(kind))


def from_schema(schema: pa.Schema, asked: Columns, where: str) -> Columns:
    """The columns of an Arrow or Parquet file. Raises ConfigError where the text's is not clear."""
    types = flat_types(schema)
    windows = {col.WINDOW, col.WINDOWS, col.OVERLAP, col.DOC_ID, col.TEXT} <= set(types)
    bytes_too = {n for n, t in types.items() if pa.types.is_binary(t) or pa.types.is_large_binary(t)}
    if asked.text in bytes_too:
        types = {**types, asked.text: pa.string()}
    return choose({n: "text" if is_text(t) else str(t) for n, t in types.items()}, asked, where, windows=windows)


def from_rows(rows: Sequence[Mapping[str, Any]], asked: Columns, where: str) -> Columns:
    """The columns of a JSONL file, by its first rows."""
    kinds: dict[str, str] = {}

    def walk(prefix: str, row: Mapping[str, Any], depth: int) -> None:
        for key, value in row.items():
            name = prefix + key
            kind = "text" if isinstance(value, str) else type(value).__name__
            if value is not None and kinds.get(name) != "text":
                kinds[name] = kind
            kinds.setdefault(name, "null")
            if isinstance(value, Mapping) and depth < _DEPTH:
                walk(name + ".", value, depth + 1)

    for row in rows:
        walk("", row, 0)
    return choose(kinds, asked, where, windows=False)


def choose(kinds: Mapping[str, str], asked: Columns, where: str, *, windows: bool) -> Columns:
    """kinds: "text", or what else a column holds, by its name.

    Raises:
        ConfigError: a column that was asked for is not there, or no column is clearly the text.
    """
    shown = ", ".join(f"{told(n, 40)} ({told(k, 40)})" for n, k in list(kinds.items())[:40]) or "none"
    for option, name in (("--column", asked.text), ("--url-column", asked.url), ("--id-column", asked.id)):
        if name and name not in kinds:
            close = nearest(name, list(kinds))
            hint = close if "did you mean" in close else ""  # else it lists them, as we do
            raise ConfigError(f"{option} {name}: {where} has no such column{hint}; it has {shown}")
    if asked.text:
        text = asked.text
    else:
        strings = [n for n, k in kinds.items() if k == "text"]
        low = {n.lower(): n for n in reversed(strings)}
        known = [low[n] for n in TEXTS if n in low]
        nested = [n for n in strings if n.lower().rpartition(".")[2] in TEXTS]
        plain = [n for n in strings if n not in _known(kinds, ADDRESSES) + _known(kinds, IDENTIFIERS)]
        found = known[:1] or (nested if len(nested) == 1 else []) or (plain if len(plain) == 1 else [])
        if not found:
            raise ConfigError(f"{where}: which column is the text? Name it with --column; it has {shown}")
        text = found[0]
    url = asked.url or next((n for n in _known(kinds, ADDRESSES) if n != text), "")
    identity = asked.id or next((n for n in _known(kinds, IDENTIFIERS) if n not in (text, url)), "")
    return Columns(text, url, identity, windows and text == col.TEXT)


def _known(kinds: Mapping[str, str], names: Sequence[str]) -> list[str]:
    low = {n.lower(): n for n in reversed(list(kinds))}
    return [low[n.lower()] for n in names if n.lower() in low and not kinds[low[n.lower()]].startswith("struct")]


def value_at(row: Mapping[str, Any], name: str) -> Any:
    """A field by its dotted name; a key that holds dots itself goes first. None where it is not there."""
    if name in row or not name:
        return row.get(name)
    value: Any = row
    for part in name.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value
