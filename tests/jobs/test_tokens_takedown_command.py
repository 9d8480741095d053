"""``cleanpipe trace`` and ``decide``: takedowns of what a store has, of what it has not, and plans by file."""

import json
import re
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_tokens import make_store, url_of
from traced_runs import make_tokens

from cleanpipe.run import run
from cleanpipe.tokens import Plan, Reader, open_tokens
from cleanpipe.tokens.tracing import sequence
from cleanpipe.tokens.tracing.proof import open_prover


@pytest.fixture
def no_tokenizer(monkeypatch):
    """Stores that we made have no tokenizer to tell characters by."""
    monkeypatch.setattr(sequence, "tokenizer_of", lambda _: None)


# --- plans by file


def test_a_mixture_of_other_weights_is_refused(made, tmp_path, no_tokenizer, as_json, ask):
    """A state knows its weights by a digest alone: forgotten or other ones would answer for other sequences."""
    other = make_store(tmp_path / "other", [[n] * 10 for n in range(100, 130)], salt="other", name="made")
    third = [(12, [1, 1])]
    stores = [open_tokens(made), open_tokens(other)]
    for name, weights, changes in (("mix", [1, 3], []), ("even", None, []), ("changed", [1, 3], third)):
        reader = Reader(Plan(stores, length=24, weights=weights, changes=changes), batch=4)
        for _ in zip(range(4), reader, strict=False):
            pass
        (tmp_path / f"{name}.json").write_text(json.dumps(reader.state_dict()))
    mix, even, changed = (str(tmp_path / f"{name}.json") for name in ("mix", "even", "changed"))
    asked = ["trace", made, "--sequence", 5, "--also", other]
    for more in ([mix], [mix, "--weights", 3, 1], [even, "--weights", 1, 3], [changed, "--weights", 1, 3]):
        status, out, err = ask(*asked, "--plan", *more)
        assert (status, out) == (2, "")
        assert f"{more[0]} was read by other mixing weights (" in err
        assert "name them by --weights" in err
        assert ask("decide", made, "mask", *asked[2:], "--plan", *more)[0] == 2
        assert ask("trace", made, "--url", url_of(3), "--also", other, "--plan", *more)[0] == 2
    told = ask(*asked, "--plan", mix)[2]
    assert f"({Plan(stores, length=24, weights=[1, 3]).mixture.version(16)} there; " in told
    counts = [-(-s.tokens // 24) for s in stores]
    assert f"which is {Fraction(*counts).numerator}:{Fraction(*counts).denominator})" in told
    status, facts, _ = as_json(*asked, "--plan", mix, "--weights", 2, 6)  # the same ratio
    assert (status, facts["plan"]["weights"], facts["plan"]["changes"]) == (0, [1, 3], [])
    assert ask(*asked, "--plan", even)[0] == 0
    _, text, _ = ask(*asked, "--plan", mix, "--weights", 1, 3)
    assert text.splitlines()[0].endswith(" sequences an epoch, weights 1:3")
    # what changed on the way is told by a plan's file
    whole = tmp_path / "whole.json"
    whole.write_text(
        json.dumps({**json.loads(Path(changed).read_text()), "also": other, "weights": [1, 3], "changes": third})
    )
    _, text, _ = ask("trace", made, "--sequence", 5, "--plan", whole)
    assert text.splitlines()[0].endswith(", weights 1:3, from sequence 12 on 1:1")
    _, text, _ = ask("trace", made, "--url", url_of(3), "--plan", whole)
    assert "weights 1:3, from sequence 12 on 1:1" in text.splitlines()[1]
    assert "weights" not in ask("trace", made, "--sequence", 5, "--length", 24)[1]


def test_a_plan_file_names_further_stores(made, tmp_path, no_tokenizer, as_json):
    other = make_store(tmp_path / "other", [[n] * 10 for n in range(100, 130)], salt="other", name="made")
    plan = Plan([open_tokens(made), open_tokens(other)], length=24, weights=[1, 3], seed=7)
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"length": 24, "also": [other], "weights": [1, 3], "seed": 2}))
    for g in range(6):
        facts = as_json("trace", made, "--sequence", g, "--plan", file, "--seed", 7)[1]  # an option stands above it
        assert facts["plan"]["fingerprint"] == plan.fingerprint
        places = [(p.source, p.start) for p in plan.locate(g)]
        assert facts["sequences"][0]["store"] == [made, other][places[0][0]]
        assert min(d["token_start"] for d in facts["documents"]) == places[0][1]


# --- documents that are there, and that are not


