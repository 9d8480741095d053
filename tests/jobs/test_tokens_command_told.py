"""What the commands of tokens tell a newcomer: borders, damage and its repair, speed, weights that an export lacks."""

import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from token_runs import copy, made_run, small_crawl, tokens, tree

from cleanpipe.opening import ledger
from cleanpipe.tokens.decisions import Decision, append
from cleanpipe.tokens.store import open_tokens
from cleanpipe.tokens.tokenizer.names import BOS_NAMES, EOS_NAMES
from cleanpipe_jobs.cli import main

MARKS = ("--bos", "<|bos|>", "--eos", "<|eos|>")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run of several shards and its tokens."""
    folder = tmp_path_factory.mktemp("told")
    made_run(small_crawl(folder / "crawl"), folder / "out")
    tokens(folder / "out", folder / "tokens")
    return folder


def asked(*args, marks=MARKS):
    return ["tokenize", *map(str, args), "--backend", "hf", "--engine", "serial", *marks]


def test_help_says_how_bos_and_eos_are_found(capsys):
    with pytest.raises(SystemExit):
        main(["tokenize", "--help"])
    text = capsys.readouterr().out
    assert {*BOS_NAMES, *EOS_NAMES} <= set(text.split())
    assert "by name, not by what a post-processor would add" in " ".join(text.split())
    assert "--repair" in text


@pytest.mark.parametrize("command", ["tokenize", "export", "report", "query"])
def test_help_fits_80_columns(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A tokenizer without anything that could stand between documents."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tool = Tokenizer(models.BPE(unk_token="<unk>"))
    tool.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.BpeTrainer(special_tokens=["<unk>", "<sep>"], vocab_size=120, show_progress=False)
    tool.train_from_iterator(["the harbour pilot knows every channel by heart"] * 9, trainer)
    path = tmp_path_factory.mktemp("bare") / "bare.json"
    tool.save(str(path))
    return path


def test_a_tokenizer_without_marks_is_told(made, bare, tmp_path, capsys):
    args = asked(made / "out", "--tokens", tmp_path / "t", "--max-unk", "1", "--tokenizer", bare, marks=())
    told = "nothing stands between documents: bare.json names no EOS; give --eos TOKEN"
    assert main(args) == 0
    out, err = capsys.readouterr()
    assert "borders   BOS none, EOS none\n" in out
    assert told in err
    assert "no BOS, no EOS by policy" in out
    assert "documents agree" not in out
    assert main([*args, "--json"]) == 0
    assert [a["told"] for a in json.loads(capsys.readouterr().out)["alarms"]] == [told]
    assert main([*args, "-q"]) == 0
    assert told in capsys.readouterr().err
    named = asked(made / "out", "--tokens", tmp_path / "e", "--max-unk", "1", "--tokenizer", bare, marks=())
    assert main([*named, "--eos", "<sep>"]) == 0
    out, err = capsys.readouterr()
    assert "borders   BOS none, EOS <sep> (1)\n" in out
    assert "EOS and documents agree, no BOS by policy" in out
    assert told not in err
    assert main(asked(made / "out", "--tokens", tmp_path / "m")) == 0
    out, err = capsys.readouterr()
    assert not err
    assert re.search(r"borders   BOS <\|bos\|> \([\d,]+\), EOS <\|eos\|> \([\d,]+\)\n", out)


def test_repair_is_offered_and_told(made, tmp_path, capsys):
    target = copy(made / "tokens", tmp_path / "tokens")
    count = len(list(target.glob("tokens/*.bin")))
    payload = sorted(target.glob("tokens/*.bin"))[1]
    payload.write_bytes(payload.read_bytes()[:-2])
    args = asked(made / "out", "--tokens", target)
    assert main(args) == 2
    assert "--repair" in capsys.readouterr().err
    assert main(["verify", str(target)]) == 1
    assert "--repair" in capsys.readouterr().err
    assert main([*args, "--repair"]) == 0
    out = capsys.readouterr().out
    name = payload.relative_to(target).as_posix()
    assert out.startswith(f"{name} was damaged: 1 of {count} shards made again\n")
    assert tree(target) == tree(made / "tokens")
    assert main([*args, "--repair", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    named = json.loads((target / "manifest.json").read_text())["files"]
    assert (answer["proven"], answer["repaired"], answer["already_finished"]) == (len(named), [], True)
    assert main([*args, "--repair"]) == 0
    assert f"each of its {len(named)} files is as it was written: nothing to do" in capsys.readouterr().out


def test_the_speed_is_that_of_encoding(made, tmp_path, capsys):
    target = tmp_path / "tokens"
    assert main(asked(made / "out", "--tokens", target)) == 0
    out = capsys.readouterr().out
    facts = json.loads((target / "run.json").read_text())["work"]
    rows = pa.concat_tables([pq.read_table(p) for p in sorted((target / "ledger").glob("*.parquet"))])
    assert facts["encoded_bytes"] == sum(rows.column("bytes").to_pylist())
    assert 0 < facts["encode_seconds"] < facts["cpu_seconds"]
    speed = next(line for line in out.splitlines() if line.startswith("speed"))
    assert f"{facts['encoded_bytes'] / 1e6 / facts['encode_seconds']:,.1f} MB of text a CPU second of encoding" in speed
    append(target, [Decision("quarantine", "host", "thai.example.org")])
    assert main(asked(made / "out", "--tokens", target)) == 0
    one = json.loads((target / "run.json").read_text())["work"]["encoded_bytes"]
    assert 0 < one < facts["encoded_bytes"]  # of what was encoded now
    assert "left out  1 document by decisions\n" in capsys.readouterr().out


def test_an_export_tells_weights_and_is_verified(made, tmp_path, capsys):
    target = copy(made / "tokens", tmp_path / "tokens")
    append(target, [Decision("weight", "host", "thai.example.org", weight=0.5)])
    store = open_tokens(target)
    rows = [row for i in range(len(store.shards)) for row in store.spans(i).to_pylist() if "thai" in row["url"]]
    args = ["export", str(target), "--to", "mds", "--out", str(tmp_path / "mds")]
    assert main(args) == 0
    told = (
        f"1 document ({rows[0]['document_tokens']:,} tokens) has a weight below 1: mds has no place for it, it is in it"
    )
    assert told in capsys.readouterr().out
    assert main(["verify", str(tmp_path / "mds")]) == 0
    assert "everything holds" in capsys.readouterr().out
    index = tmp_path / "mds" / "index.json"
    index.write_text(index.read_text() + " ")
    assert main(["verify", str(tmp_path / "mds")]) == 1
    out, err = capsys.readouterr()
    assert out.startswith("index.json: ")
    assert out.count("\n") == 1
    assert "--repair" not in err


def test_a_store_says_where_its_text_came_from(made):
    """What is the same of every row is in store.json; which documents hang together, in the rows."""
    run = open_tokens(made / "tokens").info["run"]
    facts = json.loads((made / "out" / "run.json").read_text())
    assert run["config_hash"] == facts["config_hash"]
    assert run["code"] == facts["identity"]["code"]
    assert run["models"] == facts["identity"]["models"]
    assert run["inputs"] == {i["source"]: i["sha256"] for i in facts["inputs"]}
    assert set(run["stages"]) == {name for name, *_ in facts["identity"]["settings"]["stages"]}
    assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in run["stages"].values())
    assert len(set(run["stages"].values())) == len(run["stages"])
    audit = json.loads((made / "tokens" / "audit" / "audit.json").read_text())
    assert set(audit["identity"]["run"]) == {"config_hash", "recipe", "code"}


PILOT = "The harbour pilot boards each ship outside the bar and knows the depth of every channel by heart. "
MANY = "".join(f"{PILOT}On day {n} the tide turned at {n * 7 % 24} o'clock. " for n in range(60))
NEAR = {"one": MANY, "two": MANY.replace("day 7 ", "day seven "), "other": "Salt is raked from shallow pans. " * 40}


def test_documents_that_hang_together_have_one_cluster(tmp_path):
    made_run(small_crawl(tmp_path / "crawl", NEAR), tmp_path / "out", sets=("minhash_drop.threshold=1.0",))
    tokens(tmp_path / "out", tmp_path / "tokens")
    known = ledger(tmp_path / "out").to_table().to_pylist()
    rows = {row["doc_id"]: row for row in known if row["fate"] == "kept"}
    assert len(rows) == 3
    store = open_tokens(tmp_path / "tokens")
    found = {}
    for shard in range(len(store.shards)):
        for row in store.spans(shard).to_pylist():
            assert row["cluster"] == rows[row["doc_id"]]["minhash_drop_component"]
            found[row["url"].split("//")[1].partition(".")[0]] = row["cluster"]
    assert found["one"] == found["two"] is not None
    assert len(found["one"]) == 8
    assert found["other"] is None


def test_a_run_that_looked_for_no_duplicates_has_no_clusters(tmp_path):
    off = ("minhash_sign.enabled=false", "minhash_drop.enabled=false")
    made_run(small_crawl(tmp_path / "crawl", NEAR), tmp_path / "out", sets=off)
    tokens(tmp_path / "out", tmp_path / "tokens")
    table = open_tokens(tmp_path / "tokens").spans(0)
    assert table.column("cluster").null_count == table.num_rows > 0
    assert main(["verify", str(tmp_path / "tokens"), "--quiet"]) == 0
