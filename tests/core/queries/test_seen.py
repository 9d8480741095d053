"""The journal of finished units as it is seen from outside, whatever its driver does meanwhile."""

import hashlib
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanpipe.engine import journal as journals
from cleanpipe.engine.commit import Units
from cleanpipe.engine.journal import Journal
from cleanpipe.io.store import LocalStore
from cleanpipe.queries.seen import Seen
from cleanpipe.tally import add


def state(folder):
    """Every file with its time and digest."""
    files = sorted(p for p in Path(folder).rglob("*") if p.is_file())
    return [(str(p), p.stat().st_mtime_ns, hashlib.sha256(p.read_bytes()).hexdigest()) for p in files]


def manifest(n):
    files = {"rows": {"name": f"work/pass0/x/{n}", "bytes": n, "sha256": "0" * 64}}
    return {"files": files, "facts": {}, "unit": n, "tally": {"read": {"docs_in": n, "dropped": {f"r{n % 3}": 1}}}}


def key(n):
    return hashlib.sha256(str(n).encode()).hexdigest()[:32]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(0, 60), unique=True, max_size=40), st.integers(1, 9), st.sets(st.integers(0, 60)), st.data()
)
def test_any_cut_into_books_tells_the_same(units, book, wanted, data):
    """What is seen, looked at after any steps, is what the journal's owner has; a sum over some units is theirs."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(journals, "BOOK", book)
        store = LocalStore(folder)
        owner, seen = Journal(store, "pass0"), Seen(store, "pass0")
        for n in units:
            owner.add(key(n), owner.units.commit(key(n), manifest(n)))
            if data.draw(st.integers(0, 3)) == 0:
                seen.look()
        if units and data.draw(st.booleans()):
            seen.look()
            owner.forget(key(units[0]))
            units = units[1:]
        before = state(folder)
        seen.look()
        assert state(folder) == before
        assert seen.keys() == {key(n) for n in units}
        assert len(seen) == len(units)
        total = {}
        for n in units:
            assert seen.manifest(key(n))["unit"] == n
            add(total, manifest(n)["tally"])
        assert seen.tally() == total == seen.tally(seen.keys())
        some = {key(n) for n in wanted.intersection(units)}
        assert seen.tally(some) == owner.tally(some)


def test_a_driver_may_be_at_work_meanwhile(tmp_path, monkeypatch):
    """Manifests vanish into books between two requests: none is missed, none counted twice."""
    monkeypatch.setattr(journals, "BOOK", 5)
    store = LocalStore(str(tmp_path))
    owner, count = Journal(store, "pass0"), 200
    done = threading.Event()

    def work():
        for n in range(count):
            owner.add(key(n), Units(store, "pass0").commit(key(n), manifest(n)))
        done.set()

    worker = threading.Thread(target=work)
    worker.start()
    seen, last = Seen(store, "pass0"), 0
    while not done.is_set():
        seen.look()
        assert len(seen) >= last
        keys = seen.keys()
        assert seen.tally().get("read", {}).get("docs_in", 0) == sum(n for n in range(count) if key(n) in keys)
        last = len(seen)
        once = Seen(store, "pass0")  # who looks for the first time misses no more
        once.look()
        assert len(once) >= last
    worker.join()
    seen.look()
    assert seen.keys() == {key(n) for n in range(count)}
    assert seen.tally()["read"]["docs_in"] == sum(range(count))


def test_a_look_reads_no_more_than_it_may(tmp_path):
    store = LocalStore(str(tmp_path))
    units = Units(store, "pass0")
    for n in range(10):
        units.commit(key(n), manifest(n))
    seen = Seen(store, "pass0")
    seen.look(most=4)
    assert (len(seen), len(seen.unread), len(seen.singles)) == (10, 6, 4)
    seen.look(most=4)
    seen.look(most=4)
    assert (len(seen), len(seen.unread)) == (10, 0)
    assert seen.tally()["read"]["docs_in"] == 45
