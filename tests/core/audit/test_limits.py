"""What a limit decided, and what would pass as it moves: the share at the limit in force is what really passed it."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cleanpipe.audit import build
from cleanpipe.audit.asked import asked_tally
from cleanpipe.audit.build import build_audit
from cleanpipe.audit.facts import ledger_tally
from cleanpipe.engine import ending
from cleanpipe.recipe import load_recipe
from cleanpipe.report.cuts import curve
from cleanpipe.report.node import Node
from cleanpipe.run import run
from cleanpipe.tally import add

duckdb = pytest.importorskip("duckdb", reason="the shares are counted again with DuckDB")
SETS = {
    "as it is": [],
    "strict": ["language_id.threshold=0.9", "language_preview.confidence=0.72", "language_preview.letters=123",
               "quality_score.max_perplexity=3000", "quality_score.min_entropy=4.1",
               "quality_score.min_deflate_ratio=0.45", "quality_score.max_repetition=0.05"],  # many fail
    "two languages": ["language_preview.languages=en,zh", "language_id.languages=en,zh", "language_id.threshold=0.655"],
    "every text": ["quality_score.judge_from=0", "quality_score.max_entropy=4.55", "quality_score.min_ascii_share=0.9"],
}  # fmt: skip
# whom each limit is asked about, written down by hand from what the stages say of themselves
PREVIEWED = "language_preview NOT IN ({languages})"
ASKED = {
    "language_preview/confidence": PREVIEWED + " AND language_preview_letters >= {letters}",
    "language_preview/letters": PREVIEWED + " AND language_preview_score >= {confidence}",
}
# of quality_score's perplexity: a long text that went for no reason that is looked at before
EARLIER = ["too_short", "repetitive", "many_digits", "low_ascii", "low_entropy", "high_entropy"]
LONG = "quality_score_chars >= {own.judge_from} AND NOT coalesce(stage = 'quality_score' AND reason IN ({gone}), false)"
EASIEST = " AND (quality_score_paragraph_p10 > {easiest} OR {easiest} = 0)"  # fmt: skip


@pytest.fixture(scope="module", params=list(SETS))
def made(request, tmp_path_factory):
    """(audit as the run wrote it, audit with the judges asked, SQL on the ledger, recipe)"""
    out, given = tmp_path_factory.mktemp("limits") / "out", {}

    def keep(**arguments):
        given.update(arguments)
        return build_audit(**arguments)

    recipe = load_recipe("sample", SETS[request.param])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ending, "build_audit", keep)
        audit = run(recipe, [], out, engine="serial").audit
    paths = sorted((Path(out) / "ledger").glob("*.parquet"))
    table = pa.concat_tables([pq.read_table(p) for p in paths])
    kinds = {n: t for s in given["stages"] for n, t in s.scores.items() if n in table.schema.names}
    tally, _ = ledger_tally(table, kinds, seed=0, samples=0, stages=given["stages"])
    sql = duckdb.connect()
    sql.execute(f"CREATE VIEW ledger AS FROM '{out}/ledger/part-*.parquet'")
    return audit, build.build_audit(**{**given, "ledger": tally}), sql, given["stages"], table


def limits(audit):
    return [(s, Node(c)) for s, part in audit["stages"].items() for c in part["cuts"]]


def came(audit, stage):
    order = [r["stage"] for r in audit["funnel"]]
    later = ", ".join(f"'{s}'" for s in order[order.index(stage) + 1 :])
    passed = f"(fate = 'kept' OR stage IN ({later}))"
    return passed, f"({passed} OR stage = '{stage}')"


def test_the_curve_at_the_limit_is_the_share_that_passed_it(made):
    audit, _, sql, _, _ = made
    drawn = 0
    for stage, cut in limits(audit):
        counts, (passed, _) = cut.value.get("counts"), came(audit, stage)
        if counts is None or counts["known"] == "unknown":
            assert curve(cut, [0.1]) == []
            continue
        c = cut.value
        where = " AND ".join([f"{k} = '{v}'" for k, v in c["where"].items()] or ["true"])
        fails = f"NOT {c['score']} {c['keeps']} {c['at']}"
        gone = f"coalesce(stage = '{stage}' AND reason = '{c['reason']}' AND {fails}, false)"
        has = f"{c['score']} IS NOT NULL" if counts["known"] == "all" else "true"
        n, whole = sql.execute(
            f"SELECT count(*) FILTER (NOT {gone}), count(*) FROM ledger "
            f"WHERE ({passed} OR {gone}) AND {where} AND {has}"
        ).fetchone()
        at = dict(curve(cut, [c["at"] - 0.25, c["at"], c["at"] + 0.25])) if whole else {}
        assert (counts["passes"], counts["whole"]) == (n, whole), (stage, c["option"])
        if whole:
            assert at[c["at"]].value == n
            drawn += 1
    assert drawn > 3


def test_a_judge_s_limit_counts_those_asked_and_no_others(made):
    """By the score alone, of those asked: at the limit, and anywhere else on an edge of the bins."""
    _, audit, sql, stages, _ = made
    options = {s.name: s for s in stages}
    told = 0
    for stage, cut in limits(audit):
        c, counts = cut.value, cut.value.get("counts")
        if counts is None or counts["by"] != "judge":
            continue
        told += 1
        assert counts["known"] == "all"
        assert counts["passes"] == counts["whole"] - sum(counts["dropped"].values())
        parts = [counts[p] for p in ("passed", "dropped", "otherwise")]
        assert sum(counts["asked"].values()) == counts["whole"] == sum(n for p in parts for n in p.values())
        whose = ASKED.get(f"{stage}/{c['option']}")
        own = options[stage]
        if c["where"]:
            whose = " AND ".join(f"{k} = '{v}'" for k, v in c["where"].items())
        elif c["score"] == "perplexity":
            whose = "true"  # one limit of all languages, those without a model too
        elif whose:
            languages = ", ".join(f"'{x}'" for x in own.languages)
            whose = whose.format(languages=languages, letters=own.letters, confidence=own.confidence)
        if whose is None:
            continue
        if c["score"] == "perplexity":
            low = c["option"] == "min_perplexity"
            gone = ", ".join(f"'{r}'" for r in [*EARLIER, *([] if low else ["low_perplexity"])])
            easiest = own.limits().perplexity[c["where"].get("language", "")][2]
            whose += " AND " + LONG.format(own=own, gone=gone) + ("" if low else EASIEST.format(easiest=easiest))
        _, reached = came(audit, stage)
        for at, n in curve(cut, [0.5, 0.6, 0.72, 0.9]):
            if at == c["at"] or (at < 1 and at in (0.5, 0.6, 0.72, 0.9)):
                mine = sql.execute(
                    f"SELECT count(*) FILTER ({c['score']} {c['keeps']} {at}), count(*) FROM ledger "
                    f"WHERE {reached} AND {whose} AND {c['score']} IS NOT NULL"
                ).fetchone()
                assert (n.value, counts["whole"]) == mine, (stage, c["option"], at)
    assert told > 5


def test_no_document_that_passed_a_stage_is_on_the_wrong_side_of_a_limit_it_was_asked_about(made):
    _, audit, _, _, _ = made
    for stage, cut in limits(audit):
        c, counts = cut.value, cut.value.get("counts")
        if counts is None or counts["known"] != "all":
            continue
        for part, good in (("passed", True), ("dropped", False)):
            for low in map(float, counts[part]):
                inside = low >= c["at"] if c["keeps"][0] == ">" else low <= c["at"]
                straddles = abs(low - c["at"]) <= max(0.01, 0.02 * abs(c["at"]))
                assert straddles or inside is good, (stage, c["option"], part, low)


def test_halves_of_a_ledger_add_up_to_the_whole(made):
    _, _, _, stages, table = made
    cut = table.num_rows // 3
    parts = [asked_tally(t, stages) for t in (table.slice(cut), table.slice(0, cut), table.slice(0, 0))]
    whole = asked_tally(table, stages)
    total = {}
    for part in parts:
        add(total, part)
    assert json.dumps(total, sort_keys=True) == json.dumps(whole, sort_keys=True)
    assert whole


def test_limits_that_were_asked_of_a_part_of_the_rows_only_are_not_believed(made):
    """An unfinished run may add up parts of which only some had the judges asked."""
    _, _, _, stages, table = made
    kinds = {n: t for s in stages for n, t in s.scores.items() if n in table.schema.names}
    some = add(
        ledger_tally(table.slice(9), kinds, seed=0, samples=0, stages=stages)[0],
        ledger_tally(table.slice(0, 9), kinds, seed=0, samples=0)[0],
    )
    assert some["asked_rows"] == some["rows"] - 9
    from cleanpipe.audit.limits import limits as told
    from cleanpipe.audit.lines import View

    view = View(None, stages, {}, some, {}, {}, [])
    own = next(s for s in stages if s.name == "language_preview")
    assert [c["counts"]["by"] for c in told(view, own.name, own.cuts())] == ["outcome", "outcome"]
    whole = View(None, stages, {}, {**some, "asked_rows": some["rows"]}, {}, {}, [])
    assert [c["counts"]["by"] for c in told(whole, own.name, own.cuts())] == ["judge", "judge"]
