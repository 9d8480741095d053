"""Rights and safety: what real and made pages say and are found to say, personal data by labelled rows, costs.

python benchmarks/quality/rights.py --samples SAMPLES
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import HTMLTree

from cleanpipe.stage import Stage, Step
from cleanpipe.testing import Checked, batch, run
from cleanpipe.text.normalise import normalise
from cleanpipe_stages.decontaminate import Decontaminate
from cleanpipe_stages.mask_personal import MaskPersonal
from cleanpipe_stages.permissions.licences import has_licence, licence_id, strictest
from cleanpipe_stages.permissions.page import HEADERS
from cleanpipe_stages.permissions.robots import DIRECTIVES, directives
from cleanpipe_stages.personal.find import KINDS, pieces
from cleanpipe_stages.rights import Rights
from cleanpipe_stages.safety import Safety
from cleanpipe_stages.url_filter import UrlFilter

CASES = Path(__file__).resolve().parents[2] / "tests" / "stages" / "cases"
SETS = ("article-extraction-benchmark/html", "wcxb-dev/html", "readability")
NOINDEX = '<meta name="robots" content="noindex, nofollow">'
LICENCE = '<p><a rel="license" href="https://creativecommons.org/licenses/by-sa/4.0/">CC BY-SA 4.0</a></p>'
Row = tuple[str, str, bool, bool]  # what is made, the page, whether it forbids, whether it licences


def measure(samples: Path) -> str:
    """The section, in Markdown."""
    pages = {name: list(_pages(samples / "pages" / name)) for name in SETS}
    every = [page for part in pages.values() for page in part]
    texts = [normalise(extract_plain_text(page, main_content=True)) for page in every]
    parts = [
        f"resiliparse {version('resiliparse')} is the whole parser; nothing was trained, no threshold chosen here.",
        _real(pages),
        _made(every[:300]),
        _personal(texts),
        _decontamination(texts),
        _costs(every, texts),
    ]
    return "\n\n".join(["## Rights and safety", *parts])


def _pages(folder: Path) -> Iterator[str]:
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and ".html" in p.name):
        raw = path.read_bytes()
        yield (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8", "replace")


def _rows(pages: Sequence[str], header: Sequence[str | None] | None = None) -> pa.RecordBatch:
    n = len(pages)
    columns: dict[str, Any] = {name: [None] * n for name in HEADERS}
    columns["x_robots_tag"] = list(header or [None] * n)
    return batch(markup=list(pages), media_type=["text/html"] * n, is_http=[True] * n, **columns)


def _by_parser(page: str) -> tuple[str, str | None]:
    document = HTMLTree.parse(page).document
    assert document is not None
    said: set[str] = set()
    named: dict[str, list[str]] = {"rel": [], "meta": [], "link": []}
    for tag in document.query_selector_all("meta"):
        content = tag.getattr("content", "") or ""
        if (tag.getattr("name", "") or "").strip().lower() == "robots":
            said |= directives(content)
        if licence := licence_id(content):
            named["meta"].append(licence)
    for tag in document.query_selector_all("a, link, area"):
        if licence := licence_id(tag.getattr("href", "") or ""):
            sure = any(has_licence(tag.getattr(name, "")) for name in ("rel", "itemprop", "property"))
            named["rel" if sure else "link"].append(licence)
    return ",".join(d for d in DIRECTIVES if d in said), strictest(next((n for n in named.values() if n), []))


def _real(pages: dict[str, list[str]]) -> str:
    lines = [
        "**Real pages.** What `rights` finds against a whole parser's tree (robots meta, licences of links and metas).",
        "",
        "| set | pages | forbid something | noai | TDM said | licence | of which rel | other than the parser |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, part in pages.items():
        scores = run(Rights(), _rows(part)).scores
        robots, licences, sources = (scores[n] for n in ("rights_robots", "rights_licence", "rights_licence_source"))
        other = 0
        for page, said, licence, source in zip(part, robots, licences, sources, strict=True):
            expected = _by_parser(page)
            other += said != expected[0] or (source not in ("jsonld", "header") and licence != expected[1])
        figures = [
            len(part), sum(map(bool, robots)), sum(scores["rights_noai"]),
            sum(r is not None for r in scores["rights_tdm_reservation"]), sum(map(bool, licences)),
            sources.count("rel"), other,
        ]  # fmt: skip
        lines.append(f"| {name} | " + " | ".join(map(str, figures)) + " |")
    return "\n".join(lines)


def _made(pages: Sequence[str]) -> str:
    rows: list[Row] = []
    for page in pages:
        clean = re.sub(r"(?i)<meta[^>]*robots[^>]*>|creativecommons", "", page)
        rows += [
            ("noindex in the head", _in_head(clean, NOINDEX), True, False),
            ("the same, spelled otherwise", _in_head(clean, "<META CONTENT='NoIndex' NAME=ROBOTS>"), True, False),
            ("licence link at the end", _at_end(clean, LICENCE), False, True),
            ("both in comments", _in_head(_at_end(clean, f"<!--{LICENCE}-->"), f"<!--{NOINDEX}-->"), False, False),
            ("both in scripts", _in_head(_at_end(clean, _script(LICENCE)), _script(NOINDEX)), False, False),
            ("both shown as text", _at_end(clean, f"<pre>{_escaped(NOINDEX + LICENCE)}</pre>"), False, False),
            ("both in a template", _at_end(clean, f"<template>{NOINDEX}{LICENCE}</template>"), False, False),
        ]  # fmt: skip
    scores = run(Rights(), _rows([r[1] for r in rows])).scores
    heads = run(Rights(), _rows([r[1] for r in rows[3::7]], ["noindex, noarchive"] * len(pages))).scores
    right, count = Counter[str](), Counter[str]()
    for (what, _, forbids, licences), robots, licence in zip(
        rows, scores["rights_robots"], scores["rights_licence"], strict=True
    ):
        count[what] += 1
        right[what] += ("noindex" in robots) == forbids and (licence == "cc-by-sa-4.0") == licences
    count["X-Robots-Tag"], right["X-Robots-Tag"] = len(pages), heads["rights_robots"].count("noindex,noarchive")
    lines = [
        "**Made pages.** The load corpus' kinds, put into real pages whose own tags were taken out, and what must not "
        "deceive.", "", "| what was put in | pages | right |", "|---|---|---|",
    ]  # fmt: skip
    return "\n".join([*lines, *(f"| {what} | {n} | {right[what]} |" for what, n in count.items())])


def _in_head(page: str, what: str) -> str:
    at = re.search(r"(?i)<head[^>]*>", page)
    return page[: at.end()] + what + page[at.end() :] if at else what + page


def _at_end(page: str, what: str) -> str:
    at = page.lower().rfind("</body")
    return page[:at] + what + page[at:] if at >= 0 else page + what


def _script(markup: str) -> str:
    return f"<script>document.write(`{markup}`)</script>"


def _escaped(markup: str) -> str:
    return markup.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _personal(texts: Sequence[str]) -> str:
    lines = [
        "**Personal data**, by rows labelled by hand: those that the rules were made with, and those labelled after.",
        "", "| rows | kind | labelled | precision | recall |", "|---|---|---|---|---|",
    ]  # fmt: skip
    wrong = []
    for name, said in (("personal_data", "made with"), ("personal_data_held_out", "held out")):
        cases = [json.loads(line) for line in (CASES / f"{name}.jsonl").read_text("utf-8").splitlines()]
        right, told, asked = Counter[str](), Counter[str](), Counter[str]()
        for case in cases:
            text = case["input"]
            found = {(p.kind, text[p.start : p.end]) for p in pieces(text)}
            expected = {(kind, piece) for kind, piece in case["expected"]}
            right.update(kind for kind, _ in found & expected)
            told.update(kind for kind, _ in found)
            asked.update(kind for kind, _ in expected)
            wrong += [f"`{text}` ({said}; {case['comment']})"] if found != expected else []
        for kind in KINDS:
            precision = f"{right[kind] / told[kind]:.3f}" if told[kind] else "-"
            recall = f"{right[kind] / asked[kind]:.3f}" if asked[kind] else "-"
            lines.append(f"| {said} ({len(cases)}) | {kind} | {asked[kind]} | {precision} | {recall} |")
    counts = Counter(piece.kind for text in texts for piece in pieces(text))
    lines += ["", f"Wrong: {'; '.join(wrong) or 'none'}."]
    lines += [f"In {len(texts)} main texts of real pages: " + ", ".join(f"{k} {counts[k]}" for k in KINDS) + "."]
    return "\n".join(lines)


def _decontamination(texts: Sequence[str]) -> str:
    rng = random.Random(1)
    long = [text for text in texts if len(text.split()) > 120]
    items = [" ".join(text.split()[40:70]) for text in long[:60]]
    hosts = long[60:]
    changes: dict[str, Callable[[str], str]] = {
        "as it is": str,
        "in capitals": str.upper,
        "other punctuation and line breaks": lambda s: ",\n".join(re.findall(r"\w+", s)),
        "every tenth word another": lambda s: " ".join("x" if i % 10 == 5 else w for i, w in enumerate(s.split())),
    }
    lines = [
        "**Decontamination**: 60 items of 30 words out of real texts, put into other texts; 13-grams.",
        "", "| item | found | right item | found in texts without one |", "|---|---|---|---|",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "items.txt"
        path.write_text("\n".join(items))
        stage = Decontaminate(benchmarks=(str(path),))
        bare = sum(n > 0 for n in run(stage, batch(text=hosts)).scores["decontaminate_ngrams"])
        for what, change in changes.items():
            planted = [f"{rng.choice(hosts)}\n{change(item)}\n{rng.choice(hosts)}" for item in items]
            scores = run(stage, batch(text=planted)).scores
            found = sum(n > 0 for n in scores["decontaminate_ngrams"])
            right = sum(line == i + 1 for i, line in enumerate(scores["decontaminate_line"]))
            lines.append(f"| {what} | {found} of {len(items)} | {right} | {bare} of {len(hosts)} |")
    note = "A text without one that is found holds 13 of its words, proven. The last row is the rule's own limit: "
    return "\n".join([*lines, "", f"{note}no 13 words in a row are left."])


def _costs(pages: Sequence[str], texts: Sequence[str]) -> str:
    rng = random.Random(2)
    with tempfile.TemporaryDirectory() as folder:
        domains, words, items = (Path(folder) / name for name in ("domains", "words", "items.txt"))
        domains.write_text("\n".join(f"{rng.getrandbits(44):x}.example" for _ in range(1_000_000)))
        words.write_text("\n".join(f"w{i}" for i in range(1000)))
        items.write_text("\n".join(" ".join(f"w{rng.randrange(50_000)}" for _ in range(100)) for _ in range(3000)))
        urls = batch(url=[f"https://www.site{i}.example.org/news/2024/{i}/a-title.html?id={i}" for i in range(1000)])
        told = batch(text=list(texts))
        rows: list[tuple[str, Stage, pa.RecordBatch]] = [
            ("url_filter, 1,000,000 domains", UrlFilter(lists=(str(domains),)), urls),
            ("rights", Rights(), _rows(pages)),
            ("safety", Safety(), told),
            ("safety, with 1,000 words", Safety(adult_words=(str(words),)), told),
            ("decontaminate, 300,000 words of items", Decontaminate(benchmarks=(str(items),)), told),
            ("mask_personal", MaskPersonal(), _with_columns(texts)),
        ]
        size, length = sum(map(len, pages)) / len(pages), sum(map(len, texts)) / len(texts)
        lines = [
            f"**Costs**, CPU of one core; pages of {size:,.0f} characters, texts of {length:,.0f} (medians of 5).",
            "", "| stage | µs a document | to open, ms |", "|---|---|---|",
        ]  # fmt: skip
        for what, stage, data in rows:
            began = time.process_time()
            step = stage.open()
            opening = time.process_time() - began
            seconds = sorted(_seconds(step, data) for _ in range(5))[2]
            lines.append(f"| {what} | {seconds / data.num_rows * 1e6:.0f} | {opening * 1e3:.0f} |")
    return "\n".join(lines)


def _with_columns(texts: Sequence[str]) -> pa.RecordBatch:
    done: Checked = run(MaskPersonal(kinds=()), batch(text=list(texts), bytes=[len(t.encode()) for t in texts]))
    return done.rows


def _seconds(step: Step, rows: pa.RecordBatch) -> float:
    began = time.process_time()
    step(rows)
    return time.process_time() - began


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=Path, required=True)
    print(measure(parser.parse_args().samples))
