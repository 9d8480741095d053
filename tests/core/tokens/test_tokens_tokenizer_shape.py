"""tokenizer.json files in which something is not what the format says: refused in plain words that name the place."""

import copy
import json
import random
from collections import Counter

import pytest
from made_tokenizers import gpt2_like, llama3_like, metaspace_bpe_byte_fallback, with_normalizer, wordpiece

from cleanpipe.errors import ConfigError
from cleanpipe.tokens.tokenizer import open_tokenizer

BASES = {
    "gpt2": lambda: gpt2_like(600), "llama3": lambda: llama3_like(600), "wordpiece": lambda: wordpiece(400),
    "metaspace": lambda: metaspace_bpe_byte_fallback(600), "normal": with_normalizer,
}  # fmt: skip
_ADDED = {"id": 7, "content": "x", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
          "special": True}  # fmt: skip


def opened(folder, document):
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(document))
    return open_tokenizer(str(path))


@pytest.fixture(scope="module")
def plain():
    return json.loads(BASES["gpt2"]())


@pytest.fixture(scope="module")
def unigram():
    vocab = [["<unk>", 0.0], *([letter, -float(at)] for at, letter in enumerate("▁abcdefgh", 1))]
    return {"version": "1.0", "added_tokens": [], "model": {"type": "Unigram", "unk_id": 0, "vocab": vocab}}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"added_tokens": 5}, "added_tokens is 5, not a list"),
        ({"added_tokens": [5]}, "added_tokens[0] is 5, not an object"),
        ({"added_tokens": [{**_ADDED, "id": -1}]}, "added_tokens[0].id is -1: ids are whole numbers from 0"),
        ({"added_tokens": [{**_ADDED, "id": True}]}, "added_tokens[0].id is True, not a whole number"),
        ({"added_tokens": [{**_ADDED, "id": 1.5}]}, "added_tokens[0].id is 1.5, not a whole number"),
        ({"added_tokens": [{**_ADDED, "content": None}]}, "added_tokens[0].content is missing, not a string"),
        ({"added_tokens": [{"id": 1}]}, "added_tokens[0].content is missing, not a string"),
        ({"added_tokens": [{**_ADDED, "special": "yes"}]}, "added_tokens[0].special is 'yes', not true or false"),
        ({"normalizer": 5}, "normalizer is 5, not an object"),
        ({"normalizer": "NFC"}, "normalizer is 'NFC', not an object"),
        ({"normalizer": []}, "normalizer is a list of 0, not an object"),
        ({"normalizer": {}}, "normalizer.type is missing, not a string"),
        ({"normalizer": {"type": "Sequence"}}, "normalizer.normalizers is missing, not a list"),
        ({"normalizer": {"type": "Sequence", "normalizers": [3]}}, "normalizer.normalizers[0] is 3, not an object"),
        ({"pre_tokenizer": "ByteLevel"}, "pre_tokenizer is 'ByteLevel', not an object"),
        ({"pre_tokenizer": {"type": 5}}, "pre_tokenizer.type is 5, not a string"),
        (
            {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"}, None]}},
            "pre_tokenizer.pretokenizers[1] is missing, not an object",
        ),
        ({"pre_tokenizer": {"type": "Split", "behavior": 1}}, "pre_tokenizer.behavior is 1, not a string"),
        ({"decoder": 1}, "decoder is 1, not an object"),
        ({"model.merges": None}, "model.merges is missing, not a list"),
        ({"model.merges": {"a": 1}}, "model.merges is an object of 1, not a list"),
        ({"model.merges": ["a"]}, "model.merges[0] is 'a', not two tokens"),
        ({"model.merges": ["a b c"]}, "model.merges[0] is 'a b c', not two tokens"),
        ({"model.merges": [["a", 5]]}, "model.merges[0] is a list of 2, not two tokens"),
        ({"model.merges": [7]}, "model.merges[0] is 7, not two tokens"),
        ({"model.vocab": []}, "model.vocab is a list of 0, not an object"),
        ({"model.type": 7}, "model.type is 7, not a string"),
        ({"model.unk_token": 3}, "model.unk_token is 3, not a string"),
        ({"model.continuing_subword_prefix": "##"}, "without '##' in front"),
        ({"model.byte_fallback": 2}, "model.byte_fallback is 2, not true or false"),
        ({"model.dropout": "much"}, "model.dropout is 'much', not a number"),
        ({"model.dropout": 0.1}, "have a dropout of 0.1: ids would be drawn by chance"),
    ],
)
def test_the_place_is_named(plain, tmp_path, change, expected):
    document = copy.deepcopy(plain)
    for name, value in change.items():
        place, _, key = name.rpartition(".")
        (document[place] if place else document)[key] = value
    with pytest.raises(ConfigError) as caught:
        opened(tmp_path, document)
    assert expected in caught.value.message
    assert caught.value.message.startswith("tokenizer.json: ")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"vocab": {"a": 0}}, "model.vocab is an object of 1, not a list"),
        ({"vocab": [["a"]]}, "model.vocab[0] is a list of 1, not a piece and its score"),
        ({"vocab": [["a", None]]}, "model.vocab[0] is a list of 2, not a piece and its score"),
        ({"vocab": ["a"]}, "model.vocab[0] is 'a', not a piece and its score"),
        ({"unk_id": "0"}, "model.unk_id is '0', not a whole number"),
        ({"unk_id": 99}, "model.unk_id is 99, of 10 pieces"),
        ({"unk_id": -1}, "model.unk_id is -1, of 10 pieces"),
    ],
)
def test_of_a_unigram_too(unigram, tmp_path, change, expected):
    with pytest.raises(ConfigError) as caught:
        opened(tmp_path, {**unigram, "model": {**unigram["model"], **change}})
    assert expected in caught.value.message


