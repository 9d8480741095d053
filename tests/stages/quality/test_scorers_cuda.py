"""CPU and CUDA tell the same to 1e-4, where there is a CUDA device."""

import pytest

from cleanpipe_stages.quality.scorers import ScorerOptions, causal, mlm

pytest.importorskip("torch")
pytest.importorskip("transformers")
import tiny_models
import torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
TEXTS = [
    "\n".join(tiny_models.SENTENCES),
    "The night ferry leaves at nine.\n\n  \nSalt is raked by hand, and the drill is out. Naïve café!\n",
    "漢字。仮名。 😀 \x00 <mask></s>",
    "salt and " * 100,
    "a",
    "",
]


def both(open_scorer, folder, **options):
    """The figures of all texts by CPU and by CUDA."""
    return (
        open_scorer(ScorerOptions(model=str(folder), language="", device=device, **options))(TEXTS, [""] * len(TEXTS))
        for device in ("cpu", "cuda")
    )


def same(here, there):
    measured = 0
    for one, other in zip(here, there, strict=True):
        assert (one.perplexity is None) == (other.perplexity is None)
        if one.perplexity is not None:
            measured += 1
            assert other.perplexity == pytest.approx(one.perplexity, rel=1e-4)
            assert list(other.paragraphs) == pytest.approx(list(one.paragraphs), rel=1e-4)
    assert measured >= 4


@pytest.mark.parametrize("kind", ["roberta", "bert", "distilbert"])
@pytest.mark.parametrize("passes", [0, 7])
def test_mlm(tmp_path, kind, passes):
    same(*both(mlm.open_scorer, tiny_models.masked(kind, tmp_path / kind), mlm_passes=passes))


def test_the_embedded_model():
    """NumPy on the CPU, torch on CUDA."""
    same(*both(mlm.open_scorer, "", mlm_passes=7))


@pytest.mark.parametrize("kind", ["gpt2", "llama", "neox"])
@pytest.mark.parametrize("context", [24, 0])
def test_causal(tmp_path, kind, context):
    same(*both(causal.open_scorer, tiny_models.causal(kind, tmp_path / kind), context=context))
