"""A damaged store is mended by the line that made it, with repair: shards that differ are made again, byte for byte."""

import json
import shutil

import pytest
from token_runs import made_run, small_crawl, tokens, tree

from cleanpipe.errors import ConfigError, DamagedFileError
from cleanpipe.io.store import open_store
from cleanpipe.observer import Observer
from cleanpipe.options import StorageOptions
from cleanpipe.recipe import fingerprint
from cleanpipe.tokens.decisions import Decision, append
from cleanpipe.tokens.store import open_tokens
from cleanpipe.tokens.store.verify import verify_tokens


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run of several shards, and its tokens."""
    folder = tmp_path_factory.mktemp("repair")
    made_run(small_crawl(folder / "crawl"), folder / "out")
    tokens(folder / "out", folder / "tokens")
    return folder


def flipped(path):
    """One bit of a file, in place: a hard link has it too."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    with path.open("r+b") as file:
        file.write(data)


def short(path):
    path.write_bytes(path.read_bytes()[:-2])


def gone(path):
    path.unlink()


def emptied(path):
    path.write_bytes(b"")


NAME = "tokens-00001-of-"
# what is damaged (by its begin), how, and how many shards are made again
DAMAGES = {
    "a bit of a payload": (f"tokens/{NAME}*.bin", flipped, 1),
    "a payload cut short": (f"tokens/{NAME}*.bin", short, 1),
    "datatrove's link replaced": (f"tokens/{NAME}*.ds", lambda p: (p.unlink(), p.write_bytes(b"x")), 1),
    "no index of Megatron": (f"tokens/{NAME}*.idx", gone, 1),
    "offsets": (f"tokens/{NAME}*.offsets.npy", flipped, 1),
    "checksums": (f"tokens/{NAME}*.sums", flipped, 1),
    "spans": (f"spans/{NAME}*.arrow", flipped, 1),
    "a part of the ledger": ("ledger/part-00001.parquet", flipped, 1),
    "no part of the ledger": ("ledger/part-00001.parquet", gone, 1),
    "a shard's counts": (f"audit/shards/{NAME}*.ids.npy", flipped, 1),
    "a shard's record": (f"audit/shards/{NAME}*[0-9].json", emptied, 1),
    "the audit": ("audit/audit.json", emptied, 0),
    "the page": ("audit/audit.html", flipped, 0),
    "store.json": ("store.json", emptied, 0),
    "run.json": ("run.json", emptied, 0),
    "the tokenizer": ("tokenizer/tokenizer.json", short, 0),
    "the manifest": ("manifest.json", short, None),
    "no manifest": ("manifest.json", gone, None),
    "a manifest that says something else": (
        "manifest.json",
        lambda p: p.write_text(p.read_text().replace('"bytes": 1', '"bytes": 2')),
        None,
    ),
}


@pytest.mark.parametrize(("pattern", "damage", "again"), DAMAGES.values(), ids=DAMAGES)
def test_whatever_is_damaged_is_made_again_byte_for_byte(made, tmp_path, pattern, damage, again):
    target = shutil.copytree(made / "tokens", tmp_path / "tokens")
    (path,) = target.glob(pattern)
    damage(path)
    assert verify_tokens(target).findings
    done = tokens(made / "out", target, repair=True)
    count = len(done.info["shards"])
    assert count > 3
    assert (done.rebuilt, done.gates, done.exit_code) == ((count if again is None else again, count), (), 0)
    assert path.relative_to(target).as_posix() in done.damaged
    assert tree(target) == tree(made / "tokens")
    assert not verify_tokens(target).findings
    assert not (target / "work").exists()
    assert tokens(made / "out", target).already


def test_damage_of_two_shards_and_a_lost_folder(made, tmp_path):
    target = shutil.copytree(made / "tokens", tmp_path / "tokens")
    first, *_, last = sorted((target / "tokens").glob("*.bin"))
    flipped(first)
    gone(last)
    assert tokens(made / "out", target, repair=True).rebuilt[0] == 2
    assert tree(target) == tree(made / "tokens")
    shutil.rmtree(target / "spans")
    assert tokens(made / "out", target, repair=True).rebuilt[0] == len(list(target.glob("tokens/*.bin")))
    assert tree(target) == tree(made / "tokens")


def test_a_sound_store_is_proven_and_left_alone(made, tmp_path):
    target = shutil.copytree(made / "tokens", tmp_path / "tokens")
    done = tokens(made / "out", target, repair=True)
    named = json.loads((target / "manifest.json").read_text())["files"]
    assert (done.already, done.proven, done.damaged, done.rebuilt) == (True, len(named), (), None)
    assert tree(target, without=()) == tree(made / "tokens", without=())
    assert tokens(made / "out", target).proven == 0


def test_without_repair_a_wrong_size_is_told_with_the_way_out(made, tmp_path):
    target = shutil.copytree(made / "tokens", tmp_path / "tokens")
    short(next(target.glob(f"tokens/{NAME}*.bin")))
    with pytest.raises(ConfigError, match=r"damaged store \(tokens/tokens-00001.*--repair"):
        tokens(made / "out", target)
    emptied(target / "manifest.json")
    with pytest.raises(ConfigError, match="--repair"):
        tokens(made / "out", target)
    gone(target / "manifest.json")
    with pytest.raises(ConfigError, match=r"damaged store \(its manifest.json is gone\).*--repair"):
        tokens(made / "out", target)


