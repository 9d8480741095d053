"""The replay gives what the run wrote, for documents of every fate; and says so where it does not."""

import importlib.util
import json
import random
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from cleanpipe import batch as col
from cleanpipe.observer import Observer
from cleanpipe.queries.explain import against_shard, shard_rows
from cleanpipe.queries.lookup import Finder
from cleanpipe.queries.replay import Replayer
from cleanpipe.queries.shelf import open_shelf
from cleanpipe.run import run

ROOT = Path(__file__).parents[3]


class Opened:
    """A run with everything to replay its documents."""

    def __init__(self, shelf, uris=None):
        self.shelf, self.finder = shelf, Finder(shelf)
        given = {i["source"]: i["uri"] for i in shelf.run.facts["inputs"] if i.get("uri")}
        self.replayer = Replayer(shelf.run, given | (uris or {}), self.finder.row_of)

    def rows(self):
        parts = [(p, self.shelf.part(p).metadata.num_rows) for p in self.shelf.parts]
        return self.shelf.rows([(p, i) for p, n in parts for i in range(n)])

    def row(self, url):
        return self.shelf.rows(self.finder.find(url).places)[0]


@pytest.fixture
def opened():
    """Opens runs, for the time of a test."""
    from contextlib import ExitStack

    with ExitStack() as stack:
        yield lambda out, uris=None: Opened(stack.enter_context(open_shelf(out)), uris)


def proves(run_, rows):
    """Replay them; a count of what they were."""
    seen = Counter()
    for row in rows:
        done = run_.replayer.replay(row)
        where = f"{row['source']}@{row['record_offset']}"
        assert done.undone == "", where
        assert done.differences == [], where
        assert done.proven
        assert {col.CONTENT_ID, col.FATE, col.STAGE, col.REASON, col.CHARS_OUT, col.WINDOWS} <= set(done.same)
        assert set(done.same) | set(done.unproven) == set(row)
        assert done.row["content_id"] == row["content_id"]
        if row["kept_doc_id"] is not None:
            assert done.keeper is not None
            assert done.row["jaccard"] == row["jaccard"]
        if row["fate"] == "kept":
            written = shard_rows(run_.shelf, row)
            assert written.num_rows == row["windows"]
            assert against_shard(written, done.windows, done.text, done.unproven) == [], where
        seen[row["fate"], row["stage"], row["reason"]] += 1
    return seen


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    out = tmp_path_factory.mktemp("replay") / "run"
    run("sample", [], out, engine="serial")
    return out


@pytest.mark.parametrize("share", range(3))
def test_every_document_of_the_sample_archives(sample, opened, share):
    """345 documents: WARC, WET, ARC, plain and gzip."""
    one = opened(sample)
    rows = one.rows()
    assert len(rows) == 345
    seen = proves(one, rows[share::3])
    assert len(seen) >= 7


def test_duplicates_damage_and_extracted_text(crawl, tmp_path, opened):
    run("web", [str(crawl)], tmp_path / "out", engine="serial", sets=["read.unit_bytes=4096"])
    one = opened(tmp_path / "out")
    seen = proves(one, one.rows())
    assert seen["dropped", "minhash_drop", "exact_duplicate"]
    assert seen["dropped", "minhash_drop", "near_duplicate"]
    assert seen["quarantined", "read", "damaged_range"]
    assert seen["kept", None, None]
    near = next(r for r in one.rows() if r["reason"] == "near_duplicate")
    done = one.replayer.replay(near)
    assert 0.85 <= done.row["jaccard"] < 1
    assert done.keeper.text != done.text
    assert done.unproven == ["shard", "minhash_drop_component"]


def test_a_twin_of_a_document_that_was_masked_after_they_met(make, tmp_path, opened):
    """The ledger tells of the masked text, the meeting saw the other."""
    base = [*make.prose(2, 40), "Write to jane.doe@firm.example for more of them."]
    near = [*base[:20], "Another sentence stands here.", *base[21:]]
    pages = [make.response(f"http://{n}.example/", make.page(p)) for n, p in (("a", base), ("b", near), ("c", base))]
    path = make.write_gz(tmp_path / "a.warc.gz", pages)
    run("web", [str(path)], tmp_path / "out", engine="serial", sets=["mask_personal.enabled=true"])
    one = opened(tmp_path / "out")
    seen = proves(one, one.rows())
    assert sorted(reason or "" for _, _, reason in seen) == ["", "exact_duplicate", "near_duplicate"]
    kept = one.row("http://a.example/")
    done = one.replayer.replay(one.row("http://b.example/"))
    assert kept["mask_personal_emails"] == 1
    assert done.keeper.row["content_id"] == kept["content_id"]
    assert "jane.doe" in done.keeper.text  # as they met
    assert "jane.doe" not in one.replayer.replay(kept).text


