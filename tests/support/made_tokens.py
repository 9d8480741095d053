"""Token stores made by us in milliseconds: documents as lists of ids, one window a document unless others are given."""

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe.io.arrow import TableWriter
from cleanpipe.io.store import open_store
from cleanpipe.options import StorageOptions
from cleanpipe.tokens import layout
from cleanpipe.tokens.making import ledger
from cleanpipe.tokens.store import PayloadWriter, write_store

COLUMNS = {
    col.URL: pa.string(),
    col.LENGTH: pa.int32(),
    col.BYTES: pa.int64(),
    col.DOC_ID: col.ID,
    col.WINDOW: pa.int32(),
    col.WINDOWS: pa.int32(),
    col.CHAR_START: pa.int64(),
    col.CHAR_END: pa.int64(),
    col.OVERLAP: pa.int32(),
    col.LANGUAGE: pa.string(),
    col.SOURCE: pa.string(),
    col.RECORD_OFFSET: pa.int64(),
    col.RECORD_ID: pa.string(),
    col.DATE: col.TIME,
}
HERE = StorageOptions()
SCHEMA = pa.schema({**layout.SPAN_COLUMNS, **COLUMNS})


def doc_id(number, salt=""):
    """Of the document with this global number."""
    return hashlib.sha256(f"{salt}document {number}".encode()).digest()[:16]


def content_id(body):
    """Of a document with these ids."""
    return hashlib.sha256(np.asarray(body, "<i8").tobytes()).digest()[:16]


def url_of(number):
    return f"https://host{number % 7}.example/{number}"


def make_store(
    folder,
    documents,
    *,
    per_shard=0,
    vocabulary=1000,
    bos=1,
    eos=2,
    urls=None,
    windows=None,
    fingerprint=None,
    name="made",
    salt="",
    storage=HERE,
):
    """A finished store at ``folder`` (a path or s3://…); the folder as a string.

    documents: ids of each body, without BOS and EOS, which are put around where they are no None.
    per_shard: documents of a shard; 0: one shard. urls: one a document; None: by ``url_of``.
    windows: for each document its windows as (first token in the body, tokens, of these repeated from the window
    before); None: one window, the body. One code point a token is pretended.
    fingerprint: the store's; None: one that belongs to ``name``.
    """
    root = str(folder) if str(folder).startswith("s3://") else str(Path(folder).absolute())
    store = open_store(root, storage)
    per = per_shard or max(len(documents), 1)
    groups = [range(i, min(i + per, len(documents))) for i in range(0, len(documents), per)]
    dtype = layout.width(vocabulary)
    files, shards = {}, []
    for at, numbers in enumerate(groups):
        shard = layout.shard_name(at, len(groups))
        writer = PayloadWriter(store, shard, dtype, "made", vocabulary=vocabulary)
        rows, kept = [], []
        for within, number in enumerate(numbers):
            body = list(documents[number])
            ids = ([bos] if bos is not None else []) + body + ([eos] if eos is not None else [])
            start = writer.tokens
            writer.add(np.array(ids, np.int64), [len(ids)])
            about = {
                col.DOC_ID: doc_id(number, salt),
                col.URL: url_of(number) if urls is None else urls[number],
                layout.DOCUMENT: within,
                layout.DOC_START: start,
                layout.DOC_TOKENS: len(ids),
                layout.STRIPPED: 0,
                col.CONTENT_ID: content_id(body),
                col.RECORD_LENGTH: 900,
                col.OFFSET_KIND: "file",
                col.LANGUAGE: "en",
                col.SOURCE: "made.warc.gz",
                col.RECORD_OFFSET: number * 1000,
                col.RECORD_ID: f"<urn:uuid:{number:032x}>",
                col.DATE: 1_790_000_000 + number,
            }
            kept.append(
                {
                    **about,
                    ledger.CHARS: len(body),
                    ledger.BYTES: len(body),
                    ledger.TOKENS: len(ids),
                    col.WINDOWS: 1 if windows is None else len(windows[number]),
                    col.FATE: col.KEPT,
                    col.SHARD: shard,
                }
            )
            parts = [(0, len(body), 0)] if windows is None else windows[number]
            for w, (first, count, overlap) in enumerate(parts):
                rows.append(
                    {
                        **about,
                        layout.TOKEN_START: start + (bos is not None) + first,
                        layout.TOKEN_COUNT: count,
                        layout.TOKEN_OVERLAP: overlap,
                        col.LENGTH: count,
                        col.BYTES: count,
                        col.WINDOW: w,
                        col.WINDOWS: len(parts),
                        col.CHAR_START: first,
                        col.CHAR_END: first + count,
                        col.OVERLAP: overlap,
                    }
                )
        facts = writer.close()
        files.update(facts)
        files[f"spans/{shard}.arrow"] = _arrow(store, f"spans/{shard}.arrow", rows)
        part = ledger.part_name(at)
        files[part] = ledger.write_part(store, part, pa.Table.from_pylist(kept, schema=ledger.SCHEMA), "made")
        shards.append(
            {
                "name": shard,
                "shard": f"data-{at:05d}-of-{len(groups):05d}.arrow",
                "shard_sha256": hashlib.sha256(shard.encode()).hexdigest(),
                "tokens": writer.tokens,
                "documents": len(numbers),
                "windows": len(rows),
                "sha256": facts[f"tokens/{shard}.bin"]["sha256"],
            }
        )
    mark = fingerprint or {
        key: hashlib.sha256(f"{name} {key}".encode()).hexdigest() for key in ("content", "policy", "probe", "digest")
    }
    info = {
        "name": name,
        "kind": "json",
        "dtype": np.dtype(dtype).name,
        "vocabulary": vocabulary,
        "bos": bos,
        "eos": eos,
        "controls": {t: i for t, i in (("<s>", bos), ("</s>", eos)) if i is not None},
        "fingerprint": mark,
        "per_window": False,
        "run": {"config_hash": "00000000", "recipe": "sample", "code": "0" * 64},
        "shards": shards,
        **{key: sum(s[key] for s in shards) for key in ("tokens", "documents", "windows")},
        "decisions": {"lines": 0, "sha256": hashlib.sha256(b"").hexdigest()},
        "backend": {"asked": "auto", "used": "hf"},
    }
    files["tokenizer/policy.json"] = store.write_json("tokenizer/policy.json", {"name": name, "bos": bos, "eos": eos})
    files["run.json"] = store.write_json("run.json", {"made": True})
    write_store(store, info, files)
    return root


def _arrow(store, name, rows):
    draft = store.draft(name, "made")
    writer = TableWriter(draft, SCHEMA)
    writer.write(pa.Table.from_pylist(rows, schema=SCHEMA))
    facts = writer.close()
    store.publish(draft, name, facts)
    return {"rows": len(rows), "bytes": facts["bytes"], "sha256": facts["sha256"]}
