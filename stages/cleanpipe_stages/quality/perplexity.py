"""N-gram perplexity by a KenLM model.

For the lines of ``lm_text.lines(lm_text.head(text, chars))`` that hold a token, with log10 probabilities by the model,
the start of each line as context and its end as one more token:

    perplexity = 10 ** (-sum(log10 p(line, </s> | <s>)) / sum(tokens(line) + 1))

It is the perplexity of a token. Figures of two models, or of one through two normalisers, cannot be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from cleanpipe.errors import ConfigError
from cleanpipe_stages.quality.lm_text import LM_TEXT_VERSION, head, lines

SHIPPED: Mapping[str, Path] = {
    "en": Path(__file__).parent / "models" / f"en.v{LM_TEXT_VERSION}.binary",
}

LIMITS = (10.0, 10_000.0)
"""Lowest and highest perplexity of running text under the shipped model; 0 would be off. Evidence: stages/README.md."""


def load_perplexity(model: Path, chars: int) -> Callable[[str], float | None]:
    """A function from text to perplexity, None where the text has no token; it reads the first ``chars`` code points.

    Raises:
        ConfigError: the file is missing or no KenLM model, or no KenLM reader is installed.
    """
    try:
        import kenlm
    except ImportError as e:
        raise ConfigError("no KenLM reader: pip install kenlm-ex, or set perplexity = 'off'") from e
    if not model.is_file():
        raise ConfigError(f"model file not found: {model}")
    try:
        quiet = kenlm.Config()
        quiet.show_progress = False  # an ARPA file, read as text, would draw a bar
        quiet.arpa_complain = kenlm.ARPALoadComplain.NONE
        score = kenlm.Model(str(model), quiet).score
    except (OSError, RuntimeError, ValueError) as e:  # ValueError: a file that is not even text, read as ARPA
        why = str(e).rpartition(" threw ")[2].rstrip(")") if not isinstance(e, ValueError) else "no ARPA, no binary"
        raise ConfigError(f"{model} cannot be read as a KenLM model: {why}") from e

    def perplexity(text: str) -> float | None:
        log10, tokens = 0.0, 0
        for line in lines(head(text, chars)):
            if words := len(line.split()):
                log10 += score(line)
                tokens += words + 1
        # 300: a model without <unk> says -100 a word, and a double ends at 1e308
        return float(10.0 ** min(300.0, -log10 / tokens)) if tokens else None

    return perplexity
