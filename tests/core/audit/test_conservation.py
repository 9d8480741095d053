"""The balance and the audit: made from real flows, the same for any cut and order, broken by any lost document."""

import copy
import json
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import cleanpipe.ledger
from cleanpipe import batch as col
from cleanpipe.audit.build import build_audit, stage_files
from cleanpipe.audit.console import funnel
from cleanpipe.audit.facts import ledger_tally, merge_samples
from cleanpipe.audit.markdown import to_markdown
from cleanpipe.builtin import READ
from cleanpipe.engine.read import _count
from cleanpipe.flow import Flow
from cleanpipe.io.documents import FailedRecord, ReadBatch
from cleanpipe.pipeline import Pipeline
from cleanpipe.recipe import Recipe
from cleanpipe.stage import Outcome, Stage
from cleanpipe.tally import add


@dataclass(frozen=True, kw_only=True)
class Vowels(Stage):
    """Drops texts without an a; raises on texts with a q, as a parser may."""

    name: ClassVar[str] = "vowels"
    reads: ClassVar = frozenset({col.TEXT})
    scores: ClassVar = {"a_share": pa.float64()}
    reasons: ClassVar = frozenset({"no_a"})

    def open(self):
        def step(rows):
            texts = rows.column(col.TEXT).to_pylist()
            if any("q" in t for t in texts):
                raise ZeroDivisionError("q")
            share = [round(t.count("a") / len(t), 6) for t in texts]
            drops = pa.array([None if s else "no_a" for s in share], pa.string())
            facts = {"failed_no_a": sum(not s for s in share), "alone_no_a": sum(not s for s in share)}
            return Outcome(rows, drops=drops, scores={"a_share": pa.array(share, pa.float64())}, facts=facts)

        return step


@dataclass(frozen=True, kw_only=True)
class Pairs(Stage):
    """Windows of two characters, each overlapping the one before by one."""

    name: ClassVar[str] = "pairs"
    reads: ClassVar = frozenset({col.TEXT})
    writes: ClassVar = {col.TEXT: pa.large_string(), col.LENGTH: pa.int64(), **col.WINDOW_COLUMNS}

    def open(self):
        def step(rows):
            cut = [
                (i, w, max(len(t) - 1, 1), t[w : w + 2])
                for i, t in enumerate(rows.column(col.TEXT).to_pylist())
                for w in range(max(len(t) - 1, 1))
            ]
            parent, window, windows, texts = (list(c) for c in zip(*cut, strict=True)) if cut else ([],) * 4
            columns = {
                col.TEXT: pa.array(texts, pa.large_string()),
                col.LENGTH: pa.array([len(t) for t in texts], pa.int64()),
                col.WINDOW: pa.array(window, pa.int32()),
                col.WINDOWS: pa.array(windows, pa.int32()),
                col.CHAR_START: pa.array(window, pa.int64()),
                col.CHAR_END: pa.array([w + len(t) for w, t in zip(window, texts, strict=True)], pa.int64()),
                col.OVERLAP: pa.array([int(w > 0) for w in window], pa.int32()),
            }
            parents = pa.array(parent, pa.int32())
            return Outcome(col.with_columns(rows.take(parents), columns), parents=parents)

        return step


PIPELINE = Pipeline((Vowels(), Pairs()))
STAGES = PIPELINE.complete()
SCORES = cleanpipe.ledger.score_columns(PIPELINE.scores())
SCHEMA = cleanpipe.ledger.schema(PIPELINE.scores())
FLOW = Flow(STAGES, SCORES)


def document(source, i, text):
    known = {
        col.DOC_ID: f"{source}{i}".encode().ljust(16, b"\0"),
        col.SOURCE: source,
        col.RECORD_OFFSET: i,
        col.RECORD_TYPE: "conversion",
        col.URL: f"http://{source}.example/{i}",
        col.BODY: text.encode(),
        col.BYTES_IN: len(text.encode()),
    }
    return {n: known.get(n) for n in col.READ_COLUMNS}


