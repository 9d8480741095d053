"""``cleanpipe watch`` of a run on an object store: the same, in few requests, with a lease in place of a lock."""

import json
import time

import pytest

from cleanpipe.io.lease import Lease
from cleanpipe.io.object_store import ObjectStore
from cleanpipe.observer import Observer
from cleanpipe.options import StorageOptions
from cleanpipe.queries import standing as standings
from cleanpipe.queries.standing import AT_WORK, NOBODY, NOT_KNOWN, Watched
from cleanpipe.run import run
from cleanpipe_jobs.cli import main


class Stop(Observer):
    """Ends the driver in a phase, after so many of its tasks; before that calls ``look`` after each."""

    def __init__(self, phase="", after=0, look=lambda: None):
        self.wanted, self.left, self.now, self.look = phase, after, "", look

    def phase(self, name, tasks):
        self.now = name
        self._count()

    def finished(self, label, documents, alive):
        self._count()

    def _count(self):
        self.look()
        if self.now == self.wanted:
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt


def stopped(inputs, out, phase, after, sets=()):
    with pytest.raises(KeyboardInterrupt):
        run("web", inputs, out, engine="serial", sets=sets, observer=Stop(phase, after))
    return out


@pytest.fixture
def many(make, tmp_path):
    """Five archives of six documents: in each one is gone, and one is the same as in the others."""
    folder = tmp_path / "crawl"
    folder.mkdir()
    for n in range(5):
        pages = [make.response(f"http://h{n}.example.org/{i}", make.page(make.prose(n * 10 + i))) for i in range(4)]
        pages.append(make.response(f"http://h{n}.example.org/same", make.page(make.prose(3))))
        pages.append(make.response(f"http://h{n}.example.org/gone", make.page(make.prose(1)), status="404 Not Found"))
        make.write_gz(folder / f"{n}.warc.gz", [make.warcinfo(), *pages])
    return folder


@pytest.fixture
def there(s3, many, tmp_path):
    return [f"storage.endpoint={s3.url}", f"storage.scratch={tmp_path}"], StorageOptions(
        endpoint=s3.url, scratch=str(tmp_path)
    )


def test_a_run_on_an_object_store_from_start_to_end(s3, there, many):
    sets, options = there
    watched, looks, asked = Watched(ObjectStore("s3://crawls/run", options), options), [], []

    def look():
        s3.forget()
        looks.append(watched.look())
        asked.append(
            [(r.method, r.path.partition("?")[0]) for r in s3.log() if "lease" not in r.path or r.method == "GET"]
        )

    look()
    run("web", [str(many)], "s3://crawls/run", engine="serial", sets=sets, observer=Stop(look=look))
    look()
    phases = [one.phase for one in looks]
    assert phases[0] == "waiting"
    assert phases[-1] == "finished"
    assert {"reading", "meeting", "windows", "publishing"} <= set(phases)
    assert max(one.documents for one in looks) == 30
    assert not [m for some in asked for m, _ in some if m not in ("GET", "HEAD")]
    # a look asks whether the run is finished, for the plan, the manifests, the lease; and for what is new
    assert max(len(some) for some in asked) <= 4 + 3
    assert all(one.holder for one in looks[1:-1])


def test_the_same_line_watches_an_object_store(s3, there, many, capsys):
    sets, _ = there
    stopped([str(many)], "s3://crawls/run", "window", 2, sets=sets)
    s3.forget()
    assert main(["watch", "s3://crawls/run", "--once", "--json", "--set", sets[0]]) == 0
    look = json.loads(capsys.readouterr().out)
    assert (look["phase"], look["units"], look["driver"]["state"]) == ("windows", {"done": 2, "of": 5}, NOBODY)
    assert not [r for r in s3.log() if r.method not in ("GET", "HEAD")]
    run("web", [str(many)], "s3://crawls/run", engine="serial", sets=sets)
    assert main(["watch", "s3://crawls/run", "--set", sets[0]]) == 0
    assert "s3://crawls/run/audit/audit." in capsys.readouterr().out
    assert main(["watch", "s3://crawls/nothing", "--once", "--set", sets[0]]) == 2


def test_a_lease_that_beats_is_at_work_and_one_that_stopped_is_nobody_s(s3, there, many, monkeypatch):
    sets, options = there
    stopped([str(many)], "s3://crawls/run", "read", 1, sets=sets)
    store, clock = ObjectStore("s3://crawls/run", options), [time.time()]
    watched = Watched(store, options, now=lambda: clock[0])

    def beat(n, **more):
        facts = {"id": "x", "host": "elsewhere", "pid": 7, "process": "", "beat": n, **more}
        store.write("work/lease.json", json.dumps(facts).encode())

    beat(1)
    assert (watched.look().driver, watched.look().holder) == (NOT_KNOWN, "process 7 on elsewhere")
    beat(2)
    assert watched.look().driver == AT_WORK
    clock[0] += Lease.BEAT
    assert watched.look().driver == AT_WORK
    clock[0] += 3 * Lease.BEAT
    assert watched.look().driver == NOT_KNOWN
    clock[0] += Lease.TTL
    assert watched.look().driver == NOBODY
    beat(3)
    assert watched.look().driver == AT_WORK


def test_many_units_cost_few_requests(s3, there, many, monkeypatch):
    """What is in a book is read once; of single manifests no more than a look may read."""
    from cleanpipe.engine import journal

    sets, options = there
    monkeypatch.setattr(journal, "BOOK", 2)
    stopped([str(many)], "s3://crawls/run", "read", 5, sets=sets)
    watched = Watched(ObjectStore("s3://crawls/run", options), options)
    s3.forget()
    assert watched.look().documents == 30
    first = len(s3.log())
    s3.forget()
    assert watched.look().documents == 30
    assert len(s3.log()) <= 5 < first
    monkeypatch.setattr(standings, "AT_ONCE", 0)
    assert Watched(ObjectStore("s3://crawls/run", options), options).look().documents == 24  # of the two books
