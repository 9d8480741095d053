"""The tables of a token store, for SQL: what they are, what each column means, examples."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from cleanpipe import batch as col
from cleanpipe.errors import ConfigError
from cleanpipe.queries.columns import MEANINGS, meanings
from cleanpipe.stage import Stage
from cleanpipe.tokens import layout

TABLES: Mapping[str, str] = {
    "ledger": "one row for every document of the run's shards, whatever became of it",
    "spans": "one row for every window of the documents that are in the store: which tokens it is, where it came from",
}
EXAMPLES: tuple[tuple[str, str], ...] = (
    ("what was not encoded", "SELECT fate, reason, count(*) AS n, sum(chars) AS chars FROM ledger GROUP BY ALL"),
    (
        "what a token is worth",
        "SELECT language, sum(tokens) AS tokens, sum(bytes) / sum(tokens) AS bytes_a_token FROM ledger "
        "WHERE fate = 'kept' GROUP BY 1 ORDER BY tokens DESC",
    ),
    (
        "the longest documents",
        "SELECT url, tokens, shard FROM ledger WHERE fate = 'kept' ORDER BY tokens DESC LIMIT 20",
    ),
    (
        "tokens of a host",
        "SELECT host(url) AS host, count(*) AS documents, sum(tokens) AS tokens FROM ledger GROUP BY 1 ORDER BY 3 DESC",
    ),
    (
        "where a document's tokens are",
        "SELECT l.shard, s.token_start, s.token_count, s.char_start, s.char_end FROM spans s "
        "JOIN ledger l USING (doc_id) WHERE s.url = 'http://…' ORDER BY s.token_start",
    ),
)
_OF_LEDGER: Mapping[str, str] = {
    "chars": "characters (code points) of the document, what its windows repeat not counted",
    "bytes": "of these, in UTF-8",
    "tokens": "BOS and EOS included; null where the store does not have the document",
    "detail": "of a decision: its line and key; of an error: what it says",
    layout.DOCUMENT: "its number among those of its shard of tokens, from 0; null where the store does not have it",
    col.FATE: "kept, dropped (nothing but blanks) or quarantined",
    col.STAGE: "tokenize; null for kept ones",
    col.REASON: "why it is not in the store; null for kept ones",
    col.WINDOWS: "windows that it was joined from",
    col.SHARD: "the shard of tokens",
}
_OF_SPANS: Mapping[str, str] = {
    layout.DOCUMENT: "which document of its shard of tokens, from 0",
    layout.TOKEN_START: "first token of this window, counted from the begin of the payload",
    layout.TOKEN_COUNT: "tokens of this window, BOS and EOS not counted",
    layout.TOKEN_OVERLAP: "of these, how many at its begin the window before holds already",
    layout.DOC_START: "first token of the document in the payload, BOS included",
    layout.DOC_TOKENS: "tokens of the document, BOS and EOS included",
    layout.STRIPPED: "blanks (characters) left out at the begin of the text that was encoded",
    layout.CLUSTER: "the same for documents that share band keys (minhash_drop_component); null where none is shared",
    layout.WEIGHT: "of the document, by decisions",
}


def token_meanings(names: Collection[str], table: str, stages: Iterable[Stage]) -> dict[str, str]:
    """One line for each of these columns; "" where nothing is known. stages: whose scores shards may have."""
    if table == "ledger":
        return {name: {**MEANINGS, **_OF_LEDGER}.get(name, "") for name in names}
    return {**meanings(names, "shards", stages), **{n: m for n, m in _OF_SPANS.items() if n in names}}


def spans_of(root: str, folder: Path) -> Any:
    """``spans/`` as one dataset, in the order of the shards; read as it is asked for.

    Raises:
        ConfigError: there are none, or one cannot be read.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds

    files = [str(f) for f in sorted((folder / "spans").glob("*.arrow"))]
    try:
        found = ds.dataset(files, format="ipc")
    except (OSError, pa.ArrowInvalid) as error:
        first = (str(error).splitlines() or [""])[0]
        raise ConfigError(f"{root}/spans is damaged ({first}): `cleanpipe verify {root}` says what else is") from error
    return found
