"""What workers do for a token store: prove the backend, look where documents lie, encode a shard, join its spans.

The engine finds these functions by their import paths. Each publishes its outputs and returns a small dict.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cleanpipe import batch as col
from cleanpipe.engine.base import Context, Result, Task, Watch
from cleanpipe.engine.commit import Units, row_file
from cleanpipe.errors import ConfigError, ShardError
from cleanpipe.io.arrow import RowFile, TableWriter
from cleanpipe.tokens.layout import SPAN_COLUMNS
from cleanpipe.tokens.making import ledger, spans
from cleanpipe.tokens.making.decided import by_shard
from cleanpipe.tokens.making.documents import NEEDED, documents_of
from cleanpipe.tokens.making.encoding import REFERENCE, Differs, Encoder
from cleanpipe.tokens.making.opened import backend_of, proof_of, tokenizer_of
from cleanpipe.tokens.making.shard import ShardMaking
from cleanpipe.tokens.making.source import DATA, run_file
from cleanpipe.tokens.making.trust import used, wrong_ids

PROVE, MAP, ENCODE, SPANS = (f"{__name__}:{n}" for n in ("prove", "map_ledger", "encode_shard", "join_spans"))
_KNOWN = pa.schema([
    (col.DOC_ID, col.ID), (col.CONTENT_ID, col.ID), (col.RECORD_LENGTH, pa.int64()), (col.OFFSET_KIND, pa.string()),
    (col.CHARS_OUT, pa.int64()), (col.WINDOWS, pa.int32()), (spans.CLUSTER, SPAN_COLUMNS[spans.CLUSTER]),
])  # fmt: skip
PROVEN_TEXTS, PROVEN_BYTES = 200, 2 << 20  # of the first shard, before anything is encoded


def prove(context: Context, task: Task, watch: Watch) -> Result:  # noqa: ARG001
    """The backend against the reference. args: run, shard, facts, digest, backend, device."""
    args, texts, size = task.args, list[str](), 0
    if args["shard"]:
        with run_file(args["run"], context.recipe.storage, DATA + args["shard"], args["facts"]) as path:
            for piece in documents_of(_batches(path, args["shard"])):
                for text in piece.texts:
                    if text and size < PROVEN_BYTES and len(texts) < PROVEN_TEXTS:
                        texts.append(text.strip())
                        size += len(text)
                if size >= PROVEN_BYTES or len(texts) >= PROVEN_TEXTS:
                    break
    proof = proof_of(context, args["digest"], args["backend"], args["device"], texts, args["splitters"])
    return {"files": {}, "proof": json.loads(json.dumps(proof, default=str))}


def map_ledger(context: Context, task: Task, watch: Watch) -> Result:
    """Which parts of the run's ledger tell of which shard. args: run, parts [[name, facts], …], said (decisions that
    leave documents out). Result: ``shards`` {shard: [parts]}, ``hits`` {shard: [lines]}.
    """
    names = [col.DOC_ID, col.CONTENT_ID, col.URL, col.SHARD] if task.args["said"] else [col.SHARD]
    shards: dict[str, list[str]] = {}
    hits: dict[str, set[int]] = {}
    for at, (name, facts) in enumerate(task.args["parts"]):
        watch.at(at, 0)
        with run_file(task.args["run"], context.recipe.storage, name, facts) as path, pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                table = file.read_row_group(group, columns=names)
                for shard in pc.unique(pc.drop_null(table.column(col.SHARD))).to_pylist():
                    if name not in shards.setdefault(shard, []):
                        shards[shard].append(name)
                for shard, lines in by_shard(task.args["said"], table).items():
                    hits.setdefault(shard, set()).update(lines)
    found = {shard: sorted(lines) for shard, lines in hits.items()}
    result: Result = {"files": {}, "shards": shards, "hits": found}
    return Units(context.store, "map").commit(task.key, result)


def encode_shard(context: Context, task: Task, watch: Watch) -> Result:
    """A shard of the run as a payload of tokens; its rows and documents wait for the run's ledger.

    args: run, shard, facts, name, digest (of the tokenizer), backend, device, per_window, said (decisions that hit
    documents of this shard); and what earlier tries taught (engine/base.py).
    """
    args = task.args
    tokenizer = tokenizer_of(context, args["digest"])
    reference, *_ = backend_of(context, args["digest"], REFERENCE, "cpu")
    backend, unable, differs = backend_of(context, args["digest"], args["backend"], args["device"], args["splitters"])
    if backend.name == reference.name:
        backend = reference
    told = {"unable": unable, "differs": differs}
    with run_file(args["run"], context.recipe.storage, DATA + args["shard"], args["facts"]) as path:
        try:
            return _encode(context, task, watch, path, Encoder(tokenizer, backend, reference), told)
        except Differs as found:
            told["differs"] = str(found)
        return _encode(context, task, watch, path, Encoder(tokenizer, reference, reference), told)


def _encode(context: Context, task: Task, watch: Watch, path: Any, encoder: Encoder, told: Mapping[str, str]) -> Result:
    with _reader(path, task.label) as reader:
        schema = reader.schema
    if lacking := [n for n in (*NEEDED, *ledger.OF_SHARD) if n not in schema.names]:
        raise ShardError(f"has no column {lacking[0]!r}: is it a shard of a run?", source=task.label)
    ids = pa.chunked_array([b.column(col.DOC_ID) for b in _batches(path, task.label)], col.ID)
    if ids.null_count:
        who = f"{ids.null_count:,} row{'s' * (ids.null_count != 1)} without a {col.DOC_ID}"
        raise ShardError(f"has {who}: it is damaged; see `cleanpipe verify` of the run", source=task.label)
    before = used(encoder.backend.facts())
    with ShardMaking(context, task, watch, encoder, schema, ids) as making:
        for piece in documents_of(_batches(path, task.label)):
            making.take(piece)
        facts = used(encoder.backend.facts(), before)
        if encoder.doubtful and (wrong := wrong_ids(facts)):
            raise Differs(wrong)
        result = making.publish()
    return making.units.commit(task.key, {**result, **told, "used": facts})


def _batches(path: Any, shard: str) -> Iterator[pa.RecordBatch]:
    """The rows of a shard, mapped."""
    with _reader(path, shard) as reader:
        yield from reader


@contextmanager
def _reader(path: Any, shard: str) -> Iterator[Any]:
    try:
        with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as reader:
            yield reader
    except pa.ArrowException as error:
        raise ShardError(f"cannot be read as an Arrow stream: {error}", source=shard) from error


def join_spans(context: Context, task: Task, watch: Watch) -> Result:  # noqa: ARG001
    """The spans and the ledger part of a shard that is encoded, with what the run's ledger knows of its documents.

    args: run, shard, name, index, rows, documents (Files), parts [[name, facts], …] of the run's ledger.
    """
    args, store = task.args, context.store
    units = Units(store, "spans")
    attempt = units.attempt()
    with row_file(store, args["documents"]) as file:
        documents = file.table()
        known = _known(context, task)
        _same(documents, known, args["shard"])
        part = ledger.part_name(int(args["index"]))
        published = {
            part: ledger.write_part(
                store, part, ledger.finished(documents, known.column(col.CONTENT_ID), args["name"]), attempt
            )
        }
    name = f"spans/{args['name']}.arrow"
    with row_file(store, args["rows"]) as rows:
        published[name] = _write_spans(context, name, attempt, rows, known)
    record = f"audit/shards/{args['name']}.spans.json"
    about = {"format": 1, "key": task.key, "published": dict(published)}
    published[record] = store.write_json(record, about)
    return units.commit(task.key, {"files": {}, "published": published, "entered": documents.num_rows})


def _write_spans(context: Context, name: str, attempt: str, rows: RowFile, known: pa.Table) -> dict[str, Any]:
    schema = spans.span_schema(rows.schema)
    writer = TableWriter(context.store.draft(name, attempt), schema)
    try:
        for batch in rows.batches():
            place = batch.column(spans.PLACE)
            columns = {n: batch.column(n) for n in batch.schema.names}
            columns |= {n: known.column(n).take(place) for n in spans.LATER}
            arrays = [_array(columns[field.name]).cast(field.type) for field in schema]
            writer.write(pa.RecordBatch.from_arrays(arrays, schema=schema))
        facts = {**writer.close(), "rows": writer.rows}
    finally:
        writer.abandon()
    del facts["name"]
    context.store.publish(writer.path, name, facts)
    return facts


def _array(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _known(context: Context, task: Task) -> pa.Table:
    """What the run's ledger says of the shard's documents, in its order."""
    parts = [_KNOWN.empty_table()]
    for name, facts in task.args["parts"]:
        with run_file(task.args["run"], context.recipe.storage, name, facts) as path:
            names = [n for n in (*_KNOWN.names, ledger.COMPONENT) if n in pq.read_schema(path).names]
            table = pq.read_table(path, columns=[*names, col.SHARD], filters=[(col.SHARD, "=", task.args["shard"])])
            if ledger.COMPONENT in names:
                cluster = table.column(ledger.COMPONENT)
            else:  # no stage of the recipe looks for duplicates
                cluster = pa.nulls(table.num_rows, SPAN_COLUMNS[spans.CLUSTER])
            parts.append(table.append_column(spans.CLUSTER, cluster).select(_KNOWN.names).cast(_KNOWN))
    return pa.concat_tables(parts).combine_chunks()


def _same(documents: pa.Table, known: pa.Table, shard: str) -> None:
    """The shard's documents are the ledger's, in its order, and their texts are those that the run judged.

    Raises:
        ConfigError: they are not: the run is damaged, or its program was at fault.
    """

    def wrong(what: str) -> ConfigError:
        return ConfigError(f"{shard} and the run's ledger do not agree: {what}; see `cleanpipe verify` of the run")

    if documents.num_rows != known.num_rows:
        raise wrong(f"{documents.num_rows:,} documents, {known.num_rows:,} in the ledger")
    pairs = (col.DOC_ID, col.DOC_ID), (col.CONTENT_ID, col.CONTENT_ID), (ledger.CHARS, col.CHARS_OUT)
    broken = pc.fill_null(pc.equal(documents.column(col.REASON), ledger.BROKEN), False)
    for ours, theirs in (*pairs, (col.WINDOWS, col.WINDOWS)):
        same = pc.fill_null(pc.equal(documents.column(ours), known.column(theirs)), False)
        if ours != col.DOC_ID:  # of a broken document nothing is believed but who it is
            same = pc.or_(same, broken)
        if (at := pc.index(same, False).as_py()) >= 0:
            who = documents.column(col.DOC_ID)[at].as_py().hex()
            raise wrong(f"{ours} of document {at:,} ({who}) differs")
