"""``cleanpipe diff`` as it is typed: real runs, its three forms, its exit status, and what it refuses."""

import html.parser
import json
import re
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_runs import population, rows, some, write_run

from cleanpipe import batch as col
from cleanpipe.io.store import open_store
from cleanpipe.observer import Observer
from cleanpipe.options import StorageOptions
from cleanpipe.run import run
from cleanpipe_jobs.cli import main

EVIL = "<script>alert('x')</script>"
ESCAPE = "\x1b]0;owned\x07\x1b[31m"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The sample corpus: as it is, again, and with a higher threshold."""
    folder = tmp_path_factory.mktemp("runs")
    for name, sets in (("a", []), ("again", []), ("b", ["--set", "language_id.threshold=0.8"])):
        assert main(["run", "sample", "--out", str(folder / name), "--engine", "serial", "-q", *sets]) == 0
    return folder


def _json(capsys, *args):
    status = main(["diff", *map(str, args), "--json"])
    return status, json.loads(capsys.readouterr().out)


def test_a_run_and_itself_and_the_same_run_again(runs, capsys):
    for other in ("a", "again"):
        assert main(["diff", str(runs / "a"), str(runs / other), "--fail-on-drift"]) == 0
        assert capsys.readouterr().out.splitlines()[-1].startswith("no difference")


def test_another_threshold_on_the_console(runs, capsys):
    assert main(["diff", str(runs / "a"), str(runs / "b")]) == 0
    said = capsys.readouterr().out
    for line in (
        "  language_id.threshold not set (0.65 in force) → 0.8",
        "  the same 7 inputs",
        "  345 in both runs (joined: 345 by doc_id); 0 only in A; 0 only in B",
        "  19 met another fate:",  # 0.65 <= score < 0.8, of the ledger: 18 kept, one of high perplexity
    ):
        assert line in said.splitlines()
    assert re.search(r"^ +18  kept → dropped by language_id: low_confidence$", said, re.MULTILINE)
    assert re.search(r"^ +B language_id_score 0\.7\d+ < 0\.8 \(language_id\.threshold\)$", said, re.MULTILINE)
    assert "language_id_score, kept documents: has moved (PSI" in said


def test_as_json_and_mirrored(runs, capsys):
    status, there = _json(capsys, runs / "a", runs / "b")
    _, back = _json(capsys, runs / "b", runs / "a")
    assert status == 0
    assert there["documents"]["changed"] == back["documents"]["changed"] == 19
    assert there["exact"]
    assert there["a"]["kept"] - there["b"]["kept"] == 18
    cells = [{(c["a"], c["b"], c["documents"]) for c in d["documents"]["changes"]} for d in (there, back)]
    assert cells[0] == {(b, a, n) for a, b, n in cells[1]}
    line = next(e for e in there["lines"]["moved"] if e["line"] == "funnel.language_id.documents.share_of_stage_input")
    assert (line["of_a"], line["n_a"] - line["n_b"]) == (164, 19)


def test_drift_fails_where_it_is_asked_to(runs, capsys):
    assert main(["diff", str(runs / "a"), str(runs / "b"), "--fail-on-drift"]) == 1
    assert main(["diff", str(runs / "a"), str(runs / "b")]) == 0


def test_single_values_that_moved_are_no_alarm(tmp_path, capsys):
    """A tenth of the documents has another charset: the odds of two values moved, the whole is stable."""
    pages = population(7, pages=3000)
    other = {**pages, "charset": pages["charset"].copy()}
    other["charset"][::12] = "gbk"
    write_run(tmp_path / "a", rows(pages))
    write_run(tmp_path / "b", rows(other))
    status, found = _json(capsys, tmp_path / "a", tmp_path / "b", "--fail-on-drift", "--html", tmp_path / "x.html")
    assert status == 0
    assert found["drift"]["alarms"] == found["drift"]["wiped_out"] == []
    assert "charset" in {m["what"] for m in found["drift"]["notes"]}
    assert "No drift alarm." in _page(tmp_path / "x.html")
    assert 'class="verdict bad' not in (tmp_path / "x.html").read_text()
    assert main(["diff", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    said = capsys.readouterr().out
    assert "drift: no alarm" in said
    assert "single values moved, no alarm: " in said


def test_the_audit_of_a_corpus_is_no_run(runs, tmp_path, capsys):
    (tmp_path / "c.jsonl").write_text('{"text": "A line of English prose that is long enough to be judged."}\n' * 3)
    assert main(["audit", str(tmp_path / "c.jsonl"), "--out", str(tmp_path / "audit"), "--quiet"]) == 0
    capsys.readouterr()
    for pair in ((runs / "a", tmp_path / "audit"), (tmp_path / "audit", runs / "a"), (tmp_path / "audit",) * 2):
        assert main(["diff", *map(str, pair)]) == 2
        said = capsys.readouterr().err
        assert len(said.splitlines()) == 1
        for words in ("is the audit of a corpus", "cleanpipe audit", "cleanpipe run … --out", "audit.html"):
            assert words in said


class _Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.text = set(), [], []

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes += attributes

    def handle_data(self, data):
        self.text.append(data)


def _page(path):
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    assert not page.tags & {"script", "iframe", "object", "embed", "form", "img"}
    assert not [a for a, _ in page.attributes if a.startswith("on")]
    assert not [v for a, v in page.attributes if a in ("href", "src") and not v.startswith(("#", "data:"))]
    return " ".join("".join(page.text).split())


def test_as_a_page(runs, tmp_path, capsys):
    target = tmp_path / "diff.html"
    assert main(["diff", str(runs / "a"), str(runs / "b"), "--html", str(target)]) == 0
    said = _page(target)
    for words in (
        "language_id.threshold",
        "not set (0.65 in force)",
        "language_id: low_confidence",
        "18",
        "1 drift alarm",
    ):
        assert words in said
    assert len(target.read_bytes()) < 2_000_000


def _hostile(pages):
    table = rows(pages)
    n = table.num_rows
    urls = [f"http://{EVIL}.example/{ESCAPE}{i}\u202e\r\n" for i in range(n)]
    for name, values in (
        (col.URL, urls),
        (col.SOURCE, [f"{EVIL}{ESCAPE}.warc.gz"] * n),
        (col.MEDIA_TYPE, [f"text/{EVIL}{ESCAPE}"] * n),
        (col.CHARSET, [ESCAPE] * n),
        (col.LANGUAGE, [EVIL] * n),
    ):
        table = table.set_column(table.schema.get_field_index(name), name, pa.array(values))
    return table


def test_hostile_names_are_text_on_page_and_console(tmp_path, capsys):
    pages = population(1, pages=400, hosts=8)
    write_run(tmp_path / "a", rows(pages))
    write_run(tmp_path / "b", _hostile({**pages, "status": np.full(400, "404")}), files={EVIL + ESCAPE: "0" * 64})
    target = tmp_path / "diff.html"
    for pair in (("a", "b"), ("b", "a")):
        assert main(["diff", *(str(tmp_path / p) for p in pair), "--html", str(target)]) == 0
        console = capsys.readouterr().out
        assert all(line.isprintable() for line in console.splitlines())
        assert "\\x1b]0;owned\\x07" in console
        assert "&lt;script&gt;" in target.read_text()
        assert EVIL in _page(target)
        assert not set("\x1b\x07\u202e") & set(target.read_text())


def test_other_documents_with_a_page(tmp_path, capsys):
    pages = population(1, pages=3000, hosts=60)
    half = np.random.default_rng(1).random(3000) < 0.5
    write_run(tmp_path / "a", rows(some(pages, half)))
    write_run(tmp_path / "b", rows(some(pages, ~half), threshold=0.8))
    status, found = _json(capsys, tmp_path / "a", tmp_path / "b", "--html", tmp_path / "x.html", "--fail-on-drift")
    assert status == 1
    assert not found["exact"]
    assert "Benjamini-Hochberg" in found["lines"]["method"]
    assert "Benjamini-Hochberg" in _page(tmp_path / "x.html")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["A", "nowhere"], "nowhere"),
        (["A", "B", "--samples", "-1"], "--samples -1"),
        (["A", "B", "--seed", "-1"], "--seed -1"),
        (["A", "B", "--html", "."], "a folder"),
        (["A", "B", "--html", "/nonexistent/x.html"], "cannot be written"),
        (["A", "B", "--set", "language_id.threshold=1"], "only storage"),
    ],
)
def test_refusals(runs, capsys, args, words):
    named = {"A": str(runs / "a"), "B": str(runs / "b")}
    assert main(["diff", *(named.get(a, a) for a in args)]) == 2
    said = capsys.readouterr()
    assert words in said.err
    assert len(said.err.splitlines()) == 1


def test_a_damaged_ledger(runs, tmp_path, capsys):
    shutil.copytree(runs / "a", tmp_path / "a")
    part = tmp_path / "a" / "ledger" / "part-00001.parquet"
    part.write_bytes(b"X" * part.stat().st_size)
    assert main(["diff", str(tmp_path / "a"), str(runs / "b")]) == 2
    assert "part-00001.parquet is damaged" in capsys.readouterr().err


def test_a_later_format(runs, tmp_path, capsys):
    shutil.copytree(runs / "a", tmp_path / "a")
    audit = json.loads((tmp_path / "a" / "audit" / "audit.json").read_text())
    text = json.dumps({**audit, "format": 99})
    (tmp_path / "a" / "audit" / "audit.json").write_text(text)
    manifest = json.loads((tmp_path / "a" / "manifest.json").read_text())
    manifest["files"]["audit/audit.json"]["bytes"] = len(text.encode())
    (tmp_path / "a" / "manifest.json").write_text(json.dumps(manifest))
    assert main(["diff", str(tmp_path / "a"), str(runs / "b")]) == 2
    assert "format 99" in capsys.readouterr().err


def test_runs_without_a_stage_and_without_documents(runs, tmp_path, capsys):
    empty = tmp_path / "empty.warc"
    empty.write_bytes(
        b"WARC/1.0\r\nWARC-Type: warcinfo\r\nWARC-Date: 2026-01-01T00:00:00Z\r\nContent-Length: 0\r\n\r\n\r\n\r\n"
    )
    assert main(["run", "sample", str(empty), "--out", str(tmp_path / "empty"), "--engine", "serial", "-q"]) == 0
    off = [
        "--set",
        "minhash_drop.enabled=false",
        "--set",
        "minhash_sign.enabled=false",
        "--set",
        "language_preview.enabled=false",
    ]
    assert main(["run", "sample", "--out", str(tmp_path / "off"), "--engine", "serial", "-q", *off]) == 0
    capsys.readouterr()
    _, found = _json(capsys, runs / "a", tmp_path / "off")
    words = [d["words"] for d in found["recipe"]["settings"]]
    assert "stage minhash_drop on → switched off" in words
    assert {"a": "dropped by minhash_drop: exact_duplicate", "b": "kept", "documents": 16}.items() <= next(
        c for c in found["documents"]["changes"] if "exact_duplicate" in c["a"] and c["b"] == "kept"
    ).items()
    assert any("duplicates" in e["line"] for e in found["lines"]["not_comparable"])
    for pair in ((runs / "a", tmp_path / "empty"), (tmp_path / "empty", tmp_path / "empty")):
        status, found = _json(capsys, *pair, "--html", tmp_path / "x.html")
        assert status == 0
        assert found["documents"]["joined"] == 0
    assert found["same"]


def test_pages_in_another_container(runs, tmp_path, capsys):
    """The ledger of the same pages, as another file would give it: joined by record id, by URL and date where there is
    none (ARC), and said so.
    """
    shutil.copytree(runs / "a", tmp_path / "other")
    for part in (tmp_path / "other" / "ledger").glob("*.parquet"):
        table = pq.read_table(part)
        ids = [bytes([255 - b for b in i]) for i in table.column(col.DOC_ID).to_pylist()]
        pq.write_table(table.set_column(0, col.DOC_ID, pa.array(ids, pa.binary(16))), part)
    manifest = json.loads((tmp_path / "other" / "manifest.json").read_text())
    for name, facts in manifest["files"].items():
        facts["bytes"] = (tmp_path / "other" / name).stat().st_size
    (tmp_path / "other" / "manifest.json").write_text(json.dumps(manifest))
    _, found = _json(capsys, runs / "a", tmp_path / "other")
    by = found["documents"]["joined_by"]
    assert set(by) == {"record id", "URL and date"}
    assert sum(by.values()) == 345
    assert found["documents"]["changed"] == 0


class _Stop(Observer):
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


def test_a_run_that_is_not_finished(runs, tmp_path, capsys):
    """Stopped while it works: what it has so far is compared, and said to be no whole."""
    with pytest.raises(KeyboardInterrupt):
        run("sample", [], tmp_path / "half", engine="serial", observer=_Stop("read", 4))
    assert main(["diff", str(runs / "a"), str(tmp_path / "half"), "--json"]) == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert "half is not finished" in said.err.splitlines()[0]
    assert "half is not finished" in found["caution"]
    assert 0 < found["documents"]["joined"] == found["documents"]["b"] < 345
    assert not found["exact"]
    assert found["documents"]["changed"] == 0
    waiting = found["documents"]["undecided"]["b"]
    assert found["b"]["undecided"] == waiting > 0
    assert found["b"]["kept"] == 0
    assert found["drift"]["wiped_out"] == []
    assert found["recipe"]["versions"] == []
    assert found["recipe"]["unknown"] == ["versions of B are not known before its end"]
    for words in json.dumps(found["documents"]["matrix"]), json.dumps(found["lines"]):
        assert "undecided" not in words
    assert main(["diff", str(runs / "a"), str(tmp_path / "half")]) == 0
    assert not [e for e in found["lines"]["moved"] if e["line"].startswith(("shards", "duplicates", "windows"))]
    console = capsys.readouterr().out
    assert f"{waiting} not decided yet" in console.splitlines()[1]
    assert "kept" not in console.splitlines()[1]
    assert "→ absent" not in console
    assert "  versions of B are not known before its end" in console.splitlines()
    target = tmp_path / "x.html"
    assert main(["diff", str(tmp_path / "half"), str(runs / "a"), "--html", str(target)]) == 0
    assert "half is not finished" in _page(target)


def test_a_run_that_waits_at_its_meeting(runs, tmp_path, capsys):
    """All records are read and none is kept yet: every line that is there is the same, and nothing is kept or lost."""
    with pytest.raises(KeyboardInterrupt):
        run("sample", [], tmp_path / "half", engine="serial", observer=_Stop("meet", 0))
    for pair, side in (((runs / "a", tmp_path / "half"), "b"), ((tmp_path / "half", runs / "a"), "a")):
        _, found = _json(capsys, *pair)
        waiting = found[side]["undecided"]
        kept = found["ab".replace(side, "")]["kept"]
        assert found["exact"]
        assert waiting > kept > 0
        assert found["documents"]["undecided"] == {"documents": waiting, "a": 0, "b": 0, side: waiting}
        assert found["documents"]["changed"] == 0
        assert [found["lines"][n] for n in ("moved", "numbers", "quantiles", "not_comparable")] == [[]] * 4
        assert found["drift"]["alarms"] == found["drift"]["notes"] == found["drift"]["wiped_out"] == []
        assert not found["same_result"]
        assert any(line.startswith(f"{waiting} documents of {side.upper()}") for line in found["not_compared"])


def test_runs_on_an_object_store(runs, s3, capsys):
    s3.bucket("bucket")
    store = open_store("s3://bucket/b", StorageOptions(endpoint=s3.url))
    for path in (p for p in sorted((runs / "b").rglob("*")) if p.is_file()):
        store.write(path.relative_to(runs / "b").as_posix(), path.read_bytes())
    capsys.readouterr()
    status, found = _json(capsys, runs / "a", "s3://bucket/b", "--set", f"storage.endpoint={s3.url}")
    assert status == 0
    assert found["documents"]["changed"] == 19
    assert found["b"]["root"] == "s3://bucket/b"
