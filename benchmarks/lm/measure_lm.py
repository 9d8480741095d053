"""What the shipped n-gram model and quality_score's limits do on pages with known main text.

    python benchmarks/lm/measure_lm.py --samples ../shared/samples [--model FILE] [--card] [--load DIR]

Perplexity: for the pages of ``samples/pages/wcxb-dev``, how often is the main text more predictable than the same
page's other lines, than its own words in another order, and than German text (first 1,000 characters)? AUC: the
probability that a text of the first kind scores lower than one of the second. ``--card`` writes the figures into the
model's card. ``--load DIR``: the fate of each kind of page in a corpus of build_load.py.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.encoding import bytes_to_str, detect_encoding

from cleanpipe_jobs.train_lm import CARD, MARK
from cleanpipe_stages.quality.perplexity import SHIPPED, load_perplexity
from cleanpipe_stages.quality_score import QualityScore

CHARS, LEAST = 1000, 200


def auc(low: Sequence[float], high: Sequence[float]) -> float:
    """P(a value of ``low`` < a value of ``high``), ties by half."""
    ordered = np.sort(np.array(high))
    below, upto = (np.searchsorted(ordered, np.array(low), side) for side in ("left", "right"))
    return float(1 - (below + upto).mean() / 2 / len(ordered))


def text_of(html: bytes, *, main: bool) -> str:
    """The page's text, one line a block, as tests of extractors take it."""
    page = bytes_to_str(html, detect_encoding(html) or "utf-8")
    found = extract_plain_text(page, main_content=main, alt_texts=False)
    return "\n".join(x for x in (" ".join(line.split()) for line in found.split("\n")) if x)


def pages(folder: Path) -> Iterator[tuple[str, str, str, str]]:
    """(page type, main text, other lines, extracted text) of the pages whose main text has 200 characters."""
    for path in sorted((folder / "ground-truth").glob("*.json")):
        told = json.loads(path.read_text(encoding="utf-8"))
        lines = (told["ground_truth"]["main_content"] or "").split("\n")
        truth = "\n".join(x for x in (" ".join(line.split()) for line in lines) if x)
        if len(truth) < LEAST:
            continue
        html = gzip.decompress((folder / "html" / f"{path.stem}.html.gz").read_bytes())
        flat = " ".join(truth.split())
        rest = "\n".join(x for x in text_of(html, main=False).split("\n") if x not in flat)
        yield told["_internal"]["page_type"]["primary"], truth, rest, text_of(html, main=True)


def shuffled(text: str, rng: random.Random) -> str:
    words = text[:CHARS].split()
    rng.shuffle(words)
    return " ".join(words)


def perplexity_table(samples: Path, model: Path) -> list[str]:
    perplexity, rng = load_perplexity(model, CHARS), random.Random(1)

    def measured(texts: Sequence[str]) -> list[float]:
        return [p for p in map(perplexity, texts) if p is not None]

    rows = (samples / "lid" / "lingua-sentences.tsv").read_text(encoding="utf-8").splitlines()
    german = [row.split("\t")[-1] for row in rows if row.startswith("de\t")]
    foreign = measured(["\n".join(german[i : i + 8]) for i in range(0, len(german) - 8, 2)])
    out = ["| pages of wcxb-dev | n | AUC other lines | AUC shuffled | AUC German | median, 95 % of main text |"]
    out.append("| --- | ---: | ---: | ---: | ---: | ---: |")
    rows_by: dict[str, list[tuple[str, str, str, str]]] = defaultdict(list)
    for row in pages(samples / "pages" / "wcxb-dev"):
        rows_by["all"].append(row)
        rows_by["article, documentation" if row[0] in ("article", "documentation") else "the other types"].append(row)
    for kind, some in rows_by.items():
        truth = measured([r[1] for r in some])
        rest = measured([r[2] for r in some if len(r[2]) >= LEAST])
        mixed = measured([shuffled(r[1], rng) for r in some])
        middle, most = np.percentile(truth, [50, 95])
        areas = " | ".join(f"{auc(truth, x):.3f}" for x in (rest, mixed, foreign))
        out.append(f"| {kind} | {len(some)} | {areas} | {middle:,.0f}, {most:,.0f} |")
    return out


def reasons(texts: Sequence[str], language: str = "en") -> Counter[str]:
    """How many texts quality_score with its defaults drops, by reason; "kept" for the others."""
    columns = {"text": pa.array(texts, pa.large_string()), "language": pa.array([language] * len(texts), pa.string())}
    drops = QualityScore().open()(pa.RecordBatch.from_pydict(columns)).drops
    return Counter(x or "kept" for x in ([] if drops is None else drops.to_pylist()))


def fates_table(samples: Path, load: Path | None) -> list[str]:
    groups: dict[str, list[str]] = defaultdict(list)
    for split in ("wcxb-dev", "wcxb-train"):
        for kind, truth, rest, extracted in pages(samples / "pages" / split):
            groups[f"{split} main text, {kind}"].append(truth)
            groups[f"{split} extracted"].append(extracted)
            groups[f"{split} other lines"].append(rest)
    if load is not None:
        for kind, text in load_pages(load):
            groups[kind].append(text)
    out = ["| texts | n | dropped | by reason |", "| --- | ---: | ---: | --- |"]
    for kind, texts in sorted(groups.items()):
        count = reasons(texts)
        kept = count.pop("kept", 0)
        by = ", ".join(f"{reason} {n}" for reason, n in count.most_common())
        out.append(f"| {kind} | {len(texts)} | {100 * (1 - kept / len(texts)):.1f} % | {by} |")
    return out


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
                if (
                    record.rec_type != "response"
                    or row is None
                    or row["language"][:2] != "en"
                    or other & {*row["kinds"]}
                ):
                    continue
                html = record.content_stream().read()
                kinds = row["kinds"] or ["plain"]
                yield f"load: {kinds[-1] if kinds[0] == 'gibberish' else kinds[0]}", text_of(html, main=True)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--samples", type=Path, required=True)
    arguments.add_argument("--model", type=Path, default=SHIPPED["en"])
    arguments.add_argument("--load", type=Path)
    arguments.add_argument("--card", action="store_true")
    options = arguments.parse_args()
    table = perplexity_table(options.samples, options.model)
    print(*table, sep="\n")
    if options.card:
        card = options.model.parent / CARD
        before = card.read_text(encoding="utf-8").partition(MARK)[0]
        told = [
            "## Figures",
            "",
            f"First {CHARS:,} characters; `python benchmarks/lm/measure_lm.py --samples … --card`.",
            "",
        ]
        card.write_text(before + MARK + "\n" + "\n".join(told + table) + "\n", encoding="utf-8")
    print("", *fates_table(options.samples, options.load), sep="\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
