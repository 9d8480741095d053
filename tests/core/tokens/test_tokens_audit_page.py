"""The page, Markdown and the terminal's lines: every number is audit.json's, nothing from a page is markup."""

from __future__ import annotations

import copy
import json
import re
import shutil
import subprocess
from html import unescape
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from page_numbers import Missing, Numbers, evaluate

from cleanpipe.tally import add
from cleanpipe.tokens.audit.borders import alarms, borders
from cleanpipe.tokens.audit.build import build_token_audit
from cleanpipe.tokens.audit.console import summary
from cleanpipe.tokens.audit.markdown import to_markdown
from cleanpipe.tokens.audit.page import to_html
from cleanpipe.tokens.audit.tally import histogram, lost_of, tally_of
from cleanpipe.tokens.audit.told import sample_of

EVIL = "<img src=x onerror=window.pwned=1>"
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)


class Odd:
    """One id for each byte; its name and controls are markup."""

    name, kind, vocabulary, bos, eos, unk, lossless = EVIL, "json", 260, 258, 257, 256, False
    controls = {"</script><script>window.pwned=1</script>": 257, EVIL: 258}  # noqa: RUF012
    byte_ids = tuple(range(128, 256))
    fingerprint = {"content": "11" * 32, "digest": "00" * 32}  # noqa: RUF012

    def decode(self, ids: Any) -> str:
        return bytes(i for i in ids if i < 128).decode()

    def token_bytes(self, id_: int) -> bytes:
        return bytes([id_]) if id_ < 256 else EVIL.encode()


def made(documents: int = 40) -> dict[str, Any]:
    tool = Odd()
    texts = [f"{EVIL} page {i} <unk> é‮\u0301 " * (i + 1) + "</script>|`*_[x](http://h/)" for i in range(documents)]
    raw = [t.encode() for t in texts]
    ids = np.frombuffer(b"".join(raw), np.uint8).astype(np.uint32)
    ends = np.cumsum([len(r) for r in raw], dtype=np.int64)
    given: dict[str, Any] = {
        "doc_ids": pa.array([f"{i:016d}".encode() for i in range(documents)], pa.binary(16)),
        "languages": [("en", "<b>x</b>", "‮ar", None)[i % 4] for i in range(documents)],
    }
    tally = tally_of(
        tool, texts, ids, ends, windows=np.full(documents, 2), bos=True, eos=True, sample_limit=2**64 - 1,
        window_tokens=len(ids), starts_seen=documents, starts_cut=documents // 2, **given,
    )  # fmt: skip
    add(tally, lost_of("quarantined", EVIL, characters=5))
    add(tally, lost_of("dropped", "empty"))
    stored = tally["tokens"] + 2 * documents
    return build_token_audit(
        identity={"recipe": EVIL, "run": {"code": "c"}, "decisions": {"lines": 3, "left_out_by": [{"key": EVIL}]}},
        tally=tally, histogram=histogram(ids, 260), tokenizer=tool,
        proof={"asked": "auto", "used": "hf", "reason": EVIL, "differing": {"text": "probe 3", "got": [1, 2]},
               "probe_texts": 3, "sampled_texts": 0, "versions": {"x": "1"}},
        shards=[{"name": "tokens-00000-of-00001", "tokens": stored, "documents": documents, "windows": 2 * documents,
                 "bytes": stored * 2, "sha256": "d" * 64}],
        run={}, samples=sample_of(tool, ids, ends, urls=[f"http://{EVIL}/{i}" for i in range(documents)], **given),
    )  # fmt: skip


AUDITS = {"odd": made(), "one": made(1), "nothing": made(0)}
AUDITS["broken"] = copy.deepcopy(AUDITS["odd"])
AUDITS["broken"]["conservation"]["lines"][3] |= {"left": 7, "ok": False}
AUDITS["broken"]["conservation"]["balanced"] = False
every = pytest.mark.parametrize("name", AUDITS)


@every
def test_every_number_stands_in_the_audit(name: str) -> None:
    audit = json.loads(json.dumps(AUDITS[name]))
    found = Numbers(to_html(audit)).found
    assert len(found) > 100
    for exact, of, _ in found:
        try:
            value = evaluate(audit, {}, of)
        except Missing as error:
            raise AssertionError(of) from error
        assert float(exact) == pytest.approx(float(value), abs=0), of


class Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.names.append(tag)
        assert not any(k.startswith("on") or k in ("src", "srcset") for k, _ in attrs)


@every
def test_nothing_from_a_page_is_markup(name: str) -> None:
    page = to_html(AUDITS[name])
    assert not {"script", "img", "iframe", "object", "b"} & set(Tags(page).names)
    assert "‮" not in page
    assert page.count("<main") == page.count("</main>") == 1


