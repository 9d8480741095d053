"""html_scrub on pages whose main text people marked: bag-of-words F1, macro over pages; floors lie below the finds."""

from __future__ import annotations

import gzip
import html
import json
import re
from collections import Counter, defaultdict
from statistics import mean

import pytest
from resiliparse.parse.encoding import bytes_to_str, detect_encoding

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
    # .951, .923, .998; the shipped model has seen these pages: .947 on hosts left out of its training (models/CARD.md)
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
    # measured .951 .787 .948 .766 .735 .880, all .895
    "blocks": {
        "article": 0.945,
        "collection": 0.77,
        "documentation": 0.93,
        "listing": 0.75,
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


def test_blocks_of_a_page_do_not_hang_on_pages_beside_it(samples):
    folder = samples / "pages" / "wcxb-dev" / "html"
    pages = [decoded(path) for path in sorted(folder.glob("*.gz"))[:24]]
    forward, backward = scrubbed(pages, engine="blocks"), scrubbed(pages[::-1], engine="blocks")
    assert forward == backward[::-1]
    assert forward == [text for page in pages for text in scrubbed([page], engine="blocks")]
