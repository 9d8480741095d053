"""The card of ``roberta-en``: origin, licences, how it was made, figures."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from cleanpipe_jobs.train_roberta_corpus import HELD_OUT, Corpus

CARD = "CARD.md"
MARK = "<!-- below: written by benchmarks/quality/neural.py -->\n"


def card(folder: Path, corpus: Corpus, facts: Mapping[str, str], held_out: float, old: str) -> str:
    """In Markdown. What neural.py wrote below its mark in the ``old`` card is taken over.

    Args:
        folder: the finished model's.
        corpus: what it was trained on.
        facts: rows of the first table, as they are.
        held_out: loss of held-out text, nats a token, 15 % masked.
        old: the card before, "" for none.
    """
    files = [folder / name for name in ("model.safetensors", "tokenizer.json")]
    libraries = ", ".join(f"{x} {version(x)}" for x in ("torch", "transformers", "tokenizers", "resiliparse"))
    rows = [
        f"| {t.source.name} | {t.source.registry} | {t.source.version} | {t.source.licence} "
        f"| {t.paragraphs:,} | {t.characters:,} |"
        for t in corpus.told
    ]
    _, mark, measured = old.partition(MARK)
    return "\n".join([
        "# roberta-en",
        "",
        "A small English RoBERTa, the embedded model of `perplexity = \"mlm\"`: how predictable is each word of a text "
        "to one who sees the rest of its sentence? It was trained for cleanpipe and is under cleanpipe's licence "
        "(Apache-2.0); it holds weights and frequent pieces of words, no text. A Hugging Face folder: "
        "`AutoModelForMaskedLM.from_pretrained` reads it.",
        "",
        "| fact | value |",
        "| --- | --- |",
        *(f"| {p.name} | {p.stat().st_size:,} bytes, SHA-256 `{_sha256(p)}` |" for p in files),
        *(f"| {name} | {value} |" for name, value in facts.items()),
        f"| held-out loss, 15 % masked | {held_out:.3f} nats a token (perplexity {math.exp(held_out):.0f}; "
        f"{ENTRIES_NOTE}) |",
        f"| trained by | {libraries}; one thread of a CPU |",
        "| made again by | `make roberta` (`python -m cleanpipe_jobs.train_roberta`) |",
        "",
        "## How",
        "",
        "Words start where counting can put them: output biases as log frequencies, embeddings as the leading "
        "directions of positive pointwise mutual information within three tokens. Places start as waves, and six of "
        "the eight heads as their rotations, so that they look at the neighbours; all is learnt on from there. (From "
        "random weights the same model stood at the loss of bare word frequencies, 7.1, for its first 2 M tokens; so "
        "begun it was at 6.4 after 0.2 M.) Sequences are one or several sentences of a paragraph; 5–35 % of a "
        "batch's tokens are masked, drawn anew each time.",
        "",
        "## Corpus",
        "",
        f"English paragraphs of five words or more, three quarters letters and blanks, with two English function "
        f"words; each once; one in {HELD_OUT} held out. SHA-256 of all `{corpus.sha256}`.",
        "",
        "| package | registry | version | licence of the text | paragraphs | characters |",
        "| --- | --- | --- | --- | ---: | ---: |",
        *rows,
        f"| all | | | | {sum(t.paragraphs for t in corpus.told):,} | {sum(t.characters for t in corpus.told):,} |",
        "",
        "## Use",
        "",
        "Meant for: scoring English web text by `quality_score.perplexity = \"mlm\"`, on a share of the documents "
        "(`sample`). Not meant for: filling in words, representing texts, other languages, judging facts, people or "
        "authorship, or a start for training other models.",
        "",
        "## Limits",
        "",
        "It has read manuals, definitions, speeches, a novel, a Bible and an FAQ on anarchism: no news, shops, forums "
        "or other web pages. It knows no language but English, and little of the world. Its figures say how a text is "
        "worded, not whether it is true or well meant, and cannot be compared with another model's.",
        "",
        MARK + (measured if mark else "\n"),
    ])  # fmt: skip


ENTRIES_NOTE = "8,192 entries, by word frequencies alone it would be about 1,200"


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
