"""``cleanpipe trace`` and ``cleanpipe decide``: what is said, as text, JSON and CSV, and with which exit status."""

import csv
import io
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from made_tokens import doc_id, make_store, url_of

from cleanpipe.tokens import Plan, Reader, open_tokens
from cleanpipe.tokens.tracing import origin_of

CSV_ALONE = "--csv is for --url, --doc, --content and --host, and goes without --json"


# --- trace


def test_a_token(many, ask, as_json):
    out, tokens = many
    status, text, _ = ask("trace", tokens, "--token", 5000, "--text", "--run", out)
    assert status == 0
    lines = dict(line.strip().split(maxsplit=1) for line in text.splitlines()[1:] if line.startswith("  "))
    store = open_tokens(tokens)
    origin = origin_of(store, store.document_of(5000))
    assert text.startswith(f"token 5,000 of {store.tokens:,}: id ")
    assert lines["document"].startswith(origin.doc_id)
    assert lines["url"] == origin.url
    assert lines["record"] == f"{origin.source}, {origin.record_length:,} bytes from {origin.record_offset:,}"
    assert lines["archive"].startswith("proven: the archive gives the same bytes")
    assert "»" in lines["text"]
    status, facts, _ = as_json("trace", tokens, "--token", "5_000", "--text", "--run", out)
    assert status == 0
    assert facts["document"]["doc_id"] == origin.doc_id
    assert facts["proof"]["same"]
    assert facts["decided"] is None
    assert facts["characters"]["exact"]
    assert bytes.fromhex(facts["bytes"]) in facts["proof"]["text"].encode()


def test_a_token_of_moved_and_of_lost_archives(many, ask, tmp_path):
    out, tokens = many
    moved = tmp_path / "elsewhere"
    shutil.copytree(out.parent / "crawl", moved)
    assert ask("trace", tokens, "--token", 7, "--run", out, "--inputs", moved)[0] == 0
    for file in moved.iterdir():
        file.write_bytes(b"no archive at all")
    status, text, _ = ask("trace", tokens, "--token", 7, "--run", out, "--input", moved)
    assert status == 1
    assert "NOT PROVEN" in text


def test_a_step(many, ask, as_json):
    out, tokens = many
    plan = Plan(open_tokens(tokens), length=512, seed=4)
    status, facts, _ = as_json(
        "trace", tokens, "--step", 2, "--batch", 3, "--length", 512, "--seed", 4, "--run", out, "--text"
    )
    assert status == 0
    assert [s["sequence"] for s in facts["sequences"]] == [6, 7, 8]
    assert facts["plan"]["fingerprint"] == plan.fingerprint
    assert sum(d["token_stop"] - d["token_start"] for d in facts["documents"]) == 3 * 512
    assert all(d["proof"]["same"] for d in facts["documents"])
    shares = [(d["repeats"]["many"], d["rare_excess"], d["tokens"]) for d in facts["documents"]]
    assert shares == sorted(shares, reverse=True)
    assert all(d["rare_excess"] == max(0, 100 * d["rare"] - d["tokens"]) / 100 for d in facts["documents"])
    status, text, _ = ask("trace", tokens, "--step", 2, "--batch", 3, "--length", 512, "--seed", 4, "--top", 1)
    assert text.startswith(f"step 2: sequences 6 to 8 of plan {plan.fingerprint[:16]}")
    pieces, documents = facts["documents"], {d["document"]["doc_id"] for d in facts["documents"]}
    assert (
        f"\n{len(pieces)} pieces of {len(documents)} documents, the most suspect first (1 of {len(pieces)} shown):\n"
        in text
    )
    assert not re.search(r"\b1 (documents|sequences|tokens|pieces)\b", text)
    assert as_json("trace", tokens, "--host", "markup.example", "--csv")[:2] == (
        2,
        {"error": CSV_ALONE, "exit_code": 2},
    )
    one = as_json("trace", tokens, "--sequence", 7, "--length", 512, "--seed", 4, "--text")[1]
    assert one["sequences"][0]["text"] == facts["sequences"][1]["text"]
    assert one["step"] is None


def test_a_plan_from_a_readers_state(many, tmp_path, as_json, ask):
    _, tokens = many
    plan = Plan(open_tokens(tokens), length=256, seed=9, packing="best-fit", shuffle="block")
    file = tmp_path / "state.json"
    file.write_text(json.dumps(Reader(plan, batch=4).state_dict()))
    status, facts, _ = as_json("trace", tokens, "--sequence", 3, "--plan", file)
    assert status == 0
    assert facts["plan"]["fingerprint"] == plan.fingerprint
    status, _, err = ask("trace", tokens, "--sequence", 3, "--plan", file, "--seed", 8)
    assert (status, "of another plan" in err) == (2, True)


