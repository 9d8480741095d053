"""Hooks of a stage that fail or give nonsense stop a run before it starts, with the stage and the hook named."""

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pytest

from cleanpipe.errors import StageContractError
from cleanpipe.recipe import load_recipe
from cleanpipe.stage import Cut, Judge, Outcome, Stage, option
from cleanpipe.stage_hooks import prove_hooks

CUT = ("odd_score", ">=", 0.5, "least", "odd")


@dataclass(frozen=True, kw_only=True)
class Odd(Stage):
    """A stage that says what it is told to."""

    name: ClassVar = "odd"
    scores: ClassVar = {"odd_score": pa.float64()}
    reasons: ClassVar = frozenset({"odd"})
    least: float = option(0.5, "least score")

    def open(self):
        return Outcome


def odd(**hooks):
    return type("Odd", (Odd,), hooks)()


def raises(self):
    raise ValueError("broken")


BAD = [
    ("in_words: raised ValueError: broken", {"in_words": raises}),
    ("in_words: gave NoneType", {"in_words": lambda self: None}),
    ("meanings: is no mapping", {"meanings": 5}),
    ("meanings: is no mapping", {"meanings": {"odd_score": 5}}),
    ("cuts: raised ValueError: broken", {"cuts": raises}),
    ("cuts: raised TypeError", {"cuts": lambda self: None}),
    ("cuts: gave str, not a Cut", {"cuts": lambda self: ["x"]}),
    *[
        (f"cuts: {said}", {"cuts": lambda self, cut=(*CUT[:at], what, *CUT[at + 1 :]): [Cut(*cut)]})
        for at, what, said in [
            (0, "other", "names the score 'other'"),
            (1, "!=", "odd_score != 0.5"),
            (2, float("inf"), "odd_score >= inf"),
            (2, float("nan"), "odd_score >= nan"),
            (3, "most", "names the option 'most'"),
            (4, "even", "names the reason 'even'"),
        ]
    ],
    ("judge: raised ValueError: broken", {"judge": raises}),
    ("judge: gave int", {"judge": lambda self: 5}),
    ("judge: names the option 'most'", {"judge": lambda self: Judge(frozenset(), frozenset({"most"}), len)}),
]  # fmt: skip


@pytest.mark.parametrize(("said", "hooks"), BAD, ids=[b[0] for b in BAD])
def test_a_bad_hook_is_named(said, hooks):
    with pytest.raises(StageContractError) as caught:
        prove_hooks(odd(**hooks))
    assert "odd" in str(caught.value)
    assert said in str(caught.value)


def test_good_hooks_pass():
    prove_hooks(odd())
    prove_hooks(odd(cuts=lambda self: [Cut(*CUT)], judge=lambda self: Judge(frozenset(), frozenset({"least"}), len)))
    for stage in load_recipe("web").pipeline().complete():
        prove_hooks(stage)
