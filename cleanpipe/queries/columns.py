"""What every column of a run means, in one line: for people who query the ledger, and for the data card."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields

from cleanpipe import batch as col
from cleanpipe.stage import Stage

# of the ledger, and of the shards where it is the same column there
MEANINGS: Mapping[str, str] = {
    col.DOC_ID: "identity of the record: the first 16 bytes of SHA-256(source, record offset, record id)",
    col.SOURCE: "the archive it was read from: its path below the source root, else its base name",
    col.RECORD_OFFSET: "where the record begins, in bytes",
    col.RECORD_LENGTH: "bytes from there that re-read this one record",
    col.OFFSET_KIND: "what offsets count: bytes of the file, or inflated ones where the file is one compressed member",
    col.RECORD_ID: "WARC-Record-ID",
    col.REFERS_TO: "WARC-Refers-To: the record that this one was made from",
    col.RECORD_TYPE: "WARC-Type: response, resource, conversion; null for a damaged range",
    col.URL: "WARC-Target-URI, as it was crawled",
    col.DATE: "WARC-Date: when it was captured, UTC",
    col.FATE: "kept, dropped or quarantined; null in an unfinished run: not decided yet",
    col.STAGE: "the stage that it left in; null for kept ones",
    col.REASON: "why it left; null for kept ones",
    col.HTTP_STATUS: "HTTP status; null where none is known (WET)",
    col.IS_HTTP: "whether the record holds HTTP; null where none is expected",
    col.DECLARED_TYPE: "Content-Type as the server declared it, without parameters, lower case",
    col.PAYLOAD_TYPE: "WARC-Identified-Payload-Type: what the crawler took it for",
    col.SNIFFED_TYPE: "what the first bytes of the body look like",
    col.MEDIA_TYPE: "what these three say together; null where nothing is known",
    col.CHARSET: "the charset the body was decoded by; null if it was not",
    col.TRUNCATED: "WARC-Truncated: why the crawler cut the record",
    col.BYTES_IN: "bytes of the body after transfer and content coding",
    col.CHARS_OUT: "characters (code points) of the clean text; also of documents dropped after it was made",
    col.LANGUAGE_PREVIEW: "language of the first paragraphs, before the page was scrubbed",
    col.LANGUAGE_PREVIEW_SCORE: "how sure of it, 0 to 1",
    col.LANGUAGE: "language of the text (und: no letter in it)",
    col.LANGUAGE_ID_SCORE: "how sure of it, 0 to 1",
    col.PERPLEXITY: "of a token, by the language's n-gram model; null: not measured",
    col.ENTROPY: "bits a character",
    col.ASCII_SHARE: "share of ASCII characters, 0 to 1",
    col.CONTENT_ID: "identity of the text: the first 16 bytes of SHA-256(text)",
    col.KEPT_DOC_ID: "of a duplicate: the doc_id of the document that stands for it",
    col.JACCARD: "of a duplicate: share of shingles in common with that document, 0 to 1, exact",
    col.WINDOWS: "windows the document was cut into; null if it was not kept",
    col.SHARD: "the shard its windows are in; null if it was not kept",
}
_OF_SHARDS: Mapping[str, str] = {
    col.TEXT: "a window of the clean text",
    col.LENGTH: "characters (code points) of this window",
    col.BYTES: "UTF-8 bytes of this window",
    col.WINDOW: "number of this window in its document, from 0",
    col.WINDOWS: "windows of this document",
    col.CHAR_START: "where the window begins in its document, in characters",
    col.CHAR_END: "where it ends",
    col.OVERLAP: "characters at its beginning that the window before has too: leave them out to join windows again",
}
_OF_QUARANTINE: Mapping[str, str] = {
    col.STAGE: "where it went wrong",
    col.REASON: "why it was set aside",
    "error": "class of the error",
    "message": "its text",
    "trace": "first 16 hexadecimal digits of the traceback's SHA-256: equal for equal faults",
}
_TABLES = {"ledger": {}, "shards": _OF_SHARDS, "quarantine": _OF_QUARANTINE}
TABLES: Mapping[str, str] = {
    "ledger": "one row for every record read, and for every damaged range",
    "shards": "one row for every window of the kept documents, with its text",
    "quarantine": "one row for every record or range that was set aside, with its error",
}


def meanings(names: Iterable[str], table: str, stages: Iterable[Stage] = ()) -> dict[str, str]:
    """One line for each of these columns of a table; "" where nothing is known.

    A column that a stage alone knows is explained by its ``meanings`` (column → line) if it has some, else by the
    limit it is held against.
    """
    own = {name: text for stage in stages for name, text in _of_stage(stage).items()}
    known = {**own, **MEANINGS, **_TABLES[table]}
    return {name: known.get(name, "") for name in names}


def _of_stage(stage: Stage) -> dict[str, str]:
    docs = {f.name: str(f.metadata.get("doc", "")) for f in fields(stage)}
    out = {}
    for name in stage.scores:
        text = stage.meanings.get(name, "")
        if not text:
            cut = next((c for c in stage.cuts() if c.score == name), None)
            judged = f", judged by its option {cut.option} ({docs.get(cut.option, '')})" if cut is not None else ""
            text = f"score of {stage.name}{judged}"
        out[name] = text
    return out
