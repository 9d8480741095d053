"""The trial of the blocks engine on hosts left out: who has seen whom, and that a change of a rule is undone."""

import math
from itertools import combinations
from types import SimpleNamespace

import pytest

from cleanpipe_jobs import train_extractor_folds as folds
from cleanpipe_jobs.train_extractor import fold, with_folds
from cleanpipe_jobs.train_extractor_labels import Page, labels
from cleanpipe_jobs.train_extractor_net import Settings, example
from cleanpipe_stages.html.blocks.features import features
from cleanpipe_stages.html.blocks.segment import segment

SMALL = Settings(epochs=2, pages=4, units=(16, 4, 8, 4, 4))


def made(number):
    from cleanpipe_jobs.train_extractor import Known

    for n in range(number):
        text = f"Sentence {n} is here, and it is long enough to be told from a menu. " * 3
        page = Page(f"made/{n}", "article", f"h{n}", f"<nav><a href=x>go</a></nav><p>{text}</p>".encode(), text)
        blocks = segment(page.markup)
        truth = labels(blocks, text)
        yield Known(page, blocks, truth, example(features(blocks), truth, page.host))


@pytest.mark.parametrize("quick", [False, True])
def test_no_model_has_seen_the_hosts_that_it_is_measured_on(tmp_path, monkeypatch, quick):
    pytest.importorskip("torch")
    from cleanpipe_jobs import train_extractor

    known, seen = list(made(20)), []
    assert {fold(k.page.host) for k in known} == set(range(5))
    learn = train_extractor.learn

    def watched(some, settings):
        seen.append((settings, {fold(k.page.host) for k in some}))
        return learn(some, settings)

    for module in (folds, train_extractor):
        monkeypatch.setattr(module, "learn", watched)
    pupil = Settings(epochs=2, pages=4, units=(16, 4, 8, 4, 4), soft=0.5)
    monkeypatch.setattr(folds, "TEACHERS", (SMALL,))
    monkeypatch.setattr(folds, "PUPIL", pupil)
    files = folds.learned(known, tmp_path, quick=quick)
    every = set(range(5))
    teachers = [every - {part} for part in range(5)] if quick else [every - set(p) for p in combinations(range(5), 2)]
    assert [parts for settings, parts in seen if settings is SMALL] == teachers
    assert [parts for settings, parts in seen if settings is pupil] == [every - {part} for part in range(5)]
    seen.clear()
    assert folds.learned(known, tmp_path, quick=quick) == files
    assert [s for s, _ in seen if s is pupil] == []
    found = folds.held_out([k.page for k in known], files)
    assert all(0 <= f1 <= 1 and math.isfinite(f1) for _, _, f1 in found)
    assert len(found) == 20


def test_a_change_is_undone():
    module = SimpleNamespace(limit=3)
    with pytest.raises(ValueError, match="inside"), folds.changed((module, "limit", 9)):
        assert module.limit == 9
        raise ValueError("inside")
    assert module.limit == 3


def test_every_rule_that_is_tried_is_there():
    for title, changes in folds.rules_changed().items():
        for module, name, value in changes:
            assert getattr(module, name) is not value, title


def test_figures_take_their_place_in_the_card():
    card = "top\n\n## Measured on hosts left out\n\nold\n\n## Limits\n\nend\n"
    assert with_folds(card, "new") == card.replace("old", "new")
    with pytest.raises(ValueError, match="not a card"):
        with_folds("another", "new")
