"""Whole jobs over a real run of several shards: the laws of the tokens, of the spans and of the ledger."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from token_runs import made_run, small_crawl, tokens, tree

from cleanpipe.errors import ConfigError
from cleanpipe.opening import ledger, shards
from cleanpipe.tokens.store import open_tokens
from cleanpipe.tokens.tokenizer import open_tokenizer


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run of several shards, and its tokens: whole documents, and window by window."""
    folder = tmp_path_factory.mktemp("tokens")
    out = folder / "out"
    made_run(small_crawl(folder / "crawl"), out)
    made = {name: tokens(out, folder / name, per_window=name == "windows") for name in KINDS}
    return folder, out, made


KINDS = ("whole", "windows")


def documents_of(out):
    """doc_id → text, joined by hand; and the rows, in the shards' order."""
    rows = shards(out).to_table().to_pylist()
    texts = {}
    for row in rows:
        texts[row["doc_id"]] = texts.get(row["doc_id"], "") + row["text"][row["overlap"] :]
    return texts, rows


def test_the_run_has_shards_documents_of_many_windows_and_blanks_at_ends(runs):
    _, out, made = runs
    texts, rows = documents_of(out)
    assert len(made["whole"].info["shards"]) > 3
    assert max(r["windows"] for r in rows) > 3
    assert len(texts) > 8
    assert made["whole"].audit["totals"]["stripped"] > 0


def test_a_document_is_bos_its_text_and_eos(runs):
    folder, out, _ = runs
    texts, rows = documents_of(out)
    order = list(dict.fromkeys(r["doc_id"] for r in rows))
    tokenizer = open_tokenizer("cleanpipe-16k")
    store = open_tokens(folder / "whole", check="all")
    assert store.documents == len(order)
    for number, identity in enumerate(order):
        ids = store.read(*store.document_range(number)).tolist()
        if store.bos is not None:
            assert ids.pop(0) == store.bos
        assert ids.pop() == store.eos
        assert not set(ids) & set(tokenizer.controls.values())
        assert tokenizer.decode(ids) == texts[identity].strip()


def test_every_window_is_its_range_of_tokens(runs):
    folder, out, _ = runs
    texts, rows = documents_of(out)
    tokenizer = open_tokenizer("cleanpipe-16k")
    store = open_tokens(folder / "whole")
    spans = [row for i in range(len(store.shards)) for row in store.spans(i).to_pylist()]
    begins = [int(store.token_starts[i]) for i in range(len(store.shards)) for _ in range(store.spans(i).num_rows)]
    assert [(s["doc_id"], s["window"]) for s in spans] == [(r["doc_id"], r["window"]) for r in rows]
    for span, row, begin in zip(spans, rows, begins, strict=True):
        text = texts[row["doc_id"]]
        body = text.strip()
        assert span["stripped"] == len(text) - len(text.lstrip())
        first = begin + span["document_start"]
        assert store.read(first, first + 1).tolist() == [store.bos]
        ids = store.read(first + 1, first + span["document_tokens"] - 1).tolist()
        pieces = [tokenizer.token_bytes(i) for i in ids]
        assert b"".join(pieces) == body.encode()
        characters = character_of(body)
        starts, at = [], 0
        for piece in pieces:
            starts.append(characters[at])
            at += len(piece)
        edge = [c - span["stripped"] for c in (row["char_start"], row["char_end"])]
        low = 0 if span["window"] == 0 else sum(s < edge[0] for s in starts)
        high = len(ids) if span["window"] == row["windows"] - 1 else sum(s < edge[1] for s in starts)
        assert (span["token_start"] - span["document_start"] - 1, span["token_count"]) == (low, high - low)


def character_of(text):
    """Of each byte, the code point that it is of."""
    return [at for at, c in enumerate(text) for _ in c.encode()]


