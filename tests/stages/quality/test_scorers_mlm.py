"""Pseudo-perplexity: equal to brute force with one mask a pass, whatever the batch, the kind of model, the text."""

import math
import socket
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cleanpipe.errors import ConfigError
from cleanpipe_stages.quality.scorers import NOT_MEASURED, ScorerOptions, mlm, neural, sentences

pytest.importorskip("torch")
pytest.importorskip("transformers")
from tiny_models import SENTENCES, causal, masked

TEXT = "\n".join([
    "The night ferry leaves at twenty past nine. It reaches the islands before sunrise!",
    "",
    "Salt is raked by hand. Letters were read, page by page.",
    "Naïve café (0123), <d> [b]?",
])  # fmt: skip
SPLIT = [
    ["The night ferry leaves at twenty past nine.", "It reaches the islands before sunrise!"],
    ["Salt is raked by hand.", "Letters were read, page by page."],
    ["Naïve café (0123), <d> [b]?"],
]


def open_mlm(folder="", *, passes=0, **options):
    return mlm.open_scorer(ScorerOptions(model=str(folder), mlm_passes=passes, **options))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("masked")
    return {kind: masked(kind, root / kind) for kind in ("roberta", "bert", "distilbert")}


def brute_force(folder, parts, *, length=32):
    """[paragraph][token] → loss: one sentence, one mask, one row a pass, the whole model, 64-bit softmax."""
    import torch
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForMaskedLM.from_pretrained(folder).eval()
    losses = []
    for part in parts:
        losses.append([])
        for sentence in part:
            bare = tokenizer(sentence, add_special_tokens=False)["input_ids"]
            start, *_, end = tokenizer("a")["input_ids"]
            for at in range(0, len(bare), length - 2):
                whole = [start, *bare[at : at + length - 2], end]
                for i in range(1, len(whole) - 1):
                    hidden = [*whole[:i], tokenizer.mask_token_id, *whole[i + 1 :]]
                    with torch.no_grad():
                        words = model(torch.tensor([hidden])).logits[0, i].double()
                    losses[-1].append(-float(torch.log_softmax(words, -1)[whole[i]]))
    return losses


@pytest.mark.parametrize("kind", ["roberta", "bert", "distilbert"])
def test_equals_brute_force(folders, kind):
    losses = brute_force(folders[kind], SPLIT)
    want = [math.exp(np.mean(x)) for x in losses]
    got = open_mlm(folders[kind], language="", device="cpu")([TEXT], ["en"])[0]
    assert got.perplexity == pytest.approx(math.exp(np.mean(np.concatenate(losses))), rel=1e-4)
    assert list(got.paragraphs) == pytest.approx(want, rel=1e-4)
    assert len({round(x, 3) for x in got.paragraphs}) == 3  # a model that tells nothing apart would pass, too


def test_a_long_sentence_is_cut_at_the_models_length(folders):
    text = "salt and " * 60
    got = open_mlm(folders["roberta"], language="", device="cpu")([text], [""])[0]
    want = brute_force(folders["roberta"], [[text.strip()]])[0]
    assert len(want) > 90  # three pieces or more
    assert got.perplexity == pytest.approx(math.exp(np.mean(want)), rel=1e-4)


def test_weights_may_lie_in_a_bin_file(tmp_path):
    masked("roberta", tmp_path / "m", safe=False)
    assert open_mlm(tmp_path / "m", language="", device="cpu")([TEXT], [""])[0].perplexity > 1


# the text, what is wrong with it, and is there anything to measure?
ODD = [
    ("", "empty", False),
    (" \n\t\n\u3000", "blank", False),
    ("a", "one token", True),
    (".", "one sign", True),
    ("\ud800", "a lone surrogate", True),
    ("word \udfff\ud800 word.", "lone surrogates among words", True),
    ("\x00\x01 \x7f", "controls", True),
    ("<mask><s></s> <pad>", "names of control tokens", True),
    ("[MASK][CLS] [SEP] [UNK]", "names of control tokens, as BERT spells them", True),
    ("😀👩‍👩‍👧 \U0010ffff\ufdd0", "emoji, characters that are none", True),
    ("x" * 1500, "a very long word", True),
    ("ü" * 700, "a very long word of two bytes a letter", True),
    ("漢字。仮名。", "signs no model here has learnt", True),
    (". " * 200, "two hundred sentences", True),
]