def process(source, documents, damaged):
    """One batch as a worker would treat it: its tally, ledger tally, samples and (rows, characters) for the shards."""
    rows = pa.RecordBatch.from_pylist(documents, pa.schema(list(col.READ_COLUMNS.items())))
    failed = [
        FailedRecord(
            bytes([255, i]) + source.encode().ljust(14), source, 900 + i, 5, "file", "damaged_range", "cut", ""
        )
        for i in range(damaged)
    ]
    tally = {}
    _count(tally, ReadBatch(rows, failed))
    flowed = FLOW.run(rows)
    add(tally, flowed.tally)
    verdicts = flowed.fates
    counts = np.bincount(flowed.origin, minlength=rows.num_rows)
    columns = {n: rows.column(n) for n in cleanpipe.ledger.IDENTITY}
    columns |= {n: verdicts.column(n) for n in verdicts.schema.names}
    columns[col.CHARS_OUT] = columns.get(col.LENGTH)
    columns[col.WINDOWS] = pa.array(counts, pa.int32(), mask=counts == 0)
    table = cleanpipe.ledger.finish(cleanpipe.ledger.conform(columns, rows.num_rows, SCHEMA))
    lost = [
        {n: getattr(f, n, None) for n in SCHEMA.names}
        | {col.FATE: "quarantined", col.STAGE: READ, col.REASON: f.reason}
        for f in failed
    ]
    table = pa.concat_tables([table, pa.Table.from_pylist(lost, SCHEMA)])
    facts = ledger_tally(table, SCORES, seed=0, samples=3)
    last = flowed.rows
    chars = int(np.sum(last.column(col.LENGTH).to_numpy())) - int(np.sum(last.column(col.OVERLAP).to_numpy()))
    return {
        "tally": tally,
        "ledger": facts[0],
        "samples": facts[1],
        "rows": last.num_rows,
        "chars": chars,
        "records": {source: {"conversion": len(documents), "warcinfo": 1}},
    }


def audit_of(parts, **changes):
    total = {"tally": {}, "ledger": {}, "records": {}, "samples": {}, "rows": 0, "chars": 0}
    for part in copy.deepcopy(parts):
        for key in ("tally", "ledger"):
            add(total[key], part[key])
        for source, types in part["records"].items():
            have = total["records"].setdefault(source, {"conversion": 0, "warcinfo": 1})
            have["conversion"] += types["conversion"]
        total["samples"] = merge_samples(total["samples"], part["samples"], 3)
        total["rows"] += part["rows"]
        total["chars"] += part["chars"]
    shard = {"file": "data-00000-of-00001.arrow", "bytes": 10, "sha256": "00", "limit": 100}
    given = {
        "identity": {"config_hash": "00000000", "recipe": "test"},
        "recipe": Recipe(name="test"),
        "stages": STAGES,
        "tally": total["tally"],
        "ledger": total["ledger"],
        "samples": total["samples"],
        "by_source": total["records"],
        "meetings": {},
        "shards": [{**shard, "rows": total["rows"], "chars": total["chars"]}],
    }
    return build_audit(**(given | changes))


def spelled(audit):
    return json.dumps(audit, sort_keys=True)


TEXTS = st.lists(st.text("abq \u200b\u00e9", max_size=8), max_size=12)


@settings(max_examples=25, deadline=None)
@given(TEXTS, TEXTS, st.integers(0, 2), st.lists(st.integers(0, 12), max_size=3), st.randoms())
def test_any_grouping_in_any_order_gives_one_balanced_audit(one, two, damaged, cuts, rng):
    assume(not any(sum("q" in t for t in texts) >= 8 for texts in (one, two)))  # a whole batch that fails stops the run
    documents = {s: [document(s, i, t) for i, t in enumerate(texts)] for s, texts in (("x", one), ("y", two))}
    whole = audit_of([process("x", documents["x"], damaged), process("y", documents["y"], 0)])
    assert whole["conservation"]["balanced"], [li for li in whole["conservation"]["lines"] if not li["ok"]]
    parts = []
    for source, rows in documents.items():
        borders = [0, *sorted(min(c, len(rows)) for c in cuts), len(rows)]
        spans = list(pairwise(borders))
        extra = [damaged if source == "x" and i == 0 else 0 for i in range(len(spans))]
        parts += [process(source, rows[a:b], n) for (a, b), n in zip(spans, extra, strict=True)]
    rng.shuffle(parts)
    again = audit_of(parts)
    assert spelled(again) == spelled(whole)
    assert to_markdown(again) == to_markdown(whole)
    assert to_markdown(json.loads(spelled(whole))) == to_markdown(whole)  # a resumed run reads tallies from JSON
    assert funnel(json.loads(spelled(whole))) == funnel(whole)


TEXTS_BY_HAND = ["aa", "ab\u200bcd", "bbb", "", "aq", "cab"]


@pytest.fixture
def part():
    return process("x", [document("x", i, t) for i, t in enumerate(TEXTS_BY_HAND)], 1)


