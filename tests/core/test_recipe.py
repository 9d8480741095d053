"""Recipes: what is accepted, what is refused with the nearest name, what the effective recipe says."""

import pytest

from cleanpipe.errors import ConfigError
from cleanpipe.recipe import fingerprint, load_recipe, names

OWN_STAGE = '''
from dataclasses import dataclass
from typing import ClassVar
from collections.abc import Mapping
import pyarrow.compute as pc
from cleanpipe import batch as col
from cleanpipe.stage import Outcome, Stage, option

@dataclass(frozen=True, kw_only=True)
class NoShouting(Stage):
    """Drops pages that shout."""
    name: ClassVar[str] = "no_shouting"
    reads: ClassVar = frozenset({col.TEXT})
    reasons: ClassVar = frozenset({"shouting"})
    most: int = option(3, "exclamation marks allowed")
    weights: Mapping[str, float] = option({"a": 1.0}, "a mapping")
    words: tuple[str, ...] = option(("x",), "words")
    ratio: float | None = option(None, "none means off")

    def open(self):
        def step(rows):
            loud = pc.greater(pc.count_substring(rows.column(col.TEXT), "!"), self.most)
            return Outcome(rows, drops=pc.if_else(loud, "shouting", None))
        return step
'''


@pytest.fixture
def own(tmp_path):
    (tmp_path / "no_shouting.py").write_text(OWN_STAGE)
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine"\nstages = ["http_filter", "no_shouting.py"]\n[no_shouting]\nmost = 5\n')
    return path


def options(recipe, stage):
    return next(s for s in recipe.settings if s.ref.name == stage).options


@pytest.mark.parametrize("name", names())
def test_the_effective_recipe_reads_back_the_same(name, tmp_path):
    recipe = load_recipe(name)
    path = tmp_path / "again.toml"
    path.write_text(recipe.to_toml())
    again = load_recipe(path)
    assert again.canonical() == recipe.canonical()
    assert again.inputs == recipe.inputs


def test_a_stage_by_path_and_its_options(own):
    recipe = load_recipe(own)
    assert options(recipe, "no_shouting")["most"] == 5
    assert [s.name for s in recipe.pipeline().stages] == ["http_filter", "no_shouting"]


GOOD_SETS = [
    ("no_shouting.most=7", "most", 7),
    ("no_shouting.ratio=0.5", "ratio", 0.5),
    ("no_shouting.ratio=1", "ratio", 1.0),  # a whole number is a float
    ("no_shouting.ratio=none", "ratio", None),
    ('no_shouting.words=["a", "b"]', "words", ("a", "b")),
    ("no_shouting.words=a,b", "words", ("a", "b")),  # as people type it
    ("no_shouting.weights={en = 0.5}", "weights", {"en": 0.5}),
]


@pytest.mark.parametrize(("given", "name", "value"), GOOD_SETS)
def test_set_takes_what_the_option_is(own, given, name, value):
    assert options(load_recipe(own, [given]), "no_shouting")[name] == value


BAD_SETS = [
    ("no_shouting.mots=7", "no option 'mots'; did you mean 'most'"),
    ("no_shoting.most=7", "'no_shoting'; did you mean 'no_shouting'"),
    ("no_shouting.most=many", "expected a whole number"),
    ("no_shouting.most=1.5", "expected a whole number"),
    ("no_shouting.most=true", "expected a whole number"),  # True is an int to Python, not to a person
    ("no_shouting.enabled=1", "expected true or false"),
    ("most=7", "write stage.option=value"),
    ("no_shouting.most", "write stage.option=value"),
    ("read.max_boddy=1", "did you mean 'max_body'"),
]


@pytest.mark.parametrize(("given", "message"), BAD_SETS)
def test_set_refuses_with_the_nearest_name(own, given, message):
    with pytest.raises(ConfigError, match=message):
        load_recipe(own, [given])


BAD_FILES = [
    ('stages = ["http_filtre"]', "unknown stage 'http_filtre'; did you mean 'http_filter'"),
    ('stages = ["http_filter"]\n[http_filtr]\n', "did you mean 'http_filter'"),
    ('stages = ["http_filter"]\nstags = 1', "did you mean 'stages'"),
    ("stages = [", "not valid TOML"),
    ('name = "x"', "has a list `stages"),
    ('stages = ["missing.py"]', "stage file not found"),
    ('extends = "wob"\nstages = []', "not found"),
    ('extends = "loop"\nstages = []', "circle"),
]


EXTENDED = [
    # of a recipe that extends "web" or another: its text, the stages that run, comment
    ('extends = "web"\nstages = ["http_filter", "html_scrub"]', ["http_filter", "html_scrub"],
     "tables of stages that are not listed any more are no error: web switches some off"),
    ('extends = "web"\nstages = ["html_scrub", "gopher_quality"]', ["html_scrub"], "what stays listed stays off"),
    ('extends = "web"\nstages = ["html_scrub", "gopher_quality"]\n[gopher_quality]\nenabled = true',
     ["html_scrub", "gopher_quality"], "and is switched on by its own table"),
    ('extends = "middle"\nstages = ["html_scrub"]', ["html_scrub"], "of a recipe between, too"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "stages", "comment"), EXTENDED)
def test_a_recipe_with_a_list_of_its_own(tmp_path, text, stages, comment):
    middle = 'extends = "literal"\nstages = ["html_scrub", "./own.py"]\n[own]\nmost = 3'
    (tmp_path / "middle.toml").write_text(middle)
    (tmp_path / "recipe.toml").write_text(text)
    assert [s.name for s in load_recipe(tmp_path / "recipe.toml").pipeline().stages] == stages, comment


def test_a_table_of_a_stage_that_the_list_lacks_is_still_refused(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text('extends = "web"\nstages = ["html_scrub"]\n[gopher_quality]\nenabled = true')
    with pytest.raises(ConfigError, match="unknown table 'gopher_quality'"):
        load_recipe(path)


@pytest.mark.parametrize(("text", "message"), BAD_FILES)
def test_a_file_is_refused_with_the_way_out(tmp_path, text, message):
    path = tmp_path / "loop.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_recipe(path)


def test_unknown_recipe_offers_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'web'"):
        load_recipe("wbe")


def test_disabled_stages_do_not_run_but_their_text_rule_holds():
    recipe = load_recipe("web", ["utf8_normalize.enabled=false", "utf8_normalize.whitespace=space"])
    pipeline = recipe.pipeline()
    assert "utf8_normalize" not in [s.name for s in pipeline.stages]
    normalise = next(s for s in pipeline.complete() if s.name == "normalise")
    assert normalise.rule("a\n\n b") == "a b"


def test_fingerprint_is_of_the_values_not_of_their_order():
    assert fingerprint({"a": 1, "b": [1, 2]}) == fingerprint({"b": [1, 2], "a": 1})
    assert fingerprint({"a": 1}) != fingerprint({"a": 1.5})
