"""The parts of the embedded RoBERTa's training that a wrong line would spoil without a sound."""

import numpy as np
import pytest

from cleanpipe_jobs import train_roberta as t
from cleanpipe_jobs.train_roberta_corpus import is_prose


@pytest.fixture
def rows():
    rng = np.random.default_rng(1)
    return [
        np.array([t.BOS, *rng.integers(4, t.MASK, n), t.EOS], np.uint16) for n in rng.integers(1, t.LENGTH - 2, 300)
    ]


def test_each_sequence_comes_once_in_a_round(rows):
    feed, left = t.batches(rows, np.random.default_rng(2)), len(rows)
    seen = []
    while left > 0:
        table = next(feed)
        assert table.size <= max(t.BATCH, table.shape[1])
        seen += [tuple(x[x != t.PAD].tolist()) for x in table]
        left -= len(table)
    assert left == 0
    assert sorted(seen) == sorted(tuple(x.tolist()) for x in rows)


@pytest.mark.parametrize("share", [0.0, 0.2, 1.0])
def test_marks_and_padding_are_never_masked(rows, share):
    table = t.padded(rows[:20])
    hidden, chosen = t.masked(table, np.random.default_rng(3), share)
    assert chosen.any()
    assert not (chosen & np.isin(table, [t.BOS, t.EOS, t.PAD])).any()
    assert (hidden[chosen] == t.MASK).all()
    assert (hidden[~chosen] == table[~chosen]).all()
    assert share < 1 or chosen.sum() == (~np.isin(table, [t.BOS, t.EOS, t.PAD])).sum()


def test_the_rate_rises_stays_and_falls():
    steps = 1000
    rates = [t.rate(i, steps) for i in range(steps)]
    assert rates[0] == pytest.approx(t.PEAK / t.WARM_UP)
    level = round(steps * (1 - t.COOL_DOWN))
    assert set(rates[t.WARM_UP : level]) == {t.PEAK}
    assert rates[level:] == sorted(rates[level:], reverse=True)
    assert 0 < rates[-1] < 0.01 * t.PEAK
    assert [t.rate(i, 2 * steps) for i in range(level)] == rates[:level]  # a checkpoint suits more steps


def test_heads_look_at_the_neighbours_to_begin_with():
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    model = t.new_model().eval()
    model.set_attn_implementation("eager")
    with torch.no_grad():
        found = model.roberta(input_ids=torch.randint(4, t.MASK, (2, 20)), output_attentions=True).attentions
    for layer, offsets in zip(found, t.NEIGHBOURS, strict=True):
        for head, offset in enumerate(offsets):
            assert float(torch.diagonal(layer[0, head], offset).mean()) > 0.4


def test_words_start_as_frequencies_and_company():
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    rng = np.random.default_rng(4)
    kinds = [rng.choice(np.arange(10, 20) if i % 2 else np.arange(20, 30), 12) for i in range(600)]
    data = [np.array([t.BOS, *x, t.EOS], np.uint16) for x in kinds]
    model = t.new_model()
    t.learn_words(model, data)
    words = model.roberta.embeddings.word_embeddings.weight[10:30, t.WIDTH // t.HEADS :].detach()
    alike = torch.nn.functional.cosine_similarity(words[:, None], words[None], dim=-1)
    assert float(alike[:10, :10].mean()) > 0.5 > 0.2 > float(alike[:10, 10:].mean())
    bias = model.lm_head.bias.detach()
    assert float(bias[15]) == pytest.approx(np.log(1 / 20), abs=0.3)
    assert float(bias[100]) < -8


@pytest.mark.parametrize(
    ("line", "want", "comment"),
    [
        ("The harbour pilot knows the depth of every channel.", True, "a sentence"),
        ("Home About us Contact Login Register Cart", False, "no function words"),
        ("the end of it", False, "too short"),
        ("in 1984 and 1985 the 17 of 23 were 99, 12, 13, 14, 15, 16", False, "numbers"),
    ],
)
def test_prose(line, want, comment):
    assert is_prose(line) is want