def test_what_is_decided_and_the_text_of_documents(store, many, ask, as_json):
    out, _ = many
    url = "http://lang3.example/3"
    (plain,) = as_json("trace", store, "--url", url)[1]["documents"]
    assert (plain["decided"], "text" in plain) == (None, False)
    ask("decide", store, "weight", "--url", url, "--weight", 0.5)
    status, facts, _ = as_json("trace", store, "--url", url, "--text")
    (one,) = facts["documents"]
    assert (status, one["decided"]) == (0, {"action": "weight", "weight": 0.5, "line": 1})
    with open_prover(out) as prover:
        assert one["text"] == prover.replay(one["doc_id"]).text.strip()
    _, text, _ = ask("trace", store, "--url", url, "--text")
    assert "      weight 0.5 (line 1 of decisions.jsonl)\n" in text
    assert one["text"].splitlines()[0][:60] in text


def test_stores_are_told_as_they_were_typed(made, tmp_path, monkeypatch, no_tokenizer, ask, as_json):
    other = make_store(tmp_path / "other", [[n] * 10 for n in range(100, 130)], salt="other", name="made")
    monkeypatch.chdir(tmp_path)
    plan = ["--length", 24, "--also", "../" + tmp_path.name + "/other", "--weights", 1, 1]
    said = [
        ask("trace", "made", "--url", url_of(3)),
        ask("trace", "made/", "--step", 0, "--batch", 4, *plan),
        ask("trace", "made", "--token", 10**9),
        ask("trace", "made", "--doc", "ffffffff"),
        ask("trace", "made", "--url", "http://nowhere.example/"),
        ask("decide", "made", "mask", "--url", "http://nowhere.example/"),
        ask("decide", "made", "mask", "--url", url_of(3)),
        ask("decide", "./made", "list"),
        ask("trace", "nothing", "--token", 1),
        ask("trace", "made", "--token", 1, "--run", "nothing"),
        ask("trace", "made", "--sequence", 1, "--length", 9, "--also", "nothing"),
    ]
    assert [status for status, _, _ in said] == [0, 0, 2, 2, 2, 2, 0, 0, 2, 2, 2]
    assert not any(str(tmp_path) in text for _, out, err in said for text in (out, err))
    assert said[0][1].splitlines()[0].endswith("% of made")
    assert {"made/", f"../{tmp_path.name}/other"} == set(re.findall(r"sequence \d of (\S+), epoch", said[1][1]))
    assert said[7][1].startswith("./made: 1 line\n")
    assert "no document of made has the url" in said[4][2]
    assert said[8][2].startswith("cleanpipe: nothing does not exist")
    (Path("made") / "decisions.jsonl").write_text("{}\n")
    for command in (["trace", "made", "--sequence", 0, "--length", 9], ["decide", "made", "list"]):
        status, _, err = ask(*command)
        assert (status, str(tmp_path) in err) == (3, False)
    assert {d["store"] for d in as_json("trace", "other", "--sequence", 0, "--length", 9)[1]["documents"]} == {"other"}
    assert other == str(tmp_path / "other")


def test_an_unfinished_store_is_not_taken_for_none(tmp_path, ask):
    for name, plan in (("job", {"tokenizer": {}, "rebuild": False}), ("run", {"settings": {}}), ("odd", [])):
        (tmp_path / name / "work").mkdir(parents=True)
        (tmp_path / name / "work" / "plan.json").write_text(json.dumps(plan))
    status, _, err = ask("trace", tmp_path / "job", "--token", 1)
    assert status == 2
    assert err == f"cleanpipe: {tmp_path}/job is not finished: the same `cleanpipe tokenize` line goes on\n"
    for name in ("run", "odd"):
        assert "holds no token store" in ask("trace", tmp_path / name, "--token", 1)[2]


@pytest.fixture
def crawled(crawl, tmp_path):
    """A run with duplicates and its store."""
    run("web", [str(crawl)], tmp_path / "run", engine="serial")
    return tmp_path / "run", make_tokens(tmp_path / "run", tmp_path / "tokens")


def test_duplicates_that_the_run_dropped(crawled, ask, as_json):
    out, tokens = crawled
    ledger = pa.concat_tables([pq.read_table(f) for f in sorted((out / "ledger").glob("part-*.parquet"))]).to_pylist()
    near = [r for r in ledger if r["kept_doc_id"] is not None]
    assert {r["reason"] for r in near} >= {"near_duplicate"}
    by_id = {r["doc_id"]: r for r in ledger}
    for row in near:
        url, kept, kept_url = row["url"], row["kept_doc_id"].hex(), by_id[row["kept_doc_id"]]["url"]
        alike = "" if row["jaccard"] == 1 else f" (Jaccard {row['jaccard']:.2f})"
        why = (
            f"{url} is not in {tokens}; the run dropped it as {row['reason']} of {kept} {kept_url}{alike}, which is: "
            f"add --doc {kept}"
        )
        for key in (["--url", url], ["--url", url.partition("://")[2]], ["--doc", row["doc_id"].hex()]):
            status, _, err = ask("trace", tokens, *key, "--run", out)
            assert status == 2
            assert why in err
        status, _, err = ask("trace", tokens, "--url", url)
        assert (status, err.strip().endswith("not known here: --run OUT")) == (2, True)
        assert why in ask("decide", tokens, "mask", "--url", url, "--run", out, "--dry-run")[2]
        assert "not known here: --run OUT" in ask("decide", tokens, "mask", "--url", url, "--dry-run")[2]
        # with the document that stands for it nothing is missing
        status, facts, err = as_json("trace", tokens, "--url", url, "--doc", kept, "--run", out)
        assert (status, err) == (0, "")
        assert [d["doc_id"] for d in facts["documents"]] == [kept]
        (one,) = facts["absent"]
        assert (one["doc_id"], one["by"], one["reason"], one["kept_doc_id"], one["kept"], one["jaccard"]) == (
            row["doc_id"].hex(), "run", row["reason"], kept, True, row["jaccard"],
        )  # fmt: skip
        text = ask("trace", tokens, "--url", url, "--doc", kept, "--run", out)[1]
        assert f"the run dropped it as {row['reason']} of {kept} {kept_url}{alike}, which is listed\n" in text


