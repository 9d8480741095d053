"""The token store's files, columns and rules. Suffixes of the files in ``tokens/`` are in ``store/names.py``.

    TOKENS/
      manifest.json     every published file with bytes and SHA-256, and its own digest; written last
      store.json        what a reader needs: dtype, vocabulary, BOS, EOS, fingerprint, the shards with their counts
      run.json          facts of the run that made it
      tokenizer/        the tokenizer's file as it was given, and policy.json
      tokens/           NAME.bin    the payload: little-endian ids of whole documents, BOS and EOS in place
                        NAME.idx    Megatron's index (one sequence a document)
                        NAME.ds, NAME.ds.index   datatrove's; the first is the payload itself (a hard link)
                        NAME.offsets.npy         int64: where each document begins, and the end of the last
                        NAME.sums   one 64-bit checksum (xxh3, little-endian) for each BLOCK bytes of the payload
      spans/            NAME.arrow  one row for each window of a document: where its text came from, which tokens it is
      ledger/           part-NNNNN.parquet   one row for each document of a shard: tokens, fate, reason
      audit/            audit.json, audit.md, audit.html; shards/: what each shard's unit counted, and how often each id
                        came (NAME.ids.npy), from which a later build takes over what no decision touches
      decisions.jsonl   appended by `cleanpipe decide`
      work/             as in a run; deleted at the end

NAME is ``tokens-00000-of-00003``: one for each shard of the run, in its order.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cleanpipe import batch as col

FORMAT = 1
STORE, TOKENIZER, POLICY, DECISIONS = "store.json", "tokenizer/", "tokenizer/policy.json", "decisions.jsonl"
BLOCK = 1 << 16  # bytes of the payload under one checksum
WIDE = 65_536  # a larger vocabulary needs 32 bits an id

# columns of spans/ beside those of the shard's rows (all but the text) and of the run's ledger
DOCUMENT = "document"  # which document of this shard of tokens, from 0
TOKEN_START = "token_start"  # first token of this window, from the payload's begin
TOKEN_COUNT = "token_count"  # its tokens, BOS and EOS not counted
TOKEN_OVERLAP = "token_overlap"  # of these, how many at its begin the window before holds already
DOC_START, DOC_TOKENS = "document_start", "document_tokens"  # the document in the payload, BOS and EOS included
STRIPPED = "stripped"  # blanks (code points) left out at the begin of the text that was encoded
CLUSTER = "cluster"  # begin of a doc_id, the same for documents that share band keys with each other; null: with none
WEIGHT = "weight"

SPAN_COLUMNS: dict[str, pa.DataType] = {
    DOCUMENT: pa.int64(),
    TOKEN_START: pa.int64(),
    TOKEN_COUNT: pa.int32(),
    TOKEN_OVERLAP: pa.int32(),
    DOC_START: pa.int64(),
    DOC_TOKENS: pa.int64(),
    STRIPPED: pa.int32(),
    col.CONTENT_ID: col.ID,
    col.RECORD_LENGTH: pa.int64(),
    col.OFFSET_KIND: pa.string(),
    CLUSTER: pa.binary(8),
}


def width(vocabulary: int) -> npt.DTypeLike:
    """The type of an id in the payload; ids lie below ``vocabulary``."""
    return np.dtype("<u2") if vocabulary <= WIDE else np.dtype("<i4")


def shard_name(index: int, count: int) -> str:
    """``tokens-00000-of-00003``."""
    return f"tokens-{index:05d}-of-{count:05d}"
