"""Proof from the archive: the record is read again and treated by the run's stages, and what a token stands for must be
in the text that comes out, where the store says.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cleanpipe import batch as col
from cleanpipe.options import StorageOptions
from cleanpipe.queries.lookup import Finder
from cleanpipe.queries.moved import uris_now
from cleanpipe.queries.replay import Replay, Replayer
from cleanpipe.queries.shelf import open_shelf
from cleanpipe.tokens.tracing.characters import Characters, body_of, characters, together
from cleanpipe.tokens.tracing.origin import Origin

if TYPE_CHECKING:
    from cleanpipe.tokens.backend import Backend
    from cleanpipe.tokens.store import TokenStore
    from cleanpipe.tokens.tokenizer import Tokenizer
    from cleanpipe.tokens.tracing.token import Traced

_HERE = StorageOptions()
_TEXTS = 64  # replayed documents that are kept


@dataclass(frozen=True, slots=True)
class Proof:
    """same: the archive gives what the store holds. how: what was compared. characters: of the tokens, better known
    than from the store alone where its tokenizer is lossy. text: these characters, as the archive gives them. wrong: in
    what it is not so, or why nothing could be proven.
    """

    same: bool
    how: str = ""
    characters: Characters | None = None
    text: str = ""
    wrong: tuple[str, ...] = ()


@dataclass(slots=True)
class Prover:
    """Re-reads documents of one run, each once."""

    finder: Finder
    replayer: Replayer
    _texts: OrderedDict[str, Replay | None] = field(default_factory=OrderedDict)

    def replay(self, doc_id: str) -> Replay | None:
        """The document again; None for one that the run's ledger does not know."""
        if doc_id not in self._texts:
            row = self.finder.row_of(bytes.fromhex(doc_id))
            self._texts[doc_id] = None if row is None else self.replayer.replay(row)
            while len(self._texts) > _TEXTS:
                self._texts.popitem(last=False)
        return self._texts[doc_id]

    def token(self, store: TokenStore, tokenizer: Tokenizer, traced: Traced) -> Proof:
        """Of a traced token."""
        return self.range(store, tokenizer, traced.origin, traced.token, traced.token + 1)

    def range(self, store: TokenStore, tokenizer: Tokenizer, origin: Origin, start: int, stop: int) -> Proof:
        """That global tokens start ≤ t < stop of one document are in the text that its record gives.

        Of a lossless tokenizer their bytes must lie at their characters; of another one the whole text is encoded
        again, and must give the ids that the store has. BOS and EOS prove the document alone.
        """
        at = characters(store, origin, start, stop, tokenizer)
        done = self.replay(origin.doc_id)
        if done is None:
            return Proof(False, characters=at, wrong=(f"the run's ledger has no document {origin.doc_id}",))
        if done.undone or done.text is None:
            return Proof(False, characters=at, wrong=(done.undone or "the replay gave no text",))
        wrong = [f"{d.column}: {d.ledger!r} in the ledger, {d.replay!r} in the replay" for d in done.differences]
        if (found := done.row.get(col.CONTENT_ID)) is not None and found.hex() != origin.content_id:
            wrong.append(f"content_id: {origin.content_id} in the store, {found.hex()} in the replay")
        how = "the document is the same"
        if at is not None and not 0 <= at.begin <= at.end <= len(done.text):
            wrong.append(f"characters {at.begin:,} to {at.end:,} of a text of {len(done.text):,}")
        elif at is not None and at.exact:
            how = "the archive gives the same bytes"
            wrong += _other_bytes(store, tokenizer, origin, start, stop, done.text)
        elif at is not None and not store.info.get("per_window"):
            how = "the archive's text, encoded again, gives the same ids"
            try:
                better = _encoded(store, tokenizer, origin, start, stop, done.text)
            except Exception as error:  # of a foreign library: nothing is proven
                wrong.append(f"the archive's text cannot be encoded again: {type(error).__name__}: {error}")
            else:
                at = better or at
                if better is None:
                    wrong.append("the archive's text, encoded again, gives other ids")
        text = "" if at is None else done.text[at.begin : at.end]
        return Proof(not wrong, how, at, text, tuple(wrong))


def _other_bytes(
    store: TokenStore, tokenizer: Tokenizer, origin: Origin, start: int, stop: int, text: str
) -> Iterator[str]:
    """Where the bytes of tokens are not those of their characters."""
    for a, b in together(store, origin, start, stop):
        at = characters(store, origin, a, b, tokenizer)
        ours = b"".join(map(tokenizer.token_bytes, store.read(a, b).tolist()))
        theirs = b"" if at is None else at.bytes_in(text)
        if ours != theirs:
            short = min(len(ours), len(theirs))
            apart = next((i for i in range(short) if ours[i] != theirs[i]), short)
            near, where = slice(max(0, apart - 20), apart + 20), f"byte {apart:,} of tokens {a:,} to {b:,}"
            yield f"{ours[near]!r} in the store, {theirs[near]!r} in the replay ({where})"


def _encoded(
    store: TokenStore, tokenizer: Tokenizer, origin: Origin, start: int, stop: int, text: str
) -> Characters | None:
    """The characters by the reference's own offsets; None where it gives other ids than the store has."""
    low, high = body_of(store, origin)
    start, stop = max(start, low), min(stop, high)
    body = text.strip()
    found = _reference(tokenizer).encode([body], starts=True)
    if found.starts is None or not np.array_equal(found.ids, store.read(low, high)):
        return None
    base = len(text) - len(text.lstrip())
    first, last = found.starts[start - low], found.starts[stop - 1 - low]
    behind = found.starts[stop - low :]
    behind = behind[behind > last]
    return Characters(base + int(first), base + (int(behind[0]) if len(behind) else len(body)))


@lru_cache(maxsize=2)
def _reference(tokenizer: Tokenizer) -> Backend:
    from cleanpipe.tokens.backends import reference  # lazily: it loads libraries

    return reference(tokenizer)


@contextmanager
def open_prover(run: str | Path, inputs: Sequence[str] = (), storage: StorageOptions = _HERE) -> Iterator[Prover]:
    """Open a run to prove from its archives. inputs: where they lie now, if they were moved.

    Raises:
        ConfigError: there is no run, or it is damaged.
    """
    with open_shelf(run, storage) as shelf:
        finder = Finder(shelf)
        yield Prover(finder, Replayer(shelf.run, uris_now(shelf.run, inputs, storage), finder.row_of))
