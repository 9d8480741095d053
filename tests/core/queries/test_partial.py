"""A run that was stopped anywhere can be asked: it says what the finished run says, or "not decided yet"."""

import gzip
import hashlib
import json
import random
import zlib
from pathlib import Path

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from cleanpipe.complete import complete
from cleanpipe.engine import journal as journals
from cleanpipe.errors import ConfigError
from cleanpipe.io.store import LocalStore
from cleanpipe.observer import Observer
from cleanpipe.queries.opened_run import open_run
from cleanpipe.queries.unfinished import Unfinished
from cleanpipe.recipe import load_recipe, recipe_of
from cleanpipe.run import run

SMALL = ["read.unit_bytes=4096"]


class Stop(Observer):
    """Ends the driver in a phase, after so many of its tasks."""

    def __init__(self, phase, after):
        self.wanted, self.left, self.now = phase, after, ""

    def phase(self, name, tasks):
        self.now = name
        self._count()

    def finished(self, label, documents, alive):
        self._count()

    def _count(self):
        if self.now == self.wanted:
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt


def stopped(inputs, out, phase, after, sets=(), recipe="web"):
    with pytest.raises(KeyboardInterrupt):
        run(recipe, inputs, out, engine="serial", sets=sets, observer=Stop(phase, after))
    return out


def state(folder):
    """Every file with its time and digest."""
    files = sorted(p for p in Path(folder).rglob("*") if p.is_file())
    return [(str(p), p.stat().st_mtime_ns, hashlib.sha256(p.read_bytes()).hexdigest()) for p in files]


def by_id(table):
    return {r["doc_id"]: r for r in table.to_pylist()}


def sums(rows):
    """Documents by fate, stage and reason."""
    out = {}
    for r in rows:
        key = (r["fate"], r["stage"], r["reason"])
        out[key] = out.get(key, 0) + 1
    return out


@pytest.fixture
def many(make, tmp_path):
    """Six archives: kept, dropped, duplicates across them, one damaged."""
    folder = tmp_path / "crawl"
    folder.mkdir()
    for n in range(6):
        pages = [make.response(f"http://h{n}.example.org/{i}", make.page(make.prose(n * 10 + i))) for i in range(4)]
        pages.append(make.response(f"http://h{n}.example.org/same", make.page(make.prose(3))))
        pages.append(make.response(f"http://h{n}.example.org/gone", make.page(make.prose(1)), status="404 Not Found"))
        path = make.write_gz(folder / f"{n}.warc.gz", [make.warcinfo(), *pages])
        if n == 4:
            path.write_bytes(path.read_bytes()[:-40])
    return folder


@pytest.fixture
def whole(many, tmp_path):
    done = run("web", [str(many)], tmp_path / "whole", engine="serial")
    return by_id(ds.dataset(str(Path(done.out) / "ledger")).to_table()), done


STOPS = [
    # phase and tasks of it before the end; units done; what is said of the phase; the passes that are through
    ("read", 0, 0, "reading", 0),
    ("read", 1, 1, "reading", 0),
    ("read", 4, 4, "reading", 0),
    ("meet", 0, 6, "meeting", 1),
    ("window", 0, 6, "windows", 1),
    ("window", 2, 6, "windows", 1),
    ("publish", 0, 6, "publishing", 2),
    ("publish", 4, 6, "publishing", 2),
]