def test_per_window_each_window_is_its_own_text_and_the_cost_is_told(runs):
    folder, out, made = runs
    texts, rows = documents_of(out)
    tokenizer = open_tokenizer("cleanpipe-16k")
    store = open_tokens(folder / "windows", check="all")
    assert store.info["per_window"]
    for shard in range(len(store.shards)):
        begin = int(store.token_starts[shard])
        for span in store.spans(shard).to_pylist():
            first = begin + span["token_start"]
            text = texts[span["doc_id"]]
            low, high = span["stripped"], span["stripped"] + len(text.strip())
            window = text[max(span["char_start"], low) : min(span["char_end"], high)]
            ids = store.read(first, first + span["token_count"]).tolist()
            assert tokenizer.decode(ids) == window
            repeated = tokenizer.decode(ids[: span["token_overlap"]])
            repeated = repeated.removesuffix("\ufffd")  # the first bytes of a character that is new
            assert len(repeated) <= span["overlap"]
            if span["overlap"]:
                assert span["overlap"] - len(repeated) < 20  # all but the token that reaches over
    audit = made["windows"].audit
    cost = audit["windows"]["cost"]
    assert cost["denominator"] == made["whole"].audit["totals"]["tokens"]
    assert cost["numerator"] == audit["totals"]["tokens"] > cost["denominator"]
    assert audit["windows"]["cut"] == made["whole"].audit["windows"]["cut"]  # both ways know it
    assert audit["windows"]["cut"]["denominator"] == sum(r["window"] > 0 for r in rows)


@pytest.mark.parametrize("name", KINDS)
def test_nothing_is_lost(runs, name):
    folder, out, made = runs
    audit = made[name].audit
    assert audit["conservation"]["balanced"]
    assert {"documents", "windows", "characters", "tokens"} <= {li["what"] for li in audit["conservation"]["lines"]}
    assert made[name].exit_code == 0
    kept = ledger(out).to_table(filter=pc.field("fate") == "kept").to_pylist()
    parts = sorted((folder / name / "ledger").glob("part-*.parquet"))
    rows = pa.concat_tables([pq.read_table(p) for p in parts]).to_pylist()
    by_id = {r["doc_id"]: r for r in rows}
    assert len(by_id) == len(rows) == len(kept)
    for row in kept:
        ours = by_id[row["doc_id"]]
        assert (ours["chars"], ours["windows"], ours["content_id"]) == (
            row["chars_out"], row["windows"], row["content_id"],
        )  # fmt: skip
        assert (ours["url"], ours["language"], ours["source"]) == (row["url"], row["language"], row["source"])
        assert (ours["fate"], ours["stage"], ours["reason"]) == ("kept", None, None)
    store = open_tokens(folder / name)
    assert store.tokens == sum(r["tokens"] for r in rows)
    assert [r["document"] for r in rows if r["shard"] == store.shards[0]] == list(
        range(store.info["shards"][0]["documents"])
    )
    eos = sum(int((store.read(0, store.tokens) == store.eos).sum()) for _ in range(1))
    assert eos == store.documents


def test_spans_know_what_the_runs_ledger_knows(runs):
    folder, out, _ = runs
    known = {r["doc_id"]: r for r in ledger(out).to_table().to_pylist()}
    store = open_tokens(folder / "whole")
    for shard in range(len(store.shards)):
        for span in store.spans(shard).to_pylist():
            for name in (
                "content_id",
                "record_length",
                "offset_kind",
                "record_offset",
                "record_id",
                "source",
                "url",
            ):
                assert span[name] == known[span["doc_id"]][name], name


def test_the_audit_counts_the_ids_that_are_in_the_payload(runs):
    folder, _, made = runs
    store = open_tokens(folder / "whole")
    ids = store.read(0, store.tokens)
    counts = np.bincount(ids, minlength=made["whole"].info["vocabulary"])
    never = made["whole"].audit["ids"]["never"]["numerator"]
    controls = list(open_tokenizer("cleanpipe-16k").controls.values())
    counts[controls] = 1
    assert never == int((counts == 0).sum())


@pytest.mark.parametrize("options", [{"engine": "local", "workers": 1}, {"engine": "local", "workers": 2}])
def test_the_same_bytes_however_many_work(runs, tmp_path, options):
    folder, out, _ = runs
    tokens(out, tmp_path / "again", **options)
    assert tree(tmp_path / "again") == tree(folder / "whole")


