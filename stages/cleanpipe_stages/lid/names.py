"""Names of languages: what a model's label means, and which of its labels a user's word means."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

UNDETERMINED = "und"  # ISO 639-2: no language can be told
PREFIX = "__label__"
_SCRIPT = re.compile(r"[_-]([A-Za-z]{4})$")
_REGION = re.compile(r"[_-]([A-Za-z]{2}|[0-9]{3})$")
_WIKIPEDIA = {"als": "als", "bh": "bh"}  # bare codes that are Wikipedia's; with a script they are ISO 639-3's


@dataclass(frozen=True, slots=True)
class Language:
    """One row of data/languages.tsv. scripts: ISO 15924, the usual one first."""

    code: str
    iso3: str
    also: tuple[str, ...]
    scripts: tuple[str, ...]
    name: str


@lru_cache(maxsize=1)
def languages() -> dict[str, Language]:
    """By the code that is written to ``language``."""
    lines = files("cleanpipe_stages.lid").joinpath("data", "languages.tsv").read_text("utf-8").splitlines()
    rows = [line.split("\t") for line in lines if line and not line.startswith("#")]
    return {r[0]: Language(r[0], r[1], tuple(r[2].split()), tuple(r[3].split()), r[4]) for r in rows}


@lru_cache(maxsize=1)
def _spellings() -> dict[str, str]:
    out: dict[str, str] = {}
    for language in languages().values():
        for spelling in (language.iso3, *language.also, language.name.lower()):
            out.setdefault(spelling, language.code)
    return out | {code: code for code in languages()}


def parts(label: str) -> tuple[str, str]:
    """A label's code and script, "" where it names none: ``__label__srp_Cyrl`` is ("sr", "Cyrl").

    The code is ISO 639-1's where there is one. A macrolanguage and the member that is its common written form are one
    (cmn and zho are "zh", nob and nb are "no"); other members stay what they are (yue, arz, nn).
    """
    plain = label.removeprefix(PREFIX)
    found = _SCRIPT.search(plain)
    base, script = (plain[: found.start()], found[1].title()) if found else (plain, "")
    if script and base == "als":  # ISO 639-3: Tosk Albanian; Wikipedia's als is Alemannic
        return "sq", script
    return _WIKIPEDIA.get(base) or _spellings().get(base.lower(), base), script


def code_of(label: str) -> str:
    """The code of a label, or of any spelling of a language."""
    return parts(label)[0]


def wanted(word: str, labels: Collection[str]) -> tuple[str, str]:
    """What a user's word asks of a model: a code, and a script where the word names one.

    Args:
        word: as "en", "eng", "eng_Latn", "English", "pt-BR" (a region is no other language), "zh-Hant".
        labels: the model's.

    Raises:
        LookupError: the model has no such language; with near names, for people.
    """
    script = ""
    if _SCRIPT.search(word):
        code, script = parts(word)
    else:
        code = code_of(word if word.lower() in _spellings() else _REGION.sub("", word))
    have = {parts(x) for x in labels}
    if code not in {c for c, _ in have}:
        raise LookupError(near(word, labels))
    named = {s for c, s in have if c == code}
    if script and named != {""} and script not in named:
        raise LookupError(f"it knows {code} as {' and '.join(sorted(code + '_' + s for s in named))}")
    if script and named == {""} and script not in _told(code):
        raise LookupError(f"it tells no {script} apart; its language is named {code}")
    return code, script


def _told(code: str) -> tuple[str, ...]:
    known = languages().get(code)
    return known.scripts if known else ("Latn",)


def near(word: str, labels: Iterable[str]) -> str:
    """Names like ``word`` among the languages of a model, for a message."""
    names: dict[str, str] = {}
    for label in labels:
        code = code_of(label)
        known = languages().get(code)
        for spelling in (code, known.iso3, known.name.lower()) if known else (code,):
            names.setdefault(spelling, f"{code} ({known.name})" if known else code)
    lowered = word.lower()
    found = difflib.get_close_matches(lowered, names, n=6, cutoff=0.6)
    found += sorted(n for n in names if n.startswith(lowered[:2]))[: max(0, 4 - len(found))]
    shown = list(dict.fromkeys(names[n] for n in found))[:4]
    return f"near it: {', '.join(shown)}" if shown else f"it knows {len(set(names.values()))} languages"
