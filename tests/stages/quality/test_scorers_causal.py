"""Causal perplexity: strided windows equal to one forward pass a token, with BOS and without, whatever the text."""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cleanpipe.errors import ConfigError
from cleanpipe_stages.quality.scorers import NOT_MEASURED, ScorerOptions
from cleanpipe_stages.quality.scorers import causal as scorer

pytest.importorskip("torch")
pytest.importorskip("transformers")
from tiny_models import SENTENCES, causal, masked

KINDS = ("gpt2", "llama", "neox")
TEXT = "The night ferry leaves at nine.\n\n  \nSalt is raked by hand,\n  and the drill is out. Naïve café!\n"
LONG = "\n".join(SENTENCES)


def open_causal(folder, *, language="", **options):
    return scorer.open_scorer(ScorerOptions(model=str(folder), language=language, **options))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("causal")
    return {kind: causal(kind, root / kind) for kind in KINDS}


def loaded(folder):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder).eval()
    bos = [tokenizer.bos_token_id] if tokenizer.bos_token_id is not None else []
    return tokenizer, model, bos


def loss(model, context, token):
    """One token by one forward pass over what is before it, 64-bit softmax."""
    import torch

    with torch.no_grad():
        words = model(torch.tensor([context])).logits[0, -1].double()
    return -float(torch.log_softmax(words, -1)[token])


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_that_fits_equals_one_forward_of_all_of_it(folders, kind):
    import torch

    tokenizer, model, bos = loaded(folders[kind])
    ids = tokenizer(TEXT, add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        words = torch.log_softmax(model(torch.tensor([[*bos, *ids]])).logits[0].double(), -1)
    told = ids if bos else ids[1:]
    want = [-float(words[i, token]) for i, token in enumerate(told)]
    got = open_causal(folders[kind], device="cpu")([TEXT], [""])[0]
    assert len(ids) < 64
    assert got.perplexity == pytest.approx(math.exp(np.mean(want)), rel=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("context", "stride", "comment"),
    [
        (24, 8, "two thirds are seen before"),
        (24, 0, "half, by default"),
        (24, 23, "windows that do not meet, with BOS; by one token without"),
        (5, 1, "a window a token"),
        (2, 1, "the least"),
        (64, 50, "almost all in one"),
    ],
)
def test_each_token_is_scored_with_its_windows_context(folders, kind, context, stride, comment):
    tokenizer, model, bos = loaded(folders[kind])
    text = LONG[:300]
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    holds = context - len(bos)
    stride = stride or holds // 2
    if stride > holds:
        pytest.skip("leaves tokens out")
    want = []
    for i, token in enumerate(ids):
        start = 0  # of the first window that holds the token
        while start + holds <= i:
            start += stride
        if bos or i > start:
            want.append(loss(model, [*bos, *ids[start:i]], token))
    got = open_causal(folders[kind], device="cpu", context=context, stride=stride)([text], [""])[0]
    assert got.perplexity == pytest.approx(math.exp(np.mean(want)), rel=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_paragraphs(folders, kind):
    """By the lines: a line end belongs to the line that it ends, blank lines to the paragraph before."""
    tokenizer, model, bos = loaded(folders[kind])
    found = tokenizer(TEXT, add_special_tokens=False, return_offsets_mapping=True)
    ids, second = found["input_ids"], TEXT.index("Salt")
    parts = {"The": [], "Salt": [], "and": []}
    third = TEXT.index("  and")
    for i, (token, (start, _)) in enumerate(zip(ids, found["offset_mapping"], strict=True)):
        if bos or i:
            name = "The" if start < second else "Salt" if start < third else "and"
            parts[name].append(loss(model, [*bos, *ids[:i]], token))
    got = open_causal(folders[kind], device="cpu")([TEXT], [""])[0]
    assert list(got.paragraphs) == pytest.approx([math.exp(np.mean(x)) for x in parts.values()], rel=1e-4)


@pytest.mark.parametrize(
    ("kind", "measured", "comment"),
    [
        ("llama", True, "its tokenizer puts BOS before it"),
        ("gpt2", True, "its tokenizer has a BOS, and does not put it"),
        ("neox", False, "nothing stands before the only token"),
    ],
)
def test_the_first_token_needs_something_before_it(folders, kind, measured, comment):
    tokenizer, model, bos = loaded(folders[kind])
    token = tokenizer("S", add_special_tokens=False)["input_ids"]
    assert len(token) == 1
    one, two = open_causal(folders[kind], device="cpu")(["S", "Sa"], ["", ""])
    assert two.perplexity is not None
    if measured:
        assert one.perplexity == pytest.approx(math.exp(loss(model, bos, token[0])), rel=1e-4)
    else:
        assert one == NOT_MEASURED


@given(tokens=st.integers(0, 60), holds=st.integers(1, 30), data=st.data())
def test_every_token_is_in_one_window_with_all_its_context(tokens, holds, data):
    stride = data.draw(st.integers(1, holds))
    found = list(scorer.windows(tokens, holds, stride))
    assert [i for w in found for i in range(w.scored, w.end)] == list(range(tokens))
    for i, w in enumerate(found):
        assert w.start == i * stride
        assert w.start <= w.scored < w.end <= w.start + holds
        assert i == 0 or w.scored - w.start >= holds - stride


ODD = [
    ("", "empty", False),
    (" \n\t\n\u3000", "blank", False),
    ("ab", "one word", True),
    ("\ud800", "a lone surrogate becomes a question mark", None),
    ("word \udfff\ud800 word.", "lone surrogates among words", True),
    ("\x00\x01 \x7f", "controls", True),
    ("<s></s><pad> <|start|>", "names of control tokens", True),
    ("😀👩‍👩‍👧 \U0010ffff\ufdd0", "emoji, characters that are none", True),
    ("x" * 1500, "a very long word", True),
    ("ü\n" * 700, "many lines", True),
    ("\n\n\nSalt\n\n", "blank lines around", True),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("text", "comment", "measured"), ODD, ids=[x[1] for x in ODD])
def test_odd_texts(folders, kind, text, comment, measured):
    score = open_causal(folders[kind], device="cpu", context=16)
    odd, plain = score([text, "Salt is raked."], ["", ""])
    if measured is not None:
        assert (odd.perplexity is not None) is measured
    assert (odd.perplexity is None) == (not odd.paragraphs)
    assert all(math.isfinite(x) and x >= 1 for x in odd.paragraphs)
    assert len(odd.paragraphs) <= sum(not (x == "" or x.isspace()) for x in text.split("\n"))
    assert plain == score(["Salt is raked."], [""])[0]


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_split_of_a_batch_gives_the_same(folders, data):
    texts = [" ".join(SENTENCES[i : i + 1 + i % 4]) + "\n" * (i % 3) + "Salt." * (i % 2) for i in range(6)]
    texts = data.draw(st.permutations([*texts, "", "a"]))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(texts)), max_size=4)))
    score = open_causal(folders["llama"], device="cpu", context=24)
    whole = score(texts, [""] * len(texts))
    parts = [texts[a:b] for a, b in zip([0, *cuts], [*cuts, len(texts)], strict=True)]
    assert [x for part in parts for x in score(part, [""] * len(part))] == whole  # to the last bit


