"""What a person reads: the console's funnel and audit.md. What came from a page stays text."""

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from cleanpipe.audit.build import build_audit, stage_files
from cleanpipe.audit.console import funnel, size
from cleanpipe.audit.markdown import to_markdown
from cleanpipe.audit.tables import code, escape
from cleanpipe.run import run


@pytest.fixture(scope="module")
def audit(tmp_path_factory):
    """Of a run of the default recipe, with a WET file of one document."""
    spec = spec_from_file_location("makers", Path(__file__).parents[2] / "conftest.py")
    makers = module_from_spec(spec)
    spec.loader.exec_module(makers)
    folder = tmp_path_factory.mktemp("wet")
    page = makers.conversion("http://a.example/", "\n".join(makers.prose(4)))
    makers.write_gz(folder / "a.warc.wet.gz", [makers.warcinfo(), page])
    return run("web", [str(folder / "a.warc.wet.gz")], folder / "out", engine="serial").audit


def test_a_stage_that_applies_to_nothing_says_so_and_never_0(audit):
    assert audit["http"] == audit["scrub"] == "not applicable"
    assert audit["stages"]["http_filter"]["not_applicable"] == "not applicable"
    line = next(li for li in funnel(audit).splitlines() if li.startswith("http_filter"))
    assert line.endswith("not applicable")
    assert "n/a" in line
    assert "\n## HTTP\n\nNot applicable.\n" in to_markdown(audit)


def test_lines_that_cannot_be_filled_say_why(audit):
    assert audit["languages"]["mixed_language"]["value"] == "not measured"
    ours = {li["what"]: li["ours"] for li in audit["reported_elsewhere"]}
    assert ours["mirror duplicates removed"]["value"] == "not measured"
    assert ours["removed by language"]["value"] == 0
    assert ours["responses of another status than 200"] == "not applicable"
    assert len(ours) == 9


def test_every_stage_has_a_file(audit):
    files = stage_files(audit)
    assert list(files)[:2] == ["read", "http_filter"]
    assert files["quality_score"]["sections"]["quality"]["scores"]["entropy"]["measured"]["numerator"] == 1
    assert files["windowing"]["reported_elsewhere"][0]["reported"] == "1.33×"
    assert files["minhash_drop"]["sections"]["duplicates"]["exact"]["denominator"] == 1


@pytest.mark.parametrize("width", [60, 80, 100])
def test_no_line_of_the_funnel_is_wider_than_the_terminal(audit, width):
    lines = funnel(audit, width).splitlines()
    assert max(map(len, lines)) <= width
    rows = lines[: 1 + len(audit["funnel"])]
    documents = rows[0].index("documents") + len("documents")
    assert all(re.match(r"\S", li[documents - 1]) for li in rows)  # figures stand under each other
    assert any(li.startswith("balance    closes") for li in lines)
    assert any(li.startswith("shards     1 file, ") for li in lines)


def test_a_broken_balance_is_named(audit):
    lines = [{**li, "left": 7, "right": 1008, "ok": False} for li in audit["conservation"]["lines"][:2]]
    broken = {**audit, "conservation": {"balanced": False, "lines": lines}}
    assert "balance    BROKEN: records of the run: 7 ≠ 1,008 (and 1 more)" in funnel(broken)
    assert "**The balance does not close:** 2 of 2 laws are broken." in to_markdown(broken)


def test_numbers_have_separators_and_units():
    assert [size(n) for n in (999, 1000, 1_234_567, 12_700_000_000_000)] == ["999 bytes", "1.0 kB", "1.2 MB", "12.7 TB"]


