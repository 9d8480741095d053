"""On ledgers of any content: a run is no different from itself, and the other way round everything is mirrored."""

import json
import shutil
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from made_runs import write_run

from cleanpipe import batch as col
from cleanpipe import ledger
from cleanpipe.queries.diff import diff
from cleanpipe.queries.diff_text import text
from cleanpipe.queries.opened_run import open_run
from cleanpipe.report.diff_page import diff_page

WILD = st.text(st.characters(codec="utf-8"), max_size=8)
HOSTILE = st.sampled_from(
    ["<script>alert(1)</script>", "\x1b[31mred\x07", "‮evil", '"><img src=x onerror=y>', "a\nb\r", "\x00"]
)
NAME = st.one_of(st.none(), HOSTILE, WILD, st.sampled_from(["en", "de", "utf-8", "text/html"]))
SCORE = st.one_of(st.none(), st.floats(-12, 90).map(lambda x: round(x, 6)), st.sampled_from([0.0, 1.0, 10.0, -10.0]))
FATES = st.one_of(
    st.just(("kept", None, None)),
    st.sampled_from(
        [
            ("dropped", "http_filter", "bad_status"),
            ("dropped", "language_id", "low_confidence"),
            ("quarantined", "read", "damaged_range"),
            (None, None, None),
        ]
    ),
)
ID = st.integers(0, 40).map(lambda i: bytes([i]) * 16)


@st.composite
def row(draw):
    fate, stage, reason = draw(FATES)
    host = draw(st.one_of(HOSTILE, st.sampled_from(["a.example", "b.example", "c.example"])))
    return {
        col.DOC_ID: draw(ID),
        col.SOURCE: draw(st.sampled_from(["x.warc.gz", "y.warc.gz", "<b>.warc"])),
        col.RECORD_OFFSET: draw(st.integers(0, 1 << 40)),
        col.RECORD_ID: draw(st.one_of(st.none(), WILD)),
        col.RECORD_TYPE: draw(st.sampled_from([None, "response", "conversion"])),
        col.URL: draw(st.one_of(st.none(), WILD, st.just(f"http://{host}/{draw(WILD)}"))),
        col.FATE: fate,
        col.STAGE: stage,
        col.REASON: reason,
        col.HTTP_STATUS: draw(st.one_of(st.none(), st.integers(-1, 999))),
        col.MEDIA_TYPE: draw(NAME),
        col.CHARSET: draw(NAME),
        col.LANGUAGE: draw(NAME),
        col.LANGUAGE_ID_SCORE: draw(SCORE),
        col.PERPLEXITY: draw(SCORE),
        col.CHARS_OUT: draw(st.one_of(st.none(), st.integers(0, 5000))),
        col.CONTENT_ID: draw(st.one_of(st.none(), ID)),
        col.KEPT_DOC_ID: draw(st.one_of(st.none(), ID)),
        col.JACCARD: draw(st.one_of(st.none(), st.floats(0, 1))),
    }


LEDGERS = st.lists(row(), max_size=25, unique_by=lambda r: r[col.DOC_ID])


def _table(rows):
    schema = ledger.schema({})
    return ledger.conform(
        {n: pa.array([r[n] for r in rows], schema.field(n).type) for n in rows[0]} if rows else {}, len(rows), schema
    )


def undecided(folder, table, parts=1, **options):
    """A run folder with rows of no fate yet; its audit has them among the kept, as an unfinished run's has."""
    write_run(folder, ledger.finish(table), parts=parts, **options)
    bounds = [table.num_rows * i // parts for i in range(parts + 1)]
    for i in range(parts):
        part = table.slice(bounds[i], bounds[i + 1] - bounds[i])
        pq.write_table(part, folder / "ledger" / f"part-{i:05d}.parquet")


def _both(one, other):
    folder = Path(tempfile.mkdtemp())
    try:
        undecided(folder / "a", _table(one), parts=2)
        undecided(folder / "b", _table(other), sets=["language_id.threshold=0.8"])
        with open_run(folder / "a") as a, open_run(folder / "b") as b:
            yield_ = diff(a, b), diff(b, a), diff(a, a)
    finally:
        shutil.rmtree(folder)
    return yield_


def _cells(found, a, b):
    return {(m[a], m[b], m["documents"]) for m in found["matrix"]}


@settings(max_examples=20, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(LEDGERS, LEDGERS)
def test_mirrored_and_empty_against_itself(one, other):
    there, back, itself = _both(one, other)

    assert itself["same"]
    assert itself["same_result"]
    assert itself["documents"]["changed"] == itself["documents"]["only_a"]["documents"] == 0
    assert (
        itself["drift"]["alarms"]
        == itself["drift"]["notes"]
        == itself["drift"]["wiped_out"]
        == itself["lines"]["moved"]
        == []
    )
    assert list(text(itself))[-1] == "no difference"

    x, y = there["documents"], back["documents"]
    assert _cells(x, "a", "b") == _cells(y, "b", "a")
    assert x["joined_by"] == y["joined_by"]
    assert x["changed"] == y["changed"]
    assert x["only_a"]["by_outcome"] == y["only_b"]["by_outcome"]
    assert x["only_b"]["by_outcome"] == y["only_a"]["by_outcome"]
    assert {n: x["text"][n] for n in ("kept_in_both", "changed")} == {
        n: y["text"][n] for n in ("kept_in_both", "changed")
    }
    assert x["joined"] + x["only_a"]["documents"] == len(one)
    assert x["joined"] + x["only_b"]["documents"] == len(other)

    assert x["same_fate"] + x["changed"] + x["undecided"]["documents"] == x["joined"]
    for entry in there["lines"]["moved"]:
        assert "low" not in entry or not entry["low"] <= 0 <= entry["high"]

    left, right = there["lines"], back["lines"]
    assert {(e["line"], e["a"], e["b"], e["difference"]) for e in left["moved"]} == {
        (e["line"], e["b"], e["a"], -e["difference"]) for e in right["moved"]
    }
    assert sorted(left["only_a"]) == sorted(right["only_b"])
    assert {(e["score"], e["of"], e["quantile"], e["a"], e["b"]) for e in left["quantiles"]} == {
        (e["score"], e["of"], e["quantile"], e["b"], e["a"]) for e in right["quantiles"]
    }
    psis = [{m["what"]: (m["psi"], m["alarm"]) for m in d["drift"]["measured"]} for d in (there, back)]
    assert psis[0] == psis[1]
    assert [d["what"] for d in there["recipe"]["settings"]] == [d["what"] for d in back["recipe"]["settings"]]

    json.dumps(there, allow_nan=False)
    assert all(line.isprintable() for line in text(there))
    page = diff_page(there)
    for tag in ("<script", "<img", "onerror=y>", "\x1b", "‮", "\x00"):
        assert tag not in page.replace('<img src=x onerror="', "")
