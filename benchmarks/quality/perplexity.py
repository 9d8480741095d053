"""The shipped n-gram models: do they part prose from what is not, and what do quality_score's limits cost?

    python benchmarks/quality/perplexity.py --samples ../shared/samples [--card] [--load DIR] [--packages DIR]

``--card`` writes the figures into the models' card too; ``--load``: what the limits drop of the English pages of a
folder of ``warc/load-*.warc.gz`` with an ``oracle.jsonl.gz``: ``record_id``, ``language`` and ``kinds`` of each page.

``--packages`` (or CLEANPIPE_PACKAGES): a folder of .deb files, the manuals of which no model has read are measured.

English: main text of wcxb-dev's pages against the same pages' other lines (first 1,000 characters of each). Other
languages: the same of the few pages in them whose main text people marked; paragraphs against link lines of manuals;
news sentences against the same sentences' words as menu lines, as lists of keywords, shuffled, and against English.
AUC: the probability that a text of the first kind has the lower figure. Nothing was trained on any of them; the order
of the models of characters was chosen on the manuals.
"""

from __future__ import annotations

import argparse
import gzip
import html
import json
import math
import os
import random
import re
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.encoding import bytes_to_str, detect_encoding

from cleanpipe import batch as col
from cleanpipe.testing import batch, run
from cleanpipe_jobs.train_lm import CARD, MARK
from cleanpipe_jobs.train_lm_sources import in_language, is_prose
from cleanpipe_jobs.train_lm_tables import HELD_OUT
from cleanpipe_stages.language_id import LanguageId
from cleanpipe_stages.quality.lm_text import CHARACTER_LANGUAGES, head
from cleanpipe_stages.quality.scorers import Scored
from cleanpipe_stages.quality.scorers.ngram import LANGUAGES, MODELS, SHIPPED, load_model
from cleanpipe_stages.quality_score import QualityScore

CHARS, LEAST = 1000, 200
READ = ("article", "documentation")
_BULLET = re.compile(r"(?m)^[•◦▪·*-]\s*")

Measure = Callable[[str], Scored]
Page = tuple[str, str, str, str]
"""Page type, main text, the page's other lines, extracted text."""


def auc(low: Sequence[float], high: Sequence[float]) -> float:
    """P(a value of ``low`` < a value of ``high``), ties by half."""
    ordered = np.sort(np.array(high))
    below, upto = (np.searchsorted(ordered, np.array(low), side) for side in ("left", "right"))
    return float(1 - (below + upto).mean() / 2 / len(ordered))


def text_of(body: bytes, *, main: bool) -> str:
    """The page's text, one line a block, as tests of extractors take it."""
    page = bytes_to_str(body, detect_encoding(body) or "utf-8")
    return lines_of(extract_plain_text(page, main_content=main, alt_texts=False))


def lines_of(text: str) -> str:
    """Without blank lines, each line's blanks single."""
    return "\n".join(x for x in (" ".join(line.split()) for line in text.split("\n")) if x)


def wcxb(folder: Path) -> Iterator[Page]:
    """The pages whose main text has LEAST characters; other lines: those that do not stand in the main text."""
    for path in sorted((folder / "ground-truth").glob("*.json")):
        told = json.loads(path.read_text(encoding="utf-8"))
        truth = lines_of(told["ground_truth"]["main_content"] or "")
        if len(truth) < LEAST:
            continue
        page = gzip.decompress((folder / "html" / f"{path.stem}.html.gz").read_bytes())
        flat = " ".join(truth.split())
        rest = "\n".join(x for x in text_of(page, main=False).split("\n") if x not in flat)
        yield told["_internal"]["page_type"]["primary"], truth, rest, text_of(page, main=True)


def figures(measure: Measure, texts: Sequence[str]) -> tuple[list[float], list[float]]:
    """Perplexity, and geometric mean of the paragraphs' perplexities, of the texts that have one."""
    found = [s for s in map(measure, texts) if s.perplexity is not None]
    whole = [s.perplexity for s in found if s.perplexity is not None]
    return whole, [math.exp(sum(map(math.log, s.paragraphs)) / len(s.paragraphs)) for s in found]


