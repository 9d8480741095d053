"""Facts that the audit tells as they are: the tokenizer's card, the backend's proof, round trips, samples."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cleanpipe.audit.lines import share
from cleanpipe.tokens.audit.roundtrip import order_of
from cleanpipe.tokens.audit.vocabulary import piece_of
from cleanpipe.tokens.layout import width

FAILURES = 50  # round trips that are shown
SAMPLES, PIECES = 8, 48  # documents that are shown, and tokens of each
UNK_ELSEWHERE = ("tokens that are a literal <unk>", "2.3 %")
WINDOW_ELSEWHERE = ("a sequence of 4,096 filled by one window of 2,048 characters, without packing", "12 %")


def card(tokenizer: Any) -> dict[str, Any]:
    """What the tokenizer is."""
    controls = dict(sorted(tokenizer.controls.items(), key=lambda item: (item[1], item[0])))
    return {
        "name": tokenizer.name,
        "kind": tokenizer.kind,
        "vocabulary": tokenizer.vocabulary,
        "bytes_an_id": np.dtype(width(tokenizer.vocabulary)).itemsize,
        "fingerprint": dict(tokenizer.fingerprint),
        "lossless": bool(tokenizer.lossless),
        "bos": tokenizer.bos,
        "eos": tokenizer.eos,
        "unk": tokenizer.unk,
        "byte_ids": len(tokenizer.byte_ids),
        "controls": controls,
    }


def proof_of(proof: Any) -> dict[str, Any]:
    """How the backend was chosen, as plain data."""
    if dataclasses.is_dataclass(proof) and not isinstance(proof, type):
        proof = dataclasses.asdict(proof)
    plain: dict[str, Any] = json.loads(json.dumps(dict(proof or {}), sort_keys=True, default=_plain))
    return plain


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else list(value)


def round_trips(tally: Mapping[str, Any], tokenizer: Any) -> dict[str, Any]:
    """How many of the sampled documents came back as they were, and the first that did not."""
    failed = sorted(json.loads(key) for key in tally.get("failed", {}))
    documents = tally.get("documents", 0)
    lossy = "" if tokenizer.lossless else "the tokenizer is lossy: it normalizes text or has no id for some of it"
    return {
        "documents": documents,
        "characters": tally.get("characters", 0),
        "failed": share(len({f[0] for f in failed}), documents, "sampled documents"),
        "failures": [dict(zip(("doc_id", "at", "text", "back"), f, strict=True)) for f in failed[:FAILURES]],
        "lossy": lossy,
    }


def sample_of(
    tokenizer: Any,
    ids: npt.NDArray[np.uint32],
    ends: npt.NDArray[np.int64],
    *,
    doc_ids: pa.Array,
    urls: Sequence[str | None],
    languages: Sequence[str | None],
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Documents of a batch that may be shown: the first in the order of ``roundtrip.order_of``, at most SAMPLES.

    Args:
        ids, ends: of whole documents, one after another (of windows: of all windows of each document).
        doc_ids, urls, languages: of each document.
    """
    order = order_of(doc_ids, seed + 1)  # not those that are decoded again: more documents are looked at
    out = []
    for i in np.argsort(order, kind="stable")[:SAMPLES].tolist():
        begin = int(ends[i - 1]) if i else 0
        some = ids[begin : min(int(ends[i]), begin + PIECES)].tolist()
        out.append({
            "order": int(order[i]), "doc_id": doc_ids[i].as_py().hex(), "url": urls[i], "language": languages[i],
            "tokens": int(ends[i]) - begin, "ids": some, "pieces": [piece_of(tokenizer, t) for t in some],
        })  # fmt: skip
    return out


def merge_samples(parts: Iterable[Sequence[Mapping[str, Any]]]) -> list[Mapping[str, Any]]:
    """The first SAMPLES of many batches or shards, in any order of these."""
    return sorted((s for part in parts for s in part), key=lambda s: (s["order"], s["doc_id"]))[:SAMPLES]
