"""What must hold before a store is opened: finished, of a known format, whole, of the tokenizer that is asked for."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from cleanpipe.engine.folder import PLAN, place
from cleanpipe.errors import CleanpipeError, ConfigError, DamagedFileError
from cleanpipe.io.store import Store, open_store
from cleanpipe.options import StorageOptions
from cleanpipe.recipe import fingerprint
from cleanpipe.tokens.arguments import shown
from cleanpipe.tokens.layout import FORMAT, POLICY, STORE
from cleanpipe.tokens.store.fetched import Files
from cleanpipe.tokens.store.names import LINK, MANIFEST, TOKENS, sizes

_SMALL = 64 << 20  # bytes of a manifest that is read when a store is opened; a larger one would take seconds
_AGAIN = "{} was made again since it was opened: open it anew (a state of the old one does not fit)"
_NEEDED = ("dtype", "vocabulary", "bos", "eos", "fingerprint", "tokens", "documents", "windows", "shards", "digest")


def place_of(root: str | Path) -> str:
    """Where a store lies: an absolute path, or ``s3://bucket/prefix``."""
    return place(root, "TOKENS")


def load_info(root: str, storage: StorageOptions, *, sizes: bool = True) -> dict[str, Any]:
    """``store.json`` of a finished store, with ``tokens_digest`` put in. sizes: look whether files have theirs.

    Raises:
        ConfigError: there is no finished store, or its format is a later one. DamagedFileError: a file was changed.
    """
    if not root.startswith("s3://") and not Path(root).is_dir():
        what = "is a file" if Path(root).exists() else "does not exist"
        raise ConfigError(f"{root} {what}: name the folder that `cleanpipe tokenize … --tokens` wrote")
    store = open_store(root, storage)
    try:
        raw = store.read(STORE)
    except FileNotFoundError as error:
        raise ConfigError(_no_store(root, _begun(store))) from error
    try:
        info = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise DamagedFileError("is no JSON: it was changed after it was written", source=STORE) from error
    known = info.get("format") if isinstance(info, dict) else None
    if isinstance(known, int) and known > FORMAT:
        raise ConfigError(f"{root} is of format {known}; this cleanpipe reads format {FORMAT}: install a later one")
    if not isinstance(info, dict) or known != FORMAT or any(key not in info for key in _NEEDED):
        raise DamagedFileError("is not what `cleanpipe tokenize` writes", source=STORE)
    if not _sound(info):
        raise DamagedFileError("its own digest does not fit: it was changed after it was written", source=STORE)
    size = store.size(MANIFEST)
    if size < 0:
        raise ConfigError(_no_store(root, True))
    if sizes and size <= _SMALL and _manifest(store).get("store") != info["digest"]:
        raise ConfigError(_no_store(root, True))  # of another store.json: stopped between the two
    if sizes:
        _whole_sizes(Files(root, storage, "", "").sizes(TOKENS) if info["shards"] else {}, info)
    info["tokens_digest"] = tokens_digest(info)
    return info


def load_again(root: str, storage: StorageOptions, digest: str, tokens: str) -> dict[str, Any]:
    """``store.json`` in another process, which must be that of this digest; tokens: its ``tokens_digest``.

    Raises:
        ConfigError: it is gone, or another one now.
    """
    try:
        info = json.loads(open_store(root, storage).read(STORE))
    except (FileNotFoundError, ValueError, RecursionError):
        info = None
    if not isinstance(info, dict) or info.get("digest") != digest:
        raise ConfigError(_AGAIN.format(root))
    info["tokens_digest"] = tokens
    return info


def made_again(root: str, storage: StorageOptions, digest: str) -> ConfigError | None:
    """The error that says so, if the store whose ``store.json`` had this digest is another one now, or is being made.

    Asked when a file is found changed: then it was perhaps not damaged.
    """
    store = open_store(root, storage)
    try:
        being_made = store.size(MANIFEST) < 0 and store.size(PLAN) >= 0
        info = json.loads(store.read(STORE))
        if being_made or (isinstance(info, dict) and info.get("digest", digest) != digest and _sound(info)):
            return ConfigError(_AGAIN.format(root))
    except (CleanpipeError, OSError, ValueError, RecursionError):
        pass  # it is damaged, or out of reach: what was found says so
    return None


def _sound(info: dict[str, Any]) -> bool:
    return bool(fingerprint({k: v for k, v in info.items() if k != "digest"}) == info["digest"])