def english(pages: Sequence[Page]) -> list[str]:
    """By page type; with and without the list marks that resiliparse writes into other lines and people did not."""
    measure = load_model(SHIPPED["en"], "en", CHARS)
    out = [
        "| pages of wcxb-dev | n | perplexity | paragraphs' mean | without list marks: perplexity | paragraphs' mean "
        "| perplexity, median and 95 % of main text |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    kinds = sorted({p[0] for p in pages})
    others = [k for k in kinds if k not in READ]
    groups = [("all", kinds), ("article, documentation", READ), ("the other types", others)]
    cleans: tuple[Callable[[str], str], ...] = (str, lambda t: _BULLET.sub("", t))
    rests = [figures(measure, [clean(p[2]) for p in pages if len(p[2]) >= LEAST]) for clean in cleans]
    for name, some in [*groups, *((k, [k]) for k in kinds)]:
        mine = [p for p in pages if p[0] in some]
        cells = []
        for clean, rest in zip(cleans, rests, strict=True):
            main = figures(measure, [clean(p[1]) for p in mine])
            cells += [f"{auc(a, b):.3f}" for a, b in zip(main, rest, strict=True)]
        middle, most = np.percentile(figures(measure, [p[1] for p in mine])[0], [50, 95])
        out.append(f"| {name} | {len(mine)} | {' | '.join(cells)} | {middle:,.0f}, {most:,.0f} |")
    return out


def news(samples: Path) -> dict[str, list[str]]:
    """Sentences by language."""
    rows = (samples / "lid" / "lingua-sentences.tsv").read_text(encoding="utf-8").splitlines()
    found: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        found[row.split("\t")[0]].append(row.split("\t")[-1].strip())
    return found


def words_of(text: str, language: str) -> list[str]:
    """Long words; where no blanks part them, runs of two characters."""
    if language in CHARACTER_LANGUAGES:
        plain = re.sub(r"\W", "", text)
        return [plain[i : i + 2] for i in range(0, len(plain) - 1, 4)]
    return [w for w in re.findall(r"\w+", text) if len(w) > 4]


def other_languages(samples: Path) -> list[str]:
    """Texts of four news sentences each."""
    sentences = news(samples)
    out = [
        "| language | model, MB | against menu lines | keyword lists | words shuffled | English "
        "| perplexity of news, median |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for language in LANGUAGES:
        rng = random.Random(1)
        measure = load_model(SHIPPED[language], language, 1024)
        texts = [sentences[language][i : i + 4] for i in range(0, len(sentences[language]), 4)]
        good = figures(measure, ["\n".join(t) for t in texts])[0]
        kinds: list[list[str]] = [[], [], []]
        for some in texts:
            words = words_of(" ".join(some), language)
            rng.shuffle(words)
            menu = [" ".join(words[i : i + 2]) for i in range(0, len(words), 2)]
            kinds[0].append("\n".join(x if language in CHARACTER_LANGUAGES else x.capitalize() for x in menu))
            kinds[1].append(" ".join(words))
            kinds[2].append("\n".join(shuffled(line, language, rng) for line in some))
        kinds.append(["\n".join(sentences["en"][i : i + 4]) for i in range(0, 60, 4)] if language != "en" else [])
        cells = [f"{auc(good, figures(measure, bad)[0]):.3f}" if bad else "" for bad in kinds]
        cells.append(f"{np.median(good):,.0f}")
        out.append(f"| {language} | {SHIPPED[language].stat().st_size / 1e6:.1f} | {' | '.join(cells)} |")
    return out


def marked(samples: Path) -> dict[str, list[tuple[str, str]]]:
    """By language, main text and other lines of the pages in other languages than English that people marked."""
    folder = samples / "pages"
    told = json.loads((folder / "article-extraction-benchmark" / "ground-truth.json").read_text("utf-8"))
    pages = [(t["articleBody"], folder / "article-extraction-benchmark" / "html" / f"{k}.html.gz")
             for k, t in sorted(told.items())]  # fmt: skip
    for path in sorted((folder / "wcxb-train" / "ground-truth").glob("*.json")):
        text = json.loads(path.read_text(encoding="utf-8"))["ground_truth"]["main_content"] or ""
        pages.append((text, folder / "wcxb-train" / "html" / f"{path.stem}.html.gz"))
    for page in sorted((folder / "readability").iterdir()):
        expected = gzip.decompress((page / "expected.html.gz").read_bytes())
        pages.append((text_of(expected, main=False), page / "source.html.gz"))
    languages = run(LanguageId(segments="off"), batch(text=[text for text, _ in pages])).scores[col.LANGUAGE]
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for (text, path), language in zip(pages, languages, strict=True):
        if language in LANGUAGES and language != "en":
            truth = lines_of(text)
            flat = " ".join(truth.split())
            whole = text_of(gzip.decompress(path.read_bytes()), main=False).split("\n")
            if rest := "\n".join(x for x in whole if x not in flat):
                found[language].append((truth, rest))
    return found


def on_web_pages(samples: Path) -> list[str]:
    """Main text against other lines, by language."""
    out = ["| language | pages | AUC, perplexity | paragraphs' mean | pages whose main text is lower |",
           "| --- | ---: | ---: | ---: | ---: |"]  # fmt: skip
    for language, pages in sorted(marked(samples).items()):
        measure = load_model(SHIPPED[language], language, CHARS)
        main, rest = (figures(measure, [p[i] for p in pages]) for i in (0, 1))
        right = sum(a < b for a, b in zip(main[0], rest[0], strict=True))
        cells = " | ".join(f"{auc(a, b):.3f}" for a, b in zip(main, rest, strict=True))
        out.append(f"| {language} | {len(pages)} | {cells} | {right} |")
    return out


def manual_lines(root: Path, pattern: str, language: str) -> tuple[list[str], list[str]]:
    """Of an unread package: texts of five paragraphs, and texts of up to 30 link lines, each once.

    A paragraph is what training takes for one, whatever it ends with. A link line is a link and nothing else, and no
    sentence (as the questions of a FAQ are); in zh, ja and ru half its letters are in the script.
    """
    end = "。" if language in CHARACTER_LANGUAGES else "."
    paragraphs: dict[str, None] = {}
    links: dict[str, None] = {}
    for page in sorted(p for p in root.glob(pattern) if p.is_file() and not p.is_symlink()):
        markup = page.read_text("utf-8", "replace")
        body = re.sub(r"<(pre|script|style)\b.*?</\1>", " ", markup, flags=re.DOTALL)
        lines = lines_of(extract_plain_text(body, main_content=False, list_bullets=False, alt_texts=False)).split("\n")
        found = re.findall(r"<a\b[^>]*>(.*?)</a>", markup, re.DOTALL)
        anchors = {" ".join(html.unescape(re.sub(r"<[^>]*>", "", a)).split()) for a in found}
        some = [x for x in lines if x in anchors and x[-1] not in ".!?。！？"]
        some = [x for x in some if language in ("de", "fr", "es") or in_language(x, language)]
        prose = [x for x in lines if x not in anchors and is_prose(x + end, language)]
        links.update(dict.fromkeys("\n".join(some[i : i + 30]) for i in range(0, len(some) - 9, 30)))
        paragraphs.update(dict.fromkeys("\n".join(prose[i : i + 5]) for i in range(0, len(prose), 5)))
    return list(paragraphs), list(links)


def manuals(packages: Path) -> list[str]:
    """Paragraphs against link lines of those packages of HELD_OUT that are there."""
    out = ["| language | packages | paragraphs | link lists | AUC, perplexity | paragraphs' mean | dropped |",
           "| --- | --- | ---: | ---: | ---: | ---: | ---: |"]  # fmt: skip
    for language, held in HELD_OUT.items():
        prose, links, names = list[str](), list[str](), list[str]()
        for name, pattern in held.items():
            debs = sorted(packages.rglob(f"{name}_*.deb"))
            with tempfile.TemporaryDirectory() as folder:
                if debs:
                    subprocess.run(["dpkg", "-x", debs[-1], folder], check=True)
                    some, others = manual_lines(Path(folder), pattern, language)
                    prose += some
                    links += others
                    names.append(name)
        if prose and links:
            measure = load_model(SHIPPED[language], language, 1024)
            low, high = figures(measure, prose), figures(measure, links)
            cells = " | ".join(f"{auc(a, b):.3f}" for a, b in zip(low, high, strict=True))
            lost = len(dropped([(t, language) for t in prose]))
            out.append(f"| {language} | {', '.join(names)} | {len(prose)} | {len(links)} | {cells} | {lost} |")
    return out


def shuffled(line: str, language: str, rng: random.Random) -> str:
    """The line's words, or characters, in another order."""
    parts = list(line) if language in CHARACTER_LANGUAGES else line.split()
    rng.shuffle(parts)
    return ("" if language in CHARACTER_LANGUAGES else " ").join(parts)


def fates(pages: Sequence[Page], samples: Path, load: Path | None = None) -> list[str]:
    """What the limits in force drop."""
    groups: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for kind, truth, rest, extracted in pages:
        which = "article, documentation" if kind in READ else "other types"
        groups[f"wcxb-dev main text, {which}"].append((truth, "en"))
        groups["wcxb-dev extracted (resiliparse)"].append((extracted, "en"))
        groups["wcxb-dev other lines"].append((rest, "en"))
    told = json.loads((samples / "pages" / "article-extraction-benchmark" / "ground-truth.json").read_text("utf-8"))
    bodies = (t["articleBody"] for t in told.values())
    groups["article-extraction-benchmark, English articles"] = [
        (t, "en") for t in bodies if {"the", "and", "of"} <= {*t.lower().split()}
    ]
    for language, sentences in news(samples).items():
        if language in LANGUAGES:
            groups[f"news, {language}"] = [("\n".join(sentences[i : i + 4]), language) for i in range(0, 60, 4)]
    rng = random.Random(2)
    letters = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz    ", k=600)) for _ in range(50)]
    for language in ("en", "de", "ru", "zh"):
        groups[f"letters at random, said to be {language}"] = [(t, language) for t in letters]
    for kind, text in load_pages(load) if load else ():
        groups[f"load corpus, {kind}"].append((text, "en"))
    out = ["| texts | n | dropped | by reason |", "| --- | ---: | ---: | --- |"]
    for name, some in groups.items():
        reasons = dropped(some)
        by = ", ".join(f"{r} {reasons.count(r)}" for r in sorted(set(reasons)))
        out.append(f"| {name} | {len(some)} | {100 * len(reasons) / len(some):.1f} % | {by} |")
    return out


def dropped(texts: Sequence[tuple[str, str]]) -> list[str]:
    """The reasons of those (text, language) that quality_score drops at its defaults."""
    columns = {
        "text": pa.array([t for t, _ in texts], pa.large_string()),
        "language": pa.array([k for _, k in texts], pa.string()),
        "doc_id": pa.array([i.to_bytes(16, "big") for i in range(len(texts))], pa.binary(16)),
    }
    drops = QualityScore().open()(pa.RecordBatch.from_pydict(columns)).drops
    return [r for r in ([] if drops is None else drops.to_pylist()) if r]


def load_pages(folder: Path) -> Iterator[tuple[str, str]]:
    """(kind, extracted text) of the English pages of a load corpus."""
    from warcio.archiveiterator import ArchiveIterator

    with gzip.open(folder / "oracle.jsonl.gz", "rt", encoding="utf-8") as f:
        oracle = {row["record_id"]: row for row in map(json.loads, f)}
    other = {"status", "other_type", "type_lie", "encoding_lie"}
    for path in sorted((folder / "warc").glob("load-*.warc.gz")):
        with path.open("rb") as f:
            for record in ArchiveIterator(f):
                row = oracle.get((record.rec_headers.get_header("WARC-Record-ID") or "").strip("<>"))
                english = record.rec_type == "response" and row is not None and row["language"][:2] == "en"
                if row is not None and english and not other & {*row["kinds"]}:
                    text = text_of(record.content_stream().read(), main=True)
                    kinds = row["kinds"] or ["plain"]
                    if len(text) >= 100:
                        yield kinds[-1] if kinds[0] == "gibberish" else kinds[0], text


def speed(pages: Sequence[Page], samples: Path) -> list[str]:
    """CPU time, best of three."""
    out = ["| language | texts | MB/s on the capped prefix, normaliser and KenLM | µs a text |",
           "| --- | ---: | ---: | ---: |"]  # fmt: skip
    sentences = news(samples)
    for language in LANGUAGES:
        joined = [" ".join(sentences[language][i : i + 10]) for i in range(50)] * 4
        texts = [head(t, 1024) for t in ([p[3] for p in pages] if language == "en" else joined) if t]
        measure = load_model(SHIPPED[language], language, 1024)
        best = math.inf
        for _ in range(3):
            began = time.process_time()
            for text in texts:
                measure(text)
            best = min(best, time.process_time() - began)
        size = sum(len(t.encode()) for t in texts)
        out.append(f"| {language} | {len(texts)} | {size / best / 1e6:.1f} | {1e6 * best / len(texts):.0f} |")
    return out


def measure(samples: Path, packages: Path | None = None) -> str:
    """The section of quality.md. packages: CLEANPIPE_PACKAGES where it is None."""
    packages = packages or (Path(p) if (p := os.environ.get("CLEANPIPE_PACKAGES")) else None)
    pages = list(wcxb(samples / "pages" / "wcxb-dev"))
    return "\n".join([
        "## Perplexity: n-grams",
        "",
        "AUC of main text against the other lines of the same 238 pages; required: .94. `perplexity` weighs every "
        "token alike, `quality_score_paragraph_mean` every line: those of a menu count as much as a paragraph.",
        "",
        *english(pages),
        "",
        "`quality_score_paragraph_mean` reaches .94 over all, `perplexity` on articles and documentation alone. The "
        "main text of listings, collections and products is itself lists of names: there the two kinds differ by "
        "meaning, not by wording, and no n-gram model parts them.",
        "",
        "Other languages; required: .90. Web pages whose main text people marked (article-extraction-benchmark, "
        "wcxb-train, readability; no model has read any), against the other lines of the same pages:",
        "",
        *on_web_pages(samples),
        "",
        "Manuals that no model has read (in CLEANPIPE_PACKAGES), texts of five paragraphs against link lines:",
        "",
        *(manuals(packages) if packages else ["(not measured: CLEANPIPE_PACKAGES is not set)"]),
        "",
        "Texts of four news sentences each, which are strange to models that have read manuals and tales:",
        "",
        *other_languages(samples),
        "",
        "What quality_score's limits drop:",
        "",
        *fates(pages, samples),
        "",
        *speed(pages, samples),
        "",
        f"kenlm-ex {version('kenlm-ex')}, resiliparse {version('resiliparse')}.",
    ])  # fmt: skip


def main() -> int:
    """Prints the section, or what was asked for."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--samples", type=Path, required=True)
    arguments.add_argument("--card", action="store_true")
    arguments.add_argument("--load", type=Path)
    arguments.add_argument("--packages", type=Path, help="folder of .deb files; default: CLEANPIPE_PACKAGES")
    options = arguments.parse_args()
    if options.load:
        print(*fates((), options.samples, options.load), sep="\n")
        return 0
    section = measure(options.samples, options.packages)
    if options.card:
        card = MODELS / CARD
        before = card.read_text(encoding="utf-8").partition(MARK)[0]
        card.write_text(f"{before}{MARK}\n## Figures\n\n{section.partition(chr(10) * 2)[2]}\n", encoding="utf-8")
    print(section)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
