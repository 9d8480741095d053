"""What the embedded RoBERTa tells apart, what its approximation is worth, and what both cost.

    python benchmarks/quality/neural.py --samples ../shared/samples [--model DIR] [--pages N] [--card] [--percentiles]

For the pages of ``samples/pages/wcxb-dev``: how often is the main text more predictable than the same page's other
lines, than its own words in another order, and than German text (first 1,024 characters each)? AUC: the probability
that a text of the first kind scores lower than one of the second. One thread. ``--card`` writes the section into the
model's card, ``--percentiles`` the table of the main text of wcxb-train beside the model.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import json
import math
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.encoding import bytes_to_str, detect_encoding

from cleanpipe_jobs.train_roberta_card import CARD, MARK
from cleanpipe_stages.quality import percentiles
from cleanpipe_stages.quality.scorers import Scorer, ScorerOptions, causal
from cleanpipe_stages.quality.scorers.mlm import SHIPPED, TABLE, open_scorer

CHARS, LEAST = 1024, 200
PASSES = (0, 15, 7, 4, 2)
PASSES_SHIPPED = 7
LIMITS = (10.0, 1300.0, 0.0)  # below all, above 99.5 % of the main text of wcxb-train; of paragraphs none
EXACT = 24  # pages that every number of passes is tried on

Measure = Callable[[Sequence[str]], list[float]]


@dataclass(frozen=True)
class Page:
    """One labelled page: its type, main text, and the lines of the page that are not in it."""

    name: str
    kind: str
    truth: str
    rest: str


def auc(low: Sequence[float], high: Sequence[float]) -> float:
    """P(a value of ``low`` < a value of ``high``), ties by half."""
    ordered = np.sort(np.array(high))
    below, upto = (np.searchsorted(ordered, np.array(low), side) for side in ("left", "right"))
    return float(1 - (below + upto).mean() / 2 / len(ordered))


def pages(folder: Path) -> Iterator[Page]:
    """Those whose main text has LEAST characters."""
    for path in sorted((folder / "ground-truth").glob("*.json")):
        told = json.loads(path.read_text(encoding="utf-8"))
        truth = _lines(told["ground_truth"]["main_content"] or "")
        if len(truth) >= LEAST:
            html = gzip.decompress((folder / "html" / f"{path.stem}.html.gz").read_bytes())
            page = bytes_to_str(html, detect_encoding(html) or "utf-8")
            whole, flat = _lines(extract_plain_text(page, alt_texts=False)), " ".join(truth.split())
            rest = "\n".join(line for line in whole.split("\n") if line not in flat)
            yield Page(path.stem, told["_internal"]["page_type"]["primary"], truth, rest)


def _lines(text: str) -> str:
    return "\n".join(x for x in (" ".join(line.split()) for line in text.split("\n")) if x)


def german(samples: Path) -> list[str]:
    """Eight sentences of German news each."""
    rows = (samples / "lid" / "lingua-sentences.tsv").read_text(encoding="utf-8").splitlines()
    found = [row.split("\t")[-1] for row in rows if row.startswith("de\t")]
    return ["\n".join(found[i : i + 8]) for i in range(0, len(found) - 8, 8)]


def shuffled(text: str, rng: random.Random) -> str:
    words = text[:CHARS].split()
    rng.shuffle(words)
    return " ".join(words)


def opened(model: Path, passes: int, batch_tokens: int = 8192) -> Scorer:
    return open_scorer(
        ScorerOptions(
            model=str(model), language="", chars=CHARS, mlm_passes=passes, device="cpu", batch_tokens=batch_tokens
        )
    )


def scorer(model: Path, passes: int) -> Measure:
    score = opened(model, passes)
    return lambda texts: [x.perplexity or np.inf for x in score(texts, [""] * len(texts))]


def apart(samples: Path, some: Sequence[Page], measure: Measure) -> tuple[list[str], list[str]]:
    """The table of AUC by page type, and the pages whose other lines are the most predictable beside the main text."""
    rng = random.Random(1)
    foreign = measure(german(samples))
    table = ["| pages of wcxb-dev | n | AUC other lines | AUC shuffled | AUC German | median, 95 % of main text |"]
    table.append("| --- | ---: | ---: | ---: | ---: | ---: |")
    truth = dict(zip([p.name for p in some], measure([p.truth for p in some]), strict=True))
    mixed = dict(zip([p.name for p in some], measure([shuffled(p.truth, rng) for p in some]), strict=True))
    others = [p for p in some if len(p.rest) >= LEAST]
    rest = dict(zip([p.name for p in others], measure([p.rest for p in others]), strict=True))
    prose = ("article", "documentation")
    groups = {
        "all": list(some),
        "article, documentation": [p for p in some if p.kind in prose],
        "the other types": [p for p in some if p.kind not in prose],
    }
    for name, group in groups.items():
        if not group:
            continue
        low = [truth[p.name] for p in group]
        high = [[d[p.name] for p in group if p.name in d] for d in (rest, mixed)]
        middle, most = np.percentile(low, [50, 95])
        areas = " | ".join(f"{auc(low, x):.3f}" for x in (*high, foreign))
        table.append(f"| {name} | {len(group)} | {areas} | {middle:,.0f}, {most:,.0f} |")
    misses = sorted((p for p in others if rest[p.name] < truth[p.name]), key=lambda p: rest[p.name] / truth[p.name])
    told = [f"Of {len(others)} pages with other lines {len(misses)} have them more predictable than the main text"]
    told[0] += "; the worst (page, type, main text, other lines, what these begin with):" if misses else "."
    told.extend(
        f"- {p.name}, {p.kind}, {truth[p.name]:,.0f}, {rest[p.name]:,.0f}: `{_begin(p.rest)}`" for p in misses[:6]
    )
    return table, told


def _begin(text: str) -> str:
    return " ".join(text.split())[:70].replace("`", "'").replace("|", "/")


def worth(some: Sequence[Page], model: Path) -> list[str]:
    """Masking every k-th token against each token alone: how alike, how dear."""
    texts = [t for p in some[:: max(1, len(some) // EXACT)] for t in (p.truth, p.rest) if len(t) >= LEAST]
    table = ["| `mlm_passes` | median of score / exact | rank correlation with exact | texts/s on one core |"]
    table.append("| ---: | ---: | ---: | ---: |")
    exact: list[float] = []
    for passes in PASSES:
        measure = scorer(model, passes)
        measure(texts[:1])
        began = time.process_time()
        found = measure(texts)
        took = time.process_time() - began
        exact = exact or found
        ratio = float(np.median(np.array(found) / np.array(exact)))
        name = "0 (each alone)" if passes == 0 else str(passes)
        table.append(f"| {name} | {ratio:.3f} | {_ranks(exact, found):.4f} | {len(texts) / took:.1f} |")
    return table


def _ranks(a: Sequence[float], b: Sequence[float]) -> float:
    first, second = (np.argsort(np.argsort(np.array(x))) for x in (a, b))
    return float(np.corrcoef(first, second)[0, 1])


def stable(some: Sequence[Page], model: Path) -> str:
    """The largest relative difference by the size of a forward pass, and by the split into batches."""
    texts = [p.truth for p in some[:12]]
    whole, small = (opened(model, PASSES_SHIPPED, n) for n in (8192, 512))
    one = np.array([x.perplexity for x in whole(texts, [""] * 12)])
    other = np.array([x.perplexity for x in small(texts, [""] * 12)])
    alone = np.array([whole([t], [""])[0].perplexity for t in texts])
    return (
        f"Largest relative difference of a score: by `batch_tokens` 8192 or 512 {np.abs(one / other - 1).max():.1e}; "
        f"alone or with others {np.abs(one / alone - 1).max():.0e}."
    )


def _losses(model: Any, rows: Sequence[tuple[list[int], int, int]]) -> float:
    """Perplexity of tokens by one forward pass each, (ids, place that tells it, token), 64-bit softmax."""
    import torch

    total = 0.0
    for ids, at, token in rows:
        with torch.no_grad():
            words = model(torch.tensor([ids])).logits[0, at].double()
        total -= float(torch.log_softmax(words, -1)[token])
    return math.exp(total / len(rows))


def _masked_brute(folder: Path, text: str) -> float:
    """One sentence: one token masked a pass."""
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids, mask = tokenizer(text)["input_ids"], tokenizer.mask_token_id
    rows = [([*ids[:i], mask, *ids[i + 1 :]], i, ids[i]) for i in range(1, len(ids) - 1)]
    return _losses(AutoModelForMaskedLM.from_pretrained(folder).float().eval(), rows)


def _causal_brute(folder: Path, text: str, context: int, stride: int) -> float:
    """One token a pass, with what stands before it in the first window that holds it."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    bos = [] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    holds = context - len(bos)
    rows = []
    for i, token in enumerate(ids):
        start = stride * max(0, -((holds - 1 - i) // stride)) if i >= holds else 0
        if bos or i > start:
            rows.append(([*bos, *ids[start:i]], -1, token))
    model: Any = AutoModelForCausalLM.from_pretrained(folder)
    return _losses(model.eval(), rows)


def exact(shipped: Path) -> list[str]:
    """The largest relative error against brute force, and by the size of a forward pass."""
    sys.path.append(str(Path(__file__).parents[2] / "tests" / "support"))
    tiny = importlib.import_module("tiny_models")
    texts = [line for line in tiny.SENTENCES if "," not in line] + ["Salt is raked by hand."]
    out = ["| scorer and model | texts | largest relative error against brute force | by `batch_tokens` 1, 60, 8192 |",
           "| --- | ---: | ---: | ---: |"]  # fmt: skip
    with tempfile.TemporaryDirectory() as root:
        folders = {"`mlm`, the embedded RoBERTa": shipped}
        folders |= {f"`mlm`, tiny {k}": Path(root) / k for k in ("roberta", "bert", "distilbert")}
        for name, folder in folders.items():
            if folder != shipped:
                tiny.masked(folder.name, folder, length=128)
            found = [[x.perplexity or 0 for x in opened(folder, 0, n)(texts, [""] * len(texts))] for n in (8192, 1, 60)]
            brute = [_masked_brute(folder, text) for text in texts]
            out.append(f"| {name} | {len(texts)} | {_error(found[:1], brute)} | {_error(found[1:], found[0])} |")
        long = "\n".join(tiny.SENTENCES)[:300]
        for kind in ("gpt2", "llama", "neox"):
            folder = Path(root) / f"causal-{kind}"
            tiny.causal(kind, folder)
            ways = ((24, 8), (24, 12), (5, 1), (64, 50))
            score = [[_causal(folder, long, context, stride, n) for context, stride in ways] for n in (8192, 1, 60)]
            brute = [_causal_brute(folder, long, context, stride) for context, stride in ways]
            name = f"`causal`, tiny {kind}, windows {', '.join(f'{c}/{s}' for c, s in ways)}"
            out.append(f"| {name} | 1 | {_error(score[:1], brute)} | {_error(score[1:], score[0])} |")
    return out


def _causal(folder: Path, text: str, context: int, stride: int, batch_tokens: int) -> float:
    options = ScorerOptions(
        model=str(folder), language="", device="cpu", context=context, stride=stride, batch_tokens=batch_tokens
    )
    return causal.open_scorer(options)([text], [""])[0].perplexity or 0.0


def _error(found: Sequence[Sequence[float]], wanted: Sequence[float]) -> str:
    return f"{max(np.abs(np.array(x) / np.array(wanted) - 1).max() for x in found):.1e}"


def measure(samples: Path, model: Path = SHIPPED, limit: int = 0) -> str:
    """The section of benchmarks/quality.md."""
    some = list(pages(samples / "pages" / "wcxb-dev"))
    some = some[: limit or len(some)]
    table, misses = apart(samples, some, scorer(model, PASSES_SHIPPED))
    libraries = ", ".join(f"{x} {version(x)}" for x in ("torch", "transformers", "tokenizers", "resiliparse"))
    return "\n".join([
        "## Perplexity by the embedded RoBERTa (`perplexity = \"mlm\"`)",
        "",
        f"First {CHARS:,} characters, `mlm_passes = {PASSES_SHIPPED}`; nothing was trained or tuned on these pages. "
        f"{libraries}.",
        "",
        *table,
        "",
        *misses,
        "",
        f"What fewer passes are worth ({EXACT} of the pages, main text and other lines):",
        "",
        *worth(some, model),
        "",
        stable(some, model),
        "",
        "Against brute force (one token a forward pass, 64-bit softmax); required of `mlm`: 1e-4. Windows: "
        "tokens/stride. The tests hold the same on long sentences, odd texts and any split of a batch "
        "(`tests/stages/quality/test_scorers_mlm.py`, `test_scorers_causal.py`). CPU against CUDA: not measured here, "
        "this machine has no device.",
        "",
        *exact(model),
        "",
    ])  # fmt: skip


def write_percentiles(samples: Path, model: Path) -> None:
    """The table of ``min_percentile`` and ``max_percentile``; the limits are the default ones of this model."""
    some = [page.truth for page in pages(samples / "pages" / "wcxb-train")]
    found = scorer(model, PASSES_SHIPPED)(some)
    table = model / TABLE
    percentiles.write(table, model / "model.safetensors", CHARS, "main text of wcxb-train", found, LIMITS)
    print(table.read_text(encoding="utf-8"))


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--samples", type=Path, required=True)
    arguments.add_argument("--model", type=Path, default=SHIPPED)
    arguments.add_argument("--pages", type=int, default=0, help="only the first so many; 0 for all")
    arguments.add_argument("--card", action="store_true", help="write the section into the model's card")
    arguments.add_argument("--percentiles", action="store_true", help="write the model's percentile table instead")
    options = arguments.parse_args()
    if options.percentiles:
        write_percentiles(options.samples, options.model)
        return 0
    told = measure(options.samples, options.model, options.pages)
    print(told)
    if options.card:
        path = options.model / CARD
        path.write_text(path.read_text(encoding="utf-8").partition(MARK)[0] + MARK + "\n" + told, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
