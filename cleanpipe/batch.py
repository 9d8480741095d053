"""Names and Arrow types of a document's columns: the only place where they are spelled.

One row is one document. Text is ``large_string`` and bytes ``large_binary``: 32-bit offsets overflow at 2 GB.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

# provenance, written by the reader
DOC_ID = "doc_id"  # first 16 bytes of SHA-256(source, record offset, record id)
SOURCE = "source"  # path below --source-root, else base name
RECORD_OFFSET = "record_offset"  # bytes, in the file as it lies (see OFFSET_KIND)
RECORD_LENGTH = "record_length"  # bytes from RECORD_OFFSET that re-read this one record
OFFSET_KIND = "offset_kind"  # "file", or "inflated" in a file that is one compressed member
RECORD_ID = "record_id"
REFERS_TO = "refers_to"
RECORD_TYPE = "record_type"
DATE = "date"
URL = "url"
HTTP_STATUS = "http_status"  # null = unknown, never guessed
DECLARED_TYPE = "declared_type"  # HTTP Content-Type without parameters, lower case; for `resource` the record's
DECLARED_CHARSET = "declared_charset"  # its charset parameter, as written
PAYLOAD_TYPE = "payload_type"  # WARC-Identified-Payload-Type
SNIFFED_TYPE = "sniffed_type"  # from the first bytes of the body
MEDIA_TYPE = "media_type"  # what the three together say; null = unknown (WET)
IS_HTTP = "is_http"  # false: a response that is not HTTP (dns:); null: no HTTP block expected
TRUNCATED = "truncated"  # WARC-Truncated
X_ROBOTS_TAG = "x_robots_tag"  # HTTP header, as sent; a repeated one is one line each; null: none, or no HTTP head
TDM_RESERVATION = "tdm_reservation"  # HTTP header of the TDM Reservation Protocol, as sent
TDM_POLICY = "tdm_policy"  # HTTP header of the same, as sent: a URL
LINK_LICENCE = "link_licence"  # HTTP Link header, as sent, where it names a licence
BYTES_IN = "bytes_in"  # length of BODY, fixed at reading
BODY = "body"  # after Transfer-Encoding and Content-Encoding

# written by the core before the first stage that reads them
CHARSET = "charset"
CHARSET_SOURCE = "charset_source"
MARKUP = "markup"  # the body decoded, once; for WET and text/plain this is the text itself
MARKUP_LENGTH = "markup_length"  # code points of MARKUP
SCRUBBED = "scrubbed"  # text taken out of the markup; html_scrub writes it
TEXT = "text"  # scrubbed and normalised: what is judged, hashed and cut
LENGTH = "length"  # code points of TEXT
BYTES = "bytes"  # UTF-8 bytes of TEXT
CONTENT_ID = "content_id"  # first 16 bytes of SHA-256(TEXT)

# scores with fixed names
LANGUAGE_PREVIEW = "language_preview"
LANGUAGE_PREVIEW_SCORE = "language_preview_score"
LANGUAGE = "language"
LANGUAGE_ID_SCORE = "language_id_score"
PERPLEXITY = "perplexity"
ENTROPY = "entropy"
ASCII_SHARE = "ascii_share"
KEPT_DOC_ID = "kept_doc_id"
JACCARD = "jaccard"

# windows
WINDOW, WINDOWS = "window", "windows"
CHAR_START, CHAR_END, OVERLAP = "char_start", "char_end", "overlap"

# the ledger's own
FATE, STAGE, REASON, SHARD = "fate", "stage", "reason", "shard"
CHARS_OUT = "chars_out"
KEPT, DROPPED, QUARANTINED = "kept", "dropped", "quarantined"

ID = pa.binary(16)
TIME = pa.timestamp("s", tz="UTC")

READ_COLUMNS: Mapping[str, pa.DataType] = {
    DOC_ID: ID,
    SOURCE: pa.string(),
    RECORD_OFFSET: pa.int64(),
    RECORD_LENGTH: pa.int64(),
    OFFSET_KIND: pa.string(),
    RECORD_ID: pa.string(),
    REFERS_TO: pa.string(),
    RECORD_TYPE: pa.string(),
    DATE: TIME,
    URL: pa.string(),
    HTTP_STATUS: pa.int16(),
    IS_HTTP: pa.bool_(),
    DECLARED_TYPE: pa.string(),
    DECLARED_CHARSET: pa.string(),
    PAYLOAD_TYPE: pa.string(),
    SNIFFED_TYPE: pa.string(),
    MEDIA_TYPE: pa.string(),
    TRUNCATED: pa.string(),
    X_ROBOTS_TAG: pa.string(),
    TDM_RESERVATION: pa.string(),
    TDM_POLICY: pa.string(),
    LINK_LICENCE: pa.string(),
    BYTES_IN: pa.int64(),
    BODY: pa.large_binary(),
}
DECODED_COLUMNS: Mapping[str, pa.DataType] = {
    CHARSET: pa.string(),
    CHARSET_SOURCE: pa.string(),
    MARKUP: pa.large_string(),
    MARKUP_LENGTH: pa.int64(),
}
TEXT_COLUMNS: Mapping[str, pa.DataType] = {
    TEXT: pa.large_string(),
    LENGTH: pa.int64(),
    BYTES: pa.int64(),
    CONTENT_ID: ID,
}
WINDOW_COLUMNS: Mapping[str, pa.DataType] = {
    WINDOW: pa.int32(),
    WINDOWS: pa.int32(),
    CHAR_START: pa.int64(),
    CHAR_END: pa.int64(),
    OVERLAP: pa.int32(),
}

HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})


def with_columns(batch: pa.RecordBatch, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """A new batch with ``columns`` added, or put in place of those of the same name; the rest is shared, not copied."""
    arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
    arrays.update(columns)
    return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


def without_columns(batch: pa.RecordBatch, names: frozenset[str]) -> pa.RecordBatch:
    """The batch less the named columns; names it does not have are no error."""
    keep = [n for n in batch.schema.names if n not in names]
    return batch.select(keep)
