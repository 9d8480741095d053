"""Pages full of what looks like control tokens, through whole jobs of every backend: no border forged, no text lost."""

import random

import pyarrow as pa
import pytest
from token_runs import made_run, small_crawl, tokens

from cleanpipe import batch as col
from cleanpipe.tokens import Plan, Reader, open_tokens
from cleanpipe.tokens.layout import DOCUMENT
from cleanpipe.tokens.reading.sequences import IGNORED
from cleanpipe.tokens.tokenizer import open_tokenizer

pytest.importorskip("tokenizers", reason="the extra tokenize brings tokenizers")
pytest.importorskip("tiktoken", reason="the extra tokenize brings tiktoken")
WORDS = [
    "the ",
    "harbour ",
    "pilot ",
    "▁",
    " ",
    "\n",
    "🙂",
    "é",
    "\u200d",
    "0",
    "<|",
    "|>",
    "</",
    "s>",
    "<s",
    "endoftext",
    "eos",
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """40 pages of control strings, pieces of them and words; near-duplicates are kept."""
    draw = random.Random(8)
    named = [*open_tokenizer("cleanpipe-16k").controls, *open_tokenizer("gpt2").controls]
    assert {"<|eos|>", "<|bos|>", "<|endoftext|>"} <= set(named)
    parts = [*named, *WORDS]
    texts = {f"p{n}": "".join(draw.choice(parts) for _ in range(draw.randrange(4, 60))) for n in range(38)}
    texts |= {"only": "<|eos|>" * 9, "both": "<|eos|><|bos|>"}
    root = tmp_path_factory.mktemp("borders")
    made_run(small_crawl(root / "crawl", texts), root / "run", sets=["minhash_drop.enabled=false"])
    return root / "run"


def texts_of(run):
    """The page of each document, as the run's shards hold it."""
    out = {}
    for path in sorted((run / "data").glob("*.arrow")):
        for row in pa.ipc.open_stream(path.read_bytes()).read_all().to_pylist():
            assert row[col.WINDOWS] == 1
            out[row[col.DOC_ID]] = row[col.TEXT]
    return out


@pytest.mark.parametrize(
    ("tokenizer", "backend"),
    [("cleanpipe-16k", "hf"), ("cleanpipe-16k", "fast"), ("cleanpipe-16k", "torch"), ("gpt2", "hf"), ("gpt2", "fast"),
     ("gpt2", "torch")],
)  # fmt: skip
@pytest.mark.parametrize("per_window", [False, True])
def test_no_page_forges_a_border(run, tmp_path, tokenizer, backend, per_window):
    if backend == "torch":
        pytest.importorskip("torch", reason="the extra gpu brings PyTorch").set_num_threads(1)
    marks = {} if tokenizer == "gpt2" else {"bos": "<|bos|>", "eos": "<|eos|>"}
    given = {"tokenizer": tokenizer, "backend": backend, "device": "cpu", "per_window": per_window, **marks}
    tokens(run, tmp_path / "t", **given)
    store, known = open_tokens(tmp_path / "t"), open_tokenizer(tokenizer, **marks)
    assert store.info["backend"]["used"] == backend
    pages = texts_of(run)
    assert store.documents == len(pages) == 40
    forbidden = {known.bos, known.eos, *known.controls.values()} - {None}
    assert store.eos in forbidden
    seen = {}
    for shard in range(len(store.shards)):
        spans = store.spans(shard)
        for number, doc in zip(spans.column(DOCUMENT).to_pylist(), spans.column(col.DOC_ID).to_pylist(), strict=True):
            document = int(store.document_starts[shard]) + number
            ids = store.read(*store.document_range(document)).tolist()
            assert ids.pop() == store.eos
            assert store.bos is None or ids.pop(0) == store.bos
            assert not forbidden & set(ids)
            seen[doc] = known.decode(ids)
    assert seen == {doc: text.strip() for doc, text in pages.items()}
    for packing in ("concat", "best-fit"):
        plan = Plan(store, length=64, packing=packing)
        ends = sum(int((b.labels == IGNORED).sum()) for b in Reader(plan, 8, epochs=1))
        assert ends == 40 + plan.sequences * 64 - store.tokens  # of each document its last token, and padding
