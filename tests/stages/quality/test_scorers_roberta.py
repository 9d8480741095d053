"""The embedded model: read by NumPy as by transformers, and able to tell running text from the rest."""

import hashlib
import math
import subprocess
import sys

import numpy as np
import pytest

from cleanpipe.errors import ConfigError
from cleanpipe_stages.quality.scorers import NOT_MEASURED, ScorerOptions, mlm, roberta

pytest.importorskip("tokenizers")

TEXT = "The night ferry leaves at nine. It reaches the islands before sunrise!\n\nNaïve café (0123), <mask> 漢字?\na"


def open_mlm(*, passes=0, **options):
    return mlm.open_scorer(ScorerOptions(mlm_passes=passes, **options))


@pytest.fixture(scope="module")
def embedded():
    return open_mlm(device="cpu", passes=7)


# the first is running text, what stands beside it is not
PAIRS = [
    ("Home | About us | Contact | Privacy policy | Terms of use | Login | Register | Cart (0)", "a menu"),
    ("xq vlorp zzut ggre oom trrk plae wibble snarf qwpo lkj ghf mnb poi uyt", "no words"),
    ("year budget the on discuss for Tuesday to the met committee next The", "a shuffled sentence"),
    ("Der Ausschuss trat am Dienstag zusammen, um den Haushalt für das nächste Jahr zu beraten.", "German"),
    ("0x7f3a 91 d4 e8 77 0b c2 5f 11 a9 6e 40 3d", "numbers in base 16"),
    ("$19.99 $24.50 Add to cart SKU-4471 Size M L XL Color Red Blue", "a shop's shelf"),
]


@pytest.mark.parametrize(("text", "comment"), PAIRS, ids=[x[1] for x in PAIRS])
def test_the_embedded_model_knows_running_text(embedded, text, comment):
    prose = "The committee met on Tuesday to discuss the budget for the next year."
    low, high = (x.perplexity for x in embedded([prose, text], ["en", "en"]))
    assert low < high, comment


def test_the_embedded_model_reads_english_alone(embedded):
    assert embedded(["Salt is raked by hand."], ["de"]) == [NOT_MEASURED]


def test_the_embedded_model_is_what_its_card_says():
    card = (mlm.SHIPPED / "CARD.md").read_text(encoding="utf-8")
    for name in ("model.safetensors", "tokenizer.json"):
        content = (mlm.SHIPPED / name).read_bytes()
        assert f"| {name} | {len(content):,} bytes, SHA-256 `{hashlib.sha256(content).hexdigest()}` |" in card
    assert sum(p.stat().st_size for p in mlm.SHIPPED.iterdir()) <= 9_000_000


@pytest.mark.parametrize(("dtype", "most"), [("bfloat16", 0.05), ("float16", 0.01)])
def test_half_precision_drifts_little(embedded, dtype, most):
    full = embedded([TEXT], ["en"])[0].perplexity
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    half = open_mlm(device="cpu", passes=7, dtype=dtype)([TEXT], ["en"])[0].perplexity
    assert half == pytest.approx(full, rel=most)


def same_as_transformers(folder, text):
    """Both readers on one folder: (the figures by NumPy, by torch)."""
    from cleanpipe_stages.quality.scorers import neural

    ours, theirs = roberta.Roberta(folder), neural.load(folder, "mlm", device="cpu")
    assert ours.encode([text, "", "<s></s>"]) == theirs.encode([text, "", "<s></s>"])
    same = ("before", "after", "length", "vocabulary", "mask", "pad")
    assert [getattr(ours, x) for x in same] == [getattr(theirs, x) for x in same]
    limit = ours.length - 2
    pieces = [x[i : i + limit] for x in ours.encode(text.split("\n")) for i in range(0, len(x), limit)]
    return [np.concatenate(mlm.piece_losses(m, pieces, 3, 300)) for m in (ours, theirs)]


def test_numpy_and_torch_tell_the_same_of_the_embedded_model():
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    ours, theirs = same_as_transformers(mlm.SHIPPED, TEXT + "salt and " * 200)
    assert len(ours) > 300
    assert ours == pytest.approx(theirs, abs=1e-4)


def test_numpy_and_torch_tell_the_same_of_another_folder(tmp_path):
    """Weights far from even, where a wrong norm or head would show."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from tiny_models import masked

    ours, theirs = same_as_transformers(masked("roberta", tmp_path / "m"), TEXT)
    assert np.ptp(ours) > 5
    assert ours == pytest.approx(theirs, abs=1e-3)


def test_the_embedded_model_needs_no_torch():
    program = (
        "import sys; from cleanpipe_stages.quality.scorers import ScorerOptions, mlm; "
        "print(mlm.open_scorer(ScorerOptions())(['Salt is raked by hand.'], ['en'])[0].perplexity > 1, "
        "sorted({'torch', 'transformers'} & sys.modules.keys()))"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "True []"


def test_gelu_is_the_exact_one():
    x = np.linspace(-8, 8, 4001, dtype=np.float32)
    want = [v * 0.5 * (1 + math.erf(v / math.sqrt(2))) for v in x.tolist()]
    assert roberta.gelu(x.copy()) == pytest.approx(want, abs=1e-6)


# text, and what is odd about it: it must cost no crash, and nothing of its neighbour's figure
ODD = [
    ("\ud800 a \udfff", "lone surrogates"),
    ("x" * 4000, "a very long word"),
    ("漢" * 4000, "a very long word of three bytes a letter"),
    ("<mask><s></s><pad><unk>", "names of control tokens"),
    ("\x00\x01\x7f", "controls"),
    ("😀👩‍👩‍👧\U0010ffff", "emoji, a character that is none"),
    ("?\n" * 500, "many lines of one sign"),
]


@pytest.mark.parametrize(("text", "comment"), ODD, ids=[x[1] for x in ODD])
def test_odd_texts(embedded, text, comment):
    odd, plain = embedded([text, "Salt is raked by hand."], ["en", "en"])
    assert odd.perplexity is not None
    assert odd.perplexity > 1
    assert math.isfinite(odd.perplexity)
    assert plain == embedded(["Salt is raked by hand."], ["en"])[0]


def test_empty_texts_are_not_measured(embedded):
    assert embedded(["", " \n\t\n"], ["en", "en"]) == [NOT_MEASURED] * 2


def test_any_batch_gives_the_same_to_the_last_bit(embedded):
    texts = [TEXT, "a", "", "Salt is raked by hand. " * 9, TEXT[::-1]]
    whole = embedded(texts, ["en"] * 5)
    assert [embedded([t], ["en"])[0] for t in texts] == whole
    assert embedded(texts[::-1], ["en"] * 5) == whole[::-1]


@pytest.mark.parametrize("cut", [0, 6, 100, 5000])
def test_a_damaged_folder_is_refused(tmp_path, cut):
    for path in mlm.SHIPPED.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:cut])
    with pytest.raises(ConfigError, match="cannot be read as a RoBERTa"):
        roberta.Roberta(tmp_path)
