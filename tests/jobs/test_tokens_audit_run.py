"""The audit of a store that was made, counted again from its published files alone."""

import importlib.util
import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from cleanpipe.run import run
from cleanpipe.tokens import Plan, open_tokens
from cleanpipe.tokens.making.run import tokenize
from cleanpipe.tokens.tokenizer import open_tokenizer

FORGED = (
    "He typed &lt;|endoftext|&gt; and then &lt;s&gt; twice, &lt;s&gt; as he said. The file ended with [INST] after it."
)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Shards of prose, in which some pages spell control strings; one page is long enough for many windows."""
    spec = importlib.util.spec_from_file_location("makers", Path(__file__).parents[1] / "conftest.py")
    make = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make)
    folder = tmp_path_factory.mktemp("audit")
    records = [make.warcinfo()]
    for i in range(24):
        paragraphs = make.prose(i, 40)
        if i % 8 == 3:
            paragraphs[5] += f" {FORGED}"
        if i == 7:
            paragraphs = [p for k in range(12) for p in [*make.prose(100 + k, 40), f"{FORGED} {k}."]]
        records.append(make.response(f"http://h.example/{i}", make.page(paragraphs)))
    make.write_gz(folder / "in.warc.gz", records)
    out = folder / "run"
    run("web", [str(folder / "in.warc.gz")], out, engine="serial", sets=["shards.max_bytes=40000"])
    return out


@pytest.fixture(scope="module", params=["whole", "per window"])
def made(request, source):
    target = source.parent / request.param.replace(" ", "-")
    tokenize(source, target, tokenizer="gpt2", engine="serial", per_window=request.param == "per window")
    return target, json.loads((target / "audit/audit.json").read_text())


def test_it_is_balanced_over_many_shards(made):
    _, audit = made
    assert audit["conservation"]["balanced"]
    assert audit["totals"]["shards"] > 2
    assert audit["totals"]["documents"] == audit["totals"]["eos"] > 15


def test_ids_lengths_and_packing_from_the_payload(made):
    folder, audit = made
    store = open_tokens(folder)
    ids = np.asarray(store.read(0, store.tokens))
    body = ids[ids != store.eos]
    assert len(ids) == audit["totals"]["stored"]
    assert len(body) == audit["totals"]["tokens"]
    counts = np.bincount(body, minlength=50257)
    assert audit["ids"]["never"]["numerator"] == int((counts[:50256] == 0).sum())
    assert audit["ids"]["once"] == int((counts == 1).sum())
    assert [(t["id"], t["count"]) for t in audit["ids"]["top"][:5]] == [
        (i, int(counts[i])) for i in sorted(range(50257), key=lambda i: (-counts[i], i))[:5]
    ]
    share = counts[counts > 0] / counts.sum()
    assert audit["ids"]["entropy_bits"] == pytest.approx(-(share * np.log2(share)).sum(), abs=1e-6)
    ends = np.flatnonzero(ids == store.eos)
    lengths = np.diff(ends, prepend=-1)
    assert audit["lengths"]["longest"] == lengths.max()
    assert audit["lengths"]["quantiles"]["0.50"] == sorted(lengths)[math.ceil(len(lengths) / 2) - 1]
    assert sum(audit["lengths"]["histogram"].values()) == len(lengths)
    for length in (2048, 4096):
        best = audit["packing"][str(length)]["best_fit"]
        assert Plan([store], length=length, packing="best-fit").sequences == best["sequences"]
        assert best["documents_cut"]["numerator"] == int((lengths > length).sum())


def test_control_strings_are_counted_once_however_windows_lie(made):
    folder, audit = made
    pages = {row["url"]: row for row in pq.read_table(folder / "ledger").to_pylist()}
    forged = [u for u in pages if int(u.rpartition("/")[2]) % 8 == 3 or u.endswith("/7")]
    times = sum(12 if u.endswith("/7") else 1 for u in forged)
    assert audit["controls"]["documents"]["numerator"] == len(forged) == 3  # one was a near duplicate
    assert audit["controls"]["by_string"] == {
        "<s>": {"documents": 3, "occurrences": 2 * times, "of_tokenizer": False},
        "<|endoftext|>": {"documents": 3, "occurrences": times, "of_tokenizer": True},
        "[INST]": {"documents": 3, "occurrences": times, "of_tokenizer": False},
    }


def test_text_from_the_tokens(made):
    folder, audit = made
    store, tokenizer = open_tokens(folder), open_tokenizer("gpt2")
    size = characters = 0
    languages = Counter()
    for shard in range(len(store.info["shards"])):
        seen = {}
        for span in store.spans(shard).to_pylist():
            begin = span["token_start"] + span["token_overlap"] * (not audit["per_window"])
            stop = span["token_start"] + span["token_count"]
            seen.setdefault((span["doc_id"], span["language"]), []).append((begin, stop, span))
        for (_, language), parts in seen.items():
            base = int(store.token_starts[shard])
            texts = [tokenizer.decode(store.read(base + a, base + b).tolist()) for a, b, _ in parts]
            if audit["per_window"]:
                texts = [t[s["overlap"] :] for t, (_, _, s) in zip(texts, parts, strict=True)]
            text = "".join(texts)
            size, characters = size + len(text.encode()), characters + len(text)
            languages[language] += sum(s["token_count"] for _, _, s in parts)
    assert (size, characters) == (audit["totals"]["bytes"], audit["totals"]["characters"])
    if audit["per_window"]:
        assert languages == {k: n["tokens"] for k, n in audit["languages"].items()}
    assert audit["rates"]["bytes_per_token"]["value"] == round(size / audit["totals"]["tokens"], 6)


def test_the_literal_rule_tells_its_cost(source, made):
    _, audit = made
    cost, cut = audit["windows"]["cost"], audit["windows"]["cut"]
    assert cost["value"] > 1.02
    assert 0.4 < cut["value"] <= 1
    if audit["per_window"]:
        whole = json.loads((source.parent / "whole/audit/audit.json").read_text())
        assert cost["numerator"] == audit["totals"]["tokens"]
        assert cost["denominator"] == whole["totals"]["tokens"]
        assert cut == whole["windows"]["cut"]
