"""Control strings that stand in the text of pages: they stay text, and are counted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache

from cleanpipe.tally import Tally

# what the vocabularies and chat templates in use give a meaning; a page that spells one means nothing by it
KNOWN = (
    "<|endoftext|>", "<|startoftext|>", "<|begin_of_text|>", "<|end_of_text|>", "<|endofprompt|>", "<|eot_id|>",
    "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|python_tag|>", "<|finetune_right_pad_id|>",
    "<|im_start|>", "<|im_end|>", "<|im_sep|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>", "<|pad|>",
    "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<fim_prefix>", "<fim_middle>", "<fim_suffix>",
    "<s>", "</s>", "<unk>", "<pad>", "<mask>", "<bos>", "<eos>", "<sep>", "<cls>", "<eod>", "<eop>",
    "<start_of_turn>", "<end_of_turn>", "[INST]", "[/INST]", "<<SYS>>", "<</SYS>>",
    "[CLS]", "[SEP]", "[PAD]", "[UNK]", "[MASK]", "[BOS]", "[EOS]",
)  # fmt: skip

_LONG = 64  # characters; longer ones are tried one by one


def control_tally(
    texts: Sequence[str], documents: Iterable[int], overlaps: Iterable[int], controls: Collection[str]
) -> Tally:
    """What was met in the texts.

    Args:
        texts: of pages, as they are encoded. documents: which document each text is of, ascending.
        overlaps: code points at each text's begin that the text before holds too; what ends there was met already.
        controls: strings of the tokenizer's own; KNOWN is looked for too.

    Returns:
        {"documents": with any of them, "occurrences", "by_string": {string: {"documents", "occurrences"}}}; {} if none
        was met. Where two may begin at one place the longer one is meant, and none is looked for inside another.
    """
    look, firsts = _looking(frozenset(controls))
    by_string: Tally = {}
    seen: set[tuple[int, str]] = set()
    total = 0
    for text, document, overlap in zip(texts, documents, overlaps, strict=True):
        if not any(c in text for c in firsts):
            continue
        found = Counter(m[0] for m in look.finditer(text) if m.end() > overlap)
        for string, n in found.items():
            entry = by_string.setdefault(string, {"documents": 0, "occurrences": 0})
            entry["occurrences"] += n
            entry["documents"] += (document, string) not in seen
            seen.add((document, string))
            total += n
    if not total:
        return {}
    return {"documents": len({d for d, _ in seen}), "occurrences": total, "by_string": by_string}


@lru_cache(8)
def _looking(controls: frozenset[str]) -> tuple[re.Pattern[str], tuple[str, ...]]:
    """One pattern for all strings, the longer one where two fit, and the characters that any of them begins with."""
    # a control of one or two characters is a common word: "." of one vocabulary would be met on every page
    strings = {s for s in (*KNOWN, *controls) if len(s) > 2}
    long = sorted((s for s in strings if len(s) > _LONG), key=lambda s: (-len(s), s))
    pattern = "|".join([*map(re.escape, long), _branches({s for s in strings if len(s) <= _LONG})])
    return re.compile(pattern), tuple(sorted({s[0] for s in strings}))


def _branches(strings: set[str]) -> str:
    """A pattern that looks at each character once, however many strings there are: it shares their beginnings."""
    firsts = sorted({s[0] for s in strings if s})
    parts = [re.escape(c) + _branches({s[1:] for s in strings if s[:1] == c}) for c in firsts]
    if not parts:
        return ""
    whole = parts[0] if len(parts) == 1 else f"(?:{'|'.join(parts)})"
    return f"(?:{whole})?" if "" in strings else whole
