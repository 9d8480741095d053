"""Backends that lie, texts that nobody can encode, documents that end their worker: each costs itself."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from token_runs import made_run, small_crawl, tokens, tree

from cleanpipe import batch as col
from cleanpipe.engine.base import Watch
from cleanpipe.errors import ShardError
from cleanpipe.io.arrow import write_shard
from cleanpipe.observer import Observer
from cleanpipe.tokens.backend import Backend, Encoded
from cleanpipe.tokens.backends import open_backend
from cleanpipe.tokens.making import driver, opened, shard, work
from cleanpipe.tokens.store import open_tokens

TOLD = ("run.json", "manifest.json", "store.json", "audit/audit.json", "audit/audit.md", "audit/audit.html")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokens")
    made_run(small_crawl(folder / "crawl"), folder / "out")
    tokens(folder / "out", folder / "tokens")
    return folder


class Lying(Backend):
    """The reference, but for texts with a word in them."""

    name = "fast"

    def __init__(self, truth, word, lie):
        self.truth, self.word, self.lie = truth, word, lie

    def encode(self, texts, *, starts=False):
        found = self.truth.encode(texts, starts=starts)
        ids = found.ids.copy()
        for at, text in enumerate(texts):
            if self.word in text:
                begin = int(found.ends[at - 1]) if at else 0
                if isinstance(self.lie, Exception):
                    raise self.lie
                ids[begin] = self.lie
        return Encoded(ids, found.ends, found.starts)


class Told(Observer):
    def __init__(self):
        self.lines = []

    def warn(self, message):
        self.lines.append(message)


@pytest.fixture
def lying(monkeypatch):
    """Has every worker use such a backend where "fast" is asked for; it was proven before it began to lie."""

    def make(word, lie, *, reference=True):
        real = opened.backend_of

        def backend_of(context, digest, name, device, splitters=None):
            truth = open_backend(opened.tokenizer_of(context, digest), "hf")[0]
            if name == "hf" and reference:
                return real(context, digest, name, device, splitters)
            return Lying(truth, word, lie), "", ""

        monkeypatch.setattr(work, "backend_of", backend_of)
        proof = {"asked": "fast", "used": "fast", "reason": ""}
        monkeypatch.setattr(work, "proof_of", lambda *_: proof)

    return make


def fates(store):
    parts = sorted((store / "ledger").glob("part-*.parquet"))
    return {r["url"]: (r["fate"], r["reason"]) for r in pa.concat_tables(map(pq.read_table, parts)).to_pylist()}


def test_one_differing_id_and_the_reference_does_every_shard(made, tmp_path, lying, monkeypatch):
    lying("harbour pilot", 5)
    monkeypatch.setattr(shard, "PROVEN", 1)  # every document is compared
    told = Told()
    result = tokens(made / "out", tmp_path / "tokens", backend="fast", observer=told)
    assert tree(tmp_path / "tokens", without=TOLD) == tree(made / "tokens", without=TOLD)
    assert list(result.facts["differing_shards"]) == ["data-00000-of-" + result.info["shards"][0]["shard"][-11:]]
    assert any("differs from the reference" in line and "hf makes again" in line for line in told.lines)
    assert result.info["backend"]["used"] == "hf"


@pytest.mark.parametrize("lie", [16_368, 16_384, 4_000_000_000, ValueError("no")])
def test_what_cannot_be_right_the_reference_does(made, tmp_path, lying, lie):
    """A control's id, ids beyond the vocabulary, an error: seen on every document, compared or not."""
    lying("水先人", lie)
    result = tokens(made / "out", tmp_path / "tokens", backend="fast")
    assert tree(tmp_path / "tokens", without=TOLD) == tree(made / "tokens", without=TOLD)
    failed = isinstance(lie, Exception)
    assert result.facts["rescued_texts"] == (1 if failed else 0)
    assert result.info["backend"]["used"] == ("fast" if failed else "hf")


@pytest.mark.parametrize(
    ("lie", "reason"),
    [(16_369, "control_id"), (20_000, "id_out_of_range"), (RuntimeError("no"), "encoding_failed")],
)
@pytest.mark.parametrize("per_window", [False, True])
def test_what_nobody_can_encode_costs_one_document(made, tmp_path, lying, lie, reason, per_window):
    lying("水先人", lie, reference=False)
    result = tokens(made / "out", tmp_path / "tokens", backend="fast", per_window=per_window)
    found = fates(tmp_path / "tokens")
    assert {u: f for u, f in found.items() if f[0] != "kept"} == {
        "http://japanese.example.org/": ("quarantined", reason)
    }
    (gate,) = result.gates  # it is accounted for, but one of so few is more than one in a hundred
    assert gate.startswith(f"quarantined: 1 of {len(found)} documents could not be encoded ({reason})")
    assert result.exit_code == 1
    store = open_tokens(tmp_path / "tokens", check="all")
    assert store.documents == len(found) - 1
    assert int(np.isin(store.read(0, store.tokens), [16_369]).sum()) == store.documents  # each EOS is ours


class Seen(Watch):
    def __init__(self):
        self.places = []

    def at(self, first, count, doc_id=None):
        self.places.append((first, count, doc_id))


