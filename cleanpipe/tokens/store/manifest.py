"""The last two files of a token store: ``store.json``, what a reader needs, and the manifest, whose presence means
finished.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cleanpipe.errors import StageContractError
from cleanpipe.io.store import Store
from cleanpipe.recipe import fingerprint
from cleanpipe.tokens.layout import FORMAT, STORE
from cleanpipe.tokens.store.names import (
    LINK,
    MANIFEST,
    PAYLOAD,
    offsets_name,
    payload_name,
    sizes,
    spans_name,
    sums_name,
)

_KEYS = ("name", "kind", "dtype", "vocabulary", "bos", "eos", "fingerprint", "tokens", "documents", "windows", "shards")
_SIDES = {"offsets": offsets_name, "sums": sums_name, "spans": spans_name}
_COUNTS = ("tokens", "documents", "windows")


def write_store(store: Store, info: Mapping[str, Any], files: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Write ``store.json`` and then ``manifest.json``; what store.json says, as it was written.

    info: as the module of ``layout`` tells; ``format``, ``digest`` and the digests of each shard's side files are put
    in here. files: name → ``bytes``, ``sha256`` of every other file that was published, ``decisions.jsonl`` and
    ``work/`` left out.

    Raises:
        StageContractError: ``info`` and ``files`` do not agree.
    """
    shards = [_shard(info, entry, files) for entry in info["shards"]]
    for key in _KEYS:
        if key not in info:
            raise StageContractError(f"{STORE} needs {key!r}")
    for key in _COUNTS:
        if sum(s[key] for s in shards) != info[key]:
            raise StageContractError(
                f"{STORE}: {info[key]:,} {key}, but the shards have {sum(s[key] for s in shards):,}"
            )
    body = {**info, "format": FORMAT, "shards": shards}
    body = {**body, "digest": fingerprint(body)}
    named = {**files, STORE: store.write_json(STORE, body)}
    manifest: dict[str, Any] = {"format": FORMAT, "files": dict(sorted(named.items())), "store": body["digest"]}
    missing = [s["name"] for s in shards if f"{payload_name(s['name']).removesuffix(PAYLOAD)}{LINK}" not in files]
    if missing:
        manifest["without"] = {
            LINK: "the storage has no links: the payload (.bin) is this file too",
            "shards": len(missing),
        }
    store.write_json(MANIFEST, {**manifest, "digest": fingerprint(manifest)})
    return body


def _shard(info: Mapping[str, Any], entry: Mapping[str, Any], files: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    name = entry["name"]
    for file, size in sizes(name, entry["tokens"], entry["documents"], np.dtype(info["dtype"]).itemsize).items():
        if file not in files and file.endswith(LINK):
            continue
        if file not in files or files[file]["bytes"] != size:
            found = f"{files[file]['bytes']:,}" if file in files else "no"
            raise StageContractError(f"{file}: {found} bytes, {size:,} by its counts")
    if files[payload_name(name)]["sha256"] != entry["sha256"]:
        raise StageContractError(f"{payload_name(name)}: another SHA-256 than the shard's entry")
    if spans_name(name) not in files:
        raise StageContractError(f"{spans_name(name)} is missing")
    return {**entry, "files": {side: files[of(name)]["sha256"] for side, of in _SIDES.items()}}
