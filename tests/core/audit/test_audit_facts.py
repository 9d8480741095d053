"""Counts and samples of a ledger part: worked out by hand, additive, independent of cuts and order."""

import random
from functools import reduce
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cleanpipe.ledger
from cleanpipe import batch as col
from cleanpipe.audit.bins import by_edge, edges, histogram, lower_edge, quantiles
from cleanpipe.audit.facts import ledger_tally, merge_samples
from cleanpipe.tally import add

SCORES = cleanpipe.ledger.score_columns({"shingles": pa.int32()})
SCHEMA = cleanpipe.ledger.schema({"shingles": pa.int32()})


def ledger(rows):
    """A ledger table of these rows; what a row does not say is null."""
    return pa.Table.from_pylist([{n: r.get(n) for n in SCHEMA.names} for r in rows], SCHEMA)


def row(i, fate=col.KEPT, stage=None, reason=None, **more):
    base = {
        col.DOC_ID: i.to_bytes(8, "little") * 2,
        col.SOURCE: "a.warc",
        col.RECORD_OFFSET: i * 10,
        col.RECORD_TYPE: "response",
        col.FATE: fate,
        col.STAGE: stage,
        col.REASON: reason,
        col.BYTES_IN: 100 + i,
    }
    return base | more


ROWS = [
    row(
        1, url="http://User:pw@One.example:8080/x?y#z", http_status=200, declared_type="text/html",
        sniffed_type="text/html", media_type="text/html", charset="utf-8", chars_out=30, language="en",
        language_id_score=0.65, entropy=4.123456, windows=2,
    ),
    row(
        2, col.DROPPED, "http_filter", "bad_status", url="https://one.example", http_status=404,
        declared_type="text/html", media_type="text/html", truncated="length",
    ),
    row(
        3, col.DROPPED, "language_id", "other_language", url="http://[2001:db8::1]:80/", http_status=200,
        declared_type="text/plain", sniffed_type="text/html", media_type="text/html", chars_out=7, language="de",
        language_id_score=0.995, source="b.warc",
    ),
    row(
        4, col.DROPPED, "minhash_drop", "near_duplicate", url="dns:one.example", record_type="conversion",
        chars_out=11, language="en", language_id_score=0.649999, kept_doc_id=(1).to_bytes(8, "little") * 2,
        jaccard=0.9,
    ),
    row(5, col.QUARANTINED, "read", "damaged_range", record_type=None, bytes_in=None, source="b.warc"),
]  # fmt: skip


def test_counts_of_a_small_ledger():
    tally, samples = ledger_tally(ledger(ROWS), SCORES, seed=0, samples=2)
    assert tally["rows"] == 5
    assert tally["fates"] == {
        "kept": {"documents": 1, "bytes": 101},
        "dropped": {
            "http_filter": {"bad_status": {"documents": 1, "bytes": 102}},
            "language_id": {"other_language": {"documents": 1, "bytes": 103}},
            "minhash_drop": {"near_duplicate": {"documents": 1, "bytes": 104}},
        },
        "quarantined": {"read": {"damaged_range": {"documents": 1, "bytes": 0}}},
    }
    assert tally["chars_kept"] == 30  # not the 18 of dropped rows
    assert tally["http_status"] == {"200": 2, "404": 1, "unknown": 1}  # the range is no document of unknown status
    assert tally["types"] == {
        "text/html": {"text/html": 1, "unknown": 1},
        "text/plain": {"text/html": 1},
        "unknown": {"unknown": 1},
    }
    assert tally["charset"] == {"utf-8": 1, "not decoded": 3}
    assert tally["truncated"] == {"length": 1}
    assert tally["record_type"] == {"response": 3, "conversion": 1}
    assert tally["language"] == {"en": 2, "de": 1}
    assert tally["windows"] == {"2": 1}
    assert tally["by_type"] == {"text/html": {"kept": 1, "http_filter/bad_status": 1, "language_id/other_language": 1}}
    assert tally["by_language"] == {
        "en": {"kept": 1, "minhash_drop/near_duplicate": 1},
        "de": {"language_id/other_language": 1},
    }
    assert tally["keep_curve"]["en"] == {
        "documents": 2, "0.5": 2, "0.65": 1, "0.8": 0, "0.9": 0, "0.95": 0, "0.99": 0, "0.995": 0,
    }  # fmt: skip
    assert tally["keep_curve"]["de"]["0.995"] == 1
    assert tally["sources"]["b.warc"] == {
        "fates": {"dropped": 1, "quarantined": 1},
        "types": {"response": 1, "": 1},
        "bytes": 103,
    }
    assert tally["hosts"] == {
        "documents": {"one.example": 2, "[2001:db8::1]": 1},
        "kept": {"one.example": 1},
        "unwanted": {"[2001:db8::1]": 1},
        "duplicates": {},
    }
    assert tally["scores"]["entropy"]["measured"] == 1
    assert tally["scores"]["entropy"]["not_measured"] == 4
    assert tally["scores"]["language_id_score"]["bins"] == {"64": 1, "65": 1, "99": 1}
    assert tally["scores"]["language_id_score"]["bins_kept"] == {"65": 1}
    assert set(samples) == {
        "kept", "http_filter/bad_status", "language_id/other_language", "minhash_drop/near_duplicate",
        "read/damaged_range",
    }  # fmt: skip
    duplicate = samples["minhash_drop/near_duplicate"][0]
    assert duplicate["scores"]["kept_doc_id"] == "01000000000000000100000000000000"
    assert (duplicate["source"], duplicate["record_offset"], duplicate["url"]) == ("a.warc", 40, "dns:one.example")


