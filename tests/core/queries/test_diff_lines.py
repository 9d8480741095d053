"""Lines of two audits: exact where the documents are the same, tested where they are not, never 0 where absent."""

import numpy as np
import pytest
from made_runs import population, rows, some, write_run

from cleanpipe.queries import diff_walk as walk
from cleanpipe.queries.diff import diff
from cleanpipe.queries.diff_lines import rounded
from cleanpipe.queries.diff_text import line_cells, quantile_cells, text
from cleanpipe.queries.opened_run import open_run

duckdb = pytest.importorskip("duckdb")


def compared(tmp_path, one, other, change=(None, None), **options):
    write_run(tmp_path / "a", one, change=change[0])
    write_run(tmp_path / "b", other, change=change[1], **options)
    with open_run(tmp_path / "a") as a, open_run(tmp_path / "b") as b:
        return diff(a, b, samples=2)


@pytest.fixture(scope="module")
def pages():
    return population(4, pages=1200, hosts=60)


def _sql(query):
    with duckdb.connect() as db:
        return db.execute(query).fetchone()[0]


def _line(found, name):
    return next((e for e in found["lines"]["moved"] if e["line"] == name), None)


def test_the_same_documents_are_compared_by_count(pages, tmp_path):
    found = compared(tmp_path, rows(pages), rows(pages, threshold=0.8))
    assert found["exact"]
    assert "no sampling error" in found["lines"]["method"]
    line = _line(found, "languages.removed_by_stage.language_id.low_confidence")
    query = """select count(*) filter (reason = 'low_confidence') / count(*) from '{}/*.parquet'
               where stage is null or stage in ('language_id', 'quality_score', 'minhash_drop')"""
    want = [_sql(query.format(tmp_path / s / "ledger")) for s in "ab"]
    assert (line["a"], line["b"]) == pytest.approx(want, abs=1e-6)
    assert line["difference"] == pytest.approx(want[1] - want[0], abs=2e-6)
    assert "low" not in line
    differences = [abs(e["difference"]) for e in found["lines"]["moved"]]
    assert differences == sorted(differences, reverse=True)


def test_one_document_is_a_difference_between_the_same_documents(pages, tmp_path):
    other = {**pages, "status": pages["status"].copy()}
    first = int(np.flatnonzero((pages["status"] == "200") & (pages["language"] == "de"))[0])
    other["status"][first] = "404"
    found = compared(tmp_path, rows(pages), rows(other))
    assert _line(found, "http.removed.bad_status")["n_b"] - _line(found, "http.removed.bad_status")["n_a"] == 1
    numbers = {e["line"]: (e["a"], e["b"]) for e in found["lines"]["numbers"]}
    statuses = [int((p["status"] == "404").sum()) for p in (pages, other)]
    assert numbers["http.status.404"] == tuple(statuses)
    assert found["drift"]["alarms"] == []


def test_a_line_carries_its_interval_and_documents(pages, tmp_path):
    half = np.random.default_rng(1).random(1200) < 0.5
    one, other = some(pages, half), some(pages, ~half)
    found = compared(tmp_path, rows(one), rows(other, threshold=0.85))
    line = _line(found, "languages.removed_by_stage.language_id.low_confidence")
    assert not found["exact"]
    assert line["low"] < line["difference"] < line["high"]
    assert line["low"] > 0
    assert line["design_effect"] >= 1
    reached = [((p["status"] == "200") & (p["type"] != "application/pdf")).sum() for p in (one, other)]
    assert [line["documents_a"], line["documents_b"]] == reached


def test_clustered_documents_are_not_taken_for_independent_ones(tmp_path):
    """Ten hosts in each run, each all good or all bad: 12 points between the runs are nothing, and a plain test of two
    proportions would be sure of them.
    """
    pages = population(2, pages=6000, hosts=20)
    pages["status"] = np.where(pages["host"] % 3 == 0, "404", "200")
    a = pages["host"] % 2 == 0
    found = compared(tmp_path, rows(some(pages, a)), rows(some(pages, ~a)))
    shares = [(p["status"] == "404").mean() for p in (some(pages, a), some(pages, ~a))]
    plain = abs(shares[0] - shares[1]) / np.sqrt(2 * 0.25 * 0.75 / 3000)
    assert plain > 3
    assert found["lines"]["moved"] == []
    assert not [m for m in found["drift"]["alarms"] if m["what"] == "HTTP status"]


