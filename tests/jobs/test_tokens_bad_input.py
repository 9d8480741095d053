"""Everything that can be wrong with tokens from outside: one clear line that names it and the way out, an exit status,
and a folder that was not touched.
"""

import json
import shutil

import numpy as np
import pytest

from cleanpipe.errors import CleanpipeError, ConfigError, DamagedFileError
from cleanpipe.run import run
from cleanpipe.tokens import Plan, Reader, open_tokens
from cleanpipe.tokens.making.run import tokenize
from cleanpipe.tokens.tokenizer import open_tokenizer
from cleanpipe.tokens.tokenizer.opening import embedded
from cleanpipe_jobs.cli import main

RANKS = b"aGVsbG8= 0\nbad\n"
BPE = {"version": "1.0", "model": {"type": "BPE", "vocab": {}, "merges": []}}
FILES = {
    "nothing_in_it": b"",
    "noise.model": bytes(range(256)) * 4,
    "noise.bin": bytes(range(255, -1, -1)) * 4,
    "prose.txt": b"hello world\n" * 9,
    "empty.json": b"{}",
    "list.json": b"[]",
    "vocab.json": json.dumps({"a": 0, "b": 1}).encode(),
    "cut.json": json.dumps(BPE).encode()[:-5],
    "other.json": json.dumps({"model": {"type": "Sorcery", "vocab": {"a": 0}}}).encode(),
    "deep.json": b"[" * 100_000,
    "ranks.tiktoken": RANKS,
    "wide.json": json.dumps({**BPE, "model": {**BPE["model"], "vocab": {"a": 3_000_000_000}}}).encode(),
    "below.json": json.dumps({**BPE, "model": {**BPE["model"], "vocab": {"a": -1}}}).encode(),
    "half.json": json.dumps({**BPE, "model": {**BPE["model"], "vocab": {"a": 0.5}}}).encode(),
}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    out = tmp_path_factory.mktemp("bad") / "run"
    run("sample", [], out, engine="serial")
    return out


@pytest.fixture(scope="module")
def tokens(source):
    made = tokenize(source, source.parent / "tokens", engine="serial")
    return source.parent / "tokens" if made.exit_code == 0 else None


def refused(capsys, line, code=2):
    """The one line that a command ends with."""
    assert main([str(word) for word in line]) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.strip().splitlines()) == 1, said.err
    assert "Traceback" not in said.err
    return said.err


def making(source, target, *more):
    return ["tokenize", source, "--tokens", target, "--engine", "serial", "--quiet", *more]


@pytest.mark.parametrize("finished", [True, False])
def test_a_token_store_has_no_quarantine_of_its_own(tokens, tmp_path, capsys, finished):
    store = shutil.copytree(tokens, tmp_path / "tokens")
    if not finished:
        (store / "store.json").unlink()
        (store / "manifest.json").unlink()
    said = refused(capsys, ["quarantine", store])
    assert "is a token store" in said and f"cleanpipe query {store} " in said
    if finished:
        assert main(["query", str(store), said.split('"')[1]]) == 0


def test_clean_removes_what_a_killed_job_left_beside_its_tokens(tokens, tmp_path, capsys):
    store = shutil.copytree(tokens, tmp_path / "tokens")
    before = {p: p.read_bytes() for p in store.rglob("*") if p.is_file()}
    (store / "tokens/.tmp-0123-tokens-00000-of-00001.bin").write_bytes(b"draft")
    (store / "work/encode").mkdir(parents=True)
    (store / "work/encode/late.rows").write_bytes(b"late")
    assert main(["clean", str(store)]) == 0
    assert "removed" in capsys.readouterr().out
    assert {p: p.read_bytes() for p in store.rglob("*") if p.is_file()} == before


