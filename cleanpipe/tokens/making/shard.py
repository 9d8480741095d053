"""One shard of the run on its way to tokens: every document gets a fate, every token a place."""

from __future__ import annotations

import hashlib
import io
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cleanpipe import batch as col
from cleanpipe.engine.base import Context, Result, Task, Watch
from cleanpipe.engine.commit import Units
from cleanpipe.io.arrow import TableWriter
from cleanpipe.tally import Tally, add
from cleanpipe.tokens.audit.roundtrip import order_of, sample_limit
from cleanpipe.tokens.audit.tally import histogram, lost_of, tally_of
from cleanpipe.tokens.audit.told import merge_samples, sample_of
from cleanpipe.tokens.layout import width
from cleanpipe.tokens.making import ledger, spans
from cleanpipe.tokens.making.decided import detail_of, lines_of
from cleanpipe.tokens.making.documents import Piece
from cleanpipe.tokens.making.encoding import Encoder
from cleanpipe.tokens.making.tokens import Tokens, encode_whole, encode_windows
from cleanpipe.tokens.store import PayloadWriter

PROVEN = 1000  # one document of so many is encoded by the reference too
Numbers = npt.NDArray[np.int64]


@dataclass(slots=True)
class _Fates:
    """Of the documents of a piece: fate, reason and detail; and the blanks at their ends that are left out."""

    fates: list[str]
    reasons: list[str | None]
    details: list[str | None]

    def lose(self, at: int, fate: str, reason: str, detail: str | None = None) -> None:
        self.fates[at], self.reasons[at], self.details[at] = fate, reason, detail