@pytest.mark.parametrize("kind", ["roberta", "bert"])
@pytest.mark.parametrize(("text", "comment", "measured"), ODD, ids=[x[1] for x in ODD])
def test_odd_texts(folders, kind, text, comment, measured):
    got = open_mlm(folders[kind], language="", device="cpu", passes=7)([text, "Salt is raked."], ["", ""])
    told = got[0].perplexity
    if kind == "roberta":
        assert (told is not None) is measured
    assert (told is None) == (not got[0].paragraphs)
    assert told is None or (math.isfinite(told) and told >= 1)
    assert got[1] == open_mlm(folders[kind], language="", device="cpu", passes=7)(["Salt is raked."], [""])[0]


def test_the_name_of_a_control_token_is_text(folders):
    model = neural.load(folders["roberta"], "mlm", device="cpu")
    assert model.tokenizer.mask_token_id not in model.encode(["a <mask> b"])[0]


def test_unknown_pieces_are_scored_as_the_unknown_token(folders):
    want = brute_force(folders["bert"], [["Salt 漢 hand"]])[0]
    got = open_mlm(folders["bert"], language="", device="cpu")(["Salt 漢 hand"], [""])[0]
    assert got.perplexity == pytest.approx(math.exp(np.mean(want)), rel=1e-4)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_split_of_a_batch_gives_the_same(folders, data):
    texts = [" ".join(SENTENCES[i : i + 1 + i % 4]) + "\n" * (i % 3) + "Salt." * (i % 2) for i in range(6)]
    texts = data.draw(st.permutations([*texts, "", "a"]))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(texts)), max_size=4)))
    passes = data.draw(st.sampled_from([5, 9]))
    score = open_mlm(folders["roberta"], language="", device="cpu", passes=passes, chars=160)
    whole = score(texts, [""] * len(texts))
    parts = [texts[a:b] for a, b in zip([0, *cuts], [*cuts, len(texts)], strict=True)]
    assert [x for part in parts for x in score(part, [""] * len(part))] == whole  # to the last bit


@pytest.mark.parametrize("passes", [0, 4])
def test_the_size_of_a_forward_pass_changes_nothing_that_counts(folders, passes):
    text = TEXT + "\n" + " ".join(SENTENCES)
    one, *others = (
        open_mlm(folders["roberta"], language="", device="cpu", passes=passes, batch_tokens=n)([text], [""])[0]
        for n in (8192, 1, 33, 500)
    )
    for other in others:
        assert other.perplexity == pytest.approx(one.perplexity, rel=1e-5)
        assert list(other.paragraphs) == pytest.approx(list(one.paragraphs), rel=1e-5)


def test_as_many_passes_as_tokens_are_exact(folders):
    exact = open_mlm(folders["roberta"], language="", device="cpu")([TEXT], [""])[0]
    many = open_mlm(folders["roberta"], language="", device="cpu", passes=32)([TEXT], [""])[0]
    few = open_mlm(folders["roberta"], language="", device="cpu", passes=2)([TEXT], [""])[0]
    assert many.perplexity == pytest.approx(exact.perplexity, rel=1e-6)
    assert few.perplexity != pytest.approx(exact.perplexity, rel=1e-3)


