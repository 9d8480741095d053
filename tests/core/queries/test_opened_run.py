"""A run is opened for questions wherever it lies; what is damaged, of another version or no run is told in one line."""

import hashlib
import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cleanpipe.audit.build import FORMAT
from cleanpipe.errors import ConfigError
from cleanpipe.observer import Observer
from cleanpipe.opening import ledger, shards
from cleanpipe.options import StorageOptions
from cleanpipe.queries.opened_run import open_run
from cleanpipe.run import run


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A finished run of the samples in the package."""
    out = tmp_path_factory.mktemp("made") / "run"
    run("sample", [], out, engine="serial")
    return out


@pytest.fixture
def out(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / "run"))


def digests(folder):
    return {p: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(Path(folder).rglob("*")) if p.is_file()}


def test_a_finished_run(out):
    before = digests(out)
    with open_run(out, data=True) as opened:
        assert (opened.finished, opened.phase, opened.undecided, opened.caution) == (True, "finished", 0, "")
        assert (
            opened.done
            == opened.units
            == len(opened.parts)
            == json.loads((out / "run.json").read_text())["units"]["total"]
        )
        assert opened.ledger().to_table() == ledger(out).to_table()
        assert opened.shards().to_table() == shards(out).to_table()
        assert opened.recipe.name == "sample"
        opened.require(["url", "doc_id", "language_id_score"])
        with pytest.raises(ConfigError, match=r"has no column 'color', 'taste'.*it has doc_id, source"):
            opened.require(["url", "color", "taste"])
    assert digests(out) == before


def changed(name, change):
    def damage(out):
        path = out / name
        data = json.loads(path.read_text())
        change(data)
        path.write_text(json.dumps(data))

    return damage


def written(name, data):
    return lambda out: (out / name).write_bytes(data)


def first_part(out):
    return sorted((out / "ledger").iterdir())[0]


DAMAGE = [
    # what happened to it; what is named; whether verify finds out more
    ("no audit", lambda o: (o / "audit/audit.json").unlink(), "audit/audit.json is damaged", True),
    ("half an audit", written("audit/audit.json", b'{"format": 1, "fun'), "audit/audit.json is damaged", True),
    ("audit of another shape", written("audit/audit.json", b"[1]"), "audit/audit.json is damaged", True),
    ("audit without a funnel", changed("audit/audit.json", lambda a: a.pop("funnel")), "has no 'funnel'", True),
    ("audit without a format", changed("audit/audit.json", lambda a: a.pop("format")), "has no 'format'", True),
    ("no facts", lambda o: (o / "run.json").unlink(), "run.json is damaged", True),
    ("facts with nothing in them", written("run.json", b"{}"), "run.json is damaged", True),
    ("an empty manifest", written("manifest.json", b""), "manifest.json is damaged", True),
    ("a manifest of another shape", written("manifest.json", b'"x"'), "manifest.json is damaged", True),
    ("a ledger part went", lambda o: first_part(o).unlink(), "ledger/part-00000.parquet is damaged", True),
    ("half a ledger part", lambda o: first_part(o).write_bytes(first_part(o).read_bytes()[:99]), "99 bytes, not", True),
    ("no ledger", lambda o: shutil.rmtree(o / "ledger"), "is damaged (it is not there", True),
    ("no recipe", lambda o: (o / "recipe.toml").unlink(), "there is no recipe.toml", False),
    ("later", changed("audit/audit.json", lambda a: a.update(format=FORMAT + 1)), f"format {FORMAT + 1}", False),
    ("an odd format", changed("audit/audit.json", lambda a: a.update(format="x")), 'in format "x"', False),
]  # fmt: skip


@pytest.mark.parametrize(("what", "damage", "named", "verify"), DAMAGE, ids=[d[0] for d in DAMAGE])
def test_a_damaged_run_is_told_in_one_line(what, damage, named, verify, out):
    damage(out)
    with pytest.raises(ConfigError) as error, open_run(out):
        pass
    text = str(error.value)
    assert named in text
    assert str(out) in text
    assert "\n" not in text
    assert (f"cleanpipe verify {out}" in text) == verify


def test_a_ledger_part_of_the_right_size_that_is_none(out):
    part = first_part(out)
    part.write_bytes(b"x" * part.stat().st_size)
    with open_run(out) as opened:
        for ask in (opened.ledger, lambda: opened.require(["url"])):
            with pytest.raises(ConfigError, match=f"cleanpipe verify {out}"):
                ask()


def test_what_is_not_wanted_is_not_looked_at(out):
    shutil.rmtree(out / "ledger")
    with open_run(out, want=("audit",)) as opened:
        assert opened.audit["funnel"]


def test_an_older_run_is_opened_and_what_it_lacks_is_said(out):
    audit = json.loads((out / "audit/audit.json").read_text())
    audit["format"] = 1
    (out / "audit/audit.json").write_text(json.dumps(audit))
    manifest = json.loads((out / "manifest.json").read_text())
    manifest["files"]["audit/audit.json"]["bytes"] = (out / "audit/audit.json").stat().st_size
    for part in (out / "ledger").iterdir():
        pq.write_table(pq.read_table(part).drop_columns(["jaccard"]), part)
        manifest["files"][f"ledger/{part.name}"]["bytes"] = part.stat().st_size
    (out / "manifest.json").write_text(json.dumps(manifest))
    with open_run(out) as opened:
        assert opened.ledger().count_rows() == audit["ledger"]["rows"]
        with pytest.raises(ConfigError, match="no column 'jaccard'"):
            opened.require(["jaccard"])


@pytest.mark.parametrize("kind", ["nothing", "empty", "file", "other files"])
def test_what_is_no_run(kind, tmp_path):
    place = tmp_path / "place"
    if kind == "file":
        place.write_text("x")
    elif kind != "nothing":
        place.mkdir()
        if kind == "other files":
            (place / "notes.txt").write_text("x")
    with pytest.raises(ConfigError, match="name the folder") as error, open_run(place):
        pass
    assert "\n" not in str(error.value)
    with pytest.raises(ConfigError):
        ledger(place)


class Stop(Observer):
    def phase(self, name, tasks):
        if name == "meet":
            raise KeyboardInterrupt


def test_opening_says_what_to_do_with_other_runs(crawl, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run("web", [str(crawl)], tmp_path / "out", engine="serial", observer=Stop())
    with pytest.raises(ConfigError, match=r"is not finished: start the same line again; .*open_run\('.*out'\)"):
        ledger(tmp_path / "out")
    with pytest.raises(ConfigError, match=r"is not finished.* no shards yet"):
        shards(tmp_path / "out")
    for call, way in ((ledger, r"run\.ledger\(\)"), (shards, r"data=True\) as run: run\.shards\(\)")):
        with pytest.raises(ConfigError, match=rf"s3://bucket/run: .*{way}"):
            call("s3://bucket/run")
    with open_run(tmp_path / "out", data=True) as opened, pytest.raises(ConfigError, match="no shards yet"):
        opened.shards()


def upload(s3, folder, prefix, but=()):
    for path in sorted(Path(folder).rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not name.startswith(tuple(but)):
            s3.client.put_object(Bucket="crawls", Key=f"{prefix}/{name}", Body=path.read_bytes())


def gets(s3):
    return [r.path.partition("?")[0].partition("/run/")[2] for r in s3.log("GET") if "list-type" not in r.path]


def test_on_an_object_store_what_is_wanted_is_copied(made, s3, tmp_path):
    upload(s3, made, "run")
    options = StorageOptions(endpoint=s3.url, scratch=str(tmp_path))
    s3.forget()
    with open_run("s3://crawls/run", options, want=("audit",)) as opened:
        assert opened.audit["funnel"]
        assert opened.parts == []
    assert not [name for name in gets(s3) if name.startswith(("ledger", "data", "quarantine"))]
    s3.forget()
    with open_run("s3://crawls/run", options, want=()) as opened:
        assert opened.audit["funnel"]
    assert sorted(gets(s3)) == ["audit/audit.json", "manifest.json", "recipe.toml", "run.json"]
    with open_run("s3://crawls/run", options) as opened:
        assert opened.ledger().to_table() == ledger(made).to_table()
    with open_run("s3://crawls/run", options, data=True) as opened:
        assert opened.shards().to_table() == shards(made).to_table()
    s3.client.delete_object(Bucket="crawls", Key="run/ledger/part-00000.parquet")
    with pytest.raises(ConfigError, match=r"part-00000\.parquet is damaged"), open_run("s3://crawls/run", options):
        pass


def test_an_unfinished_run_on_an_object_store(crawl, s3, tmp_path):
    sets = [f"storage.endpoint={s3.url}", f"storage.scratch={tmp_path}"]
    with pytest.raises(KeyboardInterrupt):
        run("web", [str(crawl)], "s3://crawls/run", engine="serial", sets=sets, observer=Stop())
    with pytest.raises(KeyboardInterrupt):
        run("web", [str(crawl)], tmp_path / "here", engine="serial", observer=Stop())
    s3.forget()
    with (
        open_run("s3://crawls/run", StorageOptions(endpoint=s3.url, scratch=str(tmp_path))) as there,
        open_run(tmp_path / "here") as here,
    ):
        assert (there.done, there.units, there.phase) == (3, 3, "meeting")
        assert there.ledger().to_table() == here.ledger().to_table()
        assert there.audit["funnel"] == here.audit["funnel"]
    assert s3.log("PUT") == []
    assert s3.log("DELETE") == []
    assert s3.log("POST") == []


def test_a_run_that_ends_while_it_is_opened_is_a_finished_one(crawl, tmp_path, monkeypatch):
    from cleanpipe.queries import unfinished

    with pytest.raises(KeyboardInterrupt):
        run("web", [str(crawl)], tmp_path / "out", engine="serial", observer=Stop())
    real = unfinished.Unfinished.look

    def look(self, *args, **more):
        real(self, *args, **more)
        run("web", [str(crawl)], tmp_path / "out", engine="serial")  # work/ is gone then

    monkeypatch.setattr(unfinished.Unfinished, "look", look)
    with open_run(tmp_path / "out") as opened:
        assert opened.finished
        assert opened.ledger().count_rows() == opened.audit["ledger"]["rows"]


def test_a_part_is_one_row_group_schema_for_all(made):
    with open_run(made) as opened:
        kinds = {str(pa.schema(pq.read_schema(p))) for p in opened.parts}
        assert len(kinds) == 1
