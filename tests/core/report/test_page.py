"""The page: one file that asks for nothing, whole for readers without eyes, mouse or colours, and never too large."""

import copy
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from cleanpipe.report import style
from cleanpipe.report.audit_page import to_html
from cleanpipe.report.markup import Html
from cleanpipe.report.page import Section, page, table
from cleanpipe.run import run

VOID = {"meta", "link", "br", "img", "input", "hr"}


class Tree(HTMLParser):
    """Elements in order, as (name, attributes, names of those around it); and what is not well nested."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.faults, self._open = [], [], []
        self.feed(text)
        self.faults += [f"{t} is never closed" for t in self._open]

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs), list(self._open)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs), list(self._open)))

    def handle_endtag(self, tag):
        if not self._open or self._open.pop() != tag:
            self.faults.append(f"{tag} closes what it did not open")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """audit.json and run.json of the recipe and archives in the package."""
    out = tmp_path_factory.mktemp("page") / "out"
    run("sample", [], out, engine="serial")
    return json.loads((out / "audit/audit.json").read_text()), json.loads((out / "run.json").read_text())


def test_the_page_is_whole_and_asks_for_nothing(made):
    text = to_html(*made)
    tree = Tree(text)
    assert not tree.faults
    names = {t for t, _, _ in tree.elements}
    assert not names & {"script", "iframe", "object", "embed", "form", "base", "img", "audio", "video", "use", "image"}
    for tag, attrs, _ in tree.elements:
        assert not [a for a in attrs if a.startswith("on") or a in ("src", "srcset", "xlink:href", "style", "action")]
        if tag == "a":
            assert attrs["href"].startswith("#")
        if tag == "link":
            assert attrs == {"rel": "icon", "href": "data:,"}
    policy = next(a["content"] for t, a, _ in tree.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert "url(" not in style.CSS
    assert "@import" not in style.CSS
    assert "://" not in style.CSS


def test_links_lead_somewhere_and_ids_are_one_each(made):
    elements = Tree(to_html(*made)).elements
    ids = [a["id"] for _, a, _ in elements if "id" in a]
    assert len(ids) == len(set(ids))
    assert {a["href"][1:] for t, a, _ in elements if t == "a"} <= set(ids)
    assert {a["aria-labelledby"] for t, a, _ in elements if "aria-labelledby" in a} <= set(ids)
    stages = [row["stage"] for row in made[0]["funnel"]]
    assert {f"stage-{s}" for s in stages} <= set(ids)  # what audit/<stage>.json names


def test_tables_and_charts_can_be_read_by_who_does_not_see(made):
    text = to_html(*made)
    elements = Tree(text).elements
    assert [t for t, _, _ in elements].count("h1") == 1
    assert elements[0][1] == {"lang": "en"}
    tables = text.count("<table")
    assert tables == text.count("<caption") == text.count('<div class="scroll" role="region" tabindex="0"') > 20
    for tag, attrs, around in elements:
        if tag == "th":
            assert attrs["scope"] in ("col", "row"), around
        if tag == "svg":
            assert attrs.get("aria-hidden") == "true" or (attrs["role"] == "img" and attrs["aria-label"])
        if attrs.get("class") == "scroll":
            assert attrs["aria-label"]
    assert '<a class="skip" href="#content">' in text
    assert ":focus-visible" in style.CSS
    assert "prefers-color-scheme:dark" in style.CSS
    assert "@media print" in style.CSS


def contrast(one, other):
    def light(colour):
        colour = colour.lstrip("#")
        colour = "".join(c * 2 for c in colour) if len(colour) == 3 else colour
        parts = [int(colour[i : i + 2], 16) / 255 for i in (0, 2, 4)]
        parts = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    a, b = sorted((light(one), light(other)), reverse=True)
    return (a + 0.05) / (b + 0.05)


@pytest.mark.parametrize("theme", [0, 1, 2], ids=["light", "dark", "print"])
def test_texts_have_contrast_and_kept_and_lost_are_told_apart(theme):
    """WCAG 2.1: 4.5:1 for texts, 3:1 for shapes on their ground."""
    block = re.findall(r":root\{([^}]*)\}", style.CSS)[theme]
    colours = dict(re.findall(r"--([\w-]+):(#\w+)", block))
    for ground in ("bg", "card", "wash"):
        for ink in ("ink", "soft", "accent", "kept-ink", "lost-ink", "aside-ink"):
            assert contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)
    for tone in ("good", "bad", "warn"):
        assert contrast(colours[tone], colours[f"{tone}-wash"]) >= 4.5
        assert contrast(colours[tone], colours["card"]) >= 4.5
    for shape in ("kept", "lost", "aside"):
        assert contrast(colours[shape], colours["card"]) >= 3
    kept, lost = (int(colours[c][5:7], 16) - int(colours[c][1:3], 16) for c in ("kept", "lost"))
    assert kept > 60 > -60 > lost  # blue and orange: apart for who does not tell red from green


ALWAYS = ("identity", "recipe", "samples", "reported_elsewhere", "alarms", "input", "shards", "conservation")
MAYBE = ("http", "languages", "scrub", "quality", "duplicates", "windows", "characters", "scores", "lost")


@pytest.mark.parametrize(
    ("section", "instead"), [(s, None) for s in (*ALWAYS, *MAYBE)] + [(s, "not applicable") for s in MAYBE]
)
def test_a_section_that_is_not_there_is_left_out(made, section, instead):
    audit = dict(made[0])
    if instead is None:
        del audit[section]
    else:
        audit[section] = instead
    text = to_html(audit, made[1])
    assert not Tree(text).faults
    assert len(text) > 50_000


def test_an_audit_of_format_1_is_shown_and_says_what_it_lacks(made):
    audit = copy.deepcopy(made[0])
    audit["format"] = 1
    for name in ("recipe", "lost", "scores"):
        del audit[name]
    del audit["ledger"]["totals"], audit["duplicates"]["biggest"]
    for stage in audit["stages"].values():
        for name in ("rule", "about", "options", "cuts", "scores"):
            del stage[name]
    for samples in audit["samples"].values():
        for sample in samples:
            sample.pop("decided", None)
            del sample["as_read"]
    for part in ("quality", "languages"):
        for score in audit[part]["scores"].values():
            del score["histogram_kept"]
    text = to_html(audit, made[1])
    assert not Tree(text).faults
    assert text.count("not recorded by this version") >= len(audit["stages"])


def test_an_audit_without_a_funnel_is_a_page_of_what_it_has(made):
    only = {"format": 2, "characters": made[0]["characters"], "languages": made[0]["languages"]}
    text = to_html(only, {})
    assert not Tree(text).faults
    assert 'id="characters"' in text
    assert 'id="languages"' in text
    assert 'id="funnel"' not in text


def test_a_broken_balance_and_an_unfinished_run_cannot_be_overlooked(made):
    audit = copy.deepcopy(made[0])
    audit["conservation"]["balanced"] = False
    audit["conservation"]["lines"][3] |= {"ok": False, "left": 7, "detail": "<b>why</b>"}
    text = to_html(audit, made[1], caution="<x> is not finished: this is of 1 of its 2 units")
    assert "The balance is BROKEN." in text
    assert '<div class="verdict bad">' in text
    assert "&lt;b&gt;why&lt;/b&gt;" in text
    assert text.index("&lt;x&gt; is not finished") < text.index('id="verdict"')
    assert "Not finished." in text


def test_the_page_stays_below_2_mb_whatever_the_run(made):
    """A crawl of thousands of everything, with names as long as they can be."""
    audit = copy.deepcopy(made[0])
    long = "<ünï\u202e>" * 2000
    many = [f"{i:05}{long}" for i in range(3000)]
    audit["http"]["declared_by_sniffed"] = {n: dict.fromkeys(many[:50], 1) for n in many[:50]}
    for part, name in (("http", "status"), ("http", "media_types"), ("input", "charsets"), ("languages", "judged")):
        audit[part][name] = dict.fromkeys(many, 1)
    audit["languages"]["keep_curve"] = dict.fromkeys(many, audit["languages"]["keep_curve"]["en"])
    audit["input"]["records"]["by_source"] = {n: dict.fromkeys(many[:40], 1) for n in many}
    audit["input"]["reread"] = dict.fromkeys(many, 1)
    entry = {"name": long, "documents": 9, "kept": 1, "lost": 8, "reasons": dict.fromkeys(many[:4], 2)}
    for kind in audit["lost"].values():
        kind["items"] = [entry] * 500
    audit["alarms"]["raised"] = [
        {"kind": "host", "name": long, "lost": {"value": 1.0, "numerator": 9, "denominator": 9},
         "by_design": i % 2 == 0, "reasons": dict.fromkeys(many[:3], 3)} for i in range(300)
    ]  # fmt: skip
    sample = {**audit["samples"]["kept"][0], "url": f"http://{long}/", "source": long}
    sample["scores"] = {**sample["scores"], **dict.fromkeys(many[:20], long)}
    for stage in audit["stages"].values():
        stage["dropped"] = {f"reason_{i}": 5 for i in range(60)}
        stage["rule"], stage["about"] = long, long
        stage["options"] = [{"name": "x", "value": long, "doc": long, "source": long, "default": False}] * 30
    for stage in audit["stages"]:
        for i in range(60):
            audit["samples"][f"{stage}/reason_{i}"] = [sample] * 50
    histogram = {f"{i / 100:g}": 10**9 for i in range(-999, 1000)}
    for part in ("quality", "languages"):
        for score in audit[part]["scores"].values():
            score["histogram"] = score["histogram_kept"] = histogram
    audit["shards"]["files"] = audit["shards"]["files"] * 14_000
    member = {"doc_id": "1" * 32, "url": long, "jaccard": 0.9}
    audit["duplicates"]["biggest"] = [{"doc_id": "0" * 32, "url": long, "size": 10**6, "members": [member] * 99}] * 99
    audit["windows"]["per_document"] = {str(i): 1 for i in range(1, 20_000)}
    audit["conservation"]["lines"] = [{**li, "ok": False, "detail": long} for li in audit["conservation"]["lines"]] * 20
    audit["identity"]["inputs"] = audit["identity"]["inputs"] * 9000
    text = to_html(audit, made[1])
    assert len(text.encode()) < 2_000_000
    assert "\u202e" not in text
    assert not re.search("<ün", text)
    assert not Tree(text).faults
    assert len(to_html(*made).encode()) < 900_000  # 860,690 with limits of perplexity for each of seven languages


def test_blocks_for_other_pages():
    """What other commands make their pages of."""
    rows = [["<a>", 1, 0.5], [Html("<b>b</b>"), None, "text"]]
    text = page("<Title>", [Section("one", "One <", table("Cap<tion", ["x", "y", "z"], rows))], caution="careful")
    assert not Tree(text).faults
    assert "<title>&lt;Title&gt;</title>" in text
    assert "&lt;a&gt;" in text
    assert "<b>b</b>" in text
    assert "none." in table("Nothing", ["x"], [])


def test_the_style_is_small():
    assert len(style.CSS) < 12_000
    assert Path(style.__file__).stat().st_size < 14_000


def test_what_a_stage_counted_is_explained_where_the_stage_says_what_it_is(made):
    audit = copy.deepcopy(made[0])
    facts = audit["stages"]["html_scrub"]["facts"]
    assert facts
    name = sorted(facts)[0]
    audit["stages"]["html_scrub"]["meanings"] = {name: "what <this> is"}
    text = to_html(audit, made[1])
    row = next(r for r in text.split("<tr>") if f'data-of="/scrub/facts/{name}"' in r)
    assert "what &lt;this&gt; is" in row
    audit["stages"]["html_scrub"]["meanings"] = {}
    assert ">what it is<" not in to_html(audit, made[1])


def test_counts_of_lost_hosts_say_what_they_are_of(made):
    text = to_html(*made)
    lost = made[0]["lost"]["hosts"]
    whole = len(lost["items"]) + lost["left_out"]
    caption = next(c for c in re.findall(r"<caption>(.*?)</caption>", text) if c.startswith("Hosts, those"))
    noun = "host" if lost["names"] == 1 else "hosts"
    assert re.sub("<[^>]+>", "", caption) == f"Hosts, those that lost most, of {lost['names']:,} {noun}"
    assert (f"of {whole:,} hosts that lost documents" in text) == (whole > 15)


def test_only_words_too_long_for_a_line_are_broken_inside():
    from cleanpipe.report.markup import code, foreign

    for whole in ("application/xhtml+xml", "type_from", "a sentence of many short words that is long"):
        assert "long" not in code(whole).partition(">")[0]
        assert "long" not in foreign(whole).partition(">")[0]
    for broken in ("h" * 40, "see " + "x" * 31):
        assert code(broken).startswith('<code class="long">')
        assert foreign(broken).startswith('<bdi class="long">')
    rules = re.findall(r"([^{}]+)\{[^}]*overflow-wrap:anywhere", style.CSS)
    assert not [r for r in rules if r.strip().split(",")[-1] in ("code", ".w", "td", "th", "body", "bdi")]
