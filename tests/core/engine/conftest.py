"""The task kind that ends its worker (deadly.py), and a context with guards low enough for tests."""

import importlib
from pathlib import Path

import pytest

from cleanpipe.engine.base import Context
from cleanpipe.options import GuardOptions
from cleanpipe.recipe import Recipe


@pytest.fixture
def deadly(monkeypatch):
    """The module, found by this process and by those it starts."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    return importlib.import_module("deadly")


@pytest.fixture
def context(tmp_path):
    """A context whose guards are ``guards``: context(memory=…)."""

    def make(**guards):
        return Context(Recipe(name="test", guards=GuardOptions(**guards)), str(tmp_path / "out"), "run-1")

    return make
