"""A backend that is found wrong is not used any more, and nothing of what it made stays."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lying_backend import ENCODE, PANICS, PROVE, SHARE
from token_runs import copy, made_run, small_crawl, tokens, tree

from cleanpipe.errors import StopError
from cleanpipe.io.store import LocalStore
from cleanpipe.observer import Observer
from cleanpipe.tokens.decisions import Decision, append
from cleanpipe.tokens.making import driver
from cleanpipe.tokens.making.trust import MARK, Trust, summed, used, wrong_ids

TOLD = ("run.json", "manifest.json", "store.json", "audit/audit.json", "audit/audit.md", "audit/audit.html")
WHY = "fast was found wrong: on a document of the run it gave other ids than hf, which made every shard"


class Told(Observer):
    def __init__(self):
        self.lines = []

    def warn(self, message):
        self.lines.append(message)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokens")
    made_run(small_crawl(folder / "crawl"), folder / "out", shard=12_000)  # "short" has others beside it
    for name, options in {"whole": {}, "windows": {"per_window": True}}.items():
        tokens(folder / "out", folder / name, **options)
    assert len(json.loads((folder / "whole" / "store.json").read_bytes())["shards"]) >= 5
    return folder


@pytest.fixture
def lying(monkeypatch):
    """A backend "fast" that is wrong on so many of 256 texts."""

    def make(share, panics=""):
        monkeypatch.setenv(SHARE, str(share))
        monkeypatch.setenv(PANICS, panics)
        monkeypatch.setattr(driver, "ENCODE", ENCODE)
        monkeypatch.setattr(driver, "PROVE", PROVE)

    return make


@pytest.mark.parametrize("engine", ["serial", pytest.param("local", marks=pytest.mark.slow)])
@pytest.mark.parametrize("share", [256, 100])
@pytest.mark.parametrize("per_window", [False, True])
def test_all_shards_of_a_lying_backend_are_made_by_the_reference(made, tmp_path, lying, engine, share, per_window):
    lying(share)
    told = Told()
    result = tokens(
        made / "out", tmp_path / "tokens", backend="fast", engine=engine, workers=2, observer=told,
        per_window=per_window,
    )  # fmt: skip
    assert tree(tmp_path / "tokens", without=TOLD) == tree(made / ("windows" if per_window else "whole"), without=TOLD)
    assert result.exit_code == 0
    for said in (result.info["backend"], result.audit["backend"], result.facts["backend"]):
        assert (said["asked"], said["used"], said["reason"]) == ("fast", "hf", WHY)
    for name in ("audit.json", "audit.md", "audit.html"):
        assert "fast was found wrong" in (tmp_path / "tokens" / "audit" / name).read_text()
    assert list(result.facts["backend"]["work"]) == ["hf"]
    assert result.facts["backend"]["work"]["hf"]["shards"] == len(result.info["shards"])
    assert set(result.facts["distrusted"]) == {"fast"}
    assert result.facts["differing_shards"] == result.facts["distrusted"]["fast"]
    assert sum("is not used any more, and hf makes again whatever it made" in line for line in told.lines) == 1


def test_an_honest_one_is_believed_and_compared_in_every_shard(made, tmp_path, lying):
    lying(0)
    result = tokens(made / "out", tmp_path / "tokens", backend="fast")
    assert tree(tmp_path / "tokens", without=TOLD) == tree(made / "whole", without=TOLD)
    assert result.info["backend"] == {"asked": "fast", "used": "fast", "reason": ""}
    (name, said), *others = result.facts["backend"]["work"].items()
    assert (name, others) == ("fast", [])
    assert said["compared_documents"] >= said["shards"] == len(result.info["shards"])
    assert result.facts["distrusted"] == {}


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["serial", "local"])
def test_a_job_that_is_stopped_meanwhile_forgets_it_too(made, tmp_path, lying, monkeypatch, engine):
    """After each file that the driver or a unit publishes."""
    lying(128)
    publish, write = LocalStore.publish, LocalStore.write

    def stopping(real):
        def call(store, *args):
            done = real(store, *args)
            if store.root == str(tmp_path / "tokens"):
                left[0] -= 1
                if not left[0]:
                    raise StopError("stopped by the test")
            return done

        return call

    whole, step, stops = tree(made / "whole", without=TOLD), 3 if engine == "serial" else 1, 0
    left = [0]
    monkeypatch.setattr(LocalStore, "publish", stopping(publish))
    monkeypatch.setattr(LocalStore, "write", stopping(write))
    for after in range(1, 400, step):
        left[0] = after
        try:
            result = tokens(made / "out", tmp_path / "tokens", backend="fast", engine=engine, workers=2)
        except StopError:
            stops += 1
            continue
        break
    assert stops >= 3
    assert result.info["backend"]["reason"] == WHY
    assert tree(tmp_path / "tokens", without=TOLD) == whole


def test_units_of_earlier_starts_are_forgotten(made, tmp_path, lying, monkeypatch):
    """Started with a backend that is right by chance; it is found wrong later, and not believed after a stop."""
    lying(0)
    target = tmp_path / "tokens"
    join = driver.Driver._join

    def stop(*_):
        raise StopError("stopped by the test")

    monkeypatch.setattr(driver.Driver, "_join", stop)
    with pytest.raises(StopError):
        tokens(made / "out", target, backend="fast")
    one = sorted((target / "tokens").glob("*.bin"))[0]
    one.unlink()  # so that one shard is made again, by a backend that lies now
    lying(256)
    with pytest.raises(StopError):
        tokens(made / "out", target, backend="fast")
    assert set(json.loads((target / MARK).read_bytes())) == {"fast"}
    monkeypatch.setattr(driver.Driver, "_join", join)
    result = tokens(made / "out", target, backend="fast")
    assert result.facts["units"]["resumed"] == len(result.info["shards"])  # by hf, before the stop
    assert result.info["backend"]["reason"] == WHY
    assert tree(target, without=TOLD) == tree(made / "whole", without=TOLD)


def test_a_store_that_is_made_again_in_part_knows_what_was_found(made, tmp_path, lying):
    lying(256)
    target = tmp_path / "tokens"
    tokens(made / "out", target, backend="fast")
    lying(0)  # it would not be found wrong today
    append(str(target), [Decision("quarantine", "url", "http://short.example.org/", reason="a test")])
    again = tokens(made / "out", target, backend="fast")
    assert again.rebuilt is not None and again.rebuilt[0] == 1
    assert again.info["backend"]["reason"] == WHY
    assert list(again.facts["backend"]["work"]) == ["hf"]


def test_what_was_taken_over_of_a_finished_store_is_not_believed_either(made, tmp_path, lying):
    target = copy(made / "whole", tmp_path / "tokens")
    append(str(target), [Decision("quarantine", "url", "http://short.example.org/", reason="a test")])
    lying(256)
    again = tokens(made / "out", target, backend="fast")
    assert again.rebuilt == (len(again.info["shards"]),) * 2
    other = copy(made / "whole", tmp_path / "other")
    append(str(other), [Decision("quarantine", "url", "http://short.example.org/", reason="a test")])
    tokens(made / "out", other)
    assert tree(target, without=(*TOLD, "decisions.jsonl")) == tree(other, without=(*TOLD, "decisions.jsonl"))


@pytest.mark.parametrize("engine", ["serial", pytest.param("local", marks=pytest.mark.slow)])
@pytest.mark.parametrize("per_window", [False, True])
def test_a_panic_costs_one_document(made, tmp_path, lying, engine, per_window):
    import pyarrow.parquet as pq

    lying(0, panics="水先人")
    result = tokens(made / "out", tmp_path / "tokens", backend="fast", engine=engine, workers=1, per_window=per_window)
    rows = [r for p in sorted((tmp_path / "tokens" / "ledger").glob("*.parquet")) for r in pq.read_table(p).to_pylist()]
    lost = [(r["url"], r["fate"], r["reason"], r["detail"]) for r in rows if r["fate"] != "kept"]
    why = "PanicException: no 水先人 here"
    assert lost == [("http://japanese.example.org/", "quarantined", "encoding_failed", why)]
    assert result.facts["units"]["retries"] == 0  # no worker died
    assert result.info["documents"] == len(rows) - 1


def test_what_units_say_is_summed_by_hand():
    before = {"texts": 5, "torch": "2", "cache": {"pieces": 9, "asked": 4}, "checks": {"ids": 10, "unseen": 3}}
    now = {"texts": 7, "torch": "2", "cache": {"pieces": 2, "asked": 9}, "checks": {"ids": 12, "unseen": 1}, "lost": 1}
    one = used(now, before)
    assert one == {"texts": 2, "torch": "2", "cache": {"pieces": 2, "asked": 5}, "checks": {"ids": 2}, "lost": 1}
    other = {"texts": 1, "torch": "3", "cache": {"pieces": 7, "asked": 1}, "device_bytes": 8}
    assert summed([one, other, {"device_bytes": 6}]) == {
        "texts": 3, "torch": "2, 3", "cache": {"pieces": 7, "asked": 6}, "checks": {"ids": 2}, "lost": 1,
        "device_bytes": 8,
    }  # fmt: skip
    assert summed([]) == {}


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 9)), max_size=4))
def test_the_order_of_units_plays_no_part(parts):
    assert summed(parts) == summed(parts[::-1])


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, ""),
        ({"checks": {"outside_vocabulary": 0, "control_ids": 0}}, ""),
        ({"checks": {"outside_vocabulary": 2, "control_ids": 0}}, "2 ids beyond the vocabulary on the device"),
        ({"checks": {"control_ids": 3}, "device": "H"}, "3 ids of controls on H"),
        ({"checks": {"control_ids": 3}, "checks_by_reference": {"control_ids": 3}}, ""),
    ],
)
def test_ids_that_no_text_may_hold(facts, expected):
    assert wrong_ids(facts) == expected


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b'{"fast": 1}'])
def test_a_mark_that_is_broken_is_none(tmp_path, data):
    store = LocalStore(tmp_path)
    store.write(MARK, data)
    assert not Trust(store).refuses("fast")
