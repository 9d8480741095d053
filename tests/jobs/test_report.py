"""The page of a run: the same however the run was worked, exact when its parts are put together, and drawn again."""

import hashlib
import json
import random
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cleanpipe.audit.build import build_audit
from cleanpipe.audit.facts import ledger_tally, merge_samples
from cleanpipe.engine import ending
from cleanpipe.recipe import fingerprint, load_recipe
from cleanpipe.report.audit_page import to_html
from cleanpipe.run import run
from cleanpipe.tally import add
from cleanpipe_jobs.cli import main


@pytest.fixture
def told(monkeypatch):
    """What the end of a run gives to the audit."""
    given = {}

    def keep(**arguments):
        given.update(arguments)
        return build_audit(**arguments)

    monkeypatch.setattr(ending, "build_audit", keep)
    return given


@pytest.mark.parametrize("seed", range(6))
def test_two_halves_of_a_ledger_are_the_whole_on_the_page(seed, crawl, tmp_path, told):
    recipe = load_recipe("web", ["audit.alarm=0.5", "audit.alarm_rows=2", f"audit.seed={seed}", "audit.samples=3"])
    audit = run(recipe, [str(crawl)], tmp_path / "out", engine="serial").audit
    table = pa.concat_tables([pq.read_table(p) for p in sorted((tmp_path / "out/ledger").glob("*.parquet"))])
    rng = random.Random(seed)
    half = [rng.random() < (0.5, 0.1, 0.9, 0, 0.5, 0.3)[seed] for _ in range(table.num_rows)]
    parts = [table.filter(pa.array(mask)) for mask in (half, [not h for h in half])]
    rng.shuffle(parts)
    scores = {f.name: f.type for f in table.schema if f.name in _scores(told)}
    counted = [ledger_tally(p, scores, seed=seed, samples=3) for p in parts]
    tally = reduce(add, (t for t, _ in counted), {})
    samples = reduce(lambda a, b: merge_samples(a, b, 3), (s for _, s in counted), {})
    again = build_audit(**{**told, "ledger": tally, "samples": samples})
    assert json.dumps(again, sort_keys=True) == json.dumps(audit, sort_keys=True)
    assert to_html(again, {}) == to_html(audit, {})


def _scores(told):
    names = {n for s in told["stages"] for n in s.scores}
    fixed = ("language_preview", "language_preview_score", "language", "language_id_score", "perplexity", "entropy")
    return {*names, *fixed, "ascii_share", "kept_doc_id", "jaccard"}


def test_workers_and_the_order_of_inputs_change_nothing(crawl, tmp_path):
    files = sorted(map(str, crawl.iterdir()))
    one = run("web", files, tmp_path / "one", engine="serial").audit
    two = run("web", files[::-1], tmp_path / "two", engine="local", workers=2).audit
    assert to_html(one, {}) == to_html(two, {})


def test_a_stage_s_file_names_its_place_on_the_page(crawl, tmp_path):
    run("web", [str(crawl)], tmp_path / "out", engine="serial")
    page = (tmp_path / "out/audit/audit.html").read_text(encoding="utf-8")
    for path in (tmp_path / "out/audit").glob("*.json"):
        if path.name != "audit.json":
            name, _, anchor = json.loads(path.read_text())["anchor"].partition("#")
            assert name == "audit.html"
            assert f'<section id="{anchor}"' in page


def test_the_rule_the_limits_and_what_decided_are_in_the_audit(crawl, tmp_path):
    recipe = load_recipe("web", ["language_id.threshold=0.97"])
    audit = run(recipe, [str(crawl)], tmp_path / "out", engine="serial").audit
    stage = audit["stages"]["language_id"]
    assert "0.97" in stage["rule"]
    (cut,) = stage["cuts"]
    assert (cut["score"], cut["keeps"], cut["at"], cut["reason"]) == ("language_id_score", ">=", 0.97, "low_confidence")
    options = {o["name"]: o for o in stage["options"]}
    assert (options["threshold"]["value"], options["threshold"]["default"]) == (0.97, False)
    assert options["chars"]["default"]
    assert options["languages"]["value"] == ["en"]
    for sample in audit["samples"]["language_id/low_confidence"]:
        (decided,) = sample["decided"]
        assert decided["value"] == sample["scores"]["language_id_score"] < decided["at"] == 0.97
    assert "decided" not in audit["samples"]["kept"][0]
    bad = audit["samples"]["http_filter/bad_status"][0]
    assert bad["as_read"]["http_status"] == 404
    score = audit["languages"]["scores"]["language_id_score"]
    kept = {k: n for k, n in score["histogram_kept"].items() if float(k) < 0.97}
    assert not kept
    assert sum(score["histogram_kept"].values()) == audit["ledger"]["totals"]["kept"]["documents"]