@pytest.mark.parametrize(("phase", "after", "units", "said", "through"), STOPS)
def test_what_is_decided_is_what_the_finished_run_decides(phase, after, units, said, through, many, whole, tmp_path):
    expected, done = whole
    out = stopped([str(many)], tmp_path / "out", phase, after)
    before = state(out)
    with open_run(out) as part:
        assert (part.finished, part.done, part.units, part.phase) == (False, units, 6, said)
        rows = part.ledger().to_table()
        aside = [r for p in (part.folder / "quarantine").iterdir() for r in pq.read_table(p).to_pylist()]
        audit = part.audit
        assert part.caution.startswith(f"{out} is not finished ({said}): this is of {units} of its 6 units")
        assert part.recipe.canonical() == json.loads(json.dumps(done.facts["identity"]["settings"]))
    assert state(out) == before
    ours = by_id(rows)
    assert len(ours) == rows.num_rows == audit["ledger"]["rows"]
    undecided = [d for d, r in ours.items() if r["fate"] is None]
    later = {"fate", "stage", "reason", "kept_doc_id", "jaccard", "windows", "shard"}
    for identity, row in ours.items():
        theirs = dict(expected[identity])
        if row["shard"] is None:  # which shard is known when the windows are packed
            theirs["shard"] = None
        if row["fate"] is None:
            assert {k: v for k, v in row.items() if v is not None and k not in later}.items() <= theirs.items()
        else:
            assert row == theirs
    assert audit["unfinished"] == {"done": units, "units": 6, "phase": said, "undecided": len(undecided)}
    if through == 2:
        assert len(ours) == len(expected)
        assert undecided == []
        assert sums(ours.values()) == sums(expected.values())
    elif (phase, after) == ("window", 2):
        assert 0 < len(undecided) < sum(r["fate"] == "kept" for r in ours.values()) + len(undecided)
        assert audit["funnel"][-1]["documents"]["share_of_run_input"]["value"] == "not measured"
    else:
        assert not any(r["fate"] == "kept" for r in ours.values())
    # what was set aside lies beside it, with its error
    assert sorted(r["doc_id"] for r in aside) == sorted(d for d, r in ours.items() if r["fate"] == "quarantined")
    assert all(r["error"] for r in aside)
    # every stage's losses are the ledger's, and the laws that can be judged hold
    counted = {
        (stage, reason): n
        for stage, facts in audit["stages"].items()
        for reason, n in {**facts["dropped"], **facts["quarantined"]}.items()
    }
    assert counted == {(s, r): n for (fate, s, r), n in sums(ours.values()).items() if s is not None}
    assert audit["conservation"]["balanced"]
    assert "rows of the shards" in audit["conservation"]["not_yet"]


def test_the_run_goes_on_as_if_nobody_had_asked(many, whole, tmp_path):
    out = stopped([str(many)], tmp_path / "out", "read", 3)
    with open_run(out):
        pass
    again = run("web", [str(many)], out, engine="serial")
    assert again.facts["units"]["resumed"] == 3
    for part in sorted((Path(whole[1].out) / "ledger").iterdir()):
        assert (out / "ledger" / part.name).read_bytes() == part.read_bytes()


def test_the_ledger_is_made_only_where_it_is_wanted(many, tmp_path):
    out = stopped([str(many)], tmp_path / "out", "read", 2)
    with open_run(out, want=("audit",)) as part:
        assert part.parts == []
        counts = part.audit["ledger"]
    with open_run(out) as part:
        assert len(part.parts) == 2
        assert part.audit["ledger"] == counts
        assert counts["rows"] == part.ledger().count_rows()


def test_before_the_first_unit_there_is_an_empty_ledger_with_its_columns(many, whole, tmp_path):
    out = stopped([str(many)], tmp_path / "out", "read", 0)
    with open_run(out) as part:
        assert part.ledger().count_rows() == 0
        assert part.ledger().schema.names == ds.dataset(str(Path(whole[1].out) / "ledger")).schema.names
        part.require(["url", "fate"])


def test_books_of_the_journal_are_read_as_single_manifests_are(many, tmp_path, monkeypatch):
    monkeypatch.setattr(journals, "BOOK", 2)
    out = stopped([str(many)], tmp_path / "out", "read", 5)
    names = [p.name for p in (out / "work/done/pass0").iterdir()]
    assert sum(n.startswith("book-") for n in names) == 2
    with open_run(out) as booked:
        assert booked.done == 5
        with open_run(stopped([str(many)], tmp_path / "plain", "read", 5)) as plain:
            assert booked.audit["funnel"] == plain.audit["funnel"] or booked.done != plain.done


def test_a_unit_whose_files_are_damaged_is_not_done(many, tmp_path):
    out = stopped([str(many)], tmp_path / "out", "read", 3)
    victim = next(iter(sorted((out / "work/pass0").rglob("*-fates.arrow"))))
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    victim.write_bytes(data)
    with open_run(out) as part:
        assert (part.done, len(part.parts)) == (2, 2)
        assert part.audit["funnel"][0]["documents"]["in"] == part.ledger().count_rows()
        assert part.audit["conservation"]["balanced"]


