"""``cleanpipe tokenize``: what it prints, its status, signals, kills, full disks, engines, and a run it follows."""

import hashlib
import json
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from token_runs import APART, BARE, copy, made_run, small_crawl, tokens, tree

from cleanpipe import batch as col
from cleanpipe.io.arrow import write_shard
from cleanpipe.recipe import fingerprint
from cleanpipe.tokens.decisions import Decision, append
from cleanpipe.tokens.store import open_tokens
from cleanpipe.tokens.tokenizer import open_tokenizer
from cleanpipe_jobs.cli import main

BUGS = Path(__file__).parents[1] / "data" / "bugs"
MARKS = ("--bos", "<|bos|>", "--eos", "<|eos|>")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run of several shards and its tokens."""
    folder = tmp_path_factory.mktemp("tokens")
    made_run(small_crawl(folder / "crawl"), folder / "out")
    tokens(folder / "out", folder / "tokens")
    return folder


def asked(*args, marks=MARKS, engine="serial"):
    return ["tokenize", *map(str, args), "--backend", "hf", "--engine", engine, *marks]


def line(*args, **options):
    return [sys.executable, "-m", "cleanpipe_jobs.cli", *asked(*args, **options)]


def test_a_person_sees_what_was_made_what_it_cost_and_what_comes_next(made, tmp_path, capsys):
    target = tmp_path / "tokens"
    assert main(asked(made / "out", "--tokens", target)) == 0
    out, err = capsys.readouterr()
    assert not err
    store = open_tokens(target)
    assert f"{store.tokens:,} in {store.documents:,} documents" in out
    for word in ("bytes a token", "hf", "balance", f"{target}/audit/audit.html", "CPU", "wall time"):
        assert word in out, word
    assert tree(target) == tree(made / "tokens")
    example = "\n".join(row.removeprefix("next").strip() for row in out.splitlines()[-2:])
    scope = {}
    exec(example.replace("batch.input_ids", "seen.append(batch.input_ids)"), scope | {"seen": (seen := [])})
    assert seen  # what it says to type next can be typed


def test_the_same_line_again_has_nothing_to_do(made, tmp_path, capsys):
    target = copy(made / "tokens", tmp_path / "tokens")
    before = tree(target, without=())
    assert main(asked(made / "out", "--tokens", target)) == 0
    assert "nothing to do" in capsys.readouterr().out
    assert main(asked(made / "out", "--tokens", target, "--json")) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["already_finished"]
    assert answer["exit_code"] == 0
    assert answer["digest"] == open_tokens(target).info["digest"]
    assert main(asked(made / "out", "--tokens", target, "-q")) == 0
    assert capsys.readouterr() == ("", "")
    assert tree(target, without=()) == before


def test_a_decision_says_how_many_shards_were_rebuilt(made, tmp_path, capsys):
    target = copy(made / "tokens", tmp_path / "tokens")
    append(target, [Decision("quarantine", "host", "thai.example.org")])
    assert main(asked(made / "out", "--tokens", target, "--strict")) == 0  # what was decided is no loss
    count = len(list((made / "tokens" / "tokens").glob("*.bin")))
    assert f"1 of {count} shards rebuilt, all others byte-identical" in capsys.readouterr().out


def test_log_lines_tell_tokens(made, tmp_path, capsys):
    log = tmp_path / "log.jsonl"
    assert main([*asked(made / "out", "--tokens", tmp_path / "tokens"), "--log", str(log), "-q"]) == 0
    lines = [json.loads(text) for text in log.read_text().splitlines()]
    told = [entry for entry in lines if entry["event"] == "task" and entry["kind"] == "encode"]
    store = open_tokens(tmp_path / "tokens")
    assert sum(entry["tokens"] for entry in told) == store.tokens
    assert lines[-1]["documents"] == store.documents
    assert [entry["phase"] for entry in lines if entry["event"] == "phase"] == ["prove", "map", "encode", "join"]
    capsys.readouterr()


WRONG = {
    "no run": (lambda f: [f / "nothing", "--tokens", f / "new"], "holds no run"),
    "no tokenizer": (lambda f: [f / "out", "--tokens", f / "new", "--tokenizer", f / "none.json"], "none.json"),
    "in the run": (lambda f: [f / "out", "--tokens", f / "out" / "tokens"], "lies in the run"),
    "no workers": (lambda f: [f / "out", "--tokens", f / "new", "--workers", "0"], "at least 1"),
    "an option of a stage": (lambda f: [f / "out", "--tokens", f / "new", "--set", "windowing.size=9"], "only storage"),
    "a share of two": (lambda f: [f / "out", "--tokens", f / "new", "--max-unk", "2"], "between 0 and 1"),
    "an id that is none": (lambda f: [f / "out", "--tokens", f / "new", "--bos", "99999999"], "99999999"),
}


@pytest.mark.parametrize(("args", "words"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_one_line_and_status_2(made, capsys, args, words):
    given = [*args(made)]
    marks = ("--eos", "<|eos|>") if "--bos" in given else MARKS
    assert main(asked(*given, marks=marks)) == 2
    out, err = capsys.readouterr()
    assert not out
    assert words in err
    assert err.count("\n") == 1
    assert not (made / "new").exists()


def test_help_teaches(capsys):
    with pytest.raises(SystemExit):
        main(["tokenize", "--help"])
    text = capsys.readouterr().out
    assert "cleanpipe tokenize run/web --tokens tokens/web" in text
    assert "--per-window" in text


# --- limits


@pytest.fixture(scope="module")
def poor(tmp_path_factory):
    """A tokenizer that knows Latin letters alone: everything else is <unk>."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE(unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.BpeTrainer(special_tokens=["<unk>", "<s>", "</s>"], vocab_size=120, show_progress=False)
    made.train_from_iterator(["the harbour pilot knows every channel by heart"] * 9, trainer)
    path = tmp_path_factory.mktemp("poor") / "tokenizer.json"
    made.save(str(path))
    return path