HOSTILE = [
    "<script>alert(1)</script>",
    "[click](javascript:alert(1))",
    "![x](http://evil.example/x.png)",
    "a | b",
    "`code`",
    "line\nbreak\r\n# heading",
    "&lt;img src=x&gt;",
    "\u202egnp.exe",
    "http://evil.example/ www.evil.example me@evil.example",
    "\\",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_text_from_outside_is_no_markup(text):
    out = escape(text)
    assert "\n" not in out
    assert out.isprintable()
    bare = re.sub(r"\\[!-/:-@\[-`{-~]|&#\d+;", "", out)  # what is left without escapes and entities
    assert not re.search(r"[<>\[\]`|*_&@\\]|://|www\.", bare)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_url_is_one_code_span_in_one_cell(text):
    out = code(text)
    assert re.fullmatch(r"`[^`|\n<>\\]+`", out)
    assert out.isprintable()


def test_hostile_urls_and_names_leave_no_markup_in_the_report(audit):
    sample = {
        "url": "http://x/<b>|`",
        "source": "<i>|.warc",
        "record_offset": 1,
        "scores": {"label": "<u>|"},
        "doc_id": "",
    }
    text = to_markdown({**audit, "samples": {"kept": [sample], "a/<s>": []}})
    assert not re.search(r"(?<!\\)<[bisu]>", text)
    row = next(li for li in text.splitlines() if "http://x/" in li)
    assert len(re.findall(r"(?<!\\)\|", row)) == 4


def test_alarms_are_raised_above_the_share_and_marked_where_they_are_the_recipe_s_choice(audit):
    from cleanpipe.recipe import load_recipe

    recipe = load_recipe("web", ["audit.alarm=0.5", "audit.alarm_rows=4"])
    ledger = {
        "by_language": {
            "en": {"kept": 1, "language_id/low_confidence": 3},  # lost 75 %
            "de": {"language_id/other_language": 4},  # by design
            "fr": {"kept": 2, "language_id/other_language": 2},  # lost 50 %, not more
            "fi": {"language_id/low_confidence": 3},  # too few
        },
        "hosts": {"documents": {"a.example": 6}, "kept": {}, "unwanted": {"a.example": 2}},
    }
    made = build_audit(
        identity={}, recipe=recipe, stages=recipe.pipeline().complete(), tally={}, ledger=ledger, samples={},
        by_source={}, meetings={}, shards=[],
    )  # fmt: skip
    got = [(a["kind"], a["name"], a["by_design"], a["lost"]["value"]) for a in made["alarms"]["raised"]]
    assert got == [("host", "a.example", False, 1.0), ("language", "en", False, 0.75), ("language", "de", True, 1.0)]
    assert "a.example, en" in funnel(made)
    assert "de" not in funnel(made).splitlines()[-1].split(": ")[1].split(", ")


def test_the_sections_of_a_crawl_of_every_fate(crawl, tmp_path):
    """The archives of conftest: 13 responses, a cut one, a WET record; a page and its copy, a page and one like it."""
    audit = run("web", [str(crawl)], tmp_path / "out", engine="serial").audit
    assert audit["conservation"]["balanced"]
    assert audit["input"]["records"]["total"] == {"response": 13, "conversion": 1, "warcinfo": 3}
    assert audit["input"]["damaged"]["ranges"]["value"] == 1
    assert audit["http"]["status"] == {"200": 12, "404": 1, "unknown": 1}  # unknown: WET
    assert audit["http"]["non_200"]["value"] == round(1 / 13, 6)
    assert audit["http"]["declared_by_sniffed"]["application/pdf"] == {"application/pdf": 1}
    assert audit["stages"]["http_filter"]["dropped"] == {"bad_status": 1, "bad_type": 1}
    assert audit["stages"]["http_filter"]["not_applicable"] == 1
    assert audit["languages"]["preview"]["de"] == 1
    assert audit["languages"]["removed_by_stage"]["language_preview"]["other_language"]["numerator"] == 1
    assert audit["scrub"]["not_applicable"]["value"] == 1
    assert audit["scrub"]["characters_out"]["value"] < audit["scrub"]["characters_in"]["value"]
    assert audit["duplicates"]["exact"]["numerator"] == audit["duplicates"]["near"]["numerator"] == 1
    assert sum(audit["duplicates"]["cluster_sizes"].values()) == 2
    assert audit["shards"]["rows"]["value"] == sum(int(k) * n for k, n in audit["windows"]["per_document"].items())
    assert {k.partition("/")[0] for k in audit["samples"]} >= {"kept", "read", "http_filter", "minhash_drop"}