def test_a_part_that_the_driver_reads_anew_is_counted_once(make, tmp_path):
    """A span that begins within an archive in the archive is deceived; its first reading stays in the journal."""
    inner = b"".join(
        gzip.compress(make.response(f"http://inner.example.org/{i}", make.page(make.prose(i))), 6, mtime=0)
        for i in range(60)
    )
    download = make.response("http://a.example.org/dump.warc.gz", inner, content_type="application/gzip")
    packer = zlib.compressobj(0, zlib.DEFLATED, 31)
    pages = [gzip.compress(make.response(f"http://a.example.org/{i}", make.page(make.prose(100 + i)))) for i in (0, 1)]
    path = tmp_path / "nested.warc.gz"
    path.write_bytes(pages[0] + packer.compress(download) + packer.flush() + pages[1])
    out = stopped([str(path)], tmp_path / "out", "meet", 0, sets=SMALL)
    single = list((out / "work/done/pass0").glob("*.json"))
    with open_run(out) as part:
        assert part.done == part.units < len(single)
        urls = part.ledger().to_table().column("url").to_pylist()
        assert sorted(urls) == [f"http://a.example.org/{n}" for n in ("0", "1", "dump.warc.gz")]
        assert part.audit["conservation"]["balanced"]
        assert part.phase == "meeting"


def test_what_an_earlier_end_left_is_not_taken_for_done(many, tmp_path, monkeypatch):
    """An input that failed is read by a later start: then the meeting is another, and what came after it too."""
    from cleanpipe import run as runs

    real, away = runs.prepare, tmp_path / "away"

    def prepare(*args, **more):
        found = real(*args, **more)
        (many / "3.warc.gz").rename(away)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(runs, "prepare", prepare)
        first = run("web", [str(many)], tmp_path / "out", engine="serial")
    assert list(first.failed) == ["3.warc.gz"]
    away.rename(many / "3.warc.gz")
    out = stopped([str(many)], Path(first.out), "meet", 0)
    with open_run(out) as part:
        assert (part.done, part.phase) == (6, "meeting")
        assert part.undecided > 0
        assert not (part.ledger().to_table().column("fate").to_pylist()).count("kept")


def test_a_run_without_documents_works_everywhere(make, tmp_path):
    path = make.write_gz(tmp_path / "none.warc.gz", [make.warcinfo()])
    for phase, after in (("read", 1), ("meet", 0), ("window", 1), ("publish", 1)):
        out = stopped([str(path)], tmp_path / phase, phase, after)
        if phase == "read":
            assert list((out / "work/done/pass0").iterdir())
        with open_run(out) as part:
            assert part.ledger().count_rows() == 0
            assert part.audit["conservation"]["balanced"]
            assert part.audit["unfinished"]["undecided"] == 0
    done = run("web", [str(path)], tmp_path / "done", engine="serial")
    with open_run(done.out, data=True) as whole:
        assert whole.ledger().count_rows() == 0
        assert whole.shards().count_rows() == 0
        assert whole.caution == ""


def test_a_stage_of_ones_own_is_found_by_the_plan_or_the_way_out_is_said(make, tmp_path):
    (tmp_path / "plainly.py").write_text(
        "from dataclasses import dataclass\nfrom typing import ClassVar\nfrom cleanpipe.stage import Outcome, Stage\n"
        "@dataclass(frozen=True, kw_only=True)\nclass Plainly(Stage):\n    '''Nothing.'''\n"
        "    name: ClassVar[str] = 'plainly'\n    def open(self):\n        return Outcome\n"
    )
    recipe = tmp_path / "mine.toml"
    recipe.write_text('stages = ["http_filter", "html_scrub", "plainly.py", "windowing"]\n')
    path = make.write_gz(tmp_path / "a.warc.gz", [make.response("http://a.example.org", make.page(make.prose(1)))])
    out = stopped([str(path)], tmp_path / "out", "publish", 0, recipe=str(recipe))
    plan = json.loads((out / "work/plan.json").read_text())
    plan.pop("about", None)
    (out / "work/plan.json").write_text(json.dumps(plan))
    with pytest.raises(ConfigError, match=r"not finished.*'plainly'.*ask when it is finished"), open_run(out):
        pass
    plan["about"] = {"stages": [str(tmp_path / "plainly.py")], "recipe": "mine", "uris": [f"file://{path}"]}
    (out / "work/plan.json").write_text(json.dumps(plan))
    with open_run(out) as part:
        assert (part.recipe.name, part.phase) == ("mine", "publishing")
        assert part.facts["inputs"][0]["uri"] == f"file://{path}"
        assert [s.name for s in part.recipe.pipeline().stages] == ["http_filter", "html_scrub", "plainly", "windowing"]
        assert part.ledger().to_table().column("fate").to_pylist() == ["kept"]