def test_figures_worked_out_by_hand(part):
    """aa, abcd, cab are kept; bbb has no a, "" has no text, aq makes the stage raise; one range is damaged."""
    audit = audit_of([part])
    steps = {row["stage"]: row["documents"] for row in audit["funnel"]}
    got = {name: (step["in"], step["out"]) for name, step in steps.items()}
    assert got == {"read": (7, 6), "decode": (6, 6), "normalise": (6, 5), "vowels": (5, 3), "pairs": (3, 3)}
    assert audit["stages"]["vowels"]["dropped"] == {"no_a": 1}
    assert audit["stages"]["vowels"]["quarantined"] == {"stage_error": 1}  # not a verdict: an error
    assert audit["stages"]["read"]["quarantined"] == {"damaged_range": 1}
    characters = {row["stage"]: row["characters"] for row in audit["funnel"]}
    assert characters["normalise"]["removed"] == 1  # U+200B
    assert characters["vowels"]["dropped"] == 5  # bbb and aq
    assert (characters["pairs"]["in"], characters["pairs"]["added"]) == (9, 3)  # abcd twice over, cab once
    assert audit["windows"]["per_document"] == {"1": 1, "2": 1, "3": 1}
    assert audit["windows"]["duplication"]["value"] == round(12 / 9, 6)
    assert audit["input"]["records"]["total"] == {"conversion": 6, "warcinfo": 1}
    assert audit["characters"]["invisible"] == {"U+200B": {"before": 1, "after": 0}}
    assert audit["characters"]["left_of_the_removed_set"]["value"] == 0
    assert steps["vowels"]["share_of_stage_input"] == {
        "value": 0.6, "numerator": 3, "denominator": 5, "unit": "documents", "method": "exact",
    }  # fmt: skip
    assert audit["scrub"] == audit["quality"] == audit["duplicates"] == audit["languages"] == "not applicable"


def test_an_empty_run_balances_and_shares_of_nothing_are_not_zero():
    audit = audit_of([process("x", [], 0)])
    assert audit["conservation"]["balanced"]
    assert audit["funnel"][0]["documents"]["share_of_run_input"]["value"] == "not applicable"
    assert audit["shards"]["retained"]["value"] == "not applicable"
    to_markdown(audit)
    funnel(audit)


def lose(key, *path):
    """Take one from a number somewhere below a part."""

    def change(part):
        at = part
        for name in (key, *path)[:-1]:
            at = at[name]
        at[(key, *path)[-1]] -= 1

    return change


BREAKS = [  # what goes missing, and a law that must say so
    ("a kept document of the ledger", lose("ledger", "fates", "kept", "documents"), "documents kept"),
    ("a kept byte", lose("ledger", "fates", "kept", "bytes"), "bytes of the run"),
    ("a dropped document of the ledger", lose("ledger", "fates", "dropped", "vowels", "no_a", "documents"), "vowels"),
    ("a quarantined one", lose("ledger", "fates", "quarantined", "vowels", "stage_error", "documents"), "vowels"),
    ("a record of one input", lose("records", "x", "conversion"), "records by source"),
    ("a document between stages", lose("tally", "vowels", "docs_in"), "documents of vowels"),
    ("a byte between stages", lose("tally", "vowels", "bytes_in"), "bytes of vowels"),
    ("a character between stages", lose("tally", "pairs", "chars_in"), "characters of pairs"),
    ("a removed character", lose("tally", "normalise", "chars_removed"), "characters of normalise"),
    ("a character of the shards", lose("chars"), "characters of the shards"),
    ("a row of the shards", lose("rows"), "rows of the shards"),
]


@pytest.mark.parametrize(("what", "change", "law"), BREAKS, ids=[b[0] for b in BREAKS])
def test_whatever_is_lost_breaks_a_law(part, what, change, law):
    assert audit_of([part])["conservation"]["balanced"]
    change(part)
    conservation = audit_of([part])["conservation"]
    assert not conservation["balanced"]
    assert any(law in line["what"] for line in conservation["lines"] if not line["ok"])


def test_a_fate_by_a_stage_that_did_not_run_breaks_the_balance(part):
    part["ledger"]["fates"]["dropped"]["ghost"] = {"because": {"documents": 0, "bytes": 0}}
    broken = [li["what"] for li in audit_of([part])["conservation"]["lines"] if not li["ok"]]
    assert broken == ["documents of unknown stages"]


def test_without_shard_sums_that_law_is_left_out(part):
    shards = [{"file": "f", "bytes": 1, "rows": part["rows"], "sha256": "", "limit": 9}]
    conservation = audit_of([part], shards=shards)["conservation"]
    assert conservation["balanced"]
    assert "characters of the shards" not in [li["what"] for li in conservation["lines"]]


def test_each_stage_has_a_file_with_its_own_part(part):
    files = stage_files(audit_of([part]))
    assert list(files) == ["read", "decode", "normalise", "vowels", "pairs"]
    assert set(files["vowels"]["samples"]) == {"vowels/no_a", "vowels/stage_error"}
    assert list(files["pairs"]["sections"]) == ["windows"]
    assert [li["what"] for li in files["pairs"]["conservation"]] == [
        "documents of pairs", "bytes of pairs", "characters of pairs",
    ]  # fmt: skip
