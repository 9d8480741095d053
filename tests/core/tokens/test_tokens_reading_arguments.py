"""Arguments of plans, readers, data sets and decisions: one rule for whole numbers; what is wrong is named."""

import numpy as np
import pytest
from made_tokens import doc_id, make_store

from cleanpipe.errors import ConfigError
from cleanpipe.tokens import Blocks, Plan, Reader, TokenDataset, open_tokens
from cleanpipe.tokens.arguments import whole
from cleanpipe.tokens.decisions import Decision, append, load

NAN = float("nan")
BODIES = [[3 + (i * j) % 900 for j in range(5 + i % 40)] for i in range(40)]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return open_tokens(make_store(tmp_path_factory.mktemp("tokens") / "t", BODIES))


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1, 1), (8, 8), (np.int64(3), 3), (np.uint8(8), 8), (np.array(5), 5)],
)
def test_whole_numbers_of_any_type(value, expected):
    found = whole("n", value, 1, 8)
    assert found == expected and type(found) is int


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "n 0: 1 to 8"), (9, "n 9: 1 to 8"), (-(10**30), "n -1000"), (1.0, "n 1.0: a whole number, 1 to 8"),
        (NAN, "n nan: a whole number, 1 to 8"), ("4", "n '4': a whole number, 1 to 8"), (None, "n None: a whole"),
        (True, "n True: a whole number"), (np.bool_(True), "a whole number"), (np.float64(2), "a whole number"),
        ([1], r"n \[1\]: a whole number"),
        ("x" * 900, "n 'x{58}…: a whole number"),
    ],
)  # fmt: skip
def test_others_are_named_with_their_range(value, said):
    with pytest.raises(ConfigError, match=f"^{said}" if said.startswith("n ") else said):
        whole("n", value, 1, 8)


def test_a_number_that_python_does_not_spell_is_refused_too():
    with pytest.raises(ConfigError, match="n a number of thousands of digits: 1 to 8"):
        whole("n", 10**5000, 1, 8)


def test_without_an_upper_bound_there_is_still_one():
    assert whole("n", 1 << 60, 0) == 1 << 60
    for value, said in ((-1, "n -1: at least 0"), ((1 << 60) + 1, "at most 1,152,921,504,606,846,976")):
        with pytest.raises(ConfigError, match=said):
            whole("n", value, 0)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"length": NAN}, "length nan"), ({"length": 64.0}, "length 64.0"), ({"length": "64"}, "length '64'"),
        ({"length": True}, "length True"), ({"seed": 1.5}, "seed 1.5"), ({"seed": 1 << 63}, "seed 9223372036854775808"),
        ({"workers": 0}, "workers 0: at least 1"), ({"workers": -3, "packing": "best-fit"}, "workers -3"),
        ({"blocks": Blocks(1.5, 2)}, "block 1.5"), ({"blocks": Blocks(8, 0)}, "window 0"), ({"blocks": 7}, "blocks 7"),
        ({"blocks": Blocks(1 << 62, 4)}, "block 4611686018427387904"),
        ({"weights": 5}, "weights 5: a list"), ({"weights": "1"}, "weights '1'"), ({"weights": ["a"]}, "weight 'a'"),
        ({"weights": [1, 2]}, "1 are needed, 2 given"), ({"changes": 5}, "changes 5"), ({"changes": [5]}, "changes 5"),
        ({"changes": [(1, [1], 2)]}, "changes "), ({"changes": [(NAN, [1])]}, "changes from sequence nan: a whole"),
        ({"changes": [(5.5, [1])]}, "changes from sequence 5.5"), ({"changes": [(0, [1])]}, "sequence 0: at least 1"),
        ({"changes": [(-5, [1])]}, "changes from sequence -5"), ({"changes": [(2**70, [1])]}, "1180591620717411303424"),
        ({"changes": [(5, 1)]}, "weights 1: a list"), ({"changes": [(5, [1]), (5, [1])]}, "behind sequence 5"),
        ({"packing": None}, "packing None"), ({"shuffle": 5}, "shuffle 5"), ({"cache": 5}, "cache 5"),
    ],
)  # fmt: skip
def test_a_plan_says_which_argument_is_wrong(store, wrong, said):
    with pytest.raises(ConfigError, match=said):
        Plan(store, **{"length": 32, **wrong})