BRITTLE = '''
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from cleanpipe.stage import Outcome, Stage, option


@dataclass(frozen=True, kw_only=True)
class Brittle(Stage):
    """Raises on a marker, as long as the file that it names is not there."""

    name: ClassVar[str] = "brittle"
    reads: ClassVar[frozenset[str]] = frozenset({"text"})
    mended: str = option("", "a file; once it is there, nothing raises")

    def open(self):
        def step(rows):
            if not Path(self.mended).exists() and any("marker7" in t for t in rows.column("text").to_pylist()):
                raise ValueError("cannot stand marker7")
            return Outcome(rows)

        return step
'''


@pytest.mark.parametrize(("phase", "after", "done"), [("read", 0, 2), ("meet", 0, 3), ("window", 1, 3)])
def test_a_rerun_that_was_stopped(phase, after, done, make, tmp_path):
    """Units without fault are those of the first run; the one that is treated again is undone until it is."""
    (tmp_path / "brittle.py").write_text(BRITTLE)
    recipe = tmp_path / "mine.toml"
    stages = ["http_filter", "html_scrub", "brittle.py", "minhash_sign", "minhash_drop", "windowing"]
    recipe.write_text(f'stages = {json.dumps(stages)}\n[brittle]\nmended = "{tmp_path}/mended"\n')
    for n in range(3):
        pages = [make.page([*make.prose(n * 5 + i), *(["marker7"] if n == i == 1 else [])]) for i in range(3)]
        make.write_gz(
            tmp_path / f"{n}.warc.gz", [make.response(f"http://h{n}.org/{i}", p) for i, p in enumerate(pages)]
        )
    first = run(str(recipe), [str(tmp_path)], tmp_path / "out", engine="serial")
    assert first.facts["again"] == 1
    (tmp_path / "mended").touch()
    with pytest.raises(KeyboardInterrupt):
        complete(
            recipe_of(LocalStore(first.out), load_recipe("web")),
            first.out,
            engine="serial",
            accept_code=True,
            observer=Stop(phase, after),
        )
    plan = tmp_path / "out/work/plan.json"
    plan.write_text(json.dumps({**json.loads(plan.read_text()), "about": {"stages": [str(tmp_path / "brittle.py")]}}))
    with open_run(first.out) as part:
        assert (part.done, part.units) == (done, 3)
        rows = part.ledger().to_table().to_pylist()
    assert len(rows) == 3 * done
    assert not [r for r in rows if r["reason"] == "stage_error"]


@pytest.mark.parametrize(
    ("what", "text", "message"),
    [
        ("no JSON", "{", "cannot be read"),
        ("another shape", "[]", "is not what a run writes"),
        ("no inputs", '{"settings": {}, "models": {}, "code": ""}', "is not what a run writes"),
    ],
)
def test_a_damaged_plan_is_told(what, text, message, tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "work/plan.json").write_text(text)
    with pytest.raises(ConfigError, match=message) as error, open_run(tmp_path):
        pass
    assert "\n" not in str(error.value)


def test_a_damaged_manifest_of_a_unit_is_an_undone_unit(many, tmp_path):
    out = stopped([str(many)], tmp_path / "out", "read", 3)
    victims = sorted((out / "work/done/pass0").glob("*.json"))
    victims[0].write_text("")
    victims[1].write_bytes(random.Random(1).randbytes(300))
    with open_run(out) as part:
        assert part.done == 1
    assert Unfinished.of(LocalStore(str(out)), part.recipe.storage).units == 6
