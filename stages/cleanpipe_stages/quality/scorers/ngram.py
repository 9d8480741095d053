"""N-gram perplexity by a KenLM model of the text's language.

For the lines of the text's first ``chars`` code points that hold a token (``lm_text``), with log10 probabilities by the
model, the start of each line as context and its end as one more token:

    perplexity = 10 ** (-sum(log10 p(line, </s> | <s>)) / sum(tokens(line) + 1))

over all lines, and of each line alone for its paragraphs. It is the perplexity of a token: of a word, in zh and ja of a
code point. Figures of two models, or of one through two normalisers, cannot be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cleanpipe.errors import ConfigError
from cleanpipe_stages.quality.lm_text import CHARACTER_LANGUAGES, LM_TEXT_VERSION, head, tokeniser
from cleanpipe_stages.quality.scorers import NOT_MEASURED, Scored, Scorer, ScorerOptions

MODELS = Path(__file__).parent.parent / "models"
LANGUAGES = ("en", "de", "fr", "es", "ru", "zh", "ja")
SHIPPED: Mapping[str, Path] = {k: MODELS / f"{k}.v{LM_TEXT_VERSION}.binary" for k in LANGUAGES}

_NO_UNKNOWN = -99.0  # KenLM gives -100 to every unknown word where the model has no <unk>


def files(options: ScorerOptions) -> Mapping[str, Path]:
    """The models, by language."""
    return {options.language: Path(options.model)} if options.model else SHIPPED


def percentiles(options: ScorerOptions) -> Mapping[str, Path]:
    """The shipped models' tables, by language."""
    return {} if options.model else {k: MODELS / f"{k}.percentiles.json" for k in LANGUAGES}


def open_scorer(options: ScorerOptions) -> Scorer:
    """Of each text by the model of its language, which is loaded when the first text of that language comes.

    Raises:
        ConfigError: a model is missing or is none, or no KenLM reader is installed.
    """
    models = files(options)
    for path in models.values():
        if not path.is_file():
            raise ConfigError(f"model file not found: {path}")
    opened: dict[str, Callable[[str], Scored]] = {}
    if options.model:
        opened[options.language] = load_model(models[options.language], options.language, options.chars)
    else:
        _kenlm()

    def score(texts: Sequence[str], languages: Sequence[str]) -> list[Scored]:
        for language in set(languages) & models.keys() - opened.keys():
            opened[language] = load_model(models[language], language, options.chars)
        return [
            opened[language](text) if language in opened else NOT_MEASURED
            for text, language in zip(texts, languages, strict=True)
        ]

    return score


def load_model(model: Path, language: str, chars: int) -> Callable[[str], Scored]:
    """A function from a text of ``language`` to its figures; it reads the first ``chars`` code points.

    Raises:
        ConfigError: the file is no KenLM model, has no ``<unk>``, or no KenLM reader is installed.
    """
    kenlm, tokens_of, whole_words = _kenlm(), tokeniser(language), language not in CHARACTER_LANGUAGES
    try:
        quiet = kenlm.Config()
        quiet.show_progress = False  # an ARPA file, read as text, would draw a bar
        quiet.arpa_complain = kenlm.ARPALoadComplain.NONE
        opened = kenlm.Model(str(model), quiet)
    except (OSError, RuntimeError, ValueError) as e:  # ValueError: a file that is not even text, read as ARPA
        why = str(e).rpartition(" threw ")[2].rstrip(")") if not isinstance(e, ValueError) else "no ARPA, no binary"
        raise ConfigError(f"{model} cannot be read as a KenLM model: {why}") from e
    if opened.score(b"\xf3\xa0\x80\xa1", bos=False, eos=False) < _NO_UNKNOWN:  # a code point that no text has
        raise ConfigError(f"{model} has no <unk>: KenLM would give 1e-100 to every unknown word; add it to the model")
    score = opened.score

    def measure(text: str) -> Scored:
        logs: list[float] = []
        log10 = 0.0
        tokens = 0
        for line, n in tokens_of(head(text, chars) if whole_words else text[:chars]):
            found = score(line)
            log10 += found
            tokens += n + 1
            logs.append(found / (n + 1))
        return Scored(10.0 ** (-log10 / tokens), [10.0**-x for x in logs]) if tokens else NOT_MEASURED

    return measure


def _kenlm() -> Any:
    try:
        import kenlm
    except ImportError as e:
        raise ConfigError("no KenLM reader: pip install kenlm-ex, or set perplexity = 'off'") from e
    return kenlm
