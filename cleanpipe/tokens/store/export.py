"""A token store written again in a form of its own: MosaicML's MDS, LitData's chunks. Both hold the ids once more; all
other readers read the payload as it lies.

Files are planned from the store alone and published one by one; ``index.json`` after them, ``manifest.json`` last. An
export that was stopped goes on: a file that is there was published whole. Bytes are the same whatever happened.

What stands in ``decisions.jsonl`` is honoured as far as these forms can: masked and quarantined documents are left out;
for weights they have no place, and ``Exported`` tells how many documents have one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from cleanpipe.engine.folder import place
from cleanpipe.errors import ConfigError
from cleanpipe.io.hashing import HashingFile, sha256_of
from cleanpipe.io.store import LOCK, Store, open_store
from cleanpipe.options import StorageOptions
from cleanpipe.recipe import fingerprint
from cleanpipe.tokens.store.names import MANIFEST
from cleanpipe.tokens.store.opened import TokenStore

INDEX, PLAN = "index.json", "work/export.json"
FILE_BYTES = 1 << 26  # of an exported file, as both writers of these forms have it by default
FORMS = ("mds", "litdata")
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Planned:
    """A file to come: its name and bytes, what writes it, and what the index says of it besides."""

    name: str
    size: int
    write: Callable[[HashingFile], None]
    about: Mapping[str, Any]


class Writer(Protocol):
    """Of a form."""

    def files(self) -> Iterator[Planned]:
        """Every file but the index, in order."""

    def index(self, files: Sequence[tuple[Planned, str]]) -> bytes:
        """index.json, given each file's SHA-256."""


@dataclass(frozen=True, slots=True)
class Exported:
    """already: whether this call found it done. left_out: documents, by decision. unread: tokens that fill no block.
    weighted, weighted_tokens: documents of a weight below 1 that are in it whole, and their tokens.
    """

    out: str
    files: int
    bytes: int
    documents: int
    tokens: int
    left_out: int
    unread: int
    already: bool
    weighted: int = 0
    weighted_tokens: int = 0


def export(
    tokens: TokenStore,
    out: str,
    form: str,
    *,
    length: int = 0,
    storage: StorageOptions | None = None,
    file_bytes: int = FILE_BYTES,
    tell: Callable[[str, int], None] = lambda _name, _size: None,
) -> Exported:
    """Write the store to ``out``, a folder or ``s3://bucket/prefix``.

    form: "mds": one sample a document (``tokens``, ``doc_id``, ``url``); "litdata": one stream of ids, for
    ``TokensLoader(block_size=length)``; a file there holds whole blocks. file_bytes: of an exported file, at most, but
    for a document or block that is larger. tell: called with each file that was written.

    Raises:
        ConfigError: ``out`` holds something else, or the form or length is wrong. DamagedFileError: the store is.
    """
    from cleanpipe.tokens.store.litdata import Litdata
    from cleanpipe.tokens.store.mds import Mds

    if form not in FORMS:
        raise ConfigError(f"{form!r} is no form of an export: {' or '.join(FORMS)}")
    if (length < 1) is (form == "litdata"):
        raise ConfigError(
            "litdata needs --length: the block_size of its TokensLoader"
            if form == "litdata"
            else "mds holds whole documents: --length means nothing there"
        )
    gone, lighter = left_out(tokens)
    writer: Writer = Mds(tokens, gone, file_bytes) if form == "mds" else Litdata(tokens, gone, length, file_bytes)
    store = open_store(_target(tokens, out), tokens.storage if storage is None else storage)
    identity = {
        "form": form,
        "length": length,
        "file_bytes": file_bytes,
        "store": tokens.info["digest"],
        "left_out": fingerprint(gone.tolist()),
    }
    done = _finished(store, identity)
    already = done is not None
    if done is None:
        hold = store.hold(lambda _: None)
        try:
            _claim(store, identity)
            done = _written(store, identity, writer, tell)
            hold.check()
            store.delete_below("work/")
        finally:
            hold.release()
    lost, light = (sum(int(np.diff(tokens.document_range(int(d)))[0]) for d in some) for some in (gone, lighter))
    return Exported(
        out=store.root,
        files=len(done),
        bytes=sum(int(f["bytes"]) for f in done.values()),
        documents=tokens.documents - len(gone),
        tokens=tokens.tokens - lost,
        left_out=len(gone),
        unread=(tokens.tokens - lost) % length if length else 0,
        already=already,
        weighted=len(lighter),
        weighted_tokens=light,
    )