def test_a_mixture(made, tmp_path, as_json, ask):
    other = make_store(tmp_path / "other", [[n] * 10 for n in range(100, 130)], salt="other", name="made")
    plan = Plan([open_tokens(made), open_tokens(other)], length=24, weights=[1, 3])
    given = ["--length", 24, "--also", other, "--weights", 1, 3]
    source = [int(plan.rows(np.array([g])).source[0]) for g in range(8)]
    wanted = source.index(0)
    status, _, err = ask("decide", made, "mask", "--sequence", source.index(1), *given)
    assert (status, "another store" in err) == (2, True)
    status, facts, _ = as_json("decide", made, "mask", "--sequence", wanted, *given)
    assert status == 0
    assert {line["plan"] for line in facts["lines"]} == {plan.fingerprint}
    ids = [doc_id(int(d)).hex() for d in plan.documents(wanted)]
    assert [line["key"] for line in facts["lines"]] == ids


def test_back_from_documents(many, ask, as_json):
    _, tokens = many
    store = open_tokens(tokens)
    plan = Plan(store, length=128, packing="best-fit")
    url = "http://sub.awkward.example/long/2"
    status, facts, _ = as_json("trace", tokens, "--url", url, "--length", 128, "--packing", "best-fit")
    assert status == 0
    (one,) = facts["documents"]
    payload = (Path(tokens) / one["shard"]).read_bytes()[one["byte_start"] : one["byte_stop"]]
    assert np.frombuffer(payload, store.dtype).tolist() == store.read(one["token_start"], one["token_stop"]).tolist()
    assert facts["tokens"] == one["token_stop"] - one["token_start"] == one["shard_stop"] - one["shard_start"]
    held = [
        g
        for g in range(plan.sequences)
        if any(p.start < one["token_stop"] and one["token_start"] < p.stop for p in plan.locate(g))
    ]
    assert one["sequences"] == held
    text = ask("trace", tokens, "--doc", one["doc_id"][:8], "--length", 128, "--packing", "best-fit")[1]
    assert f"bytes {one['byte_start']:,} to {one['byte_stop']:,}" in text
    assert f"sequences {held[0]}, " in text


def test_a_takedown_list_as_csv(many, ask):
    _, tokens = many
    status, text, _ = ask("trace", tokens, "--host", "awkward.example", "markup.example", "--csv", "--length", 100)
    rows = list(csv.DictReader(io.StringIO(text)))
    store = open_tokens(tokens)
    assert status == 0
    assert len(rows) == 18
    for row in rows:
        assert origin_of(store, int(row["document"])).url == row["url"]
        assert store.document_range(int(row["document"])) == (int(row["token_start"]), int(row["token_stop"]))
        assert len(row["sequences"].split()) >= 1


