"""html_scrub on pages whose main text people marked: bag-of-words F1, macro over pages; floors lie below the finds."""

from __future__ import annotations

import gzip
import html
import json
import re
from collections import Counter, defaultdict
from statistics import mean

import pytest
from fastwarc.warc import ArchiveIterator, WarcRecordType
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.encoding import bytes_to_str, detect_encoding
from resiliparse.parse.html import HTMLTree

from cleanpipe import batch as col
from cleanpipe.testing import batch
from cleanpipe_stages.html_scrub import HtmlScrub

WORD = re.compile(r"\w+")


def decoded(path):
    body = gzip.decompress(path.read_bytes())
    try:
        return body.decode()
    except UnicodeDecodeError:
        return bytes_to_str(body, detect_encoding(body, html5_compatible=False))


def measures(text, truth):
    """Precision, recall and F1 over words with their counts."""
    found, wanted = Counter(WORD.findall(text)), Counter(WORD.findall(truth))
    common = sum((found & wanted).values())
    precision, recall = (common / n if (n := sum(c.values())) else 0.0 for c in (found, wanted))
    return precision, recall, 2 * precision * recall / (precision + recall) if common else 0.0


def scrubbed(pages, **options):
    step = HtmlScrub(**options).open()
    rows = batch(markup=pages, media_type=["text/html"] * len(pages))
    return [text or "" for text in step(rows).batch.column(col.SCRUBBED).to_pylist()]


ARTICLES = {  # F1, precision, recall on the article-extraction-benchmark
    # .929; main content alone .930, whole page .656
    "resiliparse": (0.92, 0.87, 0.98),
    # .955, .934, .993; the shipped model has seen these pages: .951 on hosts left out of the training (models/CARD.md)
    "blocks": (0.945, 0.91, 0.99),
}


@pytest.mark.parametrize("engine", ARTICLES)
def test_articles(samples, engine):
    folder = samples / "pages" / "article-extraction-benchmark"
    truth = json.loads((folder / "ground-truth.json").read_text(encoding="utf-8"))
    names = sorted(truth)
    texts = scrubbed([decoded(folder / "html" / f"{n}.html.gz") for n in names], engine=engine)
    scores = [measures(text, truth[n]["articleBody"]) for text, n in zip(texts, names, strict=True)]
    precision, recall, f1 = (mean(column) for column in zip(*scores, strict=True))
    floors = ARTICLES[engine]
    assert len(names) == 181
    assert f1 >= floors[0]
    assert precision >= floors[1]
    assert recall >= floors[2]


FLOORS = {  # F1 by page type of WCXB-dev, on which nothing was trained
    # measured .931 .692 .910 .694 .666 .876, all .859; main content alone .892 .579 .910 .518 .672 .875, all .808
    "resiliparse": {
        "article": 0.92,
        "collection": 0.67,
        "documentation": 0.90,
        "listing": 0.67,
        "product": 0.64,
        "service": 0.86,
        "all": 0.85,
    },
    # measured .956 .789 .946 .750 .742 .880, all .897
    "blocks": {
        "article": 0.945,
        "collection": 0.77,
        "documentation": 0.93,
        "listing": 0.735,
        "product": 0.72,
        "service": 0.87,
        "all": 0.89,
    },
}


@pytest.mark.parametrize("engine", FLOORS)
def test_page_types(samples, engine):
    folder = samples / "pages" / "wcxb-dev"
    kinds, pages, truths = [], [], []
    for path in sorted((folder / "ground-truth").glob("*.json")):
        told = json.loads(path.read_text(encoding="utf-8"))
        kinds.append(told["_internal"]["page_type"]["primary"])
        pages.append(decoded(folder / "html" / f"{path.stem}.html.gz"))
        truths.append(told["ground_truth"]["main_content"])
    scores = defaultdict(list)
    for kind, text, truth in zip(kinds, scrubbed(pages, engine=engine), truths, strict=True):
        scores[kind].append(measures(text, truth)[2])
        scores["all"].append(scores[kind][-1])
    assert len(scores["all"]) == 240
    found = {kind: mean(values) for kind, values in scores.items()}
    assert {k: round(f, 3) for k, f in found.items() if f < FLOORS[engine][k]} == {}