def test_what_one_run_alone_says(pages, tmp_path):
    def change(audit):
        audit["http"]["own"] = {"value": 0.5, "numerator": 1, "denominator": 2, "unit": "documents", "method": "exact"}
        audit["http"]["non_200"] = {"value": "not measured", "reason": "nobody looked"}
        audit["duplicates"] = "not applicable"

    found = compared(tmp_path, rows(pages), rows(pages), (None, change))["lines"]
    assert found["only_b"] == ["http: own"]
    assert not [e for e in found["moved"] if e["line"].startswith(("duplicates", "http.non_200"))]
    said = {e["line"]: (e["a"], e["b"]) for e in found["not_comparable"]}
    assert said["duplicates"] == ("there", "not applicable")
    assert said["http.non_200"][1] == "not measured"
    assert found["only_a"] == []  # the section that does not apply is said once, not line by line


def test_a_reason_that_nobody_was_dropped_for_is_a_zero(pages, tmp_path):
    found = compared(tmp_path, rows(pages), rows(pages, most_perplexity=1e9))
    line = _line(found, "quality.removed.high_perplexity")
    assert (line["b"], line["n_b"]) == (0.0, 0)
    assert line["a"] > 0
    assert line["of_a"] == line["of_b"]


def test_formats_are_mixed(pages, tmp_path):
    def old(audit):
        audit["format"] = 1
        for name in ("lost", "scores", "recipe"):
            audit.pop(name, None)

    found = compared(tmp_path, rows(pages), rows(pages), (old, None))
    assert [d["words"] for d in found["recipe"]["formats"]] == ["audit 1 → 2"]
    assert found["lines"]["moved"] == []
    assert found["documents"]["changed"] == 0


def test_no_documents(pages, tmp_path):
    empty = rows(some(pages, np.zeros(1200, bool)))
    found = compared(tmp_path, empty, rows(pages))
    assert found["documents"]["only_b"]["documents"] == 1200
    assert found["drift"]["alarms"] == []
    assert found["lines"]["moved"] == []
    (tmp_path / "2").mkdir()
    assert compared(tmp_path / "2", empty, empty)["same"]


def test_ledgers_with_other_columns(pages, tmp_path):
    one = rows(pages)
    found = compared(
        tmp_path, one.append_column("own_score", one.column("language_id_score")), one.drop_columns(["perplexity"])
    )
    assert found["not_compared"] == [
        "own_score is in the ledger of A alone",
        "perplexity is in the ledger of A alone",
    ]
    assert found["documents"]["changed"] == 0


def test_quantiles_are_of_the_ledger(pages, tmp_path):
    found = compared(tmp_path, rows(pages), rows({**pages, "score": np.round(pages["score"] * 0.9, 6)}))
    medians = {(e["score"], e["of"]): e for e in found["lines"]["quantiles"] if e["quantile"] == 0.5}
    for side in "ab":
        where = f"from '{tmp_path / side}/ledger/*.parquet' where language_id_score is not null"
        want = _sql(f"select quantile_disc(language_id_score, .5) {where}")
        assert medians["language_id_score", "all"][side] <= want < medians["language_id_score", "all"][side] + 0.01


def test_quantiles_are_rounded_to_their_bins_and_say_so(pages, tmp_path):
    other = {**pages, "chars": pages["chars"] * 2, "perplexity": np.round(pages["perplexity"] * 1.5, 6)}
    found = compared(tmp_path, rows(pages), rows(other))
    assert any("rounded" in line and "bins" in line for line in text(found))
    checked = 0
    for entry in found["lines"]["quantiles"]:
        for side in "ab":
            low, high = entry[f"bin_{side}"]
            where = f"where {entry['score']} is not null" + " and fate = 'kept'" * (entry["of"] == "kept")
            ask = f"select quantile_disc({entry['score']}, {entry['quantile']})"
            want = _sql(f"{ask} from '{tmp_path / side}/ledger/*.parquet' {where}")
            assert low <= want < high
            assert entry[side] == pytest.approx(want, rel=0.02, abs=0.01)
            if entry["score"] in ("chars_out", "bytes_in"):
                assert isinstance(entry[side], int)
                checked += 1
            shown = quantile_cells(entry)[3 if side == "a" else 4].replace(",", "")
            assert len(shown.replace(".", "").replace("-", "").strip("0")) <= 3
    assert checked > 10