def test_sound_ones_are_opened(plain, unigram, tmp_path):
    assert opened(tmp_path, plain).lossless
    assert opened(tmp_path, {**plain, "added_tokens": None, "normalizer": None, "decoder": None}).vocabulary
    assert opened(tmp_path, unigram).vocabulary == 10
    for make in BASES.values():
        assert opened(tmp_path, json.loads(make())).vocabulary


def test_deep_sequences_are_refused(plain, tmp_path):
    node = {"type": "NFC"}
    for _ in range(200):
        node = {"type": "Sequence", "normalizers": [node]}
    with pytest.raises(ConfigError, match="a Sequence within more than"):
        opened(tmp_path, {**plain, "normalizer": node})


VALUES = (None, 7, -1, "x", [], {}, 1.5, 2**40, True, "", "é中", [["a", "b"]], {"type": "NFC"})


def mutated(document, chance):
    """The same with one value that is another, left out or there twice; and its place."""
    node, place = document, []
    while isinstance(node, (dict, list)) and node:
        key = chance.choice(list(node)) if isinstance(node, dict) else chance.randrange(len(node))
        place.append(key)
        value = node[key]
        if not isinstance(value, (dict, list)) or not value or chance.random() < 0.35:
            way = chance.choice(["leave out", "twice", *["other"] * 6])
            if way == "leave out":
                del node[key]
            elif way == "twice" and isinstance(node, list):
                node.append(copy.deepcopy(value))
            else:
                node[key] = chance.choice(VALUES)
            break
        node = value
    return place


@pytest.mark.parametrize("name", list(BASES))
def test_whatever_is_wrong_is_a_configuration_error(name, tmp_path):
    """Bounded and seeded; nothing else escapes, and of what is opened every id lies below the vocabulary."""
    chance, base, met = random.Random(name), json.loads(BASES[name]()), Counter()
    for _ in range(120):
        document = copy.deepcopy(base)
        place = mutated(document, chance)
        try:
            found = opened(tmp_path, document)
        except ConfigError as error:
            assert len(error.message.splitlines()) == 1, place
            met["refused"] += 1
        else:
            assert found.vocabulary > max(found.controls.values(), default=0)
            met["opened"] += 1
    assert met["refused"] > 20
    assert met["opened"] > 5