def test_an_empty_part_counts_nothing():
    tally, samples = ledger_tally(ledger([]), SCORES, seed=0, samples=2)
    assert samples == {}
    whole, _ = ledger_tally(ledger(ROWS), SCORES, seed=0, samples=2)
    assert add(add({}, tally), whole) == whole


def test_slices_and_chunks_count_as_their_rows():
    table = ledger(ROWS)
    chunked = pa.concat_tables([table.slice(0, 2), table.slice(2, 0), table.slice(2)])
    assert ledger_tally(chunked, SCORES, seed=1, samples=3) == ledger_tally(table, SCORES, seed=1, samples=3)


kinds = st.sampled_from(ROWS)


@settings(max_examples=40, deadline=None)
@given(st.lists(kinds, max_size=30), st.lists(st.integers(0, 30), max_size=4), st.integers(0, 3), st.randoms())
def test_any_cut_in_any_order_adds_up_to_the_whole(chosen, cuts, k, rng):
    rows = [r | {col.DOC_ID: (i * 7919 + 1).to_bytes(8, "little") * 2} for i, r in enumerate(chosen)]
    whole, samples = ledger_tally(ledger(rows), SCORES, seed=5, samples=k)
    borders = [0, *sorted(min(c, len(rows)) for c in cuts), len(rows)]
    parts = [ledger_tally(ledger(rows[a:b]), SCORES, seed=5, samples=k) for a, b in pairwise(borders)]
    rng.shuffle(parts)
    total = {}
    for tally, _ in parts:
        add(total, tally)
    assert {k: v for k, v in total.items() if v != {}} == {k: v for k, v in whole.items() if v != {}}
    merged = reduce(lambda a, b: merge_samples(a, b, k), (s for _, s in parts), {})
    assert {key: v for key, v in merged.items() if v} == {key: v for key, v in samples.items() if v}


def test_samples_are_the_smallest_of_all_and_the_seed_picks_others():
    rows = [row(i) for i in range(200)]
    _, all_of_them = ledger_tally(ledger(rows), SCORES, seed=0, samples=200)
    _, few = ledger_tally(ledger(rows), SCORES, seed=0, samples=5)
    assert few["kept"] == all_of_them["kept"][:5]
    assert [s["order"] for s in all_of_them["kept"]] == sorted(s["order"] for s in all_of_them["kept"])
    _, others = ledger_tally(ledger(rows), SCORES, seed=1, samples=5)
    assert {s["doc_id"] for s in others["kept"]} != {s["doc_id"] for s in few["kept"]}
    random.Random(3).shuffle(rows)
    assert ledger_tally(ledger(rows), SCORES, seed=0, samples=5)[1] == {"kept": few["kept"]}


def test_the_first_values_of_splitmix64():
    """Reference: Steele, Lea, Flood 2014; the sequence of seed 0 is the mix of 0, then of the golden gamma, …"""
    from cleanpipe.audit.facts import mixed

    got = mixed(np.array([0, 0x9E3779B97F4A7C15], np.uint64))
    assert [int(v) for v in got] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4]


BINS = [  # value, lower edge of its bin
    (0.0, 0.0),
    (0.009999, 0.0),
    (0.01, 0.01),
    (0.29, 0.29),  # 0.29 * 100 is 28.999… in floating point
    (0.57, 0.57),
    (-0.01, -0.01),
    (-0.005, -0.01),
    (1.0, 1.0),
    (9.99, 9.99),
    (10.0, 10.0),
    (10.1, 10.0),
    (10.2, 10.2),
    (-10.1, -10.2),
]


@pytest.mark.parametrize(("value", "edge"), BINS)
def test_a_value_falls_into_the_bin_that_holds_it(value, edge):
    assert by_edge(histogram(np.array([value]))) == {f"{edge:g}": 1}


def test_edges_can_be_written_down_and_asked_for():
    assert all(float(f"{e:g}") == e for e in edges().tolist())
    assert (np.diff(edges()) > 0).all()
    widths = np.diff(edges()[edges() >= 10]) / edges()[edges() >= 10][:-1]
    assert ((widths > 0.0199) & (widths < 0.0201)).all()


def test_bins_are_open_at_both_ends_and_nan_stands_apart():
    bins = histogram(np.array([1e300, -1e300, np.inf, np.nan]))
    assert bins.pop("nan") == 1
    assert sorted(bins.values()) == [1, 2]
    assert min(int(k) for k in bins) < 0 < max(int(k) for k in bins)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60))
def test_a_quantile_is_less_than_a_bin_below_the_true_one(values):
    values = np.round(np.array(values), 6)
    found = quantiles(histogram(values))
    for q, edge in found.items():
        true = np.quantile(values, float(q), method="inverted_cdf")
        at = int(np.searchsorted(edges(), true, side="right"))
        assert edge <= true + 1e-6
        assert edge == pytest.approx(lower_edge(at - 1 - int(np.searchsorted(edges(), 0.0))))


def test_there_are_no_quantiles_of_nothing():
    assert quantiles({}) == {}
    assert quantiles({"nan": 3}) == {}