def left_out(tokens: TokenStore) -> tuple[Numbers, Numbers]:
    """Global numbers of documents that are masked or quarantined now, and of those of a weight below 1; ascending."""
    from cleanpipe.tokens.decisions import MASK, QUARANTINE, WEIGHT, effects, load
    from cleanpipe.tokens.decisions_lines import FOREVER

    found = effects(tokens, load(tokens))
    documents = np.unique(found.documents)
    actions, weights = found.of(documents, FOREVER - 1)
    gone = np.isin(actions, (MASK, QUARANTINE))
    light = (actions == WEIGHT) & (weights < 1)
    return documents[gone].astype(np.int64), documents[light].astype(np.int64)


def _target(tokens: TokenStore, out: str) -> str:
    root = place(out, "--out")
    if f"{root}/".startswith(f"{tokens.root}/"):
        raise ConfigError(f"--out {out} lies in the token store itself: name another folder")
    if not root.startswith("s3://") and Path(root).exists() and not Path(root).is_dir():
        raise ConfigError(f"{root} is a file: name a folder for the export")
    return root


def _finished(store: Store, identity: Mapping[str, Any]) -> dict[str, Any] | None:
    """The files of this export, if it was finished before."""
    if store.size(MANIFEST) < 0:
        return None
    try:
        manifest = json.loads(store.read(MANIFEST))
        if manifest["export"] == identity:
            return dict(manifest["files"])
    except (ValueError, KeyError, TypeError):
        pass
    raise ConfigError(f"{store.root} holds another export, or something else: name another folder")


def _claim(store: Store, identity: Mapping[str, Any]) -> None:
    """Begin this export in the folder, or go on with it."""
    text = json.dumps(identity, sort_keys=True).encode()
    if store.size(PLAN) < 0:
        if next((n for n, _ in store.names() if not n.startswith("work/")), None) is not None:
            store.delete(LOCK)
            raise ConfigError(f"{store.root} is not empty and holds no export: name another folder")
        store.write(PLAN, text)
    elif store.read(PLAN) != text:
        raise ConfigError(f"{store.root} holds an unfinished export of other tokens or options: name another folder")
    store.remove_leftovers()


def _written(
    store: Store, identity: Mapping[str, Any], writer: Writer, tell: Callable[[str, int], None]
) -> dict[str, dict[str, Any]]:
    files: dict[str, dict[str, Any]] = {}
    planned: list[tuple[Planned, str]] = []
    for file in writer.files():
        facts = _there(store, file) or _write(store, file)
        files[file.name] = facts
        planned.append((file, facts["sha256"]))
        tell(file.name, file.size)
    files[INDEX] = store.write(INDEX, writer.index(planned))
    manifest = {"format": 1, "export": dict(identity), "files": dict(sorted(files.items()))}
    store.write_json(MANIFEST, {**manifest, "digest": fingerprint(manifest)})
    return files


def _there(store: Store, file: Planned) -> dict[str, Any] | None:
    """Facts of a file that an earlier attempt published: whole, and of these tokens, for the plan says so."""
    if store.size(file.name) != file.size:
        return None
    with store.fetch(file.name) as path:
        return {"bytes": file.size, "sha256": sha256_of(path)}


def _write(store: Store, file: Planned) -> dict[str, Any]:
    draft = store.draft(file.name, "export")
    try:
        with HashingFile(draft) as out:
            file.write(out)
            out.sync()
            facts = {"bytes": out.size, "sha256": out.hexdigest()}
        if out.size != file.size:
            raise AssertionError(f"{file.name}: {out.size} bytes, {file.size} planned")
        store.publish(draft, file.name, facts)
    finally:
        draft.unlink(missing_ok=True)
    return facts