def test_a_repair_that_was_stopped_goes_on_by_either_line(made, tmp_path):
    class Stop(Observer):
        def phase(self, name, tasks):
            if name == "map":
                raise KeyboardInterrupt

    for repair in (False, True):
        target = shutil.copytree(made / "tokens", tmp_path / f"tokens-{repair}")
        flipped(next(target.glob(f"tokens/{NAME}*.bin")))
        with pytest.raises(KeyboardInterrupt):
            tokens(made / "out", target, repair=True, observer=Stop())
        assert not (target / "manifest.json").exists()
        done = tokens(made / "out", target, repair=repair)
        assert done.rebuilt[0] == 1
        assert any(name.startswith(f"tokens/{NAME}") for name in done.damaged)
        assert tree(target) == tree(made / "tokens")


def test_repair_of_a_store_whose_decisions_grew(made, tmp_path):
    target = shutil.copytree(made / "tokens", tmp_path / "tokens")
    append(target, [Decision("quarantine", "host", "thai.example.org")])
    wanted = shutil.copytree(target, tmp_path / "wanted")
    tokens(made / "out", wanted)
    flipped(next(target.glob("tokens/tokens-00000-*.bin")))
    done = tokens(made / "out", target, repair=True)
    assert done.gates == ()
    assert done.audit["funnel"]["quarantined"]["decision"]["documents"] == 1
    assert tree(target) == tree(wanted)


def test_repair_refuses_what_is_no_store_or_anothers(made, tmp_path):
    other = tmp_path / "other"
    made_run(small_crawl(tmp_path / "crawl", {"one": "Another text of another crawl. " * 40}), other)
    for spoil in ((), ("run.json",)):
        target = shutil.copytree(made / "tokens", tmp_path / f"tokens{len(spoil)}")
        for name in spoil:
            emptied(target / name)
        before = tree(target, without=())
        with pytest.raises(ConfigError, match=r"inputs|another run"):
            tokens(other, target, repair=True)
        with pytest.raises(ConfigError, match="tokenizer"):
            tokens(made / "out", target, repair=True, tokenizer="gpt2")
        assert tree(target, without=()) == before
    target = tmp_path / "own"
    target.mkdir()
    (target / "store.json").write_text("{}")
    with pytest.raises(ConfigError, match="no tokens"):
        tokens(made / "out", target, repair=True)
    assert (target / "store.json").read_text() == "{}"
    with pytest.raises(ConfigError, match="a run, not tokens"):
        tokens(made / "out", other, repair=True)
    assert not (other / "work" / "plan.json").exists()


def test_repair_of_nothing_makes_the_store(made, tmp_path):
    assert tokens(made / "out", tmp_path / "tokens", repair=True).rebuilt is None
    assert tree(tmp_path / "tokens") == tree(made / "tokens")


def test_a_shard_that_comes_out_otherwise_is_a_gate(made, tmp_path):
    target = shutil.copytree(made / "tokens", tmp_path / "tokens")
    (name,) = target.glob(f"tokens/{NAME}*.sums")
    manifest = json.loads((target / "manifest.json").read_text())
    manifest.pop("digest")
    label = name.relative_to(target).as_posix()
    manifest["files"][label]["sha256"] = "0" * 64
    (target / "manifest.json").write_text(json.dumps({**manifest, "digest": fingerprint(manifest)}))
    done = tokens(made / "out", target, repair=True)
    assert done.exit_code == 1
    assert [g.partition(" ")[0] for g in done.gates] == [label]
    assert tree(target) == tree(made / "tokens")


def test_an_object_store_is_mended_too(made, s3):
    far = StorageOptions(endpoint=s3.url)
    sets = (f"storage.endpoint={s3.url}",)
    store = open_store("s3://crawls/tokens", far)
    tokens(made / "out", "s3://crawls/tokens", sets=sets)
    whole = {name: store.read(name) for name, _ in store.names()}
    (payload,) = (n for n in whole if n.startswith(f"tokens/{NAME}") and n.endswith(".bin"))
    (spans,) = (n for n in whole if n.startswith("spans/tokens-00002-of-"))
    store.write(payload, whole[payload][:-1] + b"\xff")
    store.delete(spans)
    done = tokens(made / "out", "s3://crawls/tokens", sets=sets, repair=True)
    assert (set(done.damaged), done.rebuilt[0], done.gates) == ({payload, spans}, 2, ())
    again = {name: store.read(name) for name, _ in store.names()}
    assert set(again) == set(whole)
    assert {n for n in whole if again[n] != whole[n]} <= {"run.json", "manifest.json"}
    assert tokens(made / "out", "s3://crawls/tokens", sets=sets, repair=True).proven == len(whole) - 1


def test_a_damaged_block_names_its_documents_and_the_way_out(made, tmp_path):
    target = shutil.copytree(made / "tokens", tmp_path / "tokens")
    flipped(next(target.glob("tokens/tokens-00000-*.bin")))
    store = open_tokens(target)
    with pytest.raises(DamagedFileError, match=r"http://\S+ *.*--repair, makes it again$") as told:
        store.read(0, store.tokens)
    assert told.value.source.startswith("tokens/tokens-00000-")
    tokens(made / "out", target, repair=True)
    store = open_tokens(target)
    assert len(store.read(0, store.tokens)) == store.tokens
