"""Work of a job whose backend "fast" lies after it was proven: named by import path, so that workers of every engine
find it. What it lies about stands in the environment.
"""

import hashlib
import os

from cleanpipe.tokens.backend import Backend, Encoded
from cleanpipe.tokens.making import work

SHARE, PANICS = "TEST_LYING_SHARE", "TEST_PANICS_ON"  # of 256 texts how many are wrong; a word that nobody can encode
ENCODE, PROVE = f"{__name__}:encode_shard", f"{__name__}:prove"


class PanicException(BaseException):
    """As packages in Rust raise them."""


class Lying(Backend):
    """The reference, but for a share of the texts, by their digests."""

    def __init__(self, truth, name, share):
        self.truth, self.name, self.share = truth, name, share

    def encode(self, texts, *, starts=False):
        panics = os.environ.get(PANICS)
        if panics and any(panics in text for text in texts):
            raise PanicException(f"no {panics} here\nnote: run with RUST_BACKTRACE=1")
        found = self.truth.encode(texts, starts=starts)
        ids, begin = found.ids.copy(), 0
        for text, end in zip(texts, found.ends.tolist(), strict=True):
            if end > begin and is_wrong(text, self.share):
                ids[begin] = (ids[begin] + 1) % 1000
            begin = end
        return Encoded(ids, found.ends, found.starts, found.stops)

    def facts(self):
        return {"calls": 1}


def is_wrong(text, share):
    """Whether such a backend lies about a text."""
    return hashlib.md5(text.encode(), usedforsecurity=False).digest()[0] < share


def encode_shard(context, task, watch):
    """``work.encode_shard`` with it."""
    real, share = work.backend_of, int(os.environ.get(SHARE, "0"))

    def backend_of(context, digest, name, device, splitters=None):
        truth, *why = real(context, digest, "hf", "cpu")
        return (Lying(truth, name, 0 if name == "hf" else share), *why)

    work.backend_of = backend_of
    try:
        return work.encode_shard(context, task, watch)
    finally:
        work.backend_of = real


def prove(context, task, watch):
    """It is believed."""
    used = "fast" if task.args["backend"] == "auto" else task.args["backend"]
    return {"files": {}, "proof": {"asked": task.args["backend"], "used": used, "reason": ""}}
