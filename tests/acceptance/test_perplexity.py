"""The shipped n-gram models on labelled text: does prose score lower than what is not prose, and does it pass?"""

from __future__ import annotations

import gzip
import json
import math
import os
import random
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.encoding import bytes_to_str, detect_encoding

from cleanpipe import batch as col
from cleanpipe_stages.quality.lm_text import CHARACTER_LANGUAGES
from cleanpipe_stages.quality.scorers.ngram import LANGUAGES, SHIPPED, load_model
from cleanpipe_stages.quality_score import QualityScore

ROOT = Path(__file__).parents[2]
SAMPLES = Path(os.environ.get("CLEANPIPE_SAMPLES", ROOT.parent / "shared" / "samples"))
PAGES = SAMPLES / "pages" / "wcxb-dev"
READ = {"article", "documentation"}  # page types that are text; the others are menus, shops and lists in part
CHARS, LEAST = 1000, 200

pytestmark = pytest.mark.skipif(not PAGES.is_dir(), reason=f"no samples at {PAGES}: set CLEANPIPE_SAMPLES")


def flat_lines(text: str) -> str:
    return "\n".join(x for x in (" ".join(line.split()) for line in text.split("\n")) if x)


@pytest.fixture(scope="module")
def pages() -> list[tuple[str, str, str]]:
    """(page type, main text, other lines of the page) of the pages with 200 characters of main text."""
    found = []
    for path in sorted((PAGES / "ground-truth").glob("*.json")):
        told = json.loads(path.read_text(encoding="utf-8"))
        text = flat_lines(told["ground_truth"]["main_content"] or "")
        if len(text) < LEAST:
            continue
        html = gzip.decompress((PAGES / "html" / f"{path.stem}.html.gz").read_bytes())
        markup = bytes_to_str(html, detect_encoding(html) or "utf-8")
        whole = flat_lines(extract_plain_text(markup, main_content=False, alt_texts=False))
        flat = " ".join(text.split())
        rest = "\n".join(line for line in whole.split("\n") if line not in flat)
        found.append((told["_internal"]["page_type"]["primary"], text, rest))
    return found


@pytest.fixture(scope="module")
def news() -> dict[str, list[str]]:
    """Texts of four news sentences, by language."""
    found: dict[str, list[str]] = {}
    for row in (SAMPLES / "lid" / "lingua-sentences.tsv").read_text(encoding="utf-8").splitlines():
        found.setdefault(row.split("\t")[0], []).append(row.split("\t")[-1].strip())
    return {k: ["\n".join(v[i : i + 4]) for i in range(0, len(v), 4)] for k, v in found.items()}


def auc(low: Sequence[float], high: Sequence[float]) -> float:
    """P(a value of ``low`` is smaller than one of ``high``)."""
    return sum((a < b) + (a == b) / 2 for a in low for b in high) / (len(low) * len(high))


def figures(texts: Sequence[str], language: str, chars: int = CHARS) -> tuple[list[float], list[float]]:
    """Perplexity, and geometric mean of the paragraphs', of the texts that have one."""
    measure = load_model(SHIPPED[language], language, chars)
    found = [s for s in map(measure, texts) if s.perplexity is not None]
    means = [math.exp(sum(map(math.log, s.paragraphs)) / len(s.paragraphs)) for s in found]
    return [s.perplexity for s in found if s.perplexity is not None], means


def verdicts(texts: Sequence[str], language: str | Sequence[str | None] = "en") -> Counter[str | None]:
    languages = [language] * len(texts) if isinstance(language, str) else list(language)
    columns = {
        col.TEXT: pa.array(texts, pa.large_string()),
        col.LANGUAGE: pa.array(languages, pa.string()),
        col.DOC_ID: pa.array([i.to_bytes(16, "big") for i in range(len(texts))], pa.binary(16)),
    }
    drops = QualityScore().open()(pa.RecordBatch.from_pydict(columns)).drops
    assert drops is not None
    return Counter(drops.to_pylist())