def test_other_fates_in_the_run(crawled, ask, as_json):
    out, tokens = crawled
    ledger = pa.concat_tables([pq.read_table(f) for f in sorted((out / "ledger").glob("part-*.parquet"))]).to_pylist()
    other = [r for r in ledger if r["fate"] == "dropped" and r["kept_doc_id"] is None and r["url"]]
    held = {r["url"] for r in ledger if r["fate"] == "kept" or r["kept_doc_id"]}
    assert other
    for row in [r for r in other if r["url"] not in held][:5]:
        status, facts, err = as_json("trace", tokens, "--url", row["url"], "--run", out)
        assert (status, err, facts["documents"], facts["tokens"]) == (0, "", [], 0)  # it is not there: that is proven
        assert {(a["stage"], a["reason"]) for a in facts["absent"]} >= {(row["stage"], row["reason"])}
        text = ask("trace", tokens, "--doc", row["doc_id"].hex()[:12], "--run", out)[1]
        assert f"the run dropped it: {row['stage']} {row['reason']}\n" in text
        assert (
            f"the run dropped it: {row['stage']} {row['reason']}"
            in (ask("decide", tokens, "mask", "--url", row["url"], "--run", out)[2])
        )
    # a host is looked for in the whole ledger
    hosts = {r["url"].split("/")[2] for r in other if r["url"].startswith("http://")}
    host = sorted(hosts)[0]
    wanted = {r["doc_id"].hex() for r in ledger if r["url"] and r["url"].split("/")[2] == host and r["fate"] != "kept"}
    facts = as_json("trace", tokens, "--host", host, "--run", out)[1]
    assert {a["doc_id"] for a in facts["absent"]} >= wanted


def test_a_duplicate_of_what_a_build_left_out(crawled, ask, as_json):
    """Then neither is there."""
    out, tokens = crawled
    base, near = "http://b.example.org/base", "http://b.example.org/near"
    (kept,) = as_json("decide", tokens, "quarantine", "--url", base)[1]["lines"][0]["documents"]
    assert ask("trace", tokens, "--url", near, "--run", out)[0] == 2
    make_tokens(out, tokens)
    status, facts, err = as_json("trace", tokens, "--url", near, base, "--run", out)
    assert (status, err, facts["documents"]) == (0, "", [])
    assert {(a["url"], a["by"], a["decided"], a["kept"]) for a in facts["absent"]} == {
        (near, "run", False, False), (base, "tokenize", True, False),
    }  # fmt: skip
    text = ask("trace", tokens, "--url", near, "--run", out)[1]
    assert f"as near_duplicate of {kept['doc_id']} {base} (Jaccard 0." in text
    assert "which is not in the store either\n" in text
    _, text, err = ask("trace", tokens, "--url", base, "--csv")  # a list for a machine stays one
    assert len(text.splitlines()) == 1
    assert f"cleanpipe: {base} is not in {tokens}; left out by decision, line 1: url {base}\n" == err


def test_urls_of_pages_are_told_whole(crawled, ask):
    """Also where another command knows no such page."""
    url = "http://no.example/display.php?poster=a&token=b"
    for command in (["explain", crawled[0], url], ["trace", crawled[1], "--url", url]):
        assert url in ask(*command)[2]


def test_another_run_is_told(crawled, crawl, many, tmp_path, ask):
    run("web", [str(crawl)], tmp_path / "other", engine="serial", sets=["minhash_drop.threshold=0.5"])
    near = "http://b.example.org/near"
    status, _, err = ask("trace", crawled[1], "--url", near, "--run", tmp_path / "other")
    assert (status, "is another run (config hash" in err) == (2, True)
    assert "is another run" not in ask("trace", crawled[1], "--url", near, "--run", crawled[0])[2]
    assert "nor has the run's ledger" in ask("trace", crawled[1], "--url", "http://no.example/", "--run", crawled[0])[2]
