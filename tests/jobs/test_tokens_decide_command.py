"""``cleanpipe decide``: what is said and written, and with which exit status."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from made_tokens import make_store
from traced_runs import make_tokens

from cleanpipe.run import run
from cleanpipe.tokens import Plan, Reader, open_tokens
from cleanpipe.tokens.decisions import load
from cleanpipe.tokens.tracing import origin_of
from cleanpipe_jobs.tokens_said import percent

CSV_ALONE = "--csv is for --url, --doc, --content and --host, and goes without --json"


def test_a_decision_is_shown_written_and_not_doubled(store, ask, as_json):
    status, dry, _ = as_json("decide", store, "quarantine", "--host", "sub.awkward.example", "--dry-run")
    assert status == 0
    assert (dry["lines"][0]["new"], dry["lines"][0]["number"]) == (True, 1)
    assert load(store).version == 0
    given = ["decide", store, "quarantine", "--host", "sub.awkward.example", "--reason", "spam", "--author", "ann"]
    status, done, _ = as_json(*given)
    assert (status, done["version"]) == (0, 1)
    assert done["lines"][0]["hits"] == dry["lines"][0]["hits"]
    assert sorted(d["url"] for d in done["lines"][0]["documents"]) == [
        f"http://sub.awkward.example/long/{n}" for n in range(6)
    ]
    hits = done["lines"][0]["hits"]
    opened = open_tokens(store)
    tokens = [origin_of(opened, d) for d in range(opened.documents)]
    mine = [o for o in tokens if "//sub.awkward.example/" in o.url]
    assert (hits["documents"], hits["tokens"]) == (6, sum(o.tokens for o in mine))
    assert (hits["shards"], hits["of_shards"]) == (len({o.shard for o in mine}), len(opened.shards))
    assert done["before"]["quarantine"]["documents"] == 0
    assert done["after"]["quarantine"] == hits
    assert f"rewrites {hits['shards']} of {hits['of_shards']} shards" in " ".join(done["next"])
    status, again, _ = as_json(*given[:-4])
    assert (status, again["version"], again["lines"][0]["new"]) == (0, 1, False)
    line = load(store).lines[0]
    assert (line.reason, line.author, line.key) == ("spam", "ann", "sub.awkward.example")
    assert "stands already, as line 1" in ask(*given)[1]
    # one document of that host is masked too: the stronger stays
    url = mine[0].url
    masked = as_json("decide", store, "mask", "--url", url)[1]
    assert masked["after"] == masked["before"]
    traced = as_json("trace", store, "--token", mine[0].token_start + 2)[1]
    assert traced["decided"] == {"action": "quarantine", "weight": 1.0, "line": 1}


def test_what_was_said_of_a_build_comes_true(many, tmp_path, as_json, ask):
    """Quarantine; the same tokenize line again leaves the documents out; deciding the same again is still said."""
    out, _ = many
    tokens = make_tokens(out, tmp_path / "tokens")
    before = open_tokens(tokens)
    said = as_json("decide", tokens, "quarantine", "--url", "http://lang3.example/3")[1]
    make_tokens(out, tokens)
    after = open_tokens(tokens)
    hits = said["lines"][0]["hits"]
    assert (after.documents, after.tokens) == (before.documents - 1, before.tokens - hits["tokens"])
    payloads = [{e["name"]: e["sha256"] for e in s.info["shards"]} for s in (before, after)]
    changed = [n for n in payloads[0] if payloads[0][n] != payloads[1][n]]
    assert len(changed) == hits["shards"] == 1
    again = as_json("decide", tokens, "quarantine", "--url", "http://lang3.example/3")[1]
    assert (again["lines"][0]["new"], again["lines"][0]["hits"]["documents"]) == (False, 0)
    assert "leaves 1 document out and rewrites 1 of" in " ".join(said["next"])
    listed = as_json("decide", tokens, "list")[1]
    assert (listed["built_in"], listed["lines"][0]["hits"]["documents"], listed["lines"][0]["left_out"]) == (1, 0, 1)
    text = ask("decide", tokens, "list")[1]
    assert "\n      left out by the build: 1\n" in text
    assert f"{tokens}: 1 line, 1 of them known to its build\n" in text
    # the proof that a takedown needs: gone, and why
    (document,) = said["lines"][0]["documents"]
    for key in (["--url", "http://lang3.example/3"], ["--doc", document["doc_id"][:9]], ["--host", "lang3.example"]):
        status, facts, err = as_json("trace", tokens, *key, "--length", 100)
        (one,) = [a for a in facts["absent"] if a["doc_id"] == document["doc_id"]]
        assert (one["url"], one["by"], one["fate"], one["decided"], one["detail"]) == (
            "http://lang3.example/3", "tokenize", "quarantined", True, "line 1: url http://lang3.example/3",
        )  # fmt: skip
        assert (status, err, document["doc_id"] in {d["doc_id"] for d in facts["documents"]}) == (0, "", False)
        assert (facts["documents"] == [], facts["tokens"] == 0) == ((False, False) if "--host" in key else (True, True))
        assert "left out by decision, line 1: url http://lang3.example/3\n" in ask("trace", tokens, *key)[1]
    # the same page by another key hits nothing, and the reason is told
    status, _, err = ask("decide", tokens, "mask", "--doc", document["doc_id"])
    assert status == 2
    assert "left out by decision, line 1: url http://lang3.example/3: nothing is written" in err
    revoked = as_json("decide", tokens, "revoke", "--line", 1)[1]
    assert "comes back" in " ".join(revoked["next"])
    make_tokens(out, tokens)
    assert open_tokens(tokens).digest == before.digest


def test_list_and_revoke(store, ask, as_json):
    ask("decide", store, "mask", "--doc", origin_of(open_tokens(store), 3).doc_id, "--from-sequence", 10)
    ask("decide", store, "weight", "--host", "markup.example", "--weight", 0.5)
    assert ask("decide", store, "revoke", "--line", 1, "--from-sequence", 20, "--reason", "no spike")[0] == 0
    status, facts, _ = as_json("decide", store, "list")
    assert status == 0
    assert [(li["number"], li["in_force"], li["until_sequence"]) for li in facts["lines"]] == [
        (1, False, 20), (2, True, None), (3, True, None),
    ]  # fmt: skip
    assert facts["standing"]["weight"]["documents"] == 6
    assert facts["standing"]["mask"]["documents"] == 0
    _, text, _ = ask("decide", store, "list")
    assert "[until sequence 20]" in text
    assert "reason: no spike" in text
    one = as_json("decide", store, "list", "--url", "https://markup.example/2?a=1&b=2")[1]
    assert [li["number"] for li in one["lines"]] == [2]
    mine = as_json("decide", store, "list", "--doc", origin_of(open_tokens(store), 3).doc_id)[1]
    assert [li["number"] for li in mine["lines"]] == [1, 3]


def test_tokens_and_sequences_stand_for_their_documents(store, as_json):
    opened = open_tokens(store)
    tokens = [100, 101, 40_000]
    facts = as_json("decide", store, "mask", "--token", *tokens, "--dry-run")[1]
    wanted = list(dict.fromkeys(origin_of(opened, opened.document_of(t)).doc_id for t in tokens))
    assert [li["key"] for li in facts["lines"]] == wanted
    plan = Plan(opened, length=5000, seed=2)
    facts = as_json("decide", store, "mask", "--sequence", 1, 2, "--length", 5000, "--seed", 2)[1]
    held = {origin_of(opened, d).doc_id for g in (1, 2) for d in plan.documents(g).tolist()}
    assert {li["key"] for li in facts["lines"]} == held
    assert {li["plan"] for li in facts["lines"]} == {plan.fingerprint}


def test_the_reader_honours_what_was_decided(store, ask):
    plan = Plan(open_tokens(store), length=512, shuffle="none")
    ask("decide", store, "mask", "--token", 10, "--from-sequence", 0)
    _, stop = open_tokens(store).document_range(0)
    batch = next(iter(Reader(plan, batch=1)))
    labels = np.asarray(batch.labels).reshape(-1)[: min(stop, 512) - 1]
    assert (labels == -100).all()


def test_duplicates_are_told(crawl, tmp_path, as_json, ask):
    run("web", [str(crawl)], tmp_path / "run", engine="serial")
    tokens = make_tokens(tmp_path / "run", tmp_path / "tokens")
    url = "http://b.example.org/base"
    facts = as_json("decide", tokens, "quarantine", "--url", url, "--run", tmp_path / "run", "--dry-run")[1]
    (group,) = facts["stands_for"]
    assert (group["count"], [d["url"] for d in group["documents"]]) == (1, ["http://b.example.org/near"])
    text = ask("decide", tokens, "quarantine", "--url", url, "--run", tmp_path / "run")[1]
    assert "stands for 1 duplicate that the run dropped:" in text
    assert "http://b.example.org/near" in text


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["drop", "--doc", "00" * 16], "invalid choice"),
        (["mask"], "which documents"),
        (["mask", "--url", "http://nowhere.example/"], "no document"),
        (["mask", "--url", "http://lang3.example/3", "--weight", "0.5"], "weight needs"),
        (["weight", "--url", "http://lang3.example/3"], "weight needs"),
        (["weight", "--url", "http://lang3.example/3", "--weight", "2"], "0 to 1"),
        (["weight", "--url", "http://lang3.example/3", "--weight", "nan"], "0 to 1"),
        (["mask", "--line", "1"], "goes with revoke"),
        (["mask", "--url", "http://lang3.example/3", "--line", "1"], "goes with revoke"),
        (["revoke"], "name them by --line"),
        (["revoke", "--line", "1", "--url", "x"], "name them by --line"),
        (["revoke", "--line", "7"], "no line 7"),
        (["revoke", "--line", "0"], "from 1"),
        (["mask", "--token", "99999999"], "numbered from 0"),
        (["mask", "--sequence", "1"], "which sequences"),
        (["mask", "--url", "http://lang3.example/3", "--from-sequence", "-4"], "no number from 0"),
        (["mask", "--url", "http://lang3.example/3", "--run", "/nowhere/at/all", "--dry-run"], "/nowhere/at/all"),
    ],
)
def test_bad_arguments_of_decide(store, ask, args, said):
    status, out, err = ask("decide", store, *args)
    assert (status, out) == (2, "")
    assert said in err.replace("\n", " ")
    assert load(store).version == 0


def test_a_key_for_later_builds(store, as_json):
    given = ["decide", store, "quarantine", "--host", "nowhere.example", "--even-if-none"]
    status, facts, _ = as_json(*given)
    assert (status, facts["version"], facts["lines"][0]["hits"]["documents"]) == (0, 1, 0)


def test_an_edited_file_and_a_torn_one(store, ask):
    ask("decide", store, "mask", "--url", "http://lang3.example/3", "http://lang3.example/12")
    file = Path(store) / "decisions.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole + b'{"action":"ma')
    status, out, err = ask("decide", store, "list")
    assert (status, "2 lines" in out, "left of a line" in err) == (0, True, True)
    assert ask("decide", store, "mask", "--url", "http://lang4.example/4")[0] == 0
    assert file.read_bytes().startswith(whole + b'{"action":"mask"')
    file.write_bytes(whole.replace(b'"reason":""', b'"reason":"x"', 1))
    for command in (
        ["decide", store, "list"],
        ["decide", store, "mask", "--token", "1"],
        ["trace", store, "--token", "1"],
    ):
        status, _, err = ask(*command)
        assert (status, "line 1 is not as it was written" in err) == (3, True)


def test_several_writers_at_once(store):
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    line = [sys.executable, "-m", "cleanpipe_jobs.cli", "decide", store, "mask", "--url"]
    writers = [
        subprocess.Popen([*line, f"http://lang{n}.example/{n}"], env=env, stdout=subprocess.PIPE) for n in range(3)
    ]
    assert [w.wait(120) for w in writers] == [0, 0, 0]
    for w in writers:
        w.stdout.close()
    assert sorted(d.key for d in load(store).lines) == [f"http://lang{n}.example/{n}" for n in range(3)]


def test_quiet_prints_nothing(store, ask, as_json):
    for option in ("-q", "--quiet"):
        assert ask("decide", store, "mask", "--url", "http://lang3.example/3", option) == (0, "", "")
    assert ask("decide", store, "list", "-q") == (0, "", "")
    assert ask("decide", store, "mask", "--url", "http://nowhere.example/", "-q")[0] == 2
    assert as_json("decide", store, "list", "-q")[1]["version"] == 1


def test_the_plan_is_told(made, tmp_path, ask):
    other = make_store(tmp_path / "other", [[n] * 10 for n in range(100, 130)], salt="other", name="made")
    given = ["--length", 24, "--also", other, "--weights", 1, 3, "--dry-run"]
    first = next(g for g in range(4) if ask("decide", made, "mask", "--sequence", g, *given)[0] == 0)
    text = ask("decide", made, "mask", "--sequence", first, *given)[1]
    assert text.splitlines()[0].startswith("sequences of plan ")
    assert text.splitlines()[0].endswith("weights 1:3")


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (0, "0.00%"), (1, "100.00%"), (0.5, "50.00%"), (0.0123456, "1.23%"), (0.00005, "0.01%"),
        (0.0000499, "0.0050%"), (0.0000125, "0.0013%"), (1e-6, "0.00010%"), (3.456e-9, "0.00000035%"),
    ],
)  # fmt: skip
def test_shares_are_never_rounded_to_nothing(share, said):
    assert percent(share) == said


def test_help_fits_a_terminal(ask, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for command in ("trace", "decide"):
        out = ask(command, "--help")[1]
        assert [line for line in out.splitlines() if len(line) > 80] == []
        assert '{"length": 4096, ' in out  # a plan's file


def test_help_teaches(ask):
    for command in ("trace", "decide"):
        status, out, _ = ask(command, "--help")
        assert status == 0
        assert len(re.findall(rf"  cleanpipe {command} ", out)) >= 4