@pytest.mark.parametrize("backend", ["auto", "hf", "torch"])
def test_merges_that_are_drawn_by_chance_are_refused_whoever_encodes(source, tmp_path, capsys, backend):
    own = json.loads(embedded()["cleanpipe-16k"].read_text())
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps({**own, "model": {**own["model"], "dropout": 0.1}}))
    with pytest.raises(ConfigError, match=r"a dropout of 0\.1"):
        open_tokenizer(str(file))
    kept = tmp_path / "kept"
    kept.mkdir()
    for target in (tmp_path / "tokens", kept):
        said = refused(capsys, making(source, target, "--tokenizer", file, "--backend", backend))
        assert "a dropout of 0.1" in said and "set model.dropout to null" in said
    assert not (tmp_path / "tokens").exists() and not list(kept.iterdir())


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_no_tokenizer(source, tmp_path, capsys, name):
    file = tmp_path / name
    file.write_bytes(FILES[name])
    said = refused(capsys, making(source, tmp_path / "tokens", "--tokenizer", file))
    assert len(said) > 60  # a way out, too
    assert not (tmp_path / "tokens").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--tokenizer", "gpt3"], "gpt2"),
        (["--tokenizer", "{tmp}"], "folder"),
        (["--tokenizer", "{tmp}/nothing.json"], "nothing.json"),
        (["--bos", "99999999"], "beyond the vocabulary"),
        (["--eos", "<nothing>"], "no token '<nothing>'"),
        (["--backend", "rust"], "auto, hf, fast, torch"),
        (["--max-unk", "2"], "between 0 and 1"),
        (["--max-unk", "nan"], "between 0 and 1"),
        (["--engine", "spark"], "serial, local, ray"),
        (["--engine", "local", "--workers", "0"], "workers"),
        (["--set", "windowing.size=3"], "windowing.size"),
        (["--set", "storage.nothing=3"], "nothing"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, list) else "",
)
def test_an_option_that_cannot_be(source, tmp_path, capsys, options, said):
    options = [o.replace("{tmp}", str(tmp_path)) for o in options]
    assert said in refused(capsys, making(source, tmp_path / "tokens", *options))
    assert not (tmp_path / "tokens").exists()


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("nothing", "holds no run"),
        ("a bare folder", "holds no run"),
        ("a file", ""),
        ("an unfinished run", "not finished"),
        ("a corpus audit", ""),
        ("tokens", ""),
        ("a manifest of nobody", ""),
        ("a shard that is gone", "cleanpipe verify"),
        ("a shard cut short", "cleanpipe verify"),
    ],
)
def test_an_out_that_is_no_finished_run(source, tokens, tmp_path, capsys, kind, said):
    out = tmp_path / "out"
    if kind == "a bare folder":
        out.mkdir()
    elif kind == "a file":
        out.write_text("x")
    elif kind == "an unfinished run":
        (out / "work").mkdir(parents=True)
        (out / "work/plan.json").write_text("{}")
    elif kind == "a corpus audit":
        out.mkdir()
        (out / "audit.json").write_text('{"kind": "corpus"}')
    elif kind == "tokens":
        shutil.copytree(tokens, out)
    elif kind == "a manifest of nobody":
        out.mkdir()
        (out / "manifest.json").write_text("[1]")
    elif kind.startswith("a shard"):
        shutil.copytree(source, out)
        (shard,) = (out / "data").glob("*.arrow")
        if kind == "a shard that is gone":
            shard.unlink()
        else:
            shard.write_bytes(shard.read_bytes()[:-100])
    line = refused(capsys, making(out, tmp_path / "tokens"))
    assert said in line
    assert str(out) in line
    assert not (tmp_path / "tokens").exists()


@pytest.mark.parametrize("kind", ["the run", "in the run", "a file", "things in it", "another run", "a corpus audit"])
def test_a_folder_that_tokens_must_not_lie_in(source, tmp_path, capsys, kind):
    target = tmp_path / "target"
    if kind == "a file":
        target.write_text("x")
    elif kind in ("things in it", "a corpus audit"):
        target.mkdir()
        (target / ("thesis.tex" if kind == "things in it" else "audit.json")).write_text("{}")
    elif kind == "another run":
        shutil.copytree(source, target)
    target = source if kind == "the run" else source / "tokens" if kind == "in the run" else target
    before = sorted(p for p in target.rglob("*")) if target.is_dir() else target.exists()
    assert str(target) in refused(capsys, making(source, target))
    assert (sorted(p for p in target.rglob("*")) if target.is_dir() else target.exists()) == before


def test_a_store_of_another_tokenizer_is_left_alone(source, tokens, capsys):
    before = (tokens / "manifest.json").read_bytes()
    said = refused(capsys, making(source, tokens, "--tokenizer", "gpt2"))
    assert "tokenizer" in said
    assert "gpt2" in said
    assert (tokens / "manifest.json").read_bytes() == before
    with pytest.raises(ConfigError, match="not of gpt2"):
        open_tokens(tokens, tokenizer="gpt2")


