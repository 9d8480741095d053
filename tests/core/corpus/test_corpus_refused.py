"""What an audit refuses: said with the way out, and nothing is made."""

import gzip
import json

import pytest
from planted import SENTENCES

from cleanpipe.corpus.run import Options, audit_corpus
from cleanpipe.errors import ConfigError, StopError

TEXT = " ".join(SENTENCES[:6])


def audit(path, out):
    return audit_corpus([str(path)], out, Options(workers=1))


REFUSED = [
    ("no-such.jsonl", "no such file or folder"),
    ("*.nothing", "no such file or folder"),
    ("s3://bucket/c.jsonl", "only local files"),
    ("page.pdf", "of a kind that cannot be read"),
    ("crawl.warc.gz", "clean it with `cleanpipe run`"),
    ("array.json", "is one JSON array"),
    ("hollow", "holds no corpus file"),
]


@pytest.mark.parametrize(("name", "why"), REFUSED)
def test_what_is_no_corpus_is_refused_with_the_way_out(tmp_path, name, why):
    (tmp_path / "page.pdf").write_bytes(b"%PDF-1.7 " * 9)
    (tmp_path / "crawl.warc.gz").write_bytes(gzip.compress(b"WARC/1.0\r\n"))
    (tmp_path / "array.json").write_text(json.dumps([{"text": TEXT}], indent=1))
    (tmp_path / "hollow").mkdir()
    (tmp_path / "hollow" / "README.md").write_text("nothing")
    path = name if "://" in name else str(tmp_path / name)
    with pytest.raises(ConfigError, match=why):
        audit(path, tmp_path / "out")


@pytest.mark.parametrize(("name", "why"), [*REFUSED, ("trunc.parquet", "no file can be read: trunc.parquet: no ")])
def test_a_refused_audit_makes_nothing_and_leaves_an_older_one(tmp_path, name, why):
    (tmp_path / "in").mkdir()
    (tmp_path / "good.jsonl").write_text(json.dumps({"text": TEXT}))
    (tmp_path / "trunc.parquet").write_bytes(b"PAR1 and no more")
    path = name if "://" in name else str(tmp_path / name)
    with pytest.raises(ConfigError):
        audit(path, tmp_path / "new" / "out")
    assert not (tmp_path / "new").exists()
    audit(tmp_path / "good.jsonl", tmp_path / "old")
    before = (tmp_path / "old" / "audit.json").read_bytes()
    with pytest.raises(ConfigError) as caught:
        audit(path, tmp_path / "old")
    if name == "trunc.parquet":
        assert str(caught.value).startswith(why)
    assert (tmp_path / "old" / "audit.json").read_bytes() == before


def test_an_audit_that_fails_midway_leaves_no_folder(tmp_path, monkeypatch):
    (tmp_path / "c.jsonl").write_text(json.dumps({"text": TEXT}))

    def broken(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("cleanpipe.corpus.run.recurring.recurring", broken)
    with pytest.raises(StopError, match="No space left on device; free some space"):
        audit(tmp_path / "c.jsonl", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_only_local_files_is_said_before_anything(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.jsonl").write_text(json.dumps({"text": TEXT}))
    for paths, out in ((["nowhere", "s3://b/c.jsonl"], "out"), (["c.jsonl"], "s3://b/out")):
        with pytest.raises(ConfigError, match="only local files"):
            audit_corpus(paths, out, Options(workers=1))
    assert [p.name for p in tmp_path.iterdir()] == ["c.jsonl"]


def test_a_folder_of_archives_is_told_what_to_do(tmp_path):
    (tmp_path / "in" / "deep").mkdir(parents=True)
    for name in ("a.warc.gz", "deep/b.arc.gz"):
        (tmp_path / "in" / name).write_bytes(b"x")
    with pytest.raises(ConfigError, match="holds web archives: clean it with `cleanpipe run`"):
        audit(tmp_path / "in", tmp_path / "out")
