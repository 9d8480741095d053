"""html_scrub on pages whose main text people marked: bag-of-words F1, macro over pages; floors lie below the finds."""

from __future__ import annotations

import gzip
import html
import json
import re
from collections import Counter, defaultdict
from statistics import mean

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


def test_articles(samples):
    folder = samples / "pages" / "article-extraction-benchmark"
    truth = json.loads((folder / "ground-truth.json").read_text(encoding="utf-8"))
    names = sorted(truth)
    texts = scrubbed([decoded(folder / "html" / f"{n}.html.gz") for n in names])
    scores = [measures(text, truth[n]["articleBody"]) for text, n in zip(texts, names, strict=True)]
    precision, recall, f1 = (mean(column) for column in zip(*scores, strict=True))
    assert len(names) == 181
    assert f1 >= 0.92  # .929; resiliparse's main content alone .930, whole page .656
    assert recall >= 0.98 and precision >= 0.87


FLOORS = {  # F1 by page type; measured .931 .692 .910 .694 .666 .876; main content alone .892 .579 .910 .518 .672 .875
    "article": 0.92,
    "collection": 0.67,
    "documentation": 0.90,
    "listing": 0.67,
    "product": 0.64,
    "service": 0.86,
}


def test_page_types(samples):
    folder = samples / "pages" / "wcxb-dev"
    kinds, pages, truths = [], [], []
    for path in sorted((folder / "ground-truth").glob("*.json")):
        told = json.loads(path.read_text(encoding="utf-8"))
        kinds.append(told["_internal"]["page_type"]["primary"])
        pages.append(decoded(folder / "html" / f"{path.stem}.html.gz"))
        truths.append(told["ground_truth"]["main_content"])
    scores = defaultdict(list)
    for kind, text, truth in zip(kinds, scrubbed(pages), truths, strict=True):
        scores[kind].append(measures(text, truth)[2])
    assert sum(map(len, scores.values())) == 240
    found = {kind: mean(values) for kind, values in scores.items()}
    assert {k: round(f, 3) for k, f in found.items() if f < FLOORS[k]} == {}
    assert mean(f for values in scores.values() for f in values) >= 0.85  # .859; main content alone .808


def test_readability_pages_keep_what_a_reader_sees(samples):
    """Words of the agreed result that stand in ours, over 23 odd pages in several scripts."""
    recalls = {}
    for folder in sorted((samples / "pages" / "readability").iterdir()):
        if not folder.is_dir():
            continue
        expected = re.sub(r"<[^>]*>", " ", decoded(folder / "expected.html.gz"))
        (text,) = scrubbed([decoded(folder / "source.html.gz")])
        recalls[folder.name] = measures(text, html.unescape(expected))[1]
    assert len(recalls) == 23
    assert mean(recalls.values()) >= 0.9
    assert text_of_scripts(samples) == []


def text_of_scripts(samples):
    folder = samples / "pages" / "readability" / "remove-script-tags"
    (text,) = scrubbed([decoded(folder / "source.html.gz")])
    return re.findall(r"alert\(|document\.", text)