def build_hostile():
    path = ROOT / "tests/hostile/build.py"
    spec = importlib.util.spec_from_file_location("hostile_for_replay", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def hostile(folder, most):
    """The archives of the hostile corpus that are no larger, and quickly made: ARC, zstd, one gzip member, plain, …"""
    build = build_hostile()
    folder.mkdir()
    for number, case in enumerate(build.load()):
        chosen = case["kind"] == "archive" or (case["kind"] in ("encoding", "http") and number % 4 == 0)
        if chosen and not case["slow"] and not case.get("set") and "bomb" not in case["name"]:
            archive = build.made(case, number)
            if len(archive.data) <= most:
                (folder / archive.name).write_bytes(archive.data)
    return folder


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """A run over the smaller archives of the hostile corpus."""
    folder = tmp_path_factory.mktemp("odd")
    run("web", [str(hostile(folder / "in", 1 << 16))], folder / "out", engine="serial")
    return folder / "out"


def some(rows, n, seed):
    """n rows, drawn at random, every fate and every reason among them."""
    rng = random.Random(seed)
    groups = {}
    for row in rows:
        groups.setdefault((row["fate"], row["stage"], row["reason"]), []).append(row)
    chosen = {rng.choice(g)["doc_id"] for _, g in sorted(groups.items(), key=str)}
    left = [r for r in rows if r["doc_id"] not in chosen]
    chosen |= {r["doc_id"] for r in rng.sample(left, max(0, min(len(left), n - len(chosen))))}
    return [r for r in rows if r["doc_id"] in chosen]


def test_documents_of_the_hostile_corpus(odd, opened):
    one = opened(odd)
    rows = one.rows()
    names = {r["source"].partition(".")[2] for r in rows}
    assert {r["offset_kind"] for r in rows} == {"file", "inflated"}
    assert any(n.startswith("arc") for n in names), names
    assert any(n.endswith("zst") for n in names), names
    seen = proves(one, some(rows, 150, seed=4))
    assert {fate for fate, _, _ in seen} == {"kept", "dropped", "quarantined"}
    assert len(seen) >= 7  # an eighth, other_language, was UTF-16BE labelled utf-16le; it is read rightly now


@pytest.mark.slow
def test_a_thousand_documents(odd, sample, samples, tmp_path, opened):
    """Drawn at random from runs over the samples of the package, the hostile corpus, and the larger samples."""
    run("web", [str(samples / "warc"), str(samples / "wet")], tmp_path / "out", engine="local", workers=2)
    seen = Counter()
    for out, n in ((sample, 250), (odd, 250), (tmp_path / "out", 700)):
        one = opened(out)
        seen += proves(one, some(one.rows(), n, seed=n))
    assert sum(seen.values()) >= 1000, seen


def test_text_at_each_boundary(make, tmp_path, opened):
    html = make.page([*make.prose(2, 40), "Caf\u0301e\u200b and   blanks"])
    path = make.write_gz(tmp_path / "a.warc.gz", [make.response("http://a.example/", html)])
    run("web", [str(path)], tmp_path / "out", engine="serial")
    one = opened(tmp_path / "out")
    done = one.replayer.replay(one.row("http://a.example/"))
    assert [(b.stage, b.column) for b in done.boundaries] == [
        ("decode", "markup"),
        ("html_scrub", "scrubbed"),
        ("normalise", "text"),
    ]
    markup, scrubbed, text = (b.text for b in done.boundaries)
    assert markup == html
    assert "<p>" not in scrubbed
    assert "\u200b" in markup
    assert "\u200b" not in text
    assert done.text == text
    assert [s for s, through in done.steps if through] == [
        "read", "http_filter", "url_filter", "decode", "rights", "language_preview", "html_scrub", "normalise",
        "language_id", "quality_score", "minhash_sign", "minhash_drop", "windowing", "utf8_normalize",
    ]  # fmt: skip
    spans = done.windows.select([col.CHAR_START, col.CHAR_END]).to_pylist()
    assert spans[0]["char_start"] == 0
    assert spans[-1]["char_end"] == len(text)


def test_a_document_that_ends_on_its_way(make, tmp_path, opened):
    pages = [make.response("http://a.example/", make.page(make.prose(1)), status="404 Not Found")]
    path = make.write_gz(tmp_path / "a.warc.gz", pages)
    run("web", [str(path)], tmp_path / "out", engine="serial")
    one = opened(tmp_path / "out")
    done = one.replayer.replay(one.row("http://a.example/"))
    assert done.steps == [("read", True), ("http_filter", False)]
    assert (done.proven, done.boundaries, done.windows) == (True, [], None)


CHANGES = [
    # a column of the ledger, what is put there, for which document
    (col.CONTENT_ID, bytes(16), "kept"),
    (col.LANGUAGE_ID_SCORE, 0.123456, "kept"),
    (col.CHARS_OUT, 1, "kept"),
    (col.WINDOWS, 99, "kept"),
    (col.FATE, "dropped", "kept"),
    (col.REASON, "bad_type", "dropped"),
    (col.URL, "http://elsewhere.example/", "dropped"),
    (col.HTTP_STATUS, 201, "kept"),
]


@pytest.mark.parametrize(("column", "value", "fate"), CHANGES)
def test_a_ledger_that_says_something_else_is_found_out(sample, opened, column, value, fate):
    one = opened(sample)
    row = next(r for r in one.rows() if r["fate"] == fate and r["content_id"] is not None)
    changed = {**row, column: value}
    done = one.replayer.replay(changed)
    assert not done.proven
    assert [(d.column, d.ledger, d.replay) for d in done.differences] == [(column, value, row[column])]


def test_another_jaccard_and_another_kept_document(crawl, tmp_path, opened):
    run("web", [str(crawl)], tmp_path / "out", engine="serial")
    one = opened(tmp_path / "out")
    near = next(r for r in one.rows() if r["reason"] == "near_duplicate")
    done = one.replayer.replay({**near, "jaccard": 0.9})
    assert [d.column for d in done.differences] == ["jaccard"]
    stranger = next(r for r in one.rows() if r["fate"] == "kept" and r["doc_id"] != near["kept_doc_id"])
    done = one.replayer.replay({**near, "kept_doc_id": stranger["doc_id"]})
    assert {"fate", "stage", "reason", "kept_doc_id", "jaccard"} <= {d.column for d in done.differences}
    done = one.replayer.replay({**near, "kept_doc_id": bytes(16)})
    assert "in no row of the ledger" in done.undone


def test_inputs_that_moved_or_changed(crawl, tmp_path, opened):
    run("web", [str(crawl)], tmp_path / "out", engine="serial")
    moved = tmp_path / "elsewhere"
    crawl.rename(moved)
    one = opened(tmp_path / "out")
    row = one.row("http://a.example.org/1")
    done = one.replayer.replay(row)
    assert not done.proven
    assert "--input" in done.undone
    there = {p.name: str(p) for p in moved.iterdir()}
    one = opened(tmp_path / "out", there)
    assert one.replayer.input_changes(row) == []
    assert one.replayer.replay(row).proven
    (moved / "one.warc.gz").write_bytes(b"\x1f\x8b" + bytes(5000))
    assert "has 5,002 bytes" in one.replayer.input_changes(row)[0]
    done = one.replayer.replay(row)
    assert not done.proven
    assert done.error
    assert {"fate", "reason"} <= {d.column for d in done.differences}
    (moved / "one.warc.gz").write_bytes(b"")
    assert not one.replayer.replay(row).proven
    (moved / "one.warc.gz").unlink()
    assert "--input" in one.replayer.replay(row).undone


def test_another_record_where_the_document_lay(make, tmp_path, opened):
    first = make.response("http://a.example/", make.page(make.prose(1)))
    path = make.write_gz(tmp_path / "a.warc.gz", [first])
    run("web", [str(path)], tmp_path / "out", engine="serial")
    one = opened(tmp_path / "out")
    row = one.row("http://a.example/")
    other = make.write_gz(tmp_path / "b.warc.gz", [make.record("request", "http://a.example/", "text/plain", b"GET")])
    size = other.stat().st_size
    one = opened(tmp_path / "out", {"a.warc.gz": str(other)})
    done = one.replayer.replay({**row, "record_length": size})
    assert "no document any more" in done.undone


RAISING = '''
from dataclasses import dataclass
from typing import ClassVar
from cleanpipe.stage import Outcome, Stage

@dataclass(frozen=True, kw_only=True)
class Raising(Stage):
    """Raises on some pages."""
    name: ClassVar[str] = "raising"
    reads: ClassVar[frozenset] = frozenset({"text"})

    def open(self):
        def step(batch):
            if any("series" in t for t in batch.column("text").to_pylist()):
                raise ValueError("series")
            return Outcome(batch)
        return step
'''


def test_a_step_that_raised_raises_again(make, tmp_path, opened):
    (tmp_path / "raising.py").write_text(RAISING)
    (tmp_path / "r.toml").write_text('name = "r"\nextends = "web"\nstages = ["html_scrub", "./raising.py"]\n')
    pages = [make.response("http://a.example/bad", make.page(make.prose(1)))]
    pages.append(make.response("http://a.example/good", make.page(["Nothing of that kind is said on this page."] * 9)))
    path = make.write_gz(tmp_path / "a.warc.gz", pages)
    run(str(tmp_path / "r.toml"), [str(path)], tmp_path / "out", engine="serial")
    one = opened(tmp_path / "out")
    bad = one.row("http://a.example/bad")
    assert (bad["fate"], bad["reason"]) == ("quarantined", "stage_error")
    done = one.replayer.replay(bad)
    assert (done.proven, done.error) == (True, "ValueError: series")
    assert proves(one, one.rows()) == {("quarantined", "raising", "stage_error"): 1, ("kept", None, None): 1}


def test_what_a_guard_or_storage_set_aside_is_not_tried(sample, opened):
    one = opened(sample)
    row = one.rows()[0]
    done = one.replayer.replay({**row, "fate": "quarantined", "reason": "resource_limit"})
    assert (done.declined, done.steps) == (True, [])
    done = one.replayer.replay({**row, "fate": "quarantined", "reason": "damaged_range"}, "unreadable_input")
    assert done.declined
    assert "--rerun" in done.undone


def test_other_code_and_other_models_are_told(tmp_path, opened):
    out = tmp_path / "run"
    run("sample", [], out, engine="serial")
    assert opened(out).replayer.cautions() == []
    facts = json.loads((out / "run.json").read_text())
    facts["identity"]["code"] = "0" * 64
    facts["identity"]["models"]["quality_score.en"] = "1" * 64
    (out / "run.json").write_text(json.dumps(facts))
    manifest = json.loads((out / "manifest.json").read_text())
    manifest["files"]["run.json"]["bytes"] = (out / "run.json").stat().st_size
    (out / "manifest.json").write_text(json.dumps(manifest))
    said = " ".join(opened(out).replayer.cautions())
    assert "the code is not that of the run" in said
    assert "quality_score.en is not that of the run" in said


class Stop(Observer):
    def finished(self, label, documents, alive):
        raise KeyboardInterrupt


def test_an_unfinished_run_is_replayed_as_far_as_it_went(crawl, tmp_path, opened):
    with pytest.raises(KeyboardInterrupt):
        run("web", [str(crawl)], tmp_path / "out", engine="serial", observer=Stop())
    here = {p.name: str(p) for p in crawl.iterdir()}
    one = opened(tmp_path / "out", here)
    rows = one.rows()
    assert {r["fate"] for r in rows} >= {None, "dropped"}
    for row in rows:
        done = one.replayer.replay(row)
        assert done.proven, done
        assert done.windows is None


def test_a_ledger_of_fewer_columns(sample, opened):
    one = opened(sample)
    for row in one.rows()[::40]:
        older = {n: v for n, v in row.items() if n not in ("jaccard", "language_preview_letters", "windows")}
        done = one.replayer.replay(older)
        assert done.proven
        assert not {"jaccard", "windows"} & set(done.same)


def test_seen_changes_nothing(sample, opened):
    """The callback is told of every stage; with it the flow gives what it gives without."""
    from cleanpipe.engine.opened import opened as open_recipe
    from cleanpipe.io.archive import read_archive
    from cleanpipe.io.documents import DocumentBatches
    from cleanpipe.io.record import ReadLimits

    one = opened(sample)
    flow = open_recipe(one.shelf.run.recipe).flow(0)
    uri = one.replayer.uris["whirlwind.warc.gz"]
    for part in DocumentBatches().rows(read_archive(uri), "whirlwind.warc.gz", ReadLimits()):
        told = []
        seen = flow.run(part.batch, seen=lambda *step, into=told: into.append(step))
        plain = flow.run(part.batch)
        assert seen.fates == plain.fates
        assert seen.rows == plain.rows
        assert [stage.name for stage, _, _ in told] == [s.name for s, _ in flow.steps]
        assert told[0][1] is part.batch
        assert all(a[2] is b[1] for a, b in pairwise(told))
