"""Small tokenizers of the families that matter, each learnt in a second from tests/data/languages when first asked for.

Each function returns the bytes of the file as users have it: a ``tokenizer.json``, a tiktoken ranks file, or a
SentencePiece model. The same versions of the libraries give the same bytes, but for
WordPiece, whose trainer settles ties by chance.
"""

from __future__ import annotations

import atexit
import base64
import functools
import io
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

UDHR = Path(__file__).parents[1] / "data" / "languages" / "udhr.jsonl"
CODE = '''def merge(rows: list[int], start=0x1F) -> dict[str, float]:
    """Return the sum of rows, 3.14159 at most.\r\n"""
    total = {}\n    for i, row in enumerate(rows):\n\t\tif row != start and (i % 100) >= 17:
            total[f"k{i}"] = row * 1e-3
    return total  # it's done; we'll see, they've said so, I'm sure, he'd agree: don't!\n\n\n
<a href="https://example.org/?q=1&amp;r=2024-11-30">x</a>;   {"key": [1, 22, 333, 4444]}\n'''
GPT2_PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA3_SPECIAL = (
    "<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
    *(f"<|reserved_special_token_{i}|>" for i in range(251)),
)  # fmt: skip


@functools.cache
def texts() -> tuple[str, ...]:
    """What all are learnt from: one text a language, and a little code, weighty."""
    return (*(text for _, text in languages()), *[CODE] * 8)


@functools.cache
def languages() -> tuple[tuple[str, str], ...]:
    """(language tag, about 2,400 bytes of text) for 63 languages and spellings."""
    rows = map(json.loads, UDHR.read_text(encoding="utf-8").split("\n")[:-1])
    return tuple((row["language"], row["text"]) for row in rows)


@functools.cache
def gpt2_like(vocabulary: int = 3_000) -> bytes:
    """Byte-level BPE with ``ByteLevel``'s own pattern and one control token ``<|endoftext|>``, the last id."""
    return _json(_byte_level(vocabulary, None, ["<|endoftext|>"]))


@functools.cache
def llama3_like(vocabulary: int = 3_000) -> bytes:
    """As Llama 3's file was made from its ranks: ``ignore_merges``, a merge for every way to split each entry, 256
    special added tokens behind the vocabulary, and a post-processor that adds BOS.

    The last 150 entries are whole pieces that no merge of learnt order makes in each text.
    """
    learnt = json.loads(_json(_byte_level(vocabulary - 150, LLAMA3_PATTERN, [])))
    ranks = _ranks(learnt, 150)
    model = learnt["model"] | {"vocab": ranks, "merges": _every_split(ranks), "ignore_merges": True}
    added = [_added(len(ranks) + i, text) for i, text in enumerate(LLAMA3_SPECIAL)]
    bos = LLAMA3_SPECIAL[0]
    template = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": bos, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {bos: {"id": bos, "ids": [len(ranks)], "tokens": [bos]}},
    }
    plain = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}
    after = {"type": "Sequence", "processors": [plain, template]}
    return _bytes(learnt | {"model": model, "added_tokens": added, "post_processor": after})


@functools.cache
def ignore_merges_orphans(vocabulary: int = 1_500) -> bytes:
    """``ignore_merges`` with whole pieces in the vocabulary that no merge makes: ids by whole-piece look-up only.

    An engine that merges whatever two neighbours are an entry together makes other ids of ``xhumanx``-like pieces.
    """
    learnt = json.loads(_json(_byte_level(vocabulary - 300, LLAMA3_PATTERN, ["<|end|>"])))
    ranks = _ranks(learnt, 300, first=len(learnt["model"]["vocab"]) + 1)
    ranks |= {"<|end|>": learnt["model"]["vocab"].get("<|end|>", len(learnt["model"]["vocab"]))}
    learnt["model"] |= {"vocab": dict(sorted(ranks.items(), key=lambda item: item[1])), "ignore_merges": True}
    return _bytes(learnt)


@functools.cache
def tiktoken_ranks(vocabulary: int = 3_000) -> bytes:
    """The vocabulary of ``gpt2_like`` as a tiktoken file: base64 of a token's bytes, blank, rank."""
    vocab = json.loads(gpt2_like(vocabulary))["model"]["vocab"]
    rows = sorted((rank, token) for token, rank in vocab.items() if token != "<|endoftext|>")
    return b"".join(base64.b64encode(token_bytes(token)) + b" %d\n" % rank for rank, token in rows)


@functools.cache
def with_normalizer(kind: str = "NFKC") -> bytes:
    """Byte-level BPE behind a normalizer (``NFC``, ``NFKC``, ``Lowercase``…): not lossless, and starts move."""
    from tokenizers import normalizers

    tokenizer = _byte_level(2_000, None, ["<|endoftext|>"])
    tokenizer.normalizer = getattr(normalizers, kind)()
    return _json(tokenizer)


