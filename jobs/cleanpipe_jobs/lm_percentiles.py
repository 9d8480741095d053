r"""Percentile tables of a model's perplexities: ``python -m cleanpipe_jobs.lm_percentiles``.

quality_score's ``min_percentile`` and ``max_percentile`` mean nothing without the texts that they are percentiles of.
This job measures a model on a reference that you name, one text a line of a JSON Lines file (``{"text": …}``), and
writes the table that ``quality_score.percentiles`` takes:

    python -m cleanpipe_jobs.lm_percentiles --model my.binary --language fr --texts good.jsonl \
        --reference "5,000 pages that editors kept, 2026" --out my.percentiles.json
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from cleanpipe.errors import ConfigError
from cleanpipe_stages.quality import percentiles
from cleanpipe_stages.quality.judge import Bounds
from cleanpipe_stages.quality.scorers.ngram import load_model


def table(model: Path, language: str, chars: int, texts: list[str], reference: str, out: Path, limits: Bounds) -> int:
    """Measure and write one table; of how many texts. Raises ConfigError where fewer than two have a perplexity."""
    measure = load_model(model, language, chars)
    found = [s.perplexity for s in map(measure, texts) if s.perplexity is not None]
    if len(found) < 2:
        raise ConfigError(f"{len(found)} texts with a perplexity: a reference needs more")
    percentiles.write(out, model, chars, reference, found, limits)
    return len(found)


def main(argv: list[str] | None = None) -> int:
    """Exit code 2 where the model or the texts cannot be used."""
    arguments = argparse.ArgumentParser(prog="python -m cleanpipe_jobs.lm_percentiles", description=__doc__)
    arguments.add_argument("--model", type=Path, required=True, help="KenLM model")
    arguments.add_argument("--language", required=True, help="its language, as language_id labels it")
    arguments.add_argument("--texts", type=Path, required=True, help='JSON Lines, {"text": ...} each')
    arguments.add_argument("--reference", required=True, help="what these texts are, in words")
    arguments.add_argument("--chars", type=int, default=1024, help="code points read, as quality_score.chars")
    arguments.add_argument("--limits", type=float, nargs=3, default=(0.0, 0.0, 0.0),
                           metavar=("LOW", "HIGH", "EASIEST"),
                           help="limits in force where no option sets one: lowest and highest perplexity, and highest "
                           "of the easiest tenth of paragraphs; 0: off")  # fmt: skip
    arguments.add_argument("--out", type=Path, required=True)
    o = arguments.parse_args(argv)
    try:
        rows = (json.loads(line) for line in o.texts.read_text(encoding="utf-8").splitlines() if line.strip())
        texts = [row["text"] for row in rows]
        n = table(o.model, o.language, o.chars, texts, o.reference, o.out, tuple(o.limits))
    except (ConfigError, OSError, ValueError, KeyError, TypeError) as e:
        print(f"error: {e}", file=sys.stderr)
        return 2
    print(f"{o.out}: {n:,} of {len(texts):,} texts")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