def test_passes_mask_every_kth_token(folders):
    """By hand: token i of a sentence is asked with i ± k, i ± 2k … masked, too."""
    import torch

    model = neural.load(folders["roberta"], "mlm", device="cpu")
    ids = model.encode(["The night ferry leaves at twenty past nine."])[0]
    found = mlm.piece_losses(model, [ids], 3, 8192)[0]
    for i in range(len(ids)):
        row = [model.tokenizer.mask_token_id if j % 3 == i % 3 else t for j, t in enumerate(ids)]
        with torch.no_grad():
            words = model.model(torch.tensor([[*model.before, *row, *model.after]])).logits[0, i + 1].double()
        assert found[i] == pytest.approx(-float(torch.log_softmax(words, -1)[ids[i]]), rel=1e-4)


def test_only_the_beginning_is_read_and_only_the_models_language(folders):
    score = open_mlm(folders["roberta"], language="en", device="cpu", chars=20, passes=3)
    short, long, other = score(["Salt is raked by the", "Salt is raked by the hand of", "Salt."], ["en", "en", "de"])
    assert short == long
    assert other == NOT_MEASURED


@pytest.mark.parametrize(
    ("paragraph", "want", "comment"),
    [
        ("One. Two! Three? Four… Five", ["One.", "Two!", "Three?", "Four…", "Five"], "each sign"),
        ("J. R. Smith went. He slept.", ["J. R. Smith went.", "He slept."], "initials"),
        ("It is 3.5 m, e.g. here, i.e. there.", ["It is 3.5 m, e.g. here, i.e. there."], "no capital follows"),
        ('He said "go." Then left.', ['He said "go."', "Then left."], "a quote behind the stop"),
        ("Wait... what? No...", ["Wait... what?", "No..."], "dots in a row"),
        ("你好。世界！再见", ["你好。", "世界！", "再见"], "no blanks between sentences"),
        ("Привет. Мир. да", ["Привет.", "Мир. да"], "other capitals"),
        ("no end", ["no end"], "none"),
        ("?", ["?"], "a sign alone"),
    ],
)
def test_sentences(paragraph, want, comment):
    assert sentences.sentences(paragraph) == want


def test_paragraphs_are_the_lines_that_are_not_blank():
    assert sentences.paragraphs(" a \n\n\t\nb\ud800\r\n") == ["a", "b?"]


@given(st.text(st.characters(codec="utf-8"), max_size=80))
def test_sentences_lose_nothing_but_blanks(text):
    for paragraph in sentences.paragraphs(text):
        assert "".join("".join(sentences.sentences(paragraph)).split()) == "".join(paragraph.split())


def test_nothing_is_asked_of_the_network(folders, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert open_mlm(folders["bert"], language="", device="cpu", passes=2)(["Salt."], [""])[0].perplexity > 1


def broken(tmp_path, what):
    folder = masked("roberta", tmp_path / "m")
    if what == "no folder":
        return tmp_path / "none"
    if what == "no weights":
        (folder / "model.safetensors").unlink()
    if what == "cut weights":
        (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:100])
    if what == "no config":
        (folder / "config.json").unlink()
    if what == "config is no JSON":
        (folder / "config.json").write_text("{")
    if what == "no tokenizer":
        for path in folder.glob("tokenizer*"):
            path.unlink()
    if what == "no head":
        from transformers import RobertaModel

        RobertaModel.from_pretrained(folder).save_pretrained(folder)
    if what == "causal":
        return causal("llama", tmp_path / "c")
    return folder


@pytest.mark.parametrize(
    "what",
    ["no folder", "no weights", "cut weights", "no config", "config is no JSON", "no tokenizer", "no head", "causal"],
)
def test_a_folder_that_cannot_work_is_refused(tmp_path, what):
    folder = broken(tmp_path, what)
    with pytest.raises(ConfigError) as e:
        open_mlm(folder, device="cpu")
    assert str(folder) in str(e.value)


def test_cuda_is_refused_where_there_is_none(folders):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.raises(ConfigError, match="no CUDA device"):
        open_mlm(folders["roberta"], device="cuda")


def test_files_are_all_that_decide(folders):
    named = neural.folder_files(folders["roberta"])
    assert set(named) == {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    assert neural.folder_files(Path("/nowhere")) == {"config.json": Path("/nowhere/config.json")}