def test_a_second_call_finds_it_finished_and_touches_nothing(runs):
    folder, out, _ = runs
    before = {p: p.stat().st_mtime_ns for p in (folder / "whole").rglob("*")}
    made = tokens(out, folder / "whole")
    assert made.already
    assert made.rebuilt is None
    assert {p: p.stat().st_mtime_ns for p in (folder / "whole").rglob("*")} == before
    json.dumps(made.audit)


REFUSED = {
    "another tokenizer": ({"tokenizer": "gpt2"}, r"the tokenizer's content \(cleanpipe-16k there, gpt2 here"),
    "another policy": ({"bos": "none"}, "BOS, EOS or special tokens"),
    "another way": ({"per_window": True}, "--per-window: no there, yes here"),
}


@pytest.mark.parametrize(("options", "words"), REFUSED.values(), ids=REFUSED)
def test_a_folder_holds_one_store_and_the_difference_is_named(runs, options, words):
    folder, out, _ = runs
    before = tree(folder / "whole", without=())
    with pytest.raises(ConfigError, match=words):
        tokens(out, folder / "whole", **options)
    assert tree(folder / "whole", without=()) == before


def test_another_code_version_and_another_run_are_refused(runs, tmp_path, monkeypatch):
    from cleanpipe.tokens.making import run as job

    folder, out, _ = runs
    made_run(small_crawl(tmp_path / "crawl"), tmp_path / "other", shard=80_000)
    with pytest.raises(ConfigError, match="the run's recipe"):
        tokens(tmp_path / "other", folder / "whole")
    monkeypatch.setattr(job, "code_version", lambda: "other")
    with pytest.raises(ConfigError, match="the code version"):
        tokens(out, folder / "whole")


def test_bos_and_eos_as_they_are_asked_for(runs, tmp_path):
    _, out, made = runs
    begin = tokens(out, tmp_path / "begin", eos="none")
    bare = tokens(out, tmp_path / "none", bos="none", eos="none")
    n, body = begin.info["documents"], made["whole"].audit["totals"]["tokens"]
    assert (made["whole"].info["tokens"], begin.info["tokens"], bare.info["tokens"]) == (body + 2 * n, body + n, body)
    assert begin.exit_code == bare.exit_code == 0
    store = open_tokens(tmp_path / "begin")
    first, end = store.document_range(n - 1)
    assert store.read(first, first + 1).tolist() == [begin.info["bos"]]
    assert store.read(end - 1, end).tolist() != [made["whole"].info["eos"]]


BAD = {
    "no run": (lambda out: {"out": out / "nothing"}, "holds no run"),
    "a file": (lambda out: {"out": out / "run.json"}, "is a file"),
    "in the run": (lambda out: {"target": out / "tokens"}, "lies in the run"),
    "the run itself": (lambda out: {"target": out}, "lies in the run"),
    "a file as target": (lambda out: {"target": out.parent / "crawl/part-0.warc.wet.gz"}, "is a file: name a"),
    "below a file": (lambda out: {"target": out.parent / "crawl/part-0.warc.wet.gz/x"}, "is a file: name a folder"),
    "tokens are no run": (lambda out: {"out": out.parent / "whole"}, "holds tokens, not a run"),
    "splitters of hf": (lambda out: {"backend": "hf", "splitters": 2}, "only --backend torch has them"),
    "splitters": (lambda out: {"backend": "torch", "splitters": -2}, "0 or more processes"),
    "no such device": (lambda out: {"backend": "torch", "device": "cuda:77"}, "cannot use the device 'cuda:77'"),
    "not a store": (lambda out: {"target": out.parent / "crawl"}, "not empty and holds no token store"),
    "a run is no store": (lambda out: {"target": out.parent / "twin"}, "holds a run, not tokens"),
    "no tokenizer": (lambda out: {"tokenizer": "nobody-knows"}, "nobody-knows"),
    "no backend": (lambda out: {"backend": "gpu"}, "no backend 'gpu'"),
    "no engine": (lambda out: {"engine": "steam"}, "unknown engine"),
    "a device": (lambda out: {"device": "cuda", "backend": "fast"}, "only --backend torch"),
    "a share": (lambda out: {"max_unk": 1.5}, "--max-unk 1.5"),
    "a stage's option": (lambda out: {"sets": ["windowing.size=3"]}, "only storage.… and guards"),
}


