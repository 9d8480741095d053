"""Two samples of one crawl raise no alarm, however they are drawn; planted shifts do."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_runs import population, rows, some, write_run

from cleanpipe import batch as col
from cleanpipe import ledger
from cleanpipe.queries.diff import diff
from cleanpipe.queries.drift import bands, words
from cleanpipe.queries.opened_run import open_run


def undecided(folder, table, parts=1, **options):
    """A run folder with rows of no fate yet; its audit has them among the kept, as an unfinished run's has."""
    write_run(folder, ledger.finish(table), parts=parts, **options)
    bounds = [table.num_rows * i // parts for i in range(parts + 1)]
    for i in range(parts):
        part = table.slice(bounds[i], bounds[i + 1] - bounds[i])
        pq.write_table(part, folder / "ledger" / f"part-{i:05d}.parquet")


def compared(tmp_path, one, other):
    write_run(tmp_path / "a", one)
    write_run(tmp_path / "b", other)
    with open_run(tmp_path / "a") as a, open_run(tmp_path / "b") as b:
        return diff(a, b, samples=1)


def _halves(pages, how, seed):
    rng = np.random.default_rng(seed + 1000)
    if how == "documents":
        return rng.random(len(pages["host"])) < 0.5
    if how == "hosts":
        return (rng.random(pages["host"].max() + 1) < 0.5)[pages["host"]]
    return np.isin(pages["file"], rng.permutation(12)[: 6 if how == "files" else 2])


def _alarms(found, how):
    """Halves by hosts have other hosts: there they are meant to be seen."""
    told = found["drift"]["alarms"] + found["drift"]["notes"]
    return [m["words"] for m in told if how != "hosts" or not m["what"].startswith("host")]


@pytest.mark.parametrize("how", ["documents", "hosts", "files", "two files"])
@pytest.mark.parametrize("seed", range(2))
def test_two_samples_of_one_crawl_raise_no_alarm(how, seed, tmp_path):
    pages = population(seed)
    half = _halves(pages, how, seed)
    found = compared(tmp_path, rows(some(pages, half)), rows(some(pages, ~half)))
    assert _alarms(found, how) == []
    assert found["drift"]["wiped_out"] == []


@pytest.mark.slow
@pytest.mark.parametrize("how", ["documents", "hosts", "files", "two files"])
def test_many_samples_of_one_crawl(how, tmp_path):
    moved = []
    for seed in range(2, 22):
        pages = population(seed, pages=4000)
        half = _halves(pages, how, seed)
        found = compared(tmp_path / str(seed), rows(some(pages, half)), rows(some(pages, ~half)))
        assert _alarms(found, how) == []
        moved.append(len(found["lines"]["moved"]) + len(found["lines"]["quantiles"]) > 0)
    assert sum(moved) <= 2  # 1 % of such comparisons are allowed one by chance


def _note(found, what):
    return next((m for m in found["drift"]["notes"] if m["what"] == what), None)


def _alarm(found, what):
    return next((m for m in found["drift"]["alarms"] if m["what"] == what), None)


@pytest.fixture(scope="module")
def halves():
    pages = population(7)
    half = _halves(pages, "documents", 7)
    return some(pages, half), some(pages, ~half)


def _changed(pages, **columns):
    return {**pages, **columns}


def test_another_threshold(halves, tmp_path):
    found = compared(tmp_path, rows(halves[0]), rows(halves[1], threshold=0.8))
    assert _alarm(found, "language_id_score, kept documents")["alarm"] == "large"
    assert _alarm(found, "language_id_score") is None  # the scores themselves are the same
    assert "dropped by language_id: low_confidence" in _alarm(found, "outcome")["words"]
    said = [e["line"] for e in found["lines"]["moved"]]
    assert "languages.removed_by_stage.language_id.low_confidence" in said


def test_a_language_is_gone(halves, tmp_path):
    """German, which is a tenth of the pages or more."""
    found = compared(tmp_path, rows(halves[0]), rows(some(halves[1], halves[1]["language"] != "de")))
    alarm = _alarm(found, "language")
    assert alarm["alarm"] == "large"
    assert alarm["words"].startswith("language: another distribution")
    assert alarm["values"][0]["value"] == "de"
    assert alarm["values"][0]["b"] == 0


def test_a_tenth_of_a_language_is_gone(tmp_path):
    pages = population(7)
    less = ~((pages["language"] == "en") & (np.random.default_rng(5).random(6000) < 0.1))
    found = compared(tmp_path, rows(pages), rows(some(pages, less)))
    assert _alarm(found, "language") is None
    note = _note(found, "language")
    assert (note["alarm"], note["verdict"]) == ("", "values")
    assert note["psi"] < 0.1
    assert "stable as a whole" in note["words"]
    assert next(v["value"] for v in note["values"] if v["moved"]) == "en"


@pytest.mark.parametrize("how", ["gone", "dropped"])
def test_a_host_is_wiped_out(halves, tmp_path, how):
    b = halves[1]
    ill = b["host"] == 0
    other = some(b, ~ill) if how == "gone" else _changed(b, score=np.where(ill, 0.1, b["score"]))
    found = compared(tmp_path, rows(halves[0]), rows(other))
    alarm = _alarm(found, "host" if how == "gone" else "host, kept documents")
    assert alarm["values"][0]["value"] == "host0.example"
    assert alarm["values"][0]["b"] == 0
    wiped = [w["name"] for w in found["drift"]["wiped_out"]]
    assert wiped == ([] if how == "gone" else ["host0.example"])  # gone: B did not lose what it never read


def test_a_host_is_gone_from_the_same_crawl(halves, tmp_path):
    a = halves[0]
    found = compared(tmp_path, rows(a), rows(some(a, a["host"] != 3)))
    assert [(w["name"], w["documents_b"]) for w in found["drift"]["wiped_out"]] == [("host3.example", 0)]


def test_a_language_is_wiped_out(halves, tmp_path):
    """All of it is there, none is kept."""
    a = halves[0]
    found = compared(tmp_path, rows(a), rows(a, threshold=0.99))
    names = {(w["kind"], w["name"]) for w in found["drift"]["wiped_out"]}
    assert ("language", "en") in names
    assert ("media type", "text/html") in names
    assert ("language", "de") not in names  # nothing of it was kept before


def test_charset_is_broken(halves, tmp_path):
    b = halves[1]
    broken = np.random.default_rng(5).random(len(b["host"])) < 0.1
    found = compared(
        tmp_path, rows(halves[0]), rows(_changed(b, charset=np.where(broken, "windows-1252", b["charset"])))
    )
    alarm = _alarm(found, "charset") or _note(found, "charset")
    assert alarm["values"][0]["value"] == "windows-1252"
    assert alarm["values"][0]["moved"]


def test_status_and_type_and_length(halves, tmp_path):
    b = halves[1]
    ill = np.random.default_rng(5).random(len(b["host"])) < 0.3
    other = _changed(
        b,
        status=np.where(ill, "503", b["status"]),
        type=np.where(ill, "application/pdf", b["type"]),
        chars=b["chars"] // 3,
    )
    found = compared(tmp_path, rows(halves[0]), rows(other))
    for what in ("HTTP status", "media type", "sniffed type", "length in characters", "length in bytes, as read"):
        assert _alarm(found, what)["alarm"] == "large", what


def test_few_documents_raise_nothing(halves, tmp_path):
    few = some(halves[1], np.arange(len(halves[1]["host"])) < 40)
    found = compared(tmp_path, rows(halves[0]), rows(_changed(few, charset=np.full(40, "gbk"))))
    assert found["drift"]["alarms"] == found["drift"]["notes"] == []
    assert next(m for m in found["drift"]["measured"] if m["what"] == "charset")["note"]


def test_one_site_does_not_speak_for_another(tmp_path):
    """All of A of one host, all of B of another: nothing but that can be told."""
    pages = population(3, pages=4000, hosts=2)
    a, b = some(pages, pages["host"] == 0), some(pages, pages["host"] == 1)
    found = compared(tmp_path, rows(a), rows(b))
    assert {m["what"] for m in found["drift"]["alarms"]} == {"host", "host, kept documents"}
    assert found["lines"]["moved"] == []


def _agree(measured):
    """Mark, floor, verdict and words of one distribution say the same."""
    beyond = measured["psi"] > measured["floor"]
    if measured["note"]:
        assert not measured["alarm"]
    elif measured["psi"] >= 0.25 and beyond:
        assert measured["alarm"] == measured["verdict"] == "large"
    elif measured["psi"] >= 0.1 and beyond:
        assert measured["alarm"] == measured["verdict"] == "moved"
    else:
        assert measured["alarm"] == ""
        assert measured["verdict"] in ("values", "stable", "chance", "unknown")
        assert measured["psi"] < 0.1 or measured["verdict"] != "stable"
    if measured["verdict"] == "values":
        assert ("stable as a whole" in words(measured)) == (measured["psi"] < 0.1)


@pytest.mark.parametrize("how", ["documents", "hosts", "two files", "the same", "one host"])
def test_marks_floor_and_words_agree(how, tmp_path):
    pages = population(9, pages=3000, hosts=2 if how == "one host" else 80)
    if how == "the same":
        found = compared(tmp_path, rows(pages), rows(pages, threshold=0.8))
    else:
        half = pages["host"] == 0 if how == "one host" else _halves(pages, how, 9)
        found = compared(tmp_path, rows(some(pages, half)), rows(some(pages, ~half), threshold=0.8))
    for measured in found["drift"]["measured"]:
        _agree(measured)
    told = [(m["what"], m["alarm"]) for m in found["drift"]["alarms"]]
    assert {*told} == {(m["what"], m["alarm"]) for m in found["drift"]["measured"] if m["alarm"]}
    assert {m["what"] for m in found["drift"]["notes"]} == {
        m["what"] for m in found["drift"]["measured"] if m["verdict"] == "values"
    }


@pytest.mark.parametrize(
    ("edges", "integers", "want"),
    [
        ([1.0, 1.01, 2.01], True, ["1", "2", "3 or more"]),
        ([0.0, 68.2675, 103.4], True, ["68 or less", "69 to 103", "104 or more"]),
        ([0.0, 1004.2, 2000.0], True, ["1,004 or less", "1,005 to 1,999", "2,000 or more"]),
        ([0.1, 0.78, 665.651], False, ["below 0.78", "0.78 to 665.7", "665.7 or more"]),
        ([1.0], True, ["all"]),
    ],
)
def test_bands(edges, integers, want):
    assert bands(edges, integers) == want


def test_bands_of_whole_numbers_are_whole(halves, tmp_path):
    found = compared(tmp_path, rows(halves[0]), rows(_changed(halves[1], chars=halves[1]["chars"] // 3)))
    for value in _alarm(found, "length in characters")["values"]:
        assert "." not in value["value"]


def test_undecided_documents_are_no_drift(halves, tmp_path):
    """B waits for a meeting: nothing is kept in it yet, and nothing is lost."""
    a = rows(halves[0])
    fates = [None if f == "kept" else f for f in a.column(col.FATE).to_pylist()]
    b = a.set_column(a.schema.get_field_index(col.FATE), col.FATE, pa.array(fates, pa.string()))
    for one, other, side in ((a, b, "B"), (b, a, "A")):
        (tmp_path / side).mkdir()
        for name, table in (("a", one), ("b", other)):
            undecided(tmp_path / side / name, table)
        with open_run(tmp_path / side / "a") as left, open_run(tmp_path / side / "b") as right:
            found = diff(left, right)
        assert found["drift"]["alarms"] == found["drift"]["notes"] == found["drift"]["wiped_out"] == []
        assert f"{fates.count(None):,} documents of {side} are not decided yet" in found["not_compared"][0]
        kept = [
            m for m in found["drift"]["measured"] if m["what"] == "outcome" or m["what"].endswith(", kept documents")
        ]
        assert {m["note"] for m in kept} == {"documents are not decided yet"}