@functools.cache
def wordpiece(vocabulary: int = 2_000) -> bytes:
    """BERT-like: lower case, accents off, ``[UNK]`` for what it does not know; it adds ``[CLS]`` and ``[SEP]``."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocabulary, special_tokens=special, limit_alphabet=400, show_progress=False
    )
    tokenizer.train_from_iterator(_european(), trainer)
    ends = [(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B [SEP]", ends)
    return _json(tokenizer)


@functools.cache
def metaspace_bpe_byte_fallback(vocabulary: int = 2_000) -> bytes:
    """As Llama 2's tokenizer.json: blanks become ``▁``, one in front of all, no pieces; unknown characters become byte
    tokens ``<0x00>``…``<0xFF>``; ``<unk>``, ``<s>``, ``</s>`` are 0, 1, 2."""
    from tokenizers import Tokenizer, decoders, models, normalizers, processors, trainers

    names = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    prepend = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=names, limit_alphabet=300, max_token_length=16, show_progress=False
    )
    # learnt word by word, as SentencePiece does; the file itself splits nothing
    words = [["▁" + word for word in text.split()] for text in _european()]
    tokenizer.train_from_iterator(words, trainer)
    tokenizer.normalizer = prepend
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", "<s> $A <s> $B", [("<s>", 1)])
    file = json.loads(_json(tokenizer))
    file["added_tokens"] = [_added(i, text) for i, text in enumerate(names[:3])]
    return _bytes(file)


@functools.cache
def unigram_model(
    vocabulary: int = 1_500, kind: str = "unigram", byte_fallback: bool = True, nfkc: bool = True
) -> bytes:
    """A SentencePiece ``.model``; ``kind``: "unigram" or "bpe"; without ``nfkc`` it keeps characters as they are."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([line for text in _european() for line in text.split("\n") if line]),
        model_writer=model,
        vocab_size=vocabulary,
        model_type=kind,
        byte_fallback=byte_fallback,
        character_coverage=0.999,
        normalization_rule_name="nmt_nfkc" if nfkc else "identity",
        num_threads=1,
        minloglevel=2,
    )
    return model.getvalue()


# every tokenizer.json above by name, for tests over all of them
FILES: Mapping[str, Callable[[], bytes]] = {
    "gpt2_like": gpt2_like,
    "llama3_like": llama3_like,
    "ignore_merges_orphans": ignore_merges_orphans,
    "with_normalizer": with_normalizer,
    "wordpiece": wordpiece,
    "metaspace_bpe_byte_fallback": metaspace_bpe_byte_fallback,
}


def on_disk(name: str, data: bytes | None = None) -> Path:
    """One of FILES (or these bytes) as a file of that name, in a folder that goes with this process."""
    path = _folder() / f"{name}.json"
    path.write_bytes(FILES[name]() if data is None else data)
    return path


@functools.cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="made-tokenizers-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@functools.cache
def byte_alphabet() -> tuple[str, ...]:
    """The character that stands for each byte in a byte-level vocabulary: itself, or from U+0100 on if unseen."""
    seen = {*range(33, 127), *range(161, 173), *range(174, 256)}
    hidden = iter(range(256, 512))
    return tuple(chr(byte if byte in seen else next(hidden)) for byte in range(256))


def token_bytes(token: str) -> bytes:
    """The bytes that an entry of a byte-level vocabulary stands for."""
    return bytes(byte_alphabet().index(character) for character in token)


def _european() -> list[str]:
    return [text for text in texts() if sum(map(str.isascii, text)) > 0.75 * len(text)]


def _byte_level(vocabulary: int, pattern: str | None, special: Sequence[str]) -> Any:
    """A trained tokenizers.Tokenizer; special tokens lie behind the vocabulary."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    split: Any = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)
    if pattern is not None:
        split = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), split])
    tokenizer.pre_tokenizer = split
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - len(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts(), trainer)
    tokenizer.add_special_tokens(list(special))
    return tokenizer


def _ranks(learnt: Mapping[str, Any], more: int, first: int | None = None) -> dict[str, int]:
    """The learnt vocabulary, and behind it the ``more`` most frequent pieces (words) that it lacks."""
    alphabet = byte_alphabet()
    vocab: dict[str, int] = learnt["model"]["vocab"]
    words = Counter(" " + word for text in texts() for word in text.split() if word.isalpha())
    spelt = ("".join(alphabet[byte] for byte in word.encode()) for word, _ in sorted(words.items(), key=_often))
    new = [word for word in spelt if word not in vocab][:more]
    return vocab | {word: (len(vocab) if first is None else first) + i for i, word in enumerate(new)}


def _often(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]


def _every_split(ranks: Mapping[str, int]) -> list[list[str]]:
    """Each way to make an entry of two others: in order of its rank, then of the left's, then of the right's."""
    found = [
        (rank, ranks[token[:i]], ranks[token[i:]], token[:i], token[i:])
        for token, rank in ranks.items()
        for i in range(1, len(token))
        if token[:i] in ranks and token[i:] in ranks
    ]
    return [[left, right] for *_, left, right in sorted(found)]


def _added(number: int, text: str) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": text, **flags, "special": True}


def _json(tokenizer: Any) -> bytes:
    return str(tokenizer.to_str(pretty=False)).encode()


def _bytes(file: Mapping[str, Any]) -> bytes:
    return json.dumps(file, ensure_ascii=False).encode()