@pytest.fixture
def unit(made, tmp_path, monkeypatch):
    """One shard's task, as the driver makes it, and a way to do it with other args."""
    found = []
    real = work.encode_shard

    def caught(context, task, watch):
        found.append((context, task))
        return real(context, task, watch)

    monkeypatch.setattr(work, "encode_shard", caught)
    tokens(made / "out", tmp_path / "tokens")
    context, task = next((c, t) for c, t in found if t.label.startswith("data-00000"))
    monkeypatch.undo()

    def again(**more):
        from dataclasses import replace

        watch = Seen()
        other = replace(task, args={**task.args, **more}, key="0" * 31 + str(len(more)))
        for name, data in opened.tokenizer_files(context.store).items():
            context.store.write(f"tokenizer/{name}", data)
        return work.encode_shard(context, other, watch), watch, context.store

    return again


def test_a_document_that_ends_its_worker_is_found_alone_and_set_aside(unit):
    plain, watch, store = unit()
    n = plain["counts"]["documents"]
    assert watch.places == [(0, n, None), (n, 0, None)]
    payload = store.read(f"tokens/{plain['name']}.bin")
    careful, watch, _ = unit(careful=[[0, n]])
    assert [p[:2] for p in watch.places] == [*((i, 1) for i in range(n)), (n, 0)]
    alone = [p[2] for p in watch.places[:-1]]
    assert len(set(alone)) == n
    assert careful["counts"] == plain["counts"]
    assert store.read(f"tokens/{plain['name']}.bin") == payload  # alone or in company, the same ids
    less, _, _ = unit(careful=[[1, 1]], condemned={alone[1].hex(): ["MemoryGuard", "used 5 GB of memory"]})
    assert less["counts"]["kept"] == n - 1
    with store.fetch(less["files"]["documents"]["name"]) as path:
        rows = pa.ipc.open_file(pa.memory_map(str(path))).read_all().to_pylist()
    assert [(r["fate"], r["reason"], r["detail"]) for r in rows if r["doc_id"] == alone[1]] == [
        ("quarantined", "resource_limit", "MemoryGuard: used 5 GB of memory")
    ]
    assert all(r["fate"] == "kept" for r in rows if r["doc_id"] != alone[1])


def test_a_document_of_blanks_alone_is_dropped(unit, made):
    name = "data-00000-of-00001.arrow"
    source = next(p for p in sorted((made / "out" / "data").glob("*.arrow")) if b"Salt is raked" in p.read_bytes())
    table = pa.ipc.open_stream(source.read_bytes()).read_all()
    texts = table.column(col.TEXT).to_pylist()
    at = next(i for i, text in enumerate(texts) if text.startswith("Salt is raked"))
    texts[at] = " \n\t" + " " * (len(texts[at]) - 3)
    field = table.schema.field(col.TEXT)
    table = table.set_column(table.schema.get_field_index(col.TEXT), field, pa.array(texts, field.type))
    (made / "blank" / "data").mkdir(parents=True, exist_ok=True)
    facts = write_shard(made / "blank" / "data" / name, table.schema, table.to_batches())
    result, _, store = unit(run=str(made / "blank"), shard=name, facts=facts)
    assert result["counts"]["kept"] == result["counts"]["documents"] - 1
    with store.fetch(result["files"]["documents"]["name"]) as path:
        rows = pa.ipc.open_file(pa.memory_map(str(path))).read_all().to_pylist()
    lost = [(r["url"], r["fate"], r["reason"], r["tokens"]) for r in rows if r["fate"] != "kept"]
    assert lost == [("http://short.example.org/", "dropped", "empty", None)]


def test_a_shard_that_is_no_arrow_stream_is_an_input_that_failed(unit, tmp_path, made):
    import hashlib

    (made / "bad" / "data").mkdir(parents=True)
    data = b"not arrow at all"
    (made / "bad" / "data" / "data-00000-of-00001.arrow").write_bytes(data)
    facts = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    with pytest.raises(ShardError, match="cannot be read as an Arrow stream"):
        unit(run=str(made / "bad"), shard="data-00000-of-00001.arrow", facts=facts)
    with pytest.raises(ShardError, match="cleanpipe verify"):
        unit(run=str(made / "bad"), shard="data-00000-of-00001.arrow", facts={**facts, "sha256": "0" * 64})


def test_a_row_without_an_identity_is_said_in_plain_words(unit, made):
    name = "data-00000-of-00001.arrow"
    source = sorted((made / "out" / "data").glob("*.arrow"))[0]
    table = pa.ipc.open_stream(source.read_bytes()).read_all()
    field = table.schema.field(col.DOC_ID)
    ids = pa.array([None, *table.column(col.DOC_ID).to_pylist()[1:]], field.type)
    table = table.set_column(table.schema.get_field_index(col.DOC_ID), field.with_nullable(True), ids)
    (made / "null" / "data").mkdir(parents=True, exist_ok=True)
    facts = write_shard(made / "null" / "data" / name, table.schema, table.to_batches())
    with pytest.raises(ShardError, match="has 1 row without a doc_id: it is damaged; see `cleanpipe verify`"):
        unit(run=str(made / "null"), shard=name, facts=facts)


def test_a_gpu_is_asked_for_by_torch_on_cuda_alone():
    asked = {(b, d) for b in ("auto", "hf", "fast", "torch") for d in ("cpu", "cuda", "cuda:1") if driver.gpus_of(b, d)}
    assert asked == {("torch", "cuda"), ("torch", "cuda:1")}