@pytest.mark.parametrize("stores", ["a/path", ["a/path"], 5, [None], b"path"])
def test_a_plan_takes_open_stores(stores):
    with pytest.raises(ConfigError, match=r"open it first, with open_tokens"):
        Plan(stores, length=32)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"batch": 0}, "batch 0: at least 1"), ({"batch": -4}, "batch -4: at least 1"), ({"batch": NAN}, "batch nan"),
        ({"batch": 4.0}, "batch 4.0: a whole number, at least 1"), ({"batch": "4"}, "batch '4'"),
        ({"batch": True}, "batch True"), ({"batch": 5, "world": 2}, "batch 5 .* multiple of 2 ranks"),
        ({"world": 0}, "world 0: at least 1"), ({"world": 1.0}, "world 1.0"), ({"rank": NAN}, "rank nan"),
        ({"rank": -1}, "rank -1: 0 to 0 of world=1"), ({"rank": 4, "world": 4}, "rank 4: 0 to 3 of world=4"),
        ({"micro": 0}, "micro 0: at least 1"), ({"micro": NAN}, "micro nan"), ({"micro": 2.0}, "micro 2.0"),
        ({"epochs": 0}, "epochs 0: at least 1"), ({"epochs": NAN}, "epochs nan: a whole number"),
        ({"epochs": 1.3}, "epochs 1.3"), ({"epochs": -1}, "epochs -1"), ({"epochs": 10**30}, "epochs 1000000"),
        ({"pad": 1.5}, "pad 1.5: a whole number, an id"), ({"pad": NAN}, "pad nan"), ({"pad": -1}, "pad -1: an id"),
        ({"pad": "0"}, "pad '0'"), ({"prefetch": -1}, "prefetch -1: 0 to 4,096"), ({"prefetch": NAN}, "prefetch nan"),
        ({"prefetch": 10**9}, "prefetch 1000000000"), ({"labels": None}, "labels"), ({"positions": 1}, "positions"),
    ],
)  # fmt: skip
def test_a_reader_says_which_argument_is_wrong(store, wrong, said):
    with pytest.raises(ConfigError, match=said):
        Reader(Plan(store, length=32), **{"batch": 4, **wrong})


@pytest.mark.parametrize("epochs", [0, -1, NAN, 1.3, "1", None, 10**30])
def test_a_data_set_is_read_at_least_once(store, epochs):
    with pytest.raises(ConfigError, match="epochs "):
        TokenDataset(Plan(store, length=32), epochs=epochs)


def test_numbers_of_numpy_are_numbers(store):
    plan = Plan(store, length=np.int64(32), seed=np.uint32(3), workers=np.int8(1), changes=[(np.int64(4), np.ones(1))])
    same = Plan(store, length=32, seed=3, changes=[(4, [1])])
    assert plan.fingerprint == same.fingerprint and plan.mixture.version(9) == same.mixture.version(9)
    got = next(iter(Reader(plan, np.int64(4), np.int16(0), np.int32(1), epochs=np.int8(2), prefetch=np.int8(1))))
    assert got.input_ids.tolist() == next(iter(Reader(same, 4))).input_ids.tolist()
    assert TokenDataset(plan, epochs=np.int64(2))[np.int32(3)]["sequences"].tolist() == [3]
    with pytest.raises(TypeError):
        TokenDataset(plan)[1.7]


@pytest.mark.parametrize("tokenizer", [5, b"gpt2", 1.5, {}, object()])
def test_a_store_says_that_this_is_no_tokenizer(store, tokenizer):
    with pytest.raises(ConfigError, match=r"tokenizer .*: a name, a path"):
        open_tokens(store.root, tokenizer=tokenizer)


# --- decisions by the API


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"from_sequence": 1.5}, "from sequence 1.5"), ({"from_sequence": True}, "from sequence True"),
        ({"from_sequence": NAN}, "from sequence nan"), ({"from_sequence": "a"}, "from sequence 'a'"),
        ({"from_sequence": 2**63 - 1}, "from sequence 9223372036854775807"), ({"weight": True}, "weight True"),
        ({"weight": "a"}, "weight 'a'"), ({"weight": 10**400}, "weight 1000"), ({"weight": 1j}, "weight 1j"),
        ({"weight": [1]}, r"weight \[1\]"), ({"key": None}, "key None: a text"), ({"key": 5}, "key 5: a text"),
        ({"key": b"0f" * 16}, "key b'"), ({"reason": None}, "reason None"), ({"author": 7}, "author 7"),
        ({"plan": []}, r"plan \[\]"), ({"time": 5}, "time 5"), ({"action": None}, "None is no action"),
        ({"key_kind": 5}, "weight by 5"), ({"key": "0" * 5000}, "32 hex digits"),
    ],
)  # fmt: skip
def test_a_decision_says_what_is_wrong_with_it(tmp_path, wrong, said):
    given = {"action": "weight", "key_kind": "doc_id", "key": doc_id(1).hex(), "weight": 0.5, **wrong}
    with pytest.raises(ConfigError, match=said) as caught:
        append(tmp_path, [Decision(**given)])
    assert len(str(caught.value)) < 200
    assert load(tmp_path).version == 0


@pytest.mark.parametrize("key", ["1" * 5000, "9" * 19, "9" * 18])
def test_a_line_of_thousands_of_digits_is_no_line(tmp_path, key):
    append(tmp_path, [Decision("mask", "url", "a.example/")])
    with pytest.raises(ConfigError, match=r"a line is a number|there is no line"):
        append(tmp_path, [Decision("revoke", "line", key)])


def test_a_decision_takes_numbers_of_numpy(tmp_path):
    (line,) = append(tmp_path, [Decision("weight", "url", "a", weight=np.float32(0.5), from_sequence=np.int64(7))])
    assert (line.weight, line.from_sequence, type(line.from_sequence)) == (0.5, 7, int)
    assert load(tmp_path).lines == (line,)
