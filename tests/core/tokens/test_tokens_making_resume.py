"""Jobs that stop anywhere and are started again, runs that are followed, decisions that make single shards anew."""

import json
import shutil
from collections import Counter
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from token_runs import copy, made_run, small_crawl, tokens, tree

from cleanpipe.errors import ConfigError, StopError
from cleanpipe.io.store import LocalStore
from cleanpipe.observer import Observer
from cleanpipe.tokens.decisions import Decision, append
from cleanpipe.tokens.making import work
from cleanpipe.tokens.store import open_tokens


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run of several shards, kept as it was before its end too, and its tokens."""
    folder = tmp_path_factory.mktemp("tokens")
    made_run(small_crawl(folder / "crawl"), folder / "out", keep_work=True)
    tokens(folder / "out", folder / "tokens")
    return folder


def ledger(store):
    parts = sorted((store / "ledger").glob("part-*.parquet"))
    return pa.concat_tables([pq.read_table(p) for p in parts]).to_pylist()


class Stops:
    """Lets so many files be published, then stops, before or after the next is there."""

    def __init__(self, monkeypatch, root):
        self.left, self.after, self.seen, self.root = 1 << 30, False, 0, str(root)
        publish = LocalStore.publish

        def stopping(store, draft, name, facts):
            if store.root != self.root:
                return publish(store, draft, name, facts)
            self.seen += 1
            self.left -= 1
            if self.left < 0 and not self.after:
                raise StopError("stopped by the test", source=name)
            done = publish(store, draft, name, facts)
            if self.left < 0:
                raise StopError("stopped by the test", source=name)
            return done

        monkeypatch.setattr(LocalStore, "publish", stopping)


@pytest.mark.slow
def test_a_job_that_is_stopped_anywhere_ends_with_the_same_bytes(made, tmp_path, monkeypatch):
    target = tmp_path / "tokens"
    stops = Stops(monkeypatch, target)
    tokens(made / "out", target)
    files, at = stops.seen, 0
    assert files > 40
    shutil.rmtree(target)
    for at in range(0, files, 3):  # every third file, before and after it is there; each start goes on
        for stops.after in (False, True):
            stops.left = at // 2 if at < files // 2 else at
            try:
                tokens(made / "out", target)
            except StopError:
                assert not (target / "manifest.json").exists()
                continue
        if (target / "manifest.json").exists():
            assert tree(target) == tree(made / "tokens")
            shutil.rmtree(target)
    stops.left = 1 << 30
    tokens(made / "out", target)
    assert tree(target) == tree(made / "tokens")
    assert not (target / "work").exists()


def test_what_is_done_is_not_done_again(made, tmp_path, monkeypatch):
    target, seen = tmp_path / "tokens", Counter()
    stops = Stops(monkeypatch, target)
    real = work.encode_shard

    def counted(context, task, watch):
        seen[task.label] += 1
        return real(context, task, watch)

    monkeypatch.setattr(work, "encode_shard", counted)
    for stops.left in (20, 40, 60, 1 << 30):
        try:
            tokens(made / "out", target)
            break
        except StopError:
            continue
    assert tree(target) == tree(made / "tokens")
    assert sum(seen.values()) <= len(seen) + 3  # at most the shard that each stop hit


def test_a_damaged_file_of_an_earlier_start_is_made_again(made, tmp_path, monkeypatch):
    target = tmp_path / "tokens"
    stops = Stops(monkeypatch, target)
    stops.left = 63  # all seven shards are encoded, one is joined
    with pytest.raises(StopError):
        tokens(made / "out", target)
    waiting = sorted((target / "work" / "encode").rglob("*-rows.arrow"))
    assert len(waiting) == len(list((made / "out" / "data").glob("*.arrow"))) == 7
    for path in waiting[:4]:  # their order hangs on the code: two of them at least are read again
        path.write_bytes(path.read_bytes()[:-8])
    payload = min((target / "tokens").glob("*.bin"))
    payload.unlink()
    stops.left, told = 1 << 30, []

    class Told(Observer):
        def warn(self, message):
            told.append(message)

    tokens(made / "out", target, observer=Told())
    assert tree(target) == tree(made / "tokens")
    assert any("done again" in line for line in told)


def test_two_processes_do_not_share_a_folder(made, tmp_path):
    target = tmp_path / "tokens"
    hold = LocalStore(str(target)).hold(print)
    with pytest.raises(ConfigError, match="another process is at work"):
        tokens(made / "out", target)
    hold.release()
    tokens(made / "out", target)
    assert tree(target) == tree(made / "tokens")


def test_an_unfinished_folder_is_refused_to_another_tokenizer(made, tmp_path, monkeypatch):
    target = tmp_path / "tokens"
    stops = Stops(monkeypatch, target)
    stops.left = 30
    with pytest.raises(StopError):
        tokens(made / "out", target)
    with pytest.raises(ConfigError, match="an unfinished store that differs: the tokenizer's content"):
        tokens(made / "out", target, tokenizer="gpt2")


def test_a_backend_that_is_refused_leaves_the_folder_free(made, tmp_path):
    with pytest.raises(ConfigError):
        tokens(made / "out", tmp_path / "tokens", backend="torch", device="nowhere")
    assert not (tmp_path / "tokens").exists()


# --- a run that is not finished yet


def unfinished(made, to):
    """The run as it was before its manifest: all its shards are published, their manifests are in the journal."""
    out = copy(made / "out", to)
    manifest = (out / "manifest.json").read_bytes()
    (out / "manifest.json").unlink()
    return out, manifest


def test_an_unfinished_run_is_refused_with_the_way_out(made, tmp_path):
    out, _ = unfinished(made, tmp_path / "out")
    with pytest.raises(ConfigError, match=r"not finished yet.*--follow"):
        tokens(out, tmp_path / "tokens")
    assert not (tmp_path / "tokens").exists()


def test_shards_are_encoded_while_the_run_still_publishes(made, tmp_path):
    out, manifest = unfinished(made, tmp_path / "out")
    units = sorted((out / "work" / "done" / "shard").glob("*.json"))
    assert len(units) > 3
    held = {path: path.read_bytes() for path in units[1:]}
    for path in held:
        path.unlink()
    steps = []

    def sleep(_):
        encoded = len(list((tmp_path / "tokens" / "tokens").glob("*.bin")))
        steps.append(encoded)
        if held:
            path, data = held.popitem()
            path.write_bytes(data)
        elif len(steps) < len(units) + 3:
            return
        else:
            (out / "manifest.json").write_bytes(manifest)

    result = tokens(out, tmp_path / "tokens", follow=True, sleep=sleep)
    assert steps[: len(units)] == list(range(1, len(units) + 1))  # each was encoded before the next came
    assert tree(tmp_path / "tokens") == tree(made / "tokens")
    assert result.exit_code == 0


def test_the_proof_is_of_the_first_shard_whichever_came_first(made, tmp_path):
    out, manifest = unfinished(made, tmp_path / "out")
    for path in (out / "work" / "done" / "shard").glob("*.json"):
        if "data-00004" not in path.read_text():
            path.unlink()

    def sleep(_):
        (out / "manifest.json").write_bytes(manifest)

    followed = tokens(out, tmp_path / "followed", follow=True, sleep=sleep, backend="fast")
    plain = tokens(made / "out", tmp_path / "plain", backend="fast")
    assert plain.facts["backend"]["used"] == "fast"
    assert plain.facts["backend"]["sampled_texts"] > 0
    assert followed.facts["backend"] == plain.facts["backend"]
    assert tree(tmp_path / "followed") == tree(tmp_path / "plain")


def test_a_run_that_has_not_begun_is_waited_for(made, tmp_path):
    out, told = tmp_path / "out", []

    class Told(Observer):
        def warn(self, message):
            told.append(message)

    result = tokens(out, tmp_path / "tokens", follow=True, observer=Told(), sleep=lambda _: copy(made / "out", out))
    assert "no run yet" in told[0]
    assert tree(tmp_path / "tokens") == tree(made / "tokens")
    assert not result.already


@pytest.mark.parametrize("which", [0, 1])  # the first one is also what the backend is proven on
def test_a_shard_that_changes_before_the_runs_end_is_encoded_as_it_is_then(made, tmp_path, which):
    out, manifest = unfinished(made, tmp_path / "out")
    shard = sorted((out / "data").glob("*.arrow"))[which]
    right = shard.read_bytes()
    shard.write_bytes(right[:-1] + b"?")  # what an earlier end left there

    def sleep(_):
        shard.write_bytes(right)
        (out / "manifest.json").write_bytes(manifest)

    tokens(out, tmp_path / "tokens", follow=True, sleep=sleep)
    assert tree(tmp_path / "tokens") == tree(made / "tokens")


def test_another_run_in_its_place_is_refused(made, tmp_path):
    out, _ = unfinished(made, tmp_path / "out")

    def sleep(_):
        shutil.rmtree(out)
        made_run(made / "crawl", out, shard=80_000)

    with pytest.raises(ConfigError, match="another run now"):
        tokens(out, tmp_path / "tokens", follow=True, sleep=sleep)


# --- a finished run that is damaged


@pytest.mark.parametrize("what", ["data/*.arrow", "ledger/*.parquet"])
@pytest.mark.parametrize("how", ["flip", "cut", "gone"])
def test_a_damaged_run_is_refused(made, tmp_path, what, how):
    out = copy(made / "out", tmp_path / "out")
    path = sorted(out.glob(what))[-1]
    data = path.read_bytes()
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes(data[:-1] if how == "cut" else data[: len(data) // 2] + b"?!" + data[len(data) // 2 + 2 :])
    with pytest.raises(ConfigError, match="cleanpipe verify"):
        tokens(out, tmp_path / "tokens")


def test_a_ledger_of_other_documents_is_refused(made, tmp_path):
    """A run whose program was at fault: every digest is right, and the ledger tells of other texts."""
    from cleanpipe.recipe import fingerprint

    out = copy(made / "out", tmp_path / "out")
    path = max(out.glob("ledger/*.parquet"), key=lambda p: p.stat().st_size)
    table = pq.read_table(path)
    ids = table.column("content_id").to_pylist()
    ids[0], ids[1] = ids[1], ids[0]
    at = table.schema.get_field_index("content_id")
    pq.write_table(table.set_column(at, table.schema.field(at), pa.array(ids, table.schema.field(at).type)), path)
    manifest = json.loads((out / "manifest.json").read_text())
    del manifest["digest"]
    import hashlib

    data = path.read_bytes()
    facts = manifest["files"][path.relative_to(out).as_posix()]
    facts |= {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (out / "manifest.json").write_text(json.dumps({**manifest, "digest": fingerprint(manifest)}))
    with pytest.raises(ConfigError, match="content_id of document 0"):
        tokens(out, tmp_path / "tokens")


# --- decisions


def decide(store, *lines):
    append(store, [Decision(action, kind, key) for action, kind, key in lines])


def test_a_quarantine_makes_its_shard_anew_and_no_other(made, tmp_path):
    target = copy(made / "tokens", tmp_path / "tokens")
    before = tree(target)
    row = next(r for r in ledger(target) if "thai" in r["url"])
    decide(target, ("quarantine", "doc_id", row["doc_id"].hex()), ("mask", "host", "short.example.org"))
    result = tokens(made / "out", target)
    total = len(result.info["shards"])
    assert result.rebuilt == (1, total)
    after = tree(target)
    changed = {n for n in before if before[n] != after[n]} | (after.keys() - before.keys())
    number = row["shard"].split("-")[1]
    told = {"audit/audit.json", "audit/audit.md", "audit/audit.html", "store.json", "decisions.jsonl"}
    assert all(number in name.rpartition("/")[2] for name in changed - told), changed
    rows = ledger(target)
    gone = next(r for r in rows if r["doc_id"] == row["doc_id"])
    assert (gone["fate"], gone["stage"], gone["reason"]) == ("quarantined", "tokenize", "decision")
    assert gone["detail"] == f"line 1: doc_id {row['doc_id'].hex()}"
    assert (gone["document"], gone["tokens"]) == (None, None)
    assert [r["fate"] for r in rows if "short" in r["url"]] == ["kept"]  # a mask is the reader's
    store = open_tokens(target, check="all")
    assert store.documents == len(rows) - 1
    assert row["doc_id"] not in {s["doc_id"] for i in range(total) for s in store.spans(i).to_pylist()}
    assert result.exit_code == 0  # it balances: what was decided is no loss
    assert tokens(made / "out", target).already


@pytest.mark.parametrize("kind", ["url", "host", "content_id"])
def test_documents_are_found_by_any_key(made, tmp_path, kind):
    target = copy(made / "tokens", tmp_path / "tokens")
    row = next(r for r in ledger(target) if "japanese" in r["url"])
    key = {"url": row["url"], "host": "japanese.example.org", "content_id": row["content_id"].hex()}[kind]
    decide(target, ("quarantine", kind, key))
    assert tokens(made / "out", target).rebuilt[0] == 1
    assert [r["url"] for r in ledger(target) if r["fate"] != "kept"] == [row["url"]]


def test_a_decision_that_is_taken_back_brings_the_document_back(made, tmp_path):
    target = copy(made / "tokens", tmp_path / "tokens")
    decide(target, ("quarantine", "host", "example.org"))
    empty = tokens(made / "out", target)
    assert empty.info["documents"] == 0
    assert empty.rebuilt == (len(empty.info["shards"]),) * 2
    assert open_tokens(target, check="all").documents == 0
    decide(target, ("revoke", "line", "1"))
    tokens(made / "out", target)
    told = ("run.json", "manifest.json", "store.json", "audit/audit.json", "audit/audit.html", "decisions.jsonl")
    assert tree(target, without=told) == tree(made / "tokens", without=told)


def test_lines_that_leave_nothing_out_are_the_readers(made, tmp_path):
    target = copy(made / "tokens", tmp_path / "tokens")
    decide(target, ("mask", "host", "thai.example.org"))
    append(target, [Decision("weight", "host", "emoji.example.org", weight=0.5)])
    result = tokens(made / "out", target)
    assert result.already
    decide(target, ("quarantine", "host", "elsewhere.example.com"))  # hits nobody
    assert tokens(made / "out", target).rebuilt[0] == 0
    assert tree(target)["tokens/" + result.info["shards"][0]["name"] + ".bin"] in tree(made / "tokens").values()
    assert tokens(made / "out", target).already


def test_decisions_that_are_there_before_the_first_job_hold_too(made, tmp_path):
    target = copy(made / "tokens", tmp_path / "tokens")
    decide(target, ("quarantine", "host", "code.example.org"))
    tokens(made / "out", target)
    (tmp_path / "new").mkdir()
    shutil.copy(target / "decisions.jsonl", tmp_path / "new")
    tokens(made / "out", tmp_path / "new")
    assert tree(tmp_path / "new") == tree(target)


@pytest.mark.slow
def test_a_rebuild_that_is_stopped_anywhere_ends_with_the_same_bytes(made, tmp_path, monkeypatch):
    """Also where it is decided otherwise between two starts."""
    first = copy(made / "tokens", tmp_path / "first")
    decide(first, ("quarantine", "host", "run.example.org"))
    one = copy(first, tmp_path / "one")
    tokens(made / "out", one)
    decide(first, ("revoke", "line", "1"), ("quarantine", "host", "controls.example.org"))
    decisions = (first / "decisions.jsonl").read_bytes()
    two = copy(first, tmp_path / "two")
    tokens(made / "out", two)
    target = tmp_path / "tokens"
    stops = Stops(monkeypatch, target)
    for at in range(0, 36, 2):
        shutil.rmtree(target, ignore_errors=True)
        copy(made / "tokens", target)
        shutil.copy(one / "decisions.jsonl", target)
        stops.left, stops.after = at, at % 4 == 0
        with suppress(StopError):
            tokens(made / "out", target)
        stops.left = 1 << 30
        if at % 3:
            (target / "decisions.jsonl").write_bytes(decisions)
        result = tokens(made / "out", target)
        assert tree(target) == tree(two if at % 3 else one), at
        if not at % 3:
            assert result.already or result.rebuilt[0] == 1  # also where an earlier start has done it