def test_too_many_unknown_tokens_are_told_with_the_figure(made, poor, tmp_path, capsys):
    args = asked(made / "out", "--tokens", tmp_path / "poor", "--tokenizer", poor, marks=())
    assert main([*args, "-q"]) == 1
    err = capsys.readouterr().err
    totals = json.loads((tmp_path / "poor" / "audit" / "audit.json").read_text())["totals"]
    assert totals["unk"] > 0.1 * totals["tokens"]
    assert f"{totals['unk']:,} of {totals['tokens']:,} tokens" in err
    assert "--max-unk" in err
    assert main([*args, "-q"]) == 1  # a finished store is judged by the line that asks
    assert main([*args, "--max-unk", "1", "-q"]) == 0


# --- a run whose windows are broken


def sealed(out, name, data):
    """A file of a run changed as a program at fault would have written it: every digest is right."""
    (out / name).write_bytes(data)
    manifest = json.loads((out / "manifest.json").read_text())
    del manifest["digest"]
    manifest["files"][name] |= {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (out / "manifest.json").write_text(json.dumps({**manifest, "digest": fingerprint(manifest)}))


def test_a_broken_document_costs_itself_alone(made, tmp_path, capsys):
    out = copy(made / "out", tmp_path / "out")
    name = next(
        p.relative_to(out).as_posix()
        for p in sorted(out.glob("data/*.arrow"))
        if max(pa.ipc.open_stream(p.read_bytes()).read_all().column(col.WINDOWS).to_pylist()) > 2
    )
    table = pa.ipc.open_stream((out / name).read_bytes()).read_all()
    windows = table.column(col.WINDOW).to_pylist()
    at = next(i for i, n in enumerate(table.column(col.WINDOWS).to_pylist()) if n > 2) + 1
    windows[at] += 1  # the second window of a document calls itself the third
    column = pa.array(windows, pa.int32())
    table = table.set_column(table.schema.get_field_index(col.WINDOW), table.schema.field(col.WINDOW), column)
    write_shard(tmp_path / "shard", table.schema, table.to_batches())
    sealed(out, name, (tmp_path / "shard").read_bytes())
    target = tmp_path / "tokens"
    assert main(asked(out, "--tokens", target, "-q")) == 1  # one of so few is more than one in a hundred
    said = capsys.readouterr().err
    assert "quarantined: 1 of 13 documents could not be encoded (broken_windows)" in said
    assert "1 document was quarantined" in said
    assert main(asked(out, "--tokens", target, "-q", "--strict")) == 1
    rows = pa.concat_tables([pq.read_table(p) for p in sorted((target / "ledger").glob("*.parquet"))]).to_pylist()
    broken = [r for r in rows if r["fate"] != "kept"]
    assert [(r["fate"], r["stage"], r["reason"]) for r in broken] == [("quarantined", "tokenize", "broken_windows")]
    assert broken[0]["doc_id"] == table.column(col.DOC_ID)[at].as_py()
    whole = tree(made / "tokens")
    number = name.partition("-")[2][:5]
    same = {n for n, d in tree(target).items() if whole.get(n) == d}
    assert {n for n in whole if n.endswith(".bin") and f"-{number}-" not in n} <= same


# --- ended from outside


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("payloads", [0, 2])
def test_the_same_line_goes_on_after_a_signal(made, tmp_path, number, payloads):
    target = tmp_path / "tokens"
    args = line(made / "out", "--tokens", target, "--workers", "1", engine="local")
    with subprocess.Popen(args, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as begun:
        until = time.monotonic() + 60
        while time.monotonic() < until and begun.poll() is None:
            if (target / "work" / "plan.json").exists() and len(list(target.glob("tokens/*.bin"))) >= payloads:
                break
            time.sleep(0.002)
        begun.send_signal(number)
        err = begun.communicate(timeout=60)[1]
    assert begun.returncode == (-9 if number == signal.SIGKILL else 128 + number)
    assert not (target / "manifest.json").exists()
    if number != signal.SIGKILL:
        assert "start the same line again to go on" in err
        assert "Traceback" not in err
    again = subprocess.run(args, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert tree(target) == tree(made / "tokens")
    assert not (target / "work").exists()


def test_a_full_disk_is_status_3_and_loses_nothing(made, tmp_path):
    target = tmp_path / "tokens"
    args = line(made / "out", "--tokens", target)
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))  # noqa: E731
    stopped = subprocess.run(args, preexec_fn=limit, capture_output=True, text=True, check=False)
    assert stopped.returncode == 3, stopped.stderr
    assert "start the same line again" in stopped.stderr
    again = subprocess.run(args, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert tree(target) == tree(made / "tokens")


# --- engines, and a run that goes on


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.xdist_group("ray")
def test_ray_gives_the_same_bytes(made, tmp_path, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert main(asked(made / "out", "--tokens", tmp_path / "ray", "--workers", "2", "-q", engine="ray")) == 0
    assert tree(tmp_path / "ray") == tree(made / "tokens")


@pytest.mark.slow
def test_a_run_is_followed_to_its_end(made, tmp_path):
    """Both at once, as two lines in two terminals."""
    out, target = tmp_path / "out", tmp_path / "tokens"
    follow = line(out, "--tokens", target, "--follow", engine="local")
    sets = [word for option in [*BARE, "shards.max_bytes=20000"] for word in ("--set", option)]
    cleaning = [sys.executable, "-m", "cleanpipe_jobs.cli", "run", "web", str(made / "crawl"), "--out", str(out), *sets]
    with subprocess.Popen(follow, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as follower:
        time.sleep(1)
        subprocess.run([*cleaning, "--engine", "serial", "-q"], check=True)
        told, err = follower.communicate(timeout=120)
    assert follower.returncode == 0, err
    assert "no run yet" in err
    assert "balance" in told
    assert tree(target) == tree(made / "tokens")


def test_a_run_and_its_tokens_on_an_object_store(made, s3, tmp_path, monkeypatch, capsys):
    from cleanpipe.io.store import open_store
    from cleanpipe.options import StorageOptions

    store = open_store("s3://crawls/out", StorageOptions(endpoint=s3.url))
    for path in sorted((made / "out").rglob("*")):
        if path.is_file():
            store.write(path.relative_to(made / "out").as_posix(), path.read_bytes())
    where = ["--set", f"storage.endpoint={s3.url}", "--set", f"storage.scratch={tmp_path}"]
    args = asked("s3://crawls/out", "--tokens", "s3://crawls/tokens")
    assert main([*args, *where, "-q"]) == 0
    mine = open_store("s3://crawls/tokens", StorageOptions(endpoint=s3.url))
    found = {n: hashlib.sha256(mine.read(n)).hexdigest() for n, _ in mine.names() if n not in APART}
    # without links there is no .ds, and the records of the shards name it
    theirs = {n: d for n, d in tree(made / "tokens").items() if not n.endswith(".ds")}
    assert found.keys() == theirs.keys()
    apart = {n for n in found if found[n] != theirs[n]}
    assert apart == {n for n in found if n.startswith("audit/shards/") and n.count(".") == 1}
    assert main([*args, *where]) == 0
    assert "nothing to do" in capsys.readouterr().out


# --- the page that explains special tokens


def test_control_strings_of_a_page_stay_letter_for_letter_text(tmp_path, capsys):
    case = next(json.loads(text) for text in (BUGS / "cases.jsonl").read_text().splitlines() if '"b137"' in text)
    sets = [word for option in case["set"] for word in ("--set", option)]
    out = tmp_path / "out"
    assert main(["run", "web", str(BUGS / case["file"]), "--out", str(out), "--engine", "serial", "-q", *sets]) == 0
    for name in ("cleanpipe-16k", "gpt2"):
        target = tmp_path / name
        marks = ("--bos", "<|endoftext|>") if name == "gpt2" else MARKS
        assert main([*asked(out, "--tokens", target, "--tokenizer", name, marks=marks), "-q"]) == 0
        tokenizer, store = open_tokenizer(name), open_tokens(target, check="all")
        assert store.documents == 1
        ids = store.read(0, store.tokens).tolist()
        assert (ids[0], ids[-1]) == (store.bos, store.eos)
        assert not set(ids[1:-1]) & set(tokenizer.controls.values())
        text = tokenizer.decode(ids[1:-1])
        for string in case["expect"]["text_contains"]:
            assert string in text
        met = json.loads((target / "audit" / "audit.json").read_text())["controls"]["by_string"]
        assert {s for s in case["expect"]["text_contains"] if s.startswith("<")} <= met.keys()
    capsys.readouterr()