def _manifest(store: Store) -> dict[str, Any]:
    try:
        manifest = json.loads(store.read(MANIFEST))
        if fingerprint({k: v for k, v in manifest.items() if k != "digest"}) == manifest["digest"]:
            return dict(manifest)
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        pass
    raise DamagedFileError("was cut short or changed; `cleanpipe verify` tells what else", source=MANIFEST)


def _begun(store: Store) -> bool:
    """Whether tokens were begun there: by what is published, or by the plan of their job (a run's has no tokenizer)."""
    if any(n.startswith(TOKENS) for n, _ in store.names()):
        return True
    try:
        plan = json.loads(store.read(PLAN))
    except (FileNotFoundError, ValueError, RecursionError):
        return False
    return isinstance(plan, dict) and "tokenizer" in plan


def _no_store(root: str, begun: bool) -> str:
    if begun:
        return f"{root} is not finished: the same `cleanpipe tokenize` line goes on"
    return f"{root} holds no token store: name the folder that `cleanpipe tokenize … --tokens` wrote"


def _whole_sizes(found: Mapping[str, int], info: Mapping[str, Any]) -> None:
    width = np.dtype(info["dtype"]).itemsize
    for entry in info["shards"]:
        for name, size in sizes(entry["name"], entry["tokens"], entry["documents"], width).items():
            here = found.get(name, -1)
            if here == size or (here < 0 and name.endswith(LINK)):
                continue
            what = "is gone" if here < 0 else f"{here:,} bytes, {size:,} by store.json: it was cut short or changed"
            raise DamagedFileError(f"{what}; `cleanpipe verify` tells what else", source=name)


def tokens_digest(info: Mapping[str, Any]) -> str:
    """What the tokens of a store are: the payloads in order, and whose ids they hold."""
    payloads = [[e["sha256"], e["tokens"], e["documents"]] for e in info["shards"]]
    return fingerprint([info["dtype"], info["bos"], info["eos"], info["fingerprint"], payloads])


def refuse_other(root: str, storage: StorageOptions, info: Mapping[str, Any], wanted: Any) -> None:
    """See that the store's ids are those of ``wanted``: a Tokenizer, a fingerprint's digest, or a name or path.

    A name or path says which tokenizer, not which policy: BOS and EOS are then the store's own.

    Raises:
        ConfigError: they are another tokenizer's; both are named.
    """
    have: Mapping[str, str] = info["fingerprint"]
    mine = f"{info.get('name', 'a tokenizer')} ({have['digest'][:16]})"
    if isinstance(wanted, str) and re.fullmatch(r"[0-9a-f]{64}", wanted):
        if wanted not in (have["digest"], have.get("content")):
            raise ConfigError(f"{root} holds ids of {mine}, not of the tokenizer with fingerprint {wanted[:16]}")
        return
    keys = ["content", "probe"]
    if not isinstance(wanted, (str, Path)) and not isinstance(getattr(wanted, "fingerprint", None), Mapping):
        raise ConfigError(f"tokenizer {shown(wanted)}: a name, a path, a fingerprint's digest or a Tokenizer")
    if isinstance(wanted, (str, Path)):
        from cleanpipe.tokens.tokenizer import open_tokenizer  # heavy, and here alone needed

        policy = json.loads(open_store(root, storage).read(POLICY))  # how its ranks are split is part of the name
        wanted = open_tokenizer(str(wanted), bos="none", eos="none", pattern=policy.get("pattern", ""))
    else:
        keys.append("policy")
    asked: Mapping[str, str] = wanted.fingerprint
    for key in keys:
        if have.get(key) != asked.get(key):
            why = {
                "content": "another content",
                "probe": "another result on the probe text",
                "policy": "another policy",
            }
            named = f"{wanted.name} ({asked['digest'][:16]})"
            raise ConfigError(
                f"{root} holds ids of {mine}, not of {named}: {why[key]}; tokenize again, or name its own"
            )


def whole(root: str, storage: StorageOptions) -> None:
    """Prove every file that the manifest names.

    Raises:
        DamagedFileError: one is gone or changed; the first is named, with the documents and URLs in a damaged payload.
    """
    from cleanpipe.brought import brought
    from cleanpipe.tokens.store.verify import proven

    with brought(root, storage) as folder:
        findings = proven(folder)
        for name, what in findings:
            more = [also for file, also in islice(findings, 1) if file == name]  # of a payload: the block, whose it is
            raise DamagedFileError("; ".join([what, *more]), source=name)
