"""The percentile tables of the shipped n-gram models: ``python -m cleanpipe_jobs.train_lm_tables --samples DIR``.

The reference of English is the main text that people marked on 1,047 web pages (``samples/pages/wcxb-train``). For the
other languages no such pages are at hand: theirs is the main content of packaged manuals' pages that no model was
trained on. ``LIMITS`` are in force where quality_score's options set none.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from cleanpipe_jobs.lm_percentiles import table
from cleanpipe_jobs.train_lm_fetch import fetch_debian
from cleanpipe_jobs.train_lm_sources import in_language, main_text
from cleanpipe_stages.quality.judge import Bounds
from cleanpipe_stages.quality.scorers.ngram import LANGUAGES, MODELS, SHIPPED

CHARS, LEAST = 1024, 200
WCXB = "main text of the 1,047 pages of wcxb-train (Web Content Extraction Benchmark, CC BY 4.0)"

_APACHE = "usr/share/doc/apache2-doc/manual"
_REFERENCE = "usr/share/debian-reference/*.html"
HELD_OUT: Mapping[str, Mapping[str, str]] = {
    "de": {"apache2-doc": f"{_APACHE}/de/**/*.html*", "debian-reference-de": _REFERENCE},
    "fr": {"apache2-doc": f"{_APACHE}/fr/**/*.html*", "debian-reference-fr": _REFERENCE},
    "es": {"apache2-doc": f"{_APACHE}/es/**/*.html*", "debian-reference-es": _REFERENCE},
    "ru": {"apache2-doc": f"{_APACHE}/ru/**/*.html*", "maint-guide-ru": "usr/share/doc/maint-guide-ru/html/*.html",
           "debian-faq-ru": "usr/share/doc/debian/FAQ/ru/*.html"},
    "zh": {"apache2-doc": f"{_APACHE}/zh-cn/**/*.html*", "debian-reference-zh-cn": _REFERENCE,
           "debian-reference-zh-tw": _REFERENCE,
           "maint-guide-zh-cn": "usr/share/doc/maint-guide-zh-cn/html/*.html"},
    "ja": {"apache2-doc": f"{_APACHE}/ja/**/*.html*", "debian-reference-ja": _REFERENCE},
}  # fmt: skip
"""Packages, and where their pages lie, that no model of the language has read."""

_WORDS, _CHARACTERS = (3.0, 40_000.0, 40_000.0), (1.5, 5_000.0, 5_000.0)
LIMITS: Mapping[str, Bounds] = {
    "en": (3.0, 30_000.0, 30_000.0), "de": _WORDS, "fr": _WORDS, "es": _WORDS, "ru": _WORDS,
    "zh": _CHARACTERS, "ja": _CHARACTERS,
}  # fmt: skip


def wcxb(samples: Path) -> Iterator[str]:
    """Main text of the pages of wcxb-train, one line a block."""
    for path in sorted((samples / "pages" / "wcxb-train" / "ground-truth").glob("*.json")):
        told = json.loads(path.read_text(encoding="utf-8"))["ground_truth"]["main_content"] or ""
        text = "\n".join(x for x in (" ".join(line.split()) for line in told.split("\n")) if x)
        if len(text) >= LEAST:
            yield text


def held_out(language: str, work: Path) -> tuple[list[str], str]:
    """Main content of the held-out pages that are in the language, and what they are, in words."""
    texts: dict[str, None] = {}
    named = []
    for package, pattern in HELD_OUT[language].items():
        root, version = fetch_debian(package, work)
        named.append(f"{package} {version}")
        for page in sorted(p for p in root.glob(pattern) if p.is_file() and not p.is_symlink()):
            lines = (" ".join(line.split()) for line in main_text(page))
            text = "\n".join(line for line in lines if line)
            if len(text) >= LEAST and in_language(text[:CHARS], language):
                texts[text] = None
    return list(texts), f"main content of the {language} pages of {', '.join(named)}"


def main(argv: list[str] | None = None) -> int:
    """Measure the shipped models and write their tables beside them."""
    arguments = argparse.ArgumentParser(prog="python -m cleanpipe_jobs.train_lm_tables", description=__doc__)
    arguments.add_argument("--work", type=Path, default=Path("build/lm"), help="folder for packages")
    arguments.add_argument("--samples", type=Path, required=True, help="folder with pages/wcxb-train")
    options = arguments.parse_args(argv)
    for language in LANGUAGES:
        texts, reference = (
            (list(wcxb(options.samples)), WCXB) if language == "en" else held_out(language, options.work.resolve())
        )
        out = MODELS / f"{language}.percentiles.json"
        n = table(SHIPPED[language], language, CHARS, texts, reference, out, LIMITS[language])
        print(f"{out}: {n:,} texts", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