def test_what_was_lost_most_by_hand(make, tmp_path):
    """Three hosts: a loses 2 of 3, b 1 of 1, c none."""
    pages = [(host, k) for host, n in (("a", 3), ("b", 1), ("c", 2)) for k in range(n)]
    gone = {("a", 0), ("a", 1), ("b", 0)}
    records = [
        make.response(
            f"http://{h}.example/{k}", make.page(make.prose(i, 20)), status="404 No" if (h, k) in gone else "200 OK"
        )
        for i, (h, k) in enumerate(pages)
    ]
    make.write_gz(tmp_path / "a.warc.gz", [make.warcinfo(), *records])
    audit = run("web", [str(tmp_path / "a.warc.gz")], tmp_path / "out", engine="serial").audit
    assert audit["lost"]["hosts"] == {
        "items": [
            {"name": "a.example", "documents": 3, "kept": 1, "lost": 2},
            {"name": "b.example", "documents": 1, "kept": 0, "lost": 1},
        ],
        "names": 3,
        "left_out": 0,
    }
    (lost,) = audit["lost"]["types"]["items"]
    assert lost == {"name": "text/html", "documents": 6, "kept": 3, "lost": 3, "reasons": {"http_filter/bad_status": 3}}


def test_the_command_draws_the_page_of_a_finished_run_again(crawl, tmp_path, capsys, monkeypatch):
    out = tmp_path / "my run"
    run("web", [str(crawl)], out, engine="serial")
    before = {p: p.read_bytes() for p in out.rglob("*") if p.is_file()}
    monkeypatch.chdir(tmp_path)
    assert main(["report", str(out)]) == 0
    assert capsys.readouterr().out.strip() == "my-run-audit.html"
    assert (tmp_path / "my-run-audit.html").read_bytes() == (out / "audit/audit.html").read_bytes()
    assert main(["report", str(out), "--out", "deep.html", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {"out": str(out), "page": "deep.html", "bytes": Path("deep.html").stat().st_size, "finished": True}
    assert {p: p.read_bytes() for p in out.rglob("*") if p.is_file()} == before  # sealed by its manifest
    assert not list(tmp_path.glob(".*html*"))


def test_the_command_shows_what_an_unfinished_run_has(crawl, tmp_path, capsys):
    out = tmp_path / "out"

    class Stop(Exception):
        pass

    from cleanpipe.observer import Observer

    class Stopping(Observer):
        def phase(self, name, tasks):
            if name == "publish":
                raise Stop

    with pytest.raises(Stop):
        run("web", [str(crawl)], out, engine="serial", observer=Stopping())
    target = tmp_path / "so-far.html"
    assert main(["report", str(out), "--out", str(target)]) == 0
    told = capsys.readouterr()
    assert "is not finished" in told.err
    assert "configuration unfinished" not in target.read_text(encoding="utf-8")
    text = target.read_text(encoding="utf-8")
    assert "Not finished." in text
    assert 'class="caution"' in text
    assert 'id="funnel"' in text
    assert main(["report", str(out), "--out", str(target), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["finished"] is False
    assert "is not finished" in answer["caution"]


@pytest.mark.parametrize("target", ["missing/x.html", "folder"])
def test_a_place_that_cannot_be_written_is_said_in_one_line(target, crawl, tmp_path, capsys, monkeypatch):
    run("web", [str(crawl)], tmp_path / "out", engine="serial")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    assert main(["report", "out", "--out", target]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert target in told.err
    assert "Traceback" not in told.err


def test_no_run_no_page(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    for place in ("empty", "nowhere"):
        assert main(["report", str(tmp_path / place)]) == 2
        assert "Traceback" not in capsys.readouterr().err


def reseal(out, audit):
    """Put an audit in place of the run's own, as if the run had written it."""
    text = json.dumps(audit).encode()
    (out / "audit/audit.json").write_bytes(text)
    manifest = json.loads((out / "manifest.json").read_text())
    del manifest["digest"]
    manifest["files"]["audit/audit.json"] = {"bytes": len(text), "sha256": hashlib.sha256(text).hexdigest()}
    (out / "manifest.json").write_text(json.dumps({**manifest, "digest": fingerprint(manifest)}))


def test_a_run_of_an_earlier_version_is_drawn_and_says_what_it_lacks(crawl, tmp_path, capsys):
    out = tmp_path / "out"
    run("web", [str(crawl)], out, engine="serial")
    audit = json.loads((out / "audit/audit.json").read_text())
    audit["format"] = 1
    for name in ("recipe", "lost", "scores"):
        del audit[name]
    for stage in audit["stages"].values():
        for name in ("rule", "about", "options", "cuts", "scores"):
            del stage[name]
    reseal(out, audit)
    target = tmp_path / "old.html"
    assert main(["report", str(out), "--out", str(target)]) == 0
    capsys.readouterr()
    assert "not recorded by this version" in target.read_text(encoding="utf-8")
    audit["format"] = 99
    reseal(out, audit)
    assert main(["report", str(out), "--out", str(target)]) == 2
    assert "99" in capsys.readouterr().err


def test_markup_in_a_page_s_address_type_and_file_name_is_inert(make, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    evil = "<script>alert('odd1')</script>"
    records = [
        make.response(f"http://{evil}.example/{evil}", make.page(make.prose(1), title=evil)),
        make.response('http://b.example/"><img src=x onerror=alert(11)>', make.page(make.prose(2)), status="404 No"),
        make.response("javascript:alert(3)//</script><svg onload=alert('odd3')>", make.page(make.prose(3))),
    ]
    make.write_gz(folder / "<b onmouseover=alert(4)>.warc.gz", [make.warcinfo(), *records])
    run("web", [str(folder)], tmp_path / "out", engine="serial")
    text = (tmp_path / "out/audit/audit.html").read_text(encoding="utf-8")
    for raw in ("<script", "<img", "<svg onload", "<b onmouseover", 'href="javascript', "href='"):
        assert raw not in text
    assert "&lt;script&gt;alert(&#x27;odd1&#x27;)&lt;/script&gt;" in text


@pytest.mark.parametrize("name", ["audit/audit.html", "page.html", "data/x.html", "default", "link", "another run"])
def test_no_page_is_written_into_a_run_s_folder(name, crawl, tmp_path, capsys, monkeypatch):
    out, other = tmp_path / "out", tmp_path / "other"
    run("web", [str(crawl)], out, engine="serial")
    target = [str(out / name)]
    if name == "default":
        monkeypatch.chdir(out / "audit")
        target = []
    elif name == "link":
        (tmp_path / "elsewhere").symlink_to(out / "data")
        target = [str(tmp_path / "elsewhere/x.html")]
    elif name == "another run":
        run("web", [str(crawl)], other, engine="serial")
        target = [str(other / "x.html")]
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert main(["report", str(out), *(["--out", *target] if target else [])]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "sealed" in told.err
    assert "--out" in told.err
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before
    assert main(["verify", str(out)]) == 0


NOTHING = {  # archives that keep nothing; where most went
    "status": ("http_filter: bad_status 3", {"status": "404 Not Found"}),
    "type": ("http_filter: bad_type 3", {"content_type": "application/pdf"}),
    "text": ("html_scrub: empty 3", {}),
    "nothing": ("none was read", None),
}


@pytest.mark.parametrize("quiet", [[], ["--quiet"], ["--json"]], ids=["", "quiet", "json"])
@pytest.mark.parametrize("kind", list(NOTHING))
def test_a_run_that_keeps_nothing_says_so(kind, quiet, make, tmp_path, capsys):
    where, given = NOTHING[kind]
    body = b"" if kind == "text" else make.page(make.prose(1))
    pages = [make.response(f"http://a.example/{i}", body, **given) for i in range(3)] if given is not None else []
    make.write_gz(tmp_path / "a.warc.gz", [make.warcinfo(), *pages])
    out = tmp_path / "out"
    assert main(["run", "web", str(tmp_path / "a.warc.gz"), "--out", str(out), "--engine", "serial", *quiet]) == 0
    told = capsys.readouterr()
    (line,) = [li for li in told.err.splitlines() if "no document was kept" in li]
    assert "warning: " in line
    assert where in line
    text = (out / "audit/audit.html").read_text(encoding="utf-8")
    if pages:
        reason = where.partition(": ")[2].split()[0]
        verdict = text[text.index("No document was kept") :].partition("</li>")[0]
        assert f"<code>{reason}</code>" in verdict
        assert ">3</span>" in verdict
        assert 'class="verdict warn"' in text
    else:
        assert "No document was read" in text


def test_a_run_that_keeps_something_does_not_warn(crawl, tmp_path, capsys):
    assert main(["run", "web", str(crawl), "--out", str(tmp_path / "out"), "--engine", "serial", "--quiet"]) == 0
    assert "no document was kept" not in capsys.readouterr().err
    assert "No document was kept" not in (tmp_path / "out/audit/audit.html").read_text(encoding="utf-8")


WANTED = {  # what decided about samples of a reason that is no limit's, and what was wanted
    "http_filter/bad_status": [("http_status", 404, "200")],
    "http_filter/bad_type": [("media_type", "application/pdf", "text/html, application/xhtml+xml, text/plain")],
    "language_preview/other_language": [("language_preview", "de", "en")],
    "minhash_drop/exact_duplicate": [("kept_doc_id", None, "no other document of the same text"), ("jaccard", 1.0, "")],
    "html_scrub/empty": [("media_type", "text/html", "")],
}


def test_every_sample_says_what_decided(crawl, tmp_path):
    audit = run("web", [str(crawl)], tmp_path / "out", engine="serial").audit
    for key, samples in audit["samples"].items():
        if key == "kept":
            continue
        for sample in samples:
            assert sample["decided"], key
            columns = [(d["column"], d["value"], d["wanted"]) for d in sample["decided"] if "column" in d]
            if key in WANTED:
                seen = {c: v for c, v, _ in columns}
                assert columns == [(c, seen[c] if v is None else v, w) for c, v, w in WANTED[key]]
    assert set(WANTED) <= set(audit["samples"])
    assert any(k.startswith("read/") for k in audit["samples"])  # a damaged range: its error is said
    page = (tmp_path / "out/audit/audit.html").read_text(encoding="utf-8")
    assert "(wanted: text/html, application/xhtml+xml, text/plain)" in page


def test_each_stage_shows_kept_samples_with_its_scores_beside_its_limits(crawl, tmp_path):
    audit = run("web", [str(crawl)], tmp_path / "out", engine="serial").audit
    page = (tmp_path / "out/audit/audit.html").read_text(encoding="utf-8")
    cards = {part.partition('"')[0]: part for part in page.split('<section id="stage-')[1:]}
    assert len(audit["samples"]["kept"]) > 3
    for stage, part in audit["stages"].items():
        shown = cards[stage][cards[stage].index("Kept samples") :]
        for i, sample in enumerate(audit["samples"]["kept"][:10]):
            for score in set(part["scores"]) & set(sample["scores"]):
                assert f'data-of="/samples/kept/{i}/scores/{score}"' in shown, (stage, score)
        for i, cut in enumerate(part["cuts"]):
            where = cut["where"].items()  # of one language: beside samples of it
            if any(cut["score"] in s["scores"] and where <= s["scores"].items() for s in audit["samples"]["kept"]):
                assert f'data-of="/stages/{stage}/cuts/{i}/at"' in shown, (stage, cut["score"])