class ShardMaking:
    """Takes the shard piece by piece. doc_ids: of all its rows."""

    def __init__(
        self, context: Context, task: Task, watch: Watch, encoder: Encoder, shard: pa.Schema, doc_ids: pa.ChunkedArray
    ) -> None:
        self.args, self.watch, self.encoder, self.tokenizer = task.args, watch, encoder, encoder.tokenizer
        self.units, self.key, attempt = Units(context.store, "encode"), task.key, uuid.uuid4().hex[:12]
        self.attempt = attempt
        store = context.store
        self._schema = spans.work_schema(shard)
        schemas = {"rows": self._schema, "documents": ledger.WORK_SCHEMA}
        self._files = {
            role: TableWriter(store.draft(self.units.name(self.key, attempt, role), attempt), schema)
            for role, schema in schemas.items()
        }
        self._sampled = sample_limit(doc_ids.combine_chunks(), 0) if len(doc_ids) else 0
        self._careful = sorted((int(a), int(a) + int(n)) for a, n in self.args.get("careful", ()))
        self._condemned = {str(k): [str(x) for x in v] for k, v in self.args.get("condemned", {}).items()}
        self._ids = np.zeros(self.tokenizer.vocabulary, np.int64)
        self.tally: Tally = {}
        self.samples: list[dict[str, Any]] = []
        self.counts = dict.fromkeys(("documents", "kept", "windows", "chars", "bytes", "text_bytes", "tokens"), 0)
        self._compared = 0  # documents that the reference has encoded too
        self._places = 0  # documents so far, whatever became of them
        self.payload = PayloadWriter(store, self.args["name"], width(self.tokenizer.vocabulary), attempt)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        for writer in self._files.values():
            writer.abandon()  # no-op once closed
        if kind is not None:
            self.payload.abandon()

    def take(self, piece: Piece) -> None:
        """The next documents."""
        for begin, end, alone in self._cuts(piece.first, piece.first + len(piece)):
            part = piece.part(begin - piece.first, end - piece.first)
            self.watch.at(begin, end - begin, part.firsts(col.DOC_ID)[0].as_py() if alone else None)
            self._part(part)
            self.watch.consumed(self.counts["bytes"])
        self.watch.at(piece.first + len(piece), 0)

    def _cuts(self, start: int, stop: int) -> Iterator[tuple[int, int, bool]]:
        """What an earlier try has learned: documents that are treated one by one."""
        at = start
        for a, b in self._careful:
            a, b = max(a, at), min(b, stop)
            if a >= b:
                continue
            if a > at:
                yield at, a, False
            yield from ((row, row + 1, True) for row in range(a, b))
            at = b
        if at < stop:
            yield at, stop, False

    def _part(self, piece: Piece) -> None:
        n = len(piece)
        contents = [None if t is None else hashlib.sha256(t.encode()).digest()[:16] for t in piece.texts]
        fates = self._fates(piece, contents)
        bodies = [(t or "").strip() for t in piece.texts]
        for at, body in enumerate(bodies):
            if not body and fates.fates[at] == col.KEPT:
                fates.lose(at, col.DROPPED, ledger.EMPTY)
        alive = [at for at in range(n) if fates.fates[at] == col.KEPT]
        leads = [len(t) - len(t.lstrip()) if t else 0 for t in piece.texts]
        encode = encode_windows if self.args["per_window"] else encode_whole
        found = encode(self.encoder, piece, alive, bodies, leads)
        for at, why in found.refused.items():
            fates.lose(at, col.QUARANTINED, why.reason, why.detail)
        self._prove(piece, found)
        self._write(piece, found, fates, bodies, leads, contents)

    def _fates(self, piece: Piece, contents: list[bytes | None]) -> _Fates:
        n = len(piece)
        fates = _Fates([col.KEPT] * n, [None] * n, [None] * n)
        for at, text in enumerate(piece.texts):
            if text is None:
                fates.lose(at, col.QUARANTINED, ledger.BROKEN)
        ids = piece.firsts(col.DOC_ID)
        if self.args["said"]:
            columns = [ids, pa.array(contents, col.ID), piece.firsts(col.URL)]
            known = pa.RecordBatch.from_arrays(columns, names=[col.DOC_ID, col.CONTENT_ID, col.URL])
            for at, line in enumerate(lines_of(self.args["said"], known)):
                if line is not None:
                    fates.lose(at, col.QUARANTINED, ledger.DECISION, detail_of(line))
        if self._condemned:
            for at, identity in enumerate(ids.to_pylist()):
                if identity is not None and (why := self._condemned.get(identity.hex())) is not None:
                    fates.lose(at, col.QUARANTINED, ledger.LIMIT, ": ".join(why[:2]))
        return fates

    def _prove(self, piece: Piece, found: Tokens) -> None:
        """Documents that a hash chooses, encoded by the reference too: one at least of every shard that has any."""
        if not self.encoder.doubtful or not found.documents:
            return
        ids = piece.firsts(col.DOC_ID).take(pa.array(found.documents))
        order = order_of(ids, 1)
        chosen = set(np.flatnonzero(order % np.uint64(PROVEN) == 0).tolist())
        if not self._compared:
            chosen.add(int(np.argmin(order)))
        self._compared += len(chosen)
        for at in sorted(chosen):
            for text, own in found.texts_of(at):
                self.encoder.prove(ids[at].as_py(), text, own)

    def _write(
        self,
        piece: Piece,
        found: Tokens,
        fates: _Fates,
        bodies: list[str],
        leads: list[int],
        contents: list[bytes | None],
    ) -> None:
        bos, eos = self.tokenizer.bos, self.tokenizer.eos
        extra = (bos is not None) + (eos is not None)
        kept = np.array(found.documents, np.int64)
        lengths = found.lengths + extra
        before = self.counts["tokens"]
        ends = np.cumsum(lengths)
        self.payload.add(found.with_marks(bos, eos), ends)
        begins = before + ends - lengths
        number = self.counts["kept"] + np.arange(len(kept))
        self._write_rows(piece, found, kept, begins, lengths, number, leads)
        self._write_documents(piece, kept, lengths, number, fates, contents)
        self._count(piece, found, kept, fates, bodies)
        self._places += len(piece)

    def _write_rows(
        self,
        piece: Piece,
        found: Tokens,
        kept: Numbers,
        begins: Numbers,
        lengths: Numbers,
        number: Numbers,
        leads: list[int],
    ) -> None:
        counts = np.diff(piece.starts)
        rows = np.flatnonzero(np.repeat(np.isin(np.arange(len(piece)), kept), counts))
        each = counts[kept]
        mark = int(self.tokenizer.bos is not None)
        columns = {
            spans.PLACE: np.repeat(self._places + kept, each),
            spans.DOCUMENT: np.repeat(number, each),
            spans.TOKEN_START: np.repeat(begins + mark, each) + found.rows("start"),
            spans.TOKEN_COUNT: found.rows("count"),
            spans.TOKEN_OVERLAP: found.rows("overlap"),
            spans.DOC_START: np.repeat(begins, each),
            spans.DOC_TOKENS: np.repeat(lengths, each),
            spans.STRIPPED: np.repeat(np.array(leads, np.int64)[kept], each),
        }
        names = [n for n in self._schema.names if n in piece.rows.schema.names]
        chosen = piece.rows.select(names).take(pa.array(rows))
        self._files["rows"].write(spans.work_rows(chosen, columns, self._schema))

    def _write_documents(
        self,
        piece: Piece,
        kept: Numbers,
        lengths: Numbers,
        number: Numbers,
        fates: _Fates,
        contents: list[bytes | None],
    ) -> None:
        n = len(piece)
        tokens, numbers = np.full(n, -1, np.int64), np.full(n, -1, np.int64)
        tokens[kept], numbers[kept] = lengths, number
        none = tokens < 0
        columns = {name: piece.firsts(name) for name in ledger.OF_SHARD}
        columns |= {
            col.CONTENT_ID: pa.array(contents, col.ID),
            ledger.CHARS: pa.array(_chars(piece)),
            ledger.BYTES: pa.array(_sizes(piece)),
            col.WINDOWS: pa.array(np.diff(piece.starts)),
            ledger.TOKENS: pa.array(tokens, mask=none),
            col.FATE: pa.array(fates.fates),
            col.REASON: pa.array(fates.reasons, pa.string()),
            ledger.DETAIL: pa.array(fates.details, pa.string()),
            spans.DOCUMENT: pa.array(numbers, mask=none),
        }
        arrays = [columns[f.name].cast(f.type) for f in ledger.WORK_SCHEMA]
        self._files["documents"].write(pa.RecordBatch.from_arrays(arrays, schema=ledger.WORK_SCHEMA))

    def _count(self, piece: Piece, found: Tokens, kept: Numbers, fates: _Fates, bodies: list[str]) -> None:
        windows, chars, sizes = np.diff(piece.starts), _chars(piece), _sizes(piece)
        stripped = int(chars[kept].sum()) - sum(len(bodies[at]) for at in kept.tolist())
        chosen = pa.array(kept)
        languages = piece.firsts(col.LANGUAGE).take(chosen).to_pylist()
        ids = piece.firsts(col.DOC_ID).take(chosen)
        if len(kept):
            known = {"doc_ids": ids, "urls": piece.firsts(col.URL).take(chosen).to_pylist(), "languages": languages}
            some = sample_of(self.tokenizer, found.ids, np.cumsum(found.lengths), **known)
            self.samples = [dict(s) for s in merge_samples([self.samples, some])]
        add(
            self.tally,
            tally_of(
                self.tokenizer,
                found.texts,
                found.ids,
                found.ends,
                doc_ids=ids,
                languages=languages,
                windows=windows[kept],
                stripped=stripped,
                bos=self.tokenizer.bos is not None,
                eos=self.tokenizer.eos is not None,
                sample_limit=self._sampled,
                **found.facts(),
            ),
        )
        for at, (fate, reason) in enumerate(zip(fates.fates, fates.reasons, strict=True)):
            if fate != col.KEPT:
                lost = lost_of(
                    fate,
                    str(reason),
                    windows=int(windows[at]),
                    characters=int(chars[at]),
                    bytes_=int(sizes[at]),
                )
                add(self.tally, lost)
        self._ids += histogram(found.ids, len(self._ids))
        extra = (self.tokenizer.bos is not None) + (self.tokenizer.eos is not None)
        more = {
            "documents": len(piece),
            "kept": len(kept),
            "windows": int(windows[kept].sum()),
            "chars": int(chars.sum()),
            "bytes": int(piece.rows.nbytes),
            "text_bytes": int(sizes.sum()),
            "tokens": len(found.ids) + extra * len(kept),
        }
        add(self.counts, more)

    def publish(self) -> Result:
        """All of it, durable; the unit's result."""
        store = self.units.store
        files = {}
        for role, writer in self._files.items():
            facts = {**writer.close(), "name": self.units.name(self.key, self.attempt, role)}
            store.publish(writer.path, facts["name"], facts)
            files[role] = facts
        name = self.args["name"]
        published = dict(self.payload.close())
        ids = io.BytesIO()
        np.save(ids, self._ids, allow_pickle=False)
        counts = {k: v for k, v in self.counts.items() if k != "bytes"}
        published[f"audit/shards/{name}.ids.npy"] = store.write(f"audit/shards/{name}.ids.npy", ids.getvalue())
        about = {"format": 1, "key": self.key, "name": name, "counts": counts, "tally": self.tally}
        about |= {"samples": self.samples, "published": dict(published)}
        published[f"audit/shards/{name}.json"] = store.write_json(f"audit/shards/{name}.json", about)
        return {
            "files": files,
            "published": published,
            "counts": counts,
            "name": name,
            "entered": counts["documents"],
            "rows": counts["kept"],
            "aside": counts["documents"] - counts["kept"],
            "tokens": counts["tokens"],
            "rescued": self.encoder.rescued,
            "backend": self.encoder.backend.name,
            "compared": self._compared,
        }


def _chars(piece: Piece) -> Numbers:
    """Code points of each document: what its windows repeat is not counted."""
    own = np.maximum(piece.numbers(col.LENGTH), 0) - np.maximum(piece.numbers(col.OVERLAP), 0)
    return np.add.reduceat(own, piece.starts[:-1])


def _sizes(piece: Piece) -> Numbers:
    """Bytes of each document in UTF-8; of a broken one those of its rows."""
    rows = pc.fill_null(pc.binary_length(piece.rows.column(col.TEXT)), 0).to_numpy(zero_copy_only=False)
    out = np.add.reduceat(rows.astype(np.int64), piece.starts[:-1])
    for at in np.flatnonzero(np.diff(piece.starts) > 1).tolist():
        text = piece.texts[at]
        if text is not None:
            out[at] = len(text) if text.isascii() else len(text.encode())
    return out