@pytest.mark.parametrize(("change", "words"), BAD.values(), ids=BAD)
def test_what_is_wrong_before_the_start_leaves_nothing(runs, tmp_path, change, words):
    import shutil

    folder, out, _ = runs
    if not (folder / "twin").exists():
        shutil.copytree(out, folder / "twin")
    given = {"out": out, "target": tmp_path / "new", **change(out)}
    with pytest.raises(ConfigError, match=words):
        tokens(given.pop("out"), given.pop("target"), **given)
    assert not (tmp_path / "new").exists()


def test_limits_of_the_build_are_in_its_audit_and_a_later_call_judges_by_its_own(runs, tmp_path):
    _, out, _ = runs
    first = tokens(out, tmp_path / "tokens", max_byte_fallback=0.5, max_unk=0.25)
    assert [g["limit"] for g in first.audit["gates"]] == [0.25, 0.5, 0, 0.01]
    again = tokens(out, tmp_path / "tokens")
    assert again.already and again.audit == first.audit and again.exit_code == first.exit_code == 0


def test_the_store_says_which_id_is_unk_and_verify_takes_it_from_there(runs, monkeypatch):
    from cleanpipe.tokens import tokenizer
    from cleanpipe.tokens.store.verify import verify_tokens

    folder, _, made = runs
    assert (
        made["whole"].info["unk"]
        == tokenizer.Tokenizer.from_files({p.name: p.read_bytes() for p in (folder / "whole/tokenizer").iterdir()}).unk
    )
    monkeypatch.setattr(tokenizer.Tokenizer, "from_files", None)
    assert verify_tokens(folder / "whole").findings == []


def test_everything_public_is_in_one_place_and_loads_nothing_before():
    import subprocess
    import sys

    code = (
        "import sys, cleanpipe.tokens as t\n"
        "assert not {'torch', 'ray', 'tokenizers', 'pyarrow'} & {*sys.modules}\n"
        "print(*(getattr(t, n).__name__ for n in ('tokenize', 'trace_token', 'trace_sequence', 'ranges_of')))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["tokenize", "trace_token", "trace_sequence", "ranges_of"]


def test_a_run_that_kept_nothing_has_a_store_of_nothing(tmp_path):
    made_run(
        small_crawl(tmp_path / "crawl", {"a": "tiny", "b": "tiny"}),
        tmp_path / "out",
        sets=["minhash_drop.enabled=false"],
    )
    whole = tokens(tmp_path / "out", tmp_path / "whole")
    assert whole.info["documents"] == 2
    small_crawl(tmp_path / "none", {})
    made_run(tmp_path / "none", tmp_path / "nothing")
    empty = tokens(tmp_path / "nothing", tmp_path / "empty")
    assert (empty.info["documents"], empty.info["tokens"], empty.exit_code) == (0, 0, 0)
    assert open_tokens(tmp_path / "empty", check="all").documents == 0
    assert tokens(tmp_path / "nothing", tmp_path / "empty").already


def test_a_damaged_store_is_not_gone_on_with(runs, tmp_path):
    import shutil

    folder, out, _ = runs
    target = shutil.copytree(folder / "whole", tmp_path / "tokens")
    payload = sorted((target / "tokens").glob("*.bin"))[0]
    payload.write_bytes(payload.read_bytes()[:-2])
    with pytest.raises(ConfigError, match=r"damaged store.*cleanpipe verify"):
        tokens(out, target)


def test_a_torn_line_of_decisions_is_told(runs, tmp_path):
    import shutil

    from cleanpipe.observer import Observer
    from cleanpipe.tokens.decisions import Decision, append

    folder, out, _ = runs
    target = shutil.copytree(folder / "whole", tmp_path / "tokens")
    append(target, [Decision("mask", "host", "thai.example.org")])
    with (target / "decisions.jsonl").open("ab") as file:
        file.write(b'{"action": "quaran')
    told = []

    class Told(Observer):
        def warn(self, message):
            told.append(message)

    assert tokens(out, target, observer=Told()).already
    assert any("what is left of a line" in line for line in told)
