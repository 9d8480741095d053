"""Verdicts of datatrove's filters, each rule alone: run by an interpreter that has datatrove and spaCy.

``python heuristics_parity.py TEXTS.json ANSWER.json``
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
import time
from pathlib import Path
from typing import Any

from datatrove.data import Document
from datatrove.pipeline.filters import (
    C4QualityFilter,
    FineWebQualityFilter,
    GopherQualityFilter,
    GopherRepetitionFilter,
)
from datatrove.utils import text as datatrove_text

NUMBERS = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight", 9: "nine", 10: "ten"}
TOP = {2: 0.20, 3: 0.18, 4: 0.16}
AGAIN = {5: 0.15, 6: 0.14, 7: 0.13, 8: 0.12, 9: 0.11, 10: 0.10}


def filters() -> dict[str, dict[str, Any]]:
    """By our stage and reason, a filter with that rule alone; "any" has all."""
    quality = {
        "short_doc": ("min_doc_words", 50), "long_doc": ("max_doc_words", 100_000),
        "short_words": ("min_avg_word_length", 3), "long_words": ("max_avg_word_length", 10),
        "symbols": ("max_symbol_word_ratio", 0.1), "bullet_lines": ("max_bullet_lines_ratio", 0.9),
        "ellipsis_lines": ("max_ellipsis_lines_ratio", 0.3), "few_alpha_words": ("max_non_alpha_words_ratio", 0.8),
        "few_stop_words": ("min_stop_words", 2),
    }  # fmt: skip
    none = dict.fromkeys([option for option, _ in quality.values()])
    lines = {"dup_para_frac": 0.3, "dup_para_char_frac": 0.2, "dup_line_frac": 0.3, "dup_line_char_frac": 0.2}
    calm = {**dict.fromkeys(lines), "top_n_grams": (), "dup_n_grams": ()}
    fineweb = {
        "line_punct_ratio": ("line_punct_thr", 0.12), "short_line_ratio": ("short_line_thr", 0.67),
        "char_dup_ratio": ("char_duplicates_ratio", 0.01), "list_ratio": ("new_line_ratio", 0.3),
    }  # fmt: skip
    open_ = {"line_punct_thr": 0.0, "short_line_thr": 9.0, "char_duplicates_ratio": 9.0, "new_line_ratio": 1e9}
    return {
        "gopher_repetition": {
            **{n: GopherRepetitionFilter(**{**calm, n: v}) for n, v in lines.items()},
            **{
                f"top_{NUMBERS[n]}_gram": GopherRepetitionFilter(**{**calm, "top_n_grams": ((n, v),)})
                for n, v in TOP.items()
            },
            **{
                f"dup_{NUMBERS[n]}_gram": GopherRepetitionFilter(**{**calm, "dup_n_grams": ((n, v),)})
                for n, v in AGAIN.items()
            },
            "any": GopherRepetitionFilter(),
        },
        "gopher_quality": {
            **{reason: GopherQualityFilter(**{**none, option: v}) for reason, (option, v) in quality.items()},
            "any": GopherQualityFilter(),
        },
        "c4_quality": {"any": C4QualityFilter(filter_no_terminal_punct=False)},
        "fineweb_quality": {
            **{reason: FineWebQualityFilter(**{**open_, option: v}) for reason, (option, v) in fineweb.items()},
            "any": FineWebQualityFilter(),
        },
    }


def main(given: Path, answer: Path) -> None:
    """Judge every text by every filter."""
    texts = json.loads(given.read_text())
    known = filters()
    drops: dict[str, dict[str, list[bool]]] = {stage: {r: [] for r in rules} for stage, rules in known.items()}
    cost = dict.fromkeys(known, 0.0)
    left: list[str | None] = []
    for text in texts:
        for stage, rules in known.items():
            for reason, one in rules.items():  # the words of a text are cut once for the rules that stand alone
                document = Document(text=text, id="x")
                if reason == "any":
                    datatrove_text.split_into_parts.cache_clear()  # and again where the cost is taken
                began = time.process_time()
                try:
                    kept = one.filter(document)
                except ZeroDivisionError:  # a text without a word
                    kept = False
                spent = time.process_time() - began
                drops[stage][reason].append(not (kept is True or (isinstance(kept, tuple) and kept[0])))
                if reason == "any":
                    cost[stage] += spent / len(texts) * 1e6
                if stage == "c4_quality":
                    left.append(None if drops[stage][reason][-1] else document.text)
    versions = {n: importlib.metadata.version(n) for n in ("datatrove", "spacy")}
    made = {"drops": drops, "cost": cost, "left": left, "version": versions["datatrove"], "spacy": versions["spacy"]}
    answer.write_text(json.dumps(made))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
