"""The libraries that know tokenizers, loaded when first used."""

from __future__ import annotations

import importlib
import os
from typing import Any

from cleanpipe.errors import ConfigError


def _load(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(f"{name} is not installed: pip install 'cleanpipe[tokenize]'") from error


def tokenizers() -> Any:
    """The module ``tokenizers``, on one thread: processes are this project's way to use many.

    Raises:
        ConfigError: not installed.
    """
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    return _load("tokenizers")


def tiktoken() -> Any:
    """The module ``tiktoken``.

    Raises:
        ConfigError: not installed.
    """
    return _load("tiktoken")


def sentencepiece() -> Any:
    """The module ``sentencepiece``.

    Raises:
        ConfigError: not installed.
    """
    return _load("sentencepiece")
