"""Token stores for benchmarks: made ids in documents of natural lengths, or far more tokens than any disk holds.

    python benchmarks/synthetic_tokens.py FOLDER [--documents 50000]       ids drawn, lengths log-normal
    python benchmarks/synthetic_tokens.py FOLDER --sparse [--shards 1024]  zeros: shards are links to one sparse file

A sparse store has 2^32 tokens a shard, 1,024 shards of it over 10^9 sequences of 4,096. Its files are proven as any
store's are: checksums and digests are right.
"""

from __future__ import annotations

import argparse
import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

from cleanpipe import batch as col
from cleanpipe.io.arrow import TableWriter
from cleanpipe.io.hashing import sha256_of
from cleanpipe.io.store import open_store
from cleanpipe.options import StorageOptions
from cleanpipe.tokens import layout
from cleanpipe.tokens.store import PayloadWriter, write_store

VOCABULARY, BOS, EOS = 16_384, 1, 2
SCHEMA = pa.schema({**layout.SPAN_COLUMNS, col.DOC_ID: col.ID, col.URL: pa.string()})


def natural(count: int, seed: int = 0, middle: float = 600.0) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Lengths as pages have them: log-normal around 600 tokens, some of tens of thousands."""
    return np.maximum(1, np.random.default_rng(seed).lognormal(np.log(middle), 1.2, count)).astype(np.int64)


def spans(starts: Any, lengths: Any, shard: int) -> pa.Table:
    """A window a document."""
    rows = len(lengths)
    ids = [hashlib.sha256(f"{shard} {n}".encode()).digest()[:16] for n in range(rows)]
    return pa.table(
        {
            layout.DOCUMENT: pa.array(np.arange(rows)),
            layout.TOKEN_START: pa.array(starts + 1),
            layout.TOKEN_COUNT: pa.array((lengths - 2).astype(np.int32)),
            layout.TOKEN_OVERLAP: pa.array(np.zeros(rows, np.int32)),
            layout.DOC_START: pa.array(starts),
            layout.DOC_TOKENS: pa.array(lengths),
            layout.STRIPPED: pa.array(np.zeros(rows, np.int32)),
            col.CONTENT_ID: pa.array(ids, col.ID),
            col.RECORD_LENGTH: pa.array(np.full(rows, 900)),
            col.OFFSET_KIND: pa.array(["file"] * rows),
            layout.CLUSTER: pa.nulls(rows),
            col.DOC_ID: pa.array(ids, col.ID),
            col.URL: pa.array([f"https://made.example/{shard}/{n}" for n in range(rows)]),
        }
    ).cast(SCHEMA)


def finish(store: Any, shards: list[dict[str, Any]], files: dict[str, Any]) -> None:
    """store.json and the manifest."""
    info = {
        "name": "made",
        "kind": "json",
        "dtype": "uint16",
        "vocabulary": VOCABULARY,
        "bos": BOS,
        "eos": EOS,
        "controls": {"<s>": BOS, "</s>": EOS},
        "fingerprint": {
            key: hashlib.sha256(key.encode()).hexdigest() for key in ("content", "policy", "probe", "digest")
        },
        "per_window": False,
        "run": {"config_hash": "00000000", "recipe": "made", "code": "0" * 64},
        "shards": shards,
        **{key: sum(s[key] for s in shards) for key in ("tokens", "documents", "windows")},
        "decisions": {"lines": 0, "sha256": hashlib.sha256(b"").hexdigest()},
        "backend": {"asked": "auto", "used": "hf"},
    }
    write_store(store, info, files)


def entry(name: str, tokens: int, documents: int, sha256: str) -> dict[str, Any]:
    """A shard's entry of store.json."""
    counts = {"tokens": tokens, "documents": documents, "windows": documents}
    return {"name": name, "shard": f"{name}.arrow", "shard_sha256": "0" * 64, **counts, "sha256": sha256}


