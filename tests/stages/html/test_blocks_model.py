"""The shipped model decides alike on every machine, whatever pages are beside one, in any language."""

from __future__ import annotations

import numpy as np
import pytest

from cleanpipe_stages.html.blocks import model
from cleanpipe_stages.html.blocks.features import features
from cleanpipe_stages.html.blocks.segment import balanced, forest, segment

MENU = "".join(f"<li class='menu-item'><a href='/{n}'>{n} \u2190</a></li>" for n in range(12))
FRAME = (
    "<title>t</title><header class='site-header'><nav><ul>{menu}</ul></nav></header><main><article class='post'>"
    "<h1>{head}</h1>{body}</article><aside class='sidebar related'><ul>{menu}</ul></aside></main>"
    "<footer class='footer'><p>\xa9 2024 <a href=x>{head}</a> | <a href=y>{head}</a></p></footer>"
)
SENTENCES = {
    "en": "The river rose in the night, and by morning the lower fields stood under water. ",
    "de": "In der Nacht stieg der Fluss, und am Morgen standen die unteren Felder unter Wasser. ",
    "ru": "Ночью река поднялась, и к утру поля стояли под водой. ",
    "ja": "夜のうちに川が増水し、朝には低い畑が水に浸かっていた。",
    "ar": "ارتفع النهر في الليل، وفي الصباح غمر الماء الحقول. ",
    "hi": "रात में नदी बढ़ गई, और सुबह तक खेत डूब गए। ",
}


def page(sentence):
    body = "".join(f"<p>{sentence * 4}</p>" for _ in range(6))
    return FRAME.format(menu=MENU, head=sentence[:20], body=body).encode()


@pytest.mark.parametrize("language", SENTENCES)
def test_an_article_in_any_language(language):
    blocks = segment(page(SENTENCES[language]))
    kept = {blocks.text(n) for n in np.flatnonzero(model.keep(blocks))}
    assert (SENTENCES[language] * 4).strip() in kept
    assert not any("\u2190" in text or "\xa9" in text for text in kept)


def test_pages_beside_one_another_change_nothing():
    pages = [page(s) for s in SENTENCES.values()] + [b"", b"<p>x", b"<nav><a href=y>z</a></nav>"]
    alone = [model.keep(segment(p)).tolist() for p in pages]
    for order in (range(len(pages)), reversed(range(len(pages)))):
        places = list(order)
        found = model.extracts([pages[n] for n in places])
        assert [flags.tolist() for _, flags in found] == [alone[n] for n in places]


def test_a_page_with_text_is_never_empty():
    for markup in (b"x", b"<nav><a href=y>z</a></nav>", b"<footer>a</footer>"):
        assert model.keep(segment(markup)).any()


def test_a_long_paragraph_is_kept_once():
    text = SENTENCES["en"] * 4
    blocks = segment(FRAME.format(menu=MENU, head="h", body=f"<p>{text}</p><p>b, {text}</p><p>{text}</p>").encode())
    kept = [blocks.text(n) for n in np.flatnonzero(model.keep(blocks))]
    assert kept.count(text.strip()) == 1


CHOICES = [  # shares, weights, kept
    ([65536], [5], [True]),
    ([0, 0], [1, 9], [True, True]),
    ([65000, 100], [10_000, 10_000], [True, False]),  # .902 for the first, .627 for both
    ([65000, 100], [1, 1], [True, True]),  # of a page with so little that is sure all is kept
    ([30000, 30000], [10, 10], [True, True]),
    ([60000, 33000, 20000], [10_000] * 3, [True, True, False]),  # .625, .715, .693
]


@pytest.mark.parametrize(("share", "weight", "kept"), CHOICES)
def test_expected_f1_chooses(share, weight, kept):
    assert model.choose(np.array(share), np.array(weight)).tolist() == kept


def test_every_sum_is_a_whole_number_that_a_float_holds():
    for number, layer in enumerate(model.shipped().layers):
        largest = 4 * model.ONE if number == 0 else model.TOP
        assert (np.abs(layer.weight).sum(axis=0) * max(largest, model.FAR * model.ONE) < 1 << 24).all()
        assert (layer.weight == np.rint(layer.weight)).all()


def test_scores_do_not_hang_on_the_order_of_sums():
    """Another order of features, weights with them, gives other partial sums and the same scores."""
    found = features(segment(page(SENTENCES["en"])))
    net = model.shipped()
    first = net.layers[0]
    order = np.random.default_rng(1).permutation(first.weight.shape[0])
    x = np.random.default_rng(2).integers(-128, 128, (50, first.weight.shape[0])).astype(np.float32)
    assert (first(x) == model.Layer(first.weight[order], first.scale, first.bias)(x[:, order])).all()
    assert model.scores(found).dtype == np.int64


def test_the_file_is_small_and_has_a_card():
    assert model.FILE.stat().st_size < 1 << 20
    told = (model.FILE.parent / "CARD.md").read_text(encoding="utf-8")
    for word in ("MIT", "CC BY 4.0", "make extractor"):
        assert word in told


BLOCKLESS = b"<article><h1></h1><p></p><ul><li></li></ul><form></form></article><main></main>"


@pytest.mark.parametrize("order", ["ab", "aeb", "eab", "abe", "aeeb", "e", "ee", "eeab"])
def test_a_page_without_blocks_changes_nothing_beside_it(order):
    pages = {"a": page(SENTENCES["en"]), "b": page(SENTENCES["ja"]), "e": BLOCKLESS}
    group = [balanced(pages[letter]) for letter in order]
    share, flags = model.judged(forest(group))
    alone = [model.judged(forest([one])) for one in group]
    assert share.tolist() == [n for shares, _ in alone for n in shares.tolist()]
    assert flags.tolist() == [n for _, kept in alone for n in kept.tolist()]
