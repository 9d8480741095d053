"""What ``cleanpipe explain`` says of limits: which decided, which were not asked, and of verdicts without one."""

import json

import pytest

from cleanpipe.stage import Cut, Stage
from cleanpipe_jobs.cli import main


@pytest.fixture
def stages(make, tmp_path, capsys):
    """Runs the recipe over one page; its stages as JSON, and the text."""

    def explained(url="http://a.example.org/1", body=None, sets=(), **more):
        from cleanpipe.run import run

        page = make.response(url, body if body is not None else make.page(make.prose(1)), **more)
        archive = make.write_gz(tmp_path / "a.warc.gz", [make.warcinfo(), page])
        run("web", [str(archive)], tmp_path / "out", engine="serial", sets=sets)
        main(["explain", str(tmp_path / "out"), url, "--no-replay", "--json"])
        said = json.loads(capsys.readouterr().out)
        main(["explain", str(tmp_path / "out"), url, "--no-replay"])
        return {s["stage"]: s for s in said["stages"]}, capsys.readouterr().out

    return explained


def test_limits_that_are_asked_of_other_documents(stages):
    """A kept English page: the preview's limits are of other languages, Jaccard's of documents with a candidate."""
    said, text = stages(sets=['language_id.languages=["en","de"]'])
    marks = {(li["score"], li["of"]): li["mark"] for s in said.values() for li in s["limits"]}
    assert "not decisive" not in marks.values()
    assert {m for (score, _), m in marks.items() if score.startswith("language_preview")} == {"not asked"}
    assert {m for (score, _), m in marks.items() if score == "jaccard"} == {"not asked"}
    language = {of.rpartition(" ")[2]: m for (score, of), m in marks.items() if score == "language_id_score"}
    assert language == {"en": "passed", "de": "not asked"}
    assert "not met" not in text
    assert "kept below 0.85 (threshold): not asked: only of documents that share a band key with a kept one" in text
    assert "(confidence): not asked: only of HTML pages whose best label is not en" in text


@pytest.mark.parametrize(
    ("more", "reason", "found", "wanted"),
    [
        ({"status": "500 Oops"}, "bad_status", ("http_status", "500"), "of status 200"),
        (
            {"content_type": "application/pdf", "body": b"%PDF-1"},
            "bad_type",
            ("media_type", "application/pdf"),
            "text/html",
        ),
    ],
)
def test_a_verdict_without_a_limit_shows_what_was_found_beside_what_is_wanted(stages, more, reason, found, wanted):
    said, text = stages(**more)
    stage = said["http_filter"]
    assert stage["outcome"] == "dropped"
    assert str(stage["judged"][found[0]]) == found[1]
    assert wanted in stage["in_words"]
    way = text.partition("its way")[2].partition("not reached")[0].splitlines()
    assert any(ln.split() == list(found) for ln in way)
    assert any("DECIDED by these" in ln and wanted in ln for ln in way)
    assert said["language_id"]["judged"] is None


def test_another_language_shows_the_language(stages, make):
    german = ["Der schnelle braune Fuchs springt in den Wald und kommt danach nicht mehr nach Hause. " * 9]
    said, text = stages(body=make.page(german), sets=["language_preview.enabled=false"])
    stage = said["language_id"]
    assert stage["judged"]["language"] == "de"
    assert [li["mark"] for li in stage["limits"]] == ["not asked"]
    assert "DECIDED by these" in text
    assert "not met" not in text


def test_limits_by_hand():
    """Value, its columns, the stage's outcome; what is said of score >= 0.5, asked where kind = a."""
    from cleanpipe.queries.explain import _limit

    cut = Cut("s", ">=", 0.5, "least", "low", "documents of kind a", {"kind": "a"})
    rows = [
        ({"s": 0.7, "kind": "a"}, "passed", "passed"),
        ({"s": 0.5, "kind": "a"}, "dropped", "passed"),
        ({"s": 0.2, "kind": "b"}, "passed", "not asked"),
        ({"s": 0.7, "kind": "b"}, "passed", "not asked"),
        ({"s": 0.2, "kind": None}, "dropped", "not asked"),
        ({"s": 0.2, "kind": "a", "reason": "low"}, "dropped", "decided"),
        ({"s": 0.2, "kind": "a", "reason": "else"}, "dropped", "not decisive"),
        ({"s": None, "kind": "a"}, "passed", "not asked"),
        ({"s": None, "kind": "a"}, "quarantined", "not measured"),
        ({"s": None, "kind": "a"}, "not reached", "not reached"),
    ]
    for row, outcome, mark in rows:
        assert _limit(cut, row, outcome)["mark"] == mark, (row, outcome)
    everywhere = Cut("s", "<", 1.0, "most", "high")
    assert _limit(everywhere, {"s": None}, "passed")["mark"] == "not measured"
    assert Stage.cuts.__doc__
