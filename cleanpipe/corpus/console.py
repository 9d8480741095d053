"""The audit of a corpus in a few lines for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from cleanpipe.audit.console import size
from cleanpipe.corpus.damage import written
from cleanpipe.corpus.verdicts import few_words, percent

SHOWN = 30  # verdicts
MOST = 0.9  # of a language's documents that would be dropped: then the recipe does not want it


def summary(audit: Mapping[str, Any], width: int = 100) -> Iterator[str]:
    """Lines without control characters, none longer than ``width`` but for single words."""
    for line in _lines(audit):
        yield from textwrap.wrap(
            written(line), width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
        ) or [""]


def _lines(audit: Mapping[str, Any]) -> Iterator[str]:
    read, documents, tokens = audit["input"], audit["documents"], audit["tokens"]
    sampled = f" (a sample of {read['rows']['value']:,} rows)" if read["sampled"] else ""
    yield (
        f"{documents['documents']['value']:,} documents{sampled} in {_files(read['files']['value'])}, "
        f"{size(documents['bytes']['value'])}, {documents['characters']['value']:,} characters, "
        f"{'' if audit['identity']['options']['tokenizer'] else 'about '}{tokens['tokens']['value']:,} tokens"
    )
    for chosen in read["columns"]:
        url = f"addresses from column {chosen['url']}" if chosen["url"] else "no addresses"
        yield f"texts from column {chosen['text']}, {url} ({_files(chosen['files'])})"
    yield ""
    verdicts = audit["verdicts"]
    yield "worst first:" if verdicts else "no fault was found"
    yield from (f"  • {v['words']}" for v in verdicts[:SHOWN])
    if len(verdicts) > SHOWN:
        yield f"  … {len(verdicts) - SHOWN:,} more in audit.json"
    yield ""
    yield from _rest(audit)


def _files(n: int) -> str:
    return f"{n:,} file{'s' * (n != 1)}"


def _rest(audit: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(audit["languages"], dict):
        top = list(audit["languages"]["shares"].items())[:5]
        told = ", ".join(f"{k} {percent(s['value'])}" for k, s in top if isinstance(s["value"], (int, float)))
        yield f"languages: {told}"
    clean, kept = audit["documents"]["clean"], audit["would_drop"]["kept"]
    if isinstance(clean["value"], (int, float)):
        yield (
            f"clean: {percent(clean['value'])}; a run by {audit['would_drop']['recipe']!r} would keep "
            f"{percent(kept['value'])} of the documents"
        )
    wiped = audit["wipeouts"]
    for kind, few in wiped["smaller"].items():
        names = ", ".join(few["first"][:3]) + (", …" if few["groups"] > 3 else "")
        above = percent(wiped["above"]).replace(".0 %", " %")
        yield f"{few_words(kind, few['groups'], wiped['least_documents'])} would lose more than {above}: {names}"
    if note := selection(audit):
        yield note


def selection(audit: Mapping[str, Any]) -> str:
    """A line where the recipe does not want this corpus' main language; "" else."""
    languages = audit["languages"]
    if not isinstance(languages, dict) or not languages["shares"]:
        return ""
    stage, (main, of_all) = languages["stage"], next(iter(languages["shares"].items()))
    lost, unwanted = languages["would_drop"][main]["value"], languages["not_wanted"][main]["numerator"]
    if not unwanted or not isinstance(lost, (int, float)) or lost <= MOST:
        return ""
    return (
        f"the recipe does not want {main!r}, the language of {percent(of_all['value'])} of the documents: "
        f"--set '{stage}.languages=[\"{main}\"]' judges the corpus by it"
    )