def copied(tokens, tmp_path):
    shutil.copytree(tokens, tmp_path / "store")
    (payload,) = (tmp_path / "store/tokens").glob("*.bin")
    data = payload.read_bytes()
    for link in (payload, payload.with_suffix(".ds")):  # one file by two names, or two copies
        link.unlink(missing_ok=True)
    return tmp_path / "store", payload, bytearray(data)


def put(payload, data):
    payload.write_bytes(data)
    payload.with_suffix(".ds").hardlink_to(payload)


@pytest.mark.parametrize("cut", [1, 2, 65536, -2], ids=lambda n: f"{n} bytes")
def test_a_payload_of_another_size(tokens, tmp_path, capsys, cut):
    store, payload, data = copied(tokens, tmp_path)
    put(payload, data[:-cut] if cut > 0 else data + b"\0\0")
    with pytest.raises(DamagedFileError, match="cleanpipe verify"):
        open_tokens(store)
    assert "cut short or changed" in refused(capsys, ["trace", store, "--token", "5"], code=3)
    assert main(["verify", str(store)]) == 1
    assert payload.name in capsys.readouterr().out


@pytest.mark.parametrize("where", [0.0, 0.5, 0.999999])
def test_one_flipped_bit_is_named_by_document_and_url(tokens, tmp_path, capsys, where):
    store, payload, data = copied(tokens, tmp_path)
    at = int(len(data) * where)
    data[at] ^= 1 << 3
    put(payload, data)
    spans = open_tokens(tokens).spans(0).to_pylist()
    hit = [s for s in spans if s["document_start"] <= at // 2 < s["document_start"] + s["document_tokens"]]
    doc, url = hit[0]["doc_id"].hex(), hit[0]["url"]
    opened = open_tokens(store)  # its size is right
    with pytest.raises(DamagedFileError) as caught:
        opened.read(at // 2, at // 2 + 1)
    assert doc in str(caught.value)
    assert url in str(caught.value)
    with pytest.raises(DamagedFileError, match="is damaged"):
        for _ in Reader(Plan([opened], length=512, shuffle="none"), 8):
            pass
    assert doc in refused(capsys, ["trace", store, "--token", str(at // 2)], code=3)
    assert main(["verify", str(store)]) == 1
    said = capsys.readouterr().out
    assert doc in said
    assert url in said
    with pytest.raises(DamagedFileError, match=payload.name):
        open_tokens(store, check="all")


@pytest.mark.parametrize("name", ["store.json", "manifest.json", "audit/audit.json", "run.json"])
@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b'{"format": 99}', b'{"files": 7}'], ids=["nothing", "list", "empty", "later", "odd"]
)
def test_a_store_that_says_nothing_of_itself(tokens, tmp_path, capsys, name, content):
    shutil.copytree(tokens, tmp_path / "store")
    (tmp_path / "store" / name).write_bytes(content)
    if name == "store.json":  # readers need no manifest but its presence
        with pytest.raises((ConfigError, DamagedFileError), match="store"):
            open_tokens(tmp_path / "store")
    assert main(["verify", str(tmp_path / "store")]) == 1
    capsys.readouterr()
    for line in (["query", "SELECT 1"], ["report"]):
        page = ["--out", str(tmp_path / "page.html")] if line == ["report"] else []
        main([line[0], str(tmp_path / "store"), *line[1:], *page])
        assert "Traceback" not in capsys.readouterr().err


def test_a_store_without_a_manifest_is_not_finished(tokens, tmp_path):
    shutil.copytree(tokens, tmp_path / "store")
    (tmp_path / "store/manifest.json").unlink()
    with pytest.raises(ConfigError, match="cleanpipe tokenize"):
        open_tokens(tmp_path / "store")


@pytest.mark.parametrize("kind", ["nothing", "bare", "run", "file"])
@pytest.mark.parametrize("command", [["trace", "--token", "1"], ["decide", "mask", "--doc", "00112233"]], ids=" ".join)
def test_tokens_that_are_none(source, tmp_path, capsys, kind, command):
    place = source if kind == "run" else tmp_path / "x"
    if kind == "bare":
        place.mkdir()
    elif kind == "file":
        place.write_text("x")
    assert str(place) in refused(capsys, [command[0], place, *command[1:]])
    with pytest.raises(ConfigError, match="cleanpipe tokenize"):
        open_tokens(place)


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ([0, 0], "sum to 0"),
        ([0.0, -0.0], "sum to 0"),
        ([1], "2"),
        ([1, 1, 1], "2"),
        ([], "2"),
        ([-1, 2], "-1"),
        ([float("nan"), 1], "nan"),
        ([float("inf"), 1], "inf"),
    ],
)
def test_mixing_weights_that_cannot_be(tokens, weights, said):
    store = open_tokens(tokens)
    with pytest.raises(ConfigError, match=said):
        Plan([store, store], length=128, weights=weights)


@pytest.mark.parametrize(
    "options",
    [{"length": 0}, {"length": -1}, {"length": 10**12}, {"packing": "worst"}, {"shuffle": "dice"}],
    ids=str,
)
def test_a_plan_that_cannot_be(tokens, options):
    with pytest.raises(ConfigError):
        Plan([open_tokens(tokens)], **{"length": 128, **options})


@pytest.mark.parametrize("how", [(0, 0, 1), (5, 0, 2), (4, 4, 4), (4, -1, 4), (4, 0, 0), (-4, 0, 1)])
def test_a_reader_that_cannot_be(tokens, how):
    batch, rank, world = how
    with pytest.raises(ConfigError):
        Reader(Plan([open_tokens(tokens)], length=128), batch, rank=rank, world=world)


@pytest.mark.parametrize(
    "other", [{"length": 256}, {"seed": 2}, {"packing": "best-fit"}, {"shuffle": "none"}], ids=lambda o: next(iter(o))
)
def test_a_state_of_another_plan(tokens, other):
    store, mine = open_tokens(tokens), {"length": 128, "seed": 1}
    reader = Reader(Plan([store], **mine), 4)
    next(iter(reader))
    with pytest.raises(ConfigError, match="another plan") as caught:
        Reader(Plan([store], **{**mine, **other}), 4, state=reader.state_dict())
    assert str(next(iter(other.values()))) in str(caught.value)  # what differs is said


def test_a_state_of_other_tokens(source, tokens, tmp_path):
    tokenize(source, tmp_path / "gpt2", tokenizer="gpt2", engine="serial")
    reader = Reader(Plan([open_tokens(tokens)], length=128), 4)
    next(iter(reader))
    with pytest.raises(ConfigError, match="another plan"):
        Reader(Plan([open_tokens(tmp_path / "gpt2")], length=128), 4, state=reader.state_dict())


@pytest.mark.parametrize(
    "change",
    [
        {"sequences": -4}, {"sequences": 1.5}, {"sequences": "4"}, {"sequences": None}, {"sequences": True},
        {"format": 99}, {"plan": 7}, {"plan": ""},
    ],
    ids=str,
)  # fmt: skip
def test_a_state_that_was_tampered_with(tokens, change):
    plan = Plan([open_tokens(tokens)], length=128)
    reader = Reader(plan, 4)
    next(iter(reader))
    with pytest.raises(ConfigError):
        Reader(plan, 4, state={**reader.state_dict(), **change})


@pytest.mark.parametrize("state", [{}, {"x": 1}, [], "state", 7, b"x"], ids=str)
def test_a_state_that_is_none(tokens, state):
    with pytest.raises(ConfigError, match="state"):
        Reader(Plan([open_tokens(tokens)], length=128), 4, state=state)


def test_ids_beyond_the_type_are_refused_before_they_are_written(tmp_path):
    from cleanpipe.io.store import open_store
    from cleanpipe.options import StorageOptions
    from cleanpipe.tokens.store import PayloadWriter

    for dtype, beyond in (("<u2", 65_536), ("<i4", 2**31)):
        store = open_store(str(tmp_path / dtype[1:]), StorageOptions())
        writer = PayloadWriter(store, "tokens-00000-of-00001", np.dtype(dtype), "t")
        with pytest.raises(CleanpipeError, match=f"{beyond:,}|{beyond}"):
            writer.add(np.array([1, beyond]), [2])
        writer.abandon()
        assert not [p for p in (tmp_path / dtype[1:]).rglob("*") if p.is_file()]


@pytest.mark.parametrize("line", ["{", "[]", '{"action": "burn"}', '{"action": "mask", "weight": "x"}', "\0"], ids=repr)
def test_a_decision_that_cannot_be_read(source, tokens, tmp_path, capsys, line):
    shutil.copytree(tokens, tmp_path / "store")
    (tmp_path / "store/decisions.jsonl").write_text(line + "\n")
    assert "decisions.jsonl" in refused(capsys, making(source, tmp_path / "store"), code=3)
    trace = ["trace", tmp_path / "store", "--sequence", "0", "--length", "128"]
    assert "decisions.jsonl" in refused(capsys, trace, code=3)