def test_main_text_scores_below_the_other_lines_of_its_page(pages):
    main, means = figures([text for _, text, _ in pages], "en")
    rest, rest_means = figures([rest for *_, rest in pages if len(rest) >= LEAST], "en")
    assert len(main) > 230
    assert auc(means, rest_means) > 0.94  # 0.946 measured
    assert auc(main, rest) > 0.92  # 0.930
    read = [x for x, (kind, *_) in zip(means, pages, strict=True) if kind in READ]
    assert auc(read, rest_means) > 0.975  # 0.982


def test_list_marks_alone_do_not_make_the_difference(pages):
    """resiliparse writes marks before the items of the other lines' lists, people wrote none: without any of them."""
    bare = re.compile(r"(?m)^[•◦▪·*-]\s*")
    means = figures([bare.sub("", text) for kind, text, _ in pages if kind in READ], "en")[1]
    rest = figures([bare.sub("", rest) for *_, rest in pages if len(rest) >= LEAST], "en")[1]
    assert auc(means, rest) > 0.965  # 0.977


def shuffle(text: str, language: str, rng: random.Random) -> str:
    lines = []
    for line in text.split("\n"):
        parts = list(line) if language in CHARACTER_LANGUAGES else line.split()
        rng.shuffle(parts)
        lines.append(("" if language in CHARACTER_LANGUAGES else " ").join(parts))
    return "\n".join(lines)


@pytest.mark.parametrize("language", LANGUAGES)
def test_news_scores_below_menus_noise_and_other_languages(language, news):
    rng = random.Random(1)
    texts = news[language]
    menus = []
    for text in texts:
        plain = re.sub(r"\W", "", text)
        words = (
            [plain[i : i + 2] for i in range(0, len(plain) - 1, 4)]
            if language in CHARACTER_LANGUAGES
            else [w.capitalize() for w in re.findall(r"\w+", text) if len(w) > 4]
        )
        rng.shuffle(words)
        menus.append("\n".join(" ".join(words[i : i + 2]) for i in range(0, len(words), 2)))
    good = figures(texts, language, 1024)[0]
    assert auc(good, figures(menus, language, 1024)[0]) > 0.95  # 0.98 to 1.00 measured
    assert auc(good, figures([shuffle(t, language, rng) for t in texts], language, 1024)[0]) > 0.9  # 0.95 to 1.00
    other = news["en" if language != "en" else "de"]
    assert auc(good, figures(other, language, 1024)[0]) > 0.88  # 0.91 (German) to 1.00


def test_articles_and_documentation_pass(pages):
    count = verdicts([text for kind, text, _ in pages if kind in READ])
    assert count[None] == count.total(), count  # all of 153


def test_few_pages_of_any_type_fall(pages):
    count = verdicts([text for _, text, _ in pages])
    assert count[None] >= 0.97 * count.total(), count


def test_news_pages_pass():
    folder = SAMPLES / "pages" / "article-extraction-benchmark"
    truth = json.loads((folder / "ground-truth.json").read_text(encoding="utf-8"))
    english = [
        t["articleBody"]
        for t in truth.values()
        if sum(c.isascii() for c in t["articleBody"]) > 0.9 * len(t["articleBody"])
    ]
    bodies = [t for t in english if {"the", "and", "of"} <= {*t.lower().split()}]
    assert len(bodies) > 140
    assert verdicts(bodies)[None] == len(bodies)


@pytest.mark.parametrize("language", LANGUAGES)
def test_news_sentences_pass_and_random_letters_do_not(language, news):
    assert verdicts(news[language], language)[None] == len(news[language])
    rng = random.Random(2)
    noise = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz    ", k=600)) for _ in range(20)]
    assert verdicts(noise, language)["high_perplexity"] == len(noise)


def test_declarations_of_rights_pass_in_every_language():
    """No figure may throw out a language: 528 translations of one text, as unknown and as their own."""
    rows = (SAMPLES / "lid" / "udhr-articles-01-14.tsv").read_text(encoding="utf-8").splitlines()[1:]
    for language in (2, None):
        columns = [row.split("\t") for row in rows]
        texts = [c[-1] for c in columns]
        told = [c[language] if language is not None else None for c in columns]
        told = [None if x == "en" else x for x in told]  # Scots and the like are not the model's business
        assert verdicts(texts, told)[None] == len(texts)