@pytest.mark.parametrize(
    ("bin_", "integers", "want"),
    [
        ((1.0, 1.01), True, 1),  # the one whole number there
        ((10.0, 10.2), True, 10),
        ((339.498, 346.288), True, 343),  # 340 to 346
        ((7025.14, 7165.65), True, 7100),  # 7,026 to 7,165: 7,095.5, three digits of it
        ((7025.14, 7165.65), False, 7100.0),
        ((0.98, 0.99), False, 0.98),
        ((-3.0, -2.99), True, -3),
    ],
)
def test_what_a_bin_tells(bin_, integers, want):
    found = rounded(*bin_, integers)
    assert (found, type(found)) == (want, type(want))


def test_a_factor_is_no_share():
    """What writes more than it reads lets nothing through; and every figure has its unit."""
    path = ("funnel", "windowing", "characters", "share_of_stage_input")
    assert walk.words(path, True) == "windowing: characters out for each one in"
    entry = {
        "words": walk.words(path, True), "unit": "characters", "a": 1.2734, "b": 1.1, "difference": -0.1734,
        "of_a": 1000, "of_b": 2000,
    }  # fmt: skip
    assert line_cells(entry) == (entry["words"], "1.2734", "1.1000", "-0.1734", "1,000 / 2,000 characters")


@pytest.mark.parametrize(
    ("unit", "want"),
    [
        ("documents that reached the stage", "1,000 documents"), ("ledger rows", "1,000 documents"),
        ("bytes", "1,000 bytes"), ("code points", "1,000 characters"), ("windows a document", "1,000 documents"),
        ("bytes of shards to bytes of record blocks, uncompressed", "1,000 bytes"),
    ],
)  # fmt: skip
def test_what_a_line_is_of_has_its_unit(unit, want):
    entry = {"words": "x", "unit": unit, "a": 0.5, "b": 0.4, "difference": -0.1, "of_a": 1000, "of_b": 1000}
    assert line_cells(entry)[4] == want


def test_a_line_whose_interval_holds_0_has_not_moved(tmp_path):
    """One host is most of B, and unlike all others."""
    pages = population(2, pages=4000, hosts=30)
    a = np.random.default_rng(1).random(4000) < 0.5
    b = ~a & ((pages["host"] == 0) | (np.random.default_rng(2).random(4000) < 0.2))
    other = some(pages, b)
    other["status"] = np.where(other["host"] == 0, "404", other["status"])
    found = compared(tmp_path, rows(some(pages, a)), rows(other))["lines"]
    assert found["compared"] > 20
    for entry in found["moved"] + found["quantiles"]:
        assert entry["p"] <= 0.01
        assert not entry["low"] <= 0 <= entry["high"]


@pytest.mark.parametrize(
    ("path", "want"),
    [
        (("funnel", "html_scrub", "documents", "share_of_stage_input"), "html_scrub lets through: documents"),
        (("funnel", "html_scrub", "bytes", "share_of_run_input"), "after html_scrub: bytes of the run"),
        (("languages", "removed_by_stage", "language_id", "no_text"), "dropped by language_id: no_text"),
        (("http", "removed", "bad_status"), "http: dropped as bad_status"),
        (("languages", "keep_curve", "en", "0.8"), "keep-curve of en: score of 0.8 or more"),
        (("quality", "scores", "entropy", "measured"), "documents of which entropy was measured"),
        (("scores", "jaccard", "not_measured"), "documents of which jaccard with the kept copy was not measured"),
        (("http", "non_200"), "documents of another HTTP status than 200"),
        (("http", "declared_by_sniffed", "a/b", "c/d"), "documents declared as a/b, found to be c/d"),
        (("windows", "windows"), "windows for each kept document"),
        (("shards", "retained"), "bytes of the shards, of the bytes of the records"),
        (("own_section", "own_line", "x"), "own_section: own line, x"),
    ],
)
def test_paths_in_words(path, want):
    assert walk.words(path) == want