def make(folder: Path, documents: int, shards: int = 4, seed: int = 0) -> Path:
    """A store of drawn ids; BOS and EOS in place."""
    store = open_store(str(folder.absolute()), StorageOptions())
    files: dict[str, Any] = {}
    entries = []
    for shard in range(shards):
        name = layout.shard_name(shard, shards)
        draw = np.random.default_rng((seed, shard))
        lengths = natural(documents // shards, seed * 1000 + shard) + 2
        ends = np.cumsum(lengths)
        ids = draw.integers(3, VOCABULARY, int(ends[-1])).astype(np.uint16)
        ids[ends - lengths], ids[ends - 1] = BOS, EOS
        writer = PayloadWriter(store, name, "<u2", "made", vocabulary=VOCABULARY)
        writer.add(ids, ends)
        facts = writer.close()
        draft = store.draft(f"spans/{name}.arrow", "made")
        table = TableWriter(draft, SCHEMA)
        table.write(spans(ends - lengths, lengths, shard))
        about = table.close()
        store.publish(draft, f"spans/{name}.arrow", about)
        files |= {**facts, f"spans/{name}.arrow": {k: about[k] for k in ("bytes", "sha256")}}
        entries.append(entry(name, writer.tokens, writer.documents, facts[f"tokens/{name}.bin"]["sha256"]))
    finish(store, entries, files)
    return folder


def make_sparse(folder: Path, shards: int = 1024, tokens: int = 1 << 32, documents: int = 1 << 21) -> Path:
    """A store of zeros, all shards links to the files of the first. documents: of a shard; they divide its tokens."""
    store = open_store(str(folder.absolute()), StorageOptions())
    first = layout.shard_name(0, shards)
    names = [layout.shard_name(at, shards) for at in range(shards)]
    (folder / "tokens").mkdir(parents=True, exist_ok=True)
    (folder / "spans").mkdir(exist_ok=True)
    base = folder / "tokens" / first
    for suffix, size in ((".bin", 2 * tokens), (".idx", 34 + 20 * documents + 8), (".ds.index", 8 * documents)):
        with Path(f"{base}{suffix}").open("wb") as file:
            file.truncate(size)
    lengths = np.full(documents, tokens // documents)
    np.save(f"{base}.offsets.npy", np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))
    sums = np.full(2 * tokens // layout.BLOCK, xxhash.xxh3_64_intdigest(bytes(layout.BLOCK)), "<u8")
    Path(f"{base}.sums").write_bytes(sums.tobytes())
    few = TableWriter(folder / "spans" / f"{first}.arrow", SCHEMA)  # of the first documents; enough for what is read
    few.write(spans(np.arange(100) * lengths[0], lengths[:100], 0))
    few.close()
    sides = {f"tokens/{{}}{s}": Path(f"{base}{s}") for s in (".bin", ".idx", ".ds.index", ".offsets.npy", ".sums")}
    sides["spans/{}.arrow"] = folder / "spans" / f"{first}.arrow"
    facts: dict[str, dict[str, Any]] = {}
    for pattern, path in sides.items():
        digest = sha256_of(path) if path.suffix in (".npy", ".sums", ".arrow") else "0" * 64
        facts[pattern] = {"bytes": path.stat().st_size, "sha256": digest}
        for name in names[1:]:
            os.link(path, folder / pattern.format(name))
    files = {pattern.format(name): about for name in names for pattern, about in facts.items()}
    finish(store, [entry(name, tokens, documents, "0" * 64) for name in names], files)
    return folder


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--documents", type=int, default=50_000)
    parser.add_argument("--sparse", action="store_true")
    parser.add_argument("--shards", type=int, default=0)
    args = parser.parse_args()
    if args.sparse:
        make_sparse(args.folder, args.shards or 1024)
    else:
        make(args.folder, args.documents, args.shards or 4)
    print(args.folder)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