def test_nothing_is_found(many, ask):
    _, tokens = many
    status, out, err = ask("trace", tokens, "--url", "https://www.lang3.example/3/")
    assert (status, out) == (2, "")
    assert err.endswith("it has http://lang3.example/3\n")
    status, out, err = ask("trace", tokens, "--url", "http://lang3.example/3", "http://nowhere.example/")
    assert status == 2  # one of two: what there is comes, and what is not is told
    assert "http://lang3.example/3" in out
    assert "nowhere" in err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "ask for one of"),
        (["--token", "1", "--sequence", "2", "--length", "9"], "ask for one of"),
        (["--token", "1", "--url", "x"], "ask for one of"),
        (["--token", "-1"], "no number from 0"),
        (["--token", "x"], "no number from 0"),
        (["--token", "99999999999999999999"], "no number from 0"),
        (["--token", "99999999"], "numbered from 0"),
        (["--sequence", "1"], "which sequences"),
        (["--sequence", "1", "--length", "0"], "1 to"),
        (["--sequence", "1", "--length", "9", "--packing", "first-fit"], "invalid choice"),
        (["--step", "1", "--length", "9"], "--batch"),
        (["--step", "1", "--length", "9", "--batch", "0"], "--batch"),
        (["--step", "1", "--length", "9", "--batch", "1000000"], "at a time"),
        (["--token", "1", "--batch", "9"], "--batch"),
        (["--token", "1", "--csv"], "--csv is for"),
        (["--token", "1", "--input", "x"], "goes with --run"),
        (["--url", "http://lang3.example/3", "--run", "x", "--input", "x"], "--token, --sequence or --step"),
        (["--url", "http://lang3.example/3", "--csv", "--text"], "no column for --text"),
        (["--url", "http://lang3.example/3", "--length", "9", "--weights", "1", "3"], "2 weights for 1 stores"),
        (["--token", "1", "--run", "/nowhere/at/all"], "/nowhere/at/all"),
        (["--doc", "12345"], "6 are needed"),
        (["--doc", "ffffffffff"], "begins with"),
        (["--doc", "no hex digits"], "hex digits"),
        (["--content", "00"], "hex digits"),
        (["--host", "a b"], "no host"),
        (["--url", " "], "empty"),
        (["--sequence", "1", "--plan", "/nowhere.json"], "cannot be read"),
        (["--sequence", "1", "--plan", "{folder}/text"], "no JSON"),
        (["--sequence", "1", "--plan", "{folder}/list"], "names no plan"),
        (["--sequence", "1", "--plan", "{folder}/odd"], "length 'many'"),
        (["--sequence", "1", "--plan", "{folder}/worse"], "seed"),
        (["--sequence", "1", "--plan", "{folder}/unknown"], "'lenght' is unknown; did you mean 'length'?"),
        (["--sequence", "1", "--plan", "{folder}/unknown"], "a plan has length, packing, seed, shuffle, weights, also"),
        (["--sequence", "1", "--plan", "{folder}/strange"], "'q' is unknown; a plan has"),
        (["--sequence", "1", "--plan", "{folder}/stores"], "further stores are named by"),
        (["--sequence", "1", "--plan", "{folder}/also"], "is a list of token stores"),
        (["--sequence", "1", "--plan", "{folder}/gone"], "/nowhere/at/all does not exist"),
        (["--sequence", "1", "--plan", "{folder}/weights"], "2 weights for 1 stores"),
        (["--sequence", "1", "--plan", "{folder}/count"], "'sequences' is -1"),
        (["--sequence", "1", "--length", "9", "--also", "{folder}"], "token store"),
        (["--token", "1", "--set", "read.max_body=1"], "storage"),
    ],
)
def test_bad_arguments_of_trace(many, ask, tmp_path, args, said):
    files = {"text": "length: 3", "list": "[1]", "odd": '{"length": "many"}', "worse": '{"length": 9, "seed": [1]}'}
    files |= {"unknown": '{"length": 9, "lenght": 9}', "strange": '{"length": 9, "q": 1}'}
    files |= {"stores": '{"length": 9, "stores": ["a"]}', "also": '{"length": 9, "also": {"a": 1}}'}
    files |= {"gone": '{"length": 9, "also": "/nowhere/at/all"}', "weights": '{"length": 9, "weights": [1, 3]}'}
    files |= {"count": '{"length": 9, "mixture": "0", "sequences": -1}'}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    status, out, err = ask("trace", many[1], *(a.format(folder=tmp_path) for a in args))
    assert (status, out) == (2, "")
    assert said in err.replace("\n", " ")
    assert "Traceback" not in err


@pytest.mark.parametrize("command", [["trace", "--token", "1"], ["decide", "list"]])
def test_no_store(ask, tmp_path, command):
    for place in (tmp_path, tmp_path / "nothing"):
        status, _, err = ask(command[0], place, *command[1:])
        assert (status, len(err.splitlines())) == (2, 1)


def test_a_damaged_payload_names_its_documents(made, ask):
    file = next(Path(made).glob("tokens/*00001*.bin"))
    data = bytearray(file.read_bytes())
    data[30] ^= 4
    file.unlink()
    file.write_bytes(bytes(data))
    status, _, err = ask("trace", made, "--sequence", 0, "--length", 800)
    assert status == 3
    assert url_of(20) in err


def test_a_damaged_payload_names_whole_urls(tmp_path, ask):
    """A page is known by its query; what is a secret in the URL of an archive is none in a page's."""
    urls = ["http://forum.example/display.php?poster=a&token=b#c", "https://forum.example/?x=(1)"]
    store = make_store(tmp_path / "made", [[7] * 10, [8] * 10], urls=urls)
    file = next(Path(store).glob("tokens/*.bin"))
    data = bytearray(file.read_bytes())
    data[3] ^= 4
    file.unlink()
    file.write_bytes(bytes(data))
    wanted = f"2 documents: {doc_id(0).hex()} ({urls[0]}), {doc_id(1).hex()} ({urls[1]})"
    status, _, err = ask("trace", store, "--sequence", 0, "--length", 24)
    assert (status, wanted in err) == (3, True)
    status, out, _ = ask("trace", store, "--sequence", 0, "--length", 24, "--json")
    assert wanted in json.loads(out)["error"]
    url = "http://forum.example/display.php?poster=z"
    assert f"has the url {url};" in ask("trace", store, "--url", url)[2]


def test_a_page_cannot_move_the_terminal(tmp_path, ask):
    store = make_store(tmp_path / "made", [[5, 6]], urls=["http://a.example/\x1b[2J\u202e"])
    _, out, _ = ask("trace", store, "--host", "a.example")
    assert "\x1b" not in out and "\u202e" not in out
    _, out, _ = ask("decide", store, "mask", "--host", "a.example", "--reason", "\x1b[2J")
    _, listed, _ = ask("decide", store, "list")
    assert "\x1b" not in out + listed
