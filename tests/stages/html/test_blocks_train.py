"""Labels of blocks by aligned words, and a training that gives the same bytes again."""

from __future__ import annotations

import gzip
import json

import pytest

from cleanpipe_jobs.train_extractor_labels import Page, aligned, labels, measures, pages
from cleanpipe_stages.html.blocks.segment import segment

ALIGNED = [  # words of the page, parted by | into blocks, of the truth, matched words
    ("menu home | a b c d e f | foot", "a b c d e f", "a b c d e f"),
    ("a b | x y z w a b c d", "a b c d", "a b c d"),
    ("c d e f | 1 2 3 4 | a b g h", "a b g h c d e f", "c d e f a b g h"),
    ("one two three four | the | five six seven eight", "one two three four five six seven eight the", None),
    ("p q r s | p q r s", "p q r s", "p q r s"),
    ("x y", "", ""),
    ("", "x y", ""),
]


@pytest.mark.parametrize(("page", "truth", "expected"), ALIGNED)
def test_words_are_matched_in_order_and_once(page, truth, expected):
    parts = [part.split() for part in page.split("|")]
    words = [word for part in parts for word in part]
    block = [number for number, part in enumerate(parts) for _ in part]
    hit = aligned(words, truth.split(), block)
    found = [word for word, flag in zip(words, hit, strict=True) if flag]
    if expected is not None:
        assert found == expected.split()
    assert len(found) <= len(truth.split())


def test_a_menu_that_repeats_the_text_is_no_main_text():
    text = "The river rose in the night and by morning the fields stood under water"
    blocks = segment(f"<nav>The river</nav><p>{text}</p><footer>rose in water</footer>".encode())
    found = labels(blocks, text)
    assert (found.hits / found.size).tolist() == [0, 1, 0]


def test_measures():
    from collections import Counter

    assert measures(Counter("aabc"), Counter("aab")) == (0.75, 1.0, pytest.approx(6 / 7))
    assert measures(Counter(), Counter("a")) == (0.0, 0.0, 0.0)


def test_both_layouts_are_read(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name / "html").mkdir(parents=True)
        (tmp_path / name / "html" / "7.html.gz").write_bytes(gzip.compress("<p>\xe9".encode("cp1252")))
    (tmp_path / "one" / "ground-truth.json").write_text(json.dumps({"7": {"articleBody": "a", "url": "http://x.y.z/"}}))
    (tmp_path / "two" / "ground-truth").mkdir()
    told = {"url": "", "ground_truth": {"main_content": "a"}, "_internal": {"page_type": {"primary": "product"}}}
    (tmp_path / "two" / "ground-truth" / "7.json").write_text(json.dumps(told))
    (first,), (second,) = pages(tmp_path / "one"), pages(tmp_path / "two")
    assert first == Page("one/7", "article", "y.z", "<p>\xe9".encode(), "a")
    assert (second.kind, second.host) == ("product", "two/7")


def test_parts_of_a_page_have_the_columns_that_are_masked():
    pytest.importorskip("torch")
    from cleanpipe_jobs.train_extractor_net import PARTS
    from cleanpipe_stages.html.blocks.features import features

    for column, name in enumerate(("article", "main", "section", "nav", "header", "footer", "aside")):
        own = features(segment(f"<{name}><p>Some text.</p></{name}>".encode())).own
        assert own[0, PARTS].tolist() == [float(n == column) for n in range(7)], name


def made(number):
    """Pages of several hosts, each with a sentence that it says several times."""
    from cleanpipe_jobs.train_extractor import Known
    from cleanpipe_jobs.train_extractor_net import example
    from cleanpipe_stages.html.blocks.features import features

    known = []
    for n in range(number):
        text = f"Sentence {n} is here, and it is long enough to be told from a menu. " * (3 + n % 3)
        markup = f"<nav class=menu><a href=x>go {n}</a></nav><div class=body><p>{text}</p></div><footer>end</footer>"
        page = Page(f"made/{n}", "article", f"h{n}", markup.encode(), text)
        blocks = segment(page.markup)
        truth = labels(blocks, text)
        known.append(Known(page, blocks, truth, example(features(blocks), truth, page.host, by_hand=n % 2 == 0)))
    return known


def test_the_same_pages_give_the_same_model():
    pytest.importorskip("torch")
    from dataclasses import replace
    from io import BytesIO

    from cleanpipe_jobs.train_extractor import judge, learn
    from cleanpipe_jobs.train_extractor_net import Settings
    from cleanpipe_stages.html.blocks.model import load

    known = made(12)
    settings = Settings(epochs=30, pages=4, units=(16, 4, 8, 4, 4))
    first = learn(known, settings)
    assert first == learn(known, settings)
    assert first != learn(known, replace(settings, seed=1))
    found = judge(known, load(BytesIO(first)))["made"]
    assert min(f1 for _, _, f1 in found) > 0.9


def test_a_teacher_never_saw_the_host_of_a_page_it_judges(monkeypatch):
    pytest.importorskip("torch")
    from cleanpipe_jobs import train_extractor
    from cleanpipe_jobs.train_extractor_net import Settings

    known, seen = made(12), []
    learn = train_extractor.learn
    monkeypatch.setattr(train_extractor, "learn", lambda some, settings: seen.append(some) or learn(some, settings))
    settings = Settings(epochs=2, pages=4, units=(16, 4, 8, 4, 4), blank=0.2, mask=0.2, by_hand=2.0)
    judged = []
    for _, rest in train_extractor.parted(known, settings):
        assert not {k.page.host for k in seen[-1]} & {k.page.host for k in rest}
        judged += [k.page.name for k in rest]
    assert sorted(judged) == sorted(k.page.name for k in known)
    pupil = Settings(epochs=4, pages=4, units=(16, 4, 8, 4, 4), flat=0.3, soft=0.5)
    with pytest.raises(ValueError, match="no teacher"):
        learn(known, pupil)
    train_extractor.teach(known, [settings, settings])
    taught = [k.example.taught.tolist() for k in known]
    assert all(0 < share < 1 for shares in taught for share in shares)
    model = learn(known, pupil)
    train_extractor.teach(known, [settings, settings])
    assert [k.example.taught.tolist() for k in known] == taught
    assert learn(known, pupil) == model