@every
def test_markdown_has_no_markup_and_the_totals(name: str) -> None:
    audit = AUDITS[name]
    text = to_markdown(audit)
    assert not re.search(r"(?<!\\)<(img|script|/script)", text)
    assert f"{audit['totals']['stored']:,} token" in text
    assert "2.3 %" in text
    assert ("does not close" in text) == (name == "broken")
    for block in text.split("\n\n"):  # every table has as many cells in each row
        rows = [r for r in block.splitlines() if r.startswith("|")]
        assert len({len(re.findall(r"(?<!\\)\|", r)) for r in rows}) <= 1, rows


@every
def test_the_terminal_gets_a_few_harmless_lines(name: str) -> None:
    text = summary(AUDITS[name], width=90)
    lines = text.splitlines()
    assert 8 <= len(lines) <= 17
    assert max(map(len, lines)) <= 90
    assert all(c.isprintable() for line in lines for c in line)
    assert ("BROKEN" in text) == (name == "broken")


def test_what_is_wrong_is_said_first() -> None:
    text = summary(AUDITS["odd"])
    assert "GATE      byte fallback tokens: " in text
    assert "lost      dropped: empty 1, quarantined: <img" in text
    assert "left out" not in text
    page = to_html(AUDITS["broken"])
    assert "The balance is BROKEN." in page
    assert 'class="verdict bad"' in page


def bordered(bos: int | None, eos: int | None, controls: dict[str, int]) -> Any:
    class Marked(Odd):
        pass

    Marked.bos, Marked.eos, Marked.controls, Marked.name = bos, eos, controls, "toy"
    return Marked()


# BOS, EOS, what the tokenizer calls its controls; the line, what a closed balance says, whether there is an alarm
BORDERS = {
    "both": (257, 258, {"<s>": 257, "</s>": 258}, "BOS <s> (257), EOS </s> (258)", "BOS, EOS and documents agree", 0),
    "EOS alone": (None, 258, {"</s>": 258}, "BOS none, EOS </s> (258)", "EOS and documents agree, no BOS by policy", 0),
    "BOS alone": (257, None, {"<s>": 257}, "BOS <s> (257), EOS none", "BOS and documents agree, no EOS by policy", 0),
    "none": (None, None, {"<s>": 257}, "BOS none, EOS none", "no BOS, no EOS by policy", 1),
    "an id without a name": (None, 65, {}, "BOS none, EOS A (65)", "EOS and documents agree, no BOS by policy", 0),
}


@pytest.mark.parametrize(("bos", "eos", "controls", "words", "agreed", "loud"), BORDERS.values(), ids=BORDERS)
def test_borders_are_told_by_name_and_their_lack_is_an_alarm(
    bos: int | None, eos: int | None, controls: dict[str, int], words: str, agreed: str, loud: int
) -> None:
    tool = bordered(bos, eos, controls)
    audit = json.loads(json.dumps(AUDITS["odd"]))
    audit["borders"], audit["alarms"] = borders(tool), alarms(tool)
    text, page, md = summary(audit), to_html(audit), to_markdown(audit)
    assert f"borders   {words}" in text.splitlines()
    assert any(line.startswith("balance   closes: ") and line.endswith(f"; {agreed}") for line in text.splitlines())
    told = "nothing stands between documents: toy names no EOS; give --eos TOKEN"
    assert [a["told"] for a in audit["alarms"]] == [told] * loud
    for form in (text, page, md):
        assert form.count(told) == loud
    assert f"laws hold: {agreed}" in page
    assert f"laws hold; {agreed}." in md
    point = re.search(r"<li( class=\"warn\")?><strong>Borders", page)
    assert point is not None and bool(point[1]) == bool(loud)