@pytest.mark.parametrize("kind", KINDS)
def test_the_size_of_a_forward_pass_changes_nothing_that_counts(folders, kind):
    one, *others = (
        open_causal(folders[kind], device="cpu", context=24, batch_tokens=n)([LONG], [""])[0] for n in (8192, 1, 60)
    )
    for other in others:
        assert other.perplexity == pytest.approx(one.perplexity, rel=1e-5)
        assert list(other.paragraphs) == pytest.approx(list(one.paragraphs), rel=1e-5)


def test_a_tokenizer_without_places_parts_the_text_alike(folders, monkeypatch):
    score = open_causal(folders["llama"], device="cpu")
    fast = score([TEXT], [""])[0]
    from transformers import PreTrainedTokenizerFast

    monkeypatch.setattr(PreTrainedTokenizerFast, "is_fast", property(lambda _: False))
    slow = score([TEXT], [""])[0]
    assert slow.perplexity == fast.perplexity
    assert len(slow.paragraphs) == len(fast.paragraphs) == 3


def test_a_model_that_sees_what_follows_is_refused(tmp_path):
    folder = masked("roberta", tmp_path / "m")  # the library takes it for a causal one
    with pytest.raises(ConfigError, match="sees the tokens that follow"):
        open_causal(folder, device="cpu")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"context": 65}, "takes 64 tokens"),
        ({"context": 8, "stride": 8}, "a window holds 7"),
        ({"context": 1}, "leaves tokens out"),
        ({"stride": -1}, "leaves tokens out"),
        ({"device": "cuda"}, "no CUDA device"),
    ],
)
def test_options_that_cannot_work(folders, options, match):
    import torch

    if options.get("device") == "cuda" and torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.raises(ConfigError, match=match):
        open_causal(folders["llama"], **{"device": "cpu", **options})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("dtype", "most", "comment"),
    [
        ("bfloat16", 0.01, "seen: .0015; 8 bits of mantissa, logits and all"),
        ("float16", 0.001, "seen: .00015; 11 bits"),
    ],
)
@pytest.mark.parametrize("context", [24, 0])
def test_half_precision_drifts_little(folders, kind, dtype, most, comment, context):
    full, half = (
        open_causal(folders[kind], device="cpu", context=context, dtype=x)([LONG], [""])[0] for x in ("float32", dtype)
    )
    assert half.perplexity == pytest.approx(full.perplexity, rel=most)
    assert list(half.paragraphs) == pytest.approx(list(full.paragraphs), rel=3 * most)
    assert half.perplexity != full.perplexity  # it was another precision indeed


def test_a_model_must_be_named():
    for ask in (scorer.files, scorer.open_scorer):
        with pytest.raises(ConfigError, match="needs `model`"):
            ask(ScorerOptions())


def test_only_the_beginning_is_read_and_only_the_models_language(folders):
    score = open_causal(folders["gpt2"], language="en", device="cpu", chars=20)
    short, long, other = score(["Salt is raked by the", "Salt is raked by the hand of", "Salt."], ["en", "en", "de"])
    assert short == long
    assert other == NOT_MEASURED


@pytest.mark.parametrize(
    ("special", "works", "comment"),
    [
        (True, True, "a control token that no text can get: models in use have such"),
        (False, False, "a word that the model does not know"),
    ],
)
def test_a_tokenizer_with_more_entries_than_the_model(tmp_path, special, works, comment):
    from tokenizers import AddedToken, Tokenizer

    folder = causal("llama", tmp_path / "m")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.add_tokens([AddedToken("|extra|", special=special)])
    tokenizer.save(str(folder / "tokenizer.json"))
    if works:
        assert open_causal(folder, device="cpu")(["an |extra| word"], [""])[0].perplexity > 1
    else:
        with pytest.raises(ConfigError, match="its model 400 entries"):
            open_causal(folder, device="cpu")