@pytest.mark.parametrize(("engine", "floor"), [("resiliparse", 0.9), ("blocks", 0.9)])
def test_readability_pages_keep_what_a_reader_sees(samples, engine, floor):
    """Words of the agreed result that stand in ours, over 23 odd pages in several scripts."""
    recalls = {}
    for folder in sorted((samples / "pages" / "readability").iterdir()):
        if not folder.is_dir():
            continue
        expected = re.sub(r"<[^>]*>", " ", decoded(folder / "expected.html.gz"))
        (text,) = scrubbed([decoded(folder / "source.html.gz")], engine=engine)
        recalls[folder.name] = measures(text, html.unescape(expected))[1]
    assert len(recalls) == 23
    assert mean(recalls.values()) >= floor
    assert text_of_scripts(samples, engine) == []


def text_of_scripts(samples, engine):
    folder = samples / "pages" / "readability" / "remove-script-tags"
    (text,) = scrubbed([decoded(folder / "source.html.gz")], engine=engine)
    return re.findall(r"alert\(|document\.", text)


def test_a_paragraph_that_a_page_holds_twice_is_kept_once(samples):
    """Why ``blocks`` keeps little of two pages of filler text, of which resiliparse keeps all."""
    folder = samples / "pages" / "readability"
    for name in ("missing-paragraphs", "svg-parsing"):
        (text,) = scrubbed([decoded(folder / name / "source.html.gz")], engine="blocks")
        long = [line for line in text.split("\n") if len(line) > 100]
        assert len(long) == len(set(long)) == 1


def help_pages(samples):
    """Language, markup and text of LibreOffice's help: all of ``#DisplayArea``, around which stand the menus."""
    with (samples / "warc" / "derived-multilingual-docs-a.warc.gz").open("rb") as file:
        for record in ArchiveIterator(file, record_types=WarcRecordType.response):
            markup = record.reader.read().decode()
            area = HTMLTree.parse(markup).document.query_selector("#DisplayArea")
            text = extract_plain_text(area.html, alt_texts=False)
            yield record.headers["WARC-Target-URI"].split("/")[3], markup, text


# measured .973, 1.000, .949 (worst language, km: .964); .967, .994, .943
@pytest.mark.parametrize(
    ("engine", "f1", "precision", "recall", "worst"),
    [("blocks", 0.965, 0.995, 0.94, 0.95), ("resiliparse", 0.955, 0.98, 0.93, 0.94)],
)
def test_documentation_in_other_languages(samples, engine, f1, precision, recall, worst):
    languages, pages, truths = zip(*help_pages(samples), strict=True)
    found = defaultdict(list)
    for language, text, truth in zip(languages, scrubbed(list(pages), engine=engine), truths, strict=True):
        if not language.startswith("en"):
            found[language].append(measures(text, truth))
    assert len(found) == 32
    every = [row for rows in found.values() for row in rows]
    assert len(every) == 320
    means = [mean(column) for column in zip(*every, strict=True)]
    assert means[0] >= precision
    assert means[1] >= recall
    assert means[2] >= f1
    by_language = {language: mean(row[2] for row in rows) for language, rows in found.items()}
    assert {k: round(v, 3) for k, v in by_language.items() if v < worst} == {}


def test_blocks_of_a_page_do_not_hang_on_pages_beside_it(samples):
    folder = samples / "pages" / "wcxb-dev" / "html"
    pages = [decoded(path) for path in sorted(folder.glob("*.gz"))[:24]]
    forward, backward = scrubbed(pages, engine="blocks"), scrubbed(pages[::-1], engine="blocks")
    assert forward == backward[::-1]
    assert forward == [text for page in pages for text in scrubbed([page], engine="blocks")]