@pytest.mark.parametrize(
    ("lossless", "failed", "state"),
    [(False, 3, "declared"), (False, 0, "holds"), (True, 0, "holds"), (True, 3, "beyond")],
)
def test_a_round_trip_is_judged_alike_in_all_three(lossless: bool, failed: int, state: str) -> None:
    class Tool(Odd):
        pass

    Tool.lossless = lossless
    tally: dict[str, Any] = {"documents": 9, "tokens": 9, "round_trip": {"documents": 5, "characters": 50}}
    told = {json.dumps([f"{i:032x}", 0, "a", "b"]): 1 for i in range(failed)}
    tally["round_trip"] |= {"failed": told} if failed else {}
    audit = build_token_audit(
        identity={}, tally=tally, histogram=np.zeros(260, np.int64), tokenizer=Tool(), proof={}, shards=[], run={}
    )
    gate = next(g for g in audit["gates"] if g["what"] == "changed by a round trip")
    assert (gate["state"], gate["ok"]) == (state, state != "beyond")
    line = next(line for line in summary(audit).splitlines() if line.startswith("decoded"))
    assert (
        line
        == {
            "holds": "decoded   5 sampled documents gave their text back",
            "declared": "decoded   3 of 5 sampled documents came back changed: declared (the tokenizer is lossy)",
            "beyond": "decoded   3 of 5 sampled documents came back changed: BROKEN",
        }[state]
    )
    row = next(line for line in to_markdown(audit).splitlines() if line.startswith("| changed by a round trip"))
    assert row.split("|")[3].strip().startswith({"beyond": "**beyond"}.get(state, state))
    tone = {"holds": "", "declared": ' class="warn"', "beyond": ' class="bad"'}[state]
    assert f"<li{tone}><strong>Changed by a round trip" in to_html(audit)


def test_what_was_decided_is_not_lost() -> None:
    audit = json.loads(json.dumps(AUDITS["odd"]))
    audit["funnel"]["quarantined"] = {"decision": {"documents": 6}, "limit": {"documents": 1}}
    lines = summary(audit).splitlines()
    assert "left out  6 documents by decisions" in lines
    assert "lost      dropped: empty 1, quarantined: limit 1" in lines
    audit["funnel"]["quarantined"]["decision"]["documents"] = 1
    assert "left out  1 document by decisions" in summary(audit).splitlines()


def test_a_small_share_is_not_said_to_be_none() -> None:
    audit = json.loads(json.dumps(AUDITS["odd"]))
    audit["rates"]["unk"] |= {"numerator": 4, "denominator": 5_000_000, "value": 8e-7}
    audit["rates"]["byte_fallback"] |= {"numerator": 61, "denominator": 5_000_000, "value": 1.22e-05}
    text = summary(audit)
    assert "unk 4 (<0.0001 %), byte fallback 61 (0.0012 %)" in text


@pytest.mark.browser
@pytest.mark.skipif(BROWSER is None, reason="no Chromium here: the page is not looked at")
def test_the_table_of_languages_fits_a_window_of_1200(tmp_path: Any) -> None:
    audit = json.loads(json.dumps(AUDITS["odd"]))
    part = {**audit["languages"]["en"], "documents": 3_214_567_890, "tokens": 4_123_456_789_012}
    part["unk"] = {**part["unk"], "value": 0.0000123}
    audit["languages"] = dict.fromkeys(("en", "unknown", "a very long name of a language"), part)
    probe = """<script>document.title = JSON.stringify([...document.querySelectorAll('.scroll')]
    .filter(e => e.scrollWidth > e.clientWidth).map(e => e.getAttribute('aria-label')));</script>"""
    page = to_html(audit).replace("script-src", "").replace("default-src 'none';", "default-src 'unsafe-inline';")
    (tmp_path / "page.html").write_text(page.replace("</body>", f"{probe}</body>"))
    line = [
        str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--dump-dom",
        f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1200,900", f"file://{tmp_path}/page.html",
    ]  # fmt: skip
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=True)
    said = re.search(r"<title>(\[.*?\])</title>", done.stdout)
    assert said is not None
    assert "Languages, those of most tokens first" not in json.loads(unescape(said[1]))


@pytest.mark.browser
@pytest.mark.skipif(BROWSER is None, reason="no Chromium here: the page is not looked at")
@pytest.mark.parametrize("width", [1280, 390])
def test_in_a_browser_nothing_runs_and_nothing_sticks_out(tmp_path: Any, width: int) -> None:
    probe = """<script>
    const wide = document.documentElement.clientWidth;
    const out = [...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll') && !e.closest('pre') &&
      !e.closest('.skip') && e.getBoundingClientRect().right > wide + 1).map(e => e.tagName + e.textContent);
    document.title = JSON.stringify({out: out.slice(0, 5), over: document.documentElement.scrollWidth - wide,
      ran: window.pwned === undefined, asked: performance.getEntriesByType('resource').length});
    </script>"""
    page = (
        to_html(AUDITS["odd"]).replace("script-src", "").replace("default-src 'none';", "default-src 'unsafe-inline';")
    )
    (tmp_path / "page.html").write_text(page.replace("</body>", f"{probe}</body>"))
    line = [
        str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--dump-dom",
        f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},900", f"file://{tmp_path}/page.html",
    ]  # fmt: skip
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=True)
    said = re.search(r"<title>(\{.*?\})</title>", done.stdout)
    assert said is not None
    assert json.loads(unescape(said[1])) == {"out": [], "over": 0, "ran": True, "asked": 0}
