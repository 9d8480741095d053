"""Stop words by language, and how many different ones of them a text has, without an object for a word.

English: the eight of Gopher (Rae et al. 2021, section A.1.1). Other languages: the most common articles, prepositions,
conjunctions and particles, chosen for this project, none longer than eight bytes of UTF-8. Other languages have no
list, and the rule is not asked of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from cleanpipe_stages.heuristics.units import Units

_LISTS = """
en the be to of and that have with
de der die das und in den von zu mit sich des auf für ist nicht ein
fr le la les de des du et en un une que est pour dans qui
es de la que el en y los se del las un por con una para
it di e il la che in un del per una sono con non della
pt de a o que e do da em um para com uma os no dos
nl de het een van en in is dat op te zijn met voor
ca de la el i que en un els per amb una del les
ro de și în la cu pe un o nu care din pentru
sv och i att det som en på är av för med den till
da og i at det er en til på af for med den som
no og i å det er en til på av for med den som
fi ja on ei että se oli hän mutta kun kuin myös ovat
pl w i na z do nie się że to jest o jak po od
cs a v se na je že s z do to o jako pro
sk a v sa na je že s z do to o ako pre
hu a az és hogy nem is egy van de meg volt
tr ve bir bu için ile da de en çok olarak daha gibi
id yang dan di ini itu untuk dengan dari pada tidak ke
vi và của là có cho các một trong được không với
ru и в не на что с по как это из для от
uk і в на не що з до як та у для від
bg и в на не да се за от с че по са
el και το η ο του να της με για που από των
ar في من على أن إلى عن ما لا هذا أو
"""
STOP_WORDS: Mapping[str, Sequence[str]] = {
    line.split()[0]: tuple(line.split()[1:]) for line in _LISTS.strip().splitlines()
}
_COMMON_ENGLISH = """
the be to of and that have with a in is it for on as was are by this at or from not i you he she we they his
her its but had has which were an will would there their been all if more when who what so
"""
COMMON: Mapping[str, Sequence[str]] = {**STOP_WORDS, "en": tuple(_COMMON_ENGLISH.split())}
"""As STOP_WORDS, but for English, whose eight are too few for a share."""
Found = npt.NDArray[np.int64]
_BITS = 12
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class StopWords:
    """One list, in small letters, with a capital at the beginning, and in capitals."""

    def __init__(self, words: Sequence[str]) -> None:
        spelled = {
            int.from_bytes(form.encode(), "little"): place
            for place, word in reversed(list(enumerate(words)))
            for form in (word, word.capitalize(), word.upper())
            if len(form.encode()) <= 8
        }
        keys = sorted(spelled)
        self._keys = np.array(keys, np.uint64)
        self._places = np.array([spelled[k] for k in keys], np.int64)
        self._likely = np.zeros(1 << _BITS, np.bool_)
        self._likely[_slot(self._keys)] = True
        self.size = len(words)

    def find(self, units: Units) -> tuple[Found, Found]:
        """Which words of the units are of the list, and their places in it."""
        spans = units.words
        keys = units.beginnings(spans)
        at = np.flatnonzero(self._likely[_slot(keys)] & (spans.ends - spans.starts <= 8))
        place = np.minimum(np.searchsorted(self._keys, keys[at]), self._keys.size - 1)
        same = self._keys[place] == keys[at]
        return at[same], self._places[place[same]]


@cache
def stop_words(language: str, *, common: bool = False) -> StopWords | None:
    """The list of a language by its ISO 639-1 code (that of COMMON by wish), None where there is none."""
    words = (COMMON if common else STOP_WORDS).get(language)
    return None if words is None else StopWords(words)


def different(units: Units, languages: Sequence[str]) -> npt.NDArray[np.float64]:
    """How many different stop words of its language each document has; NaN where the language has no list."""
    made = np.full(len(languages), np.nan)
    owner = units.words.owner
    for language in sorted(set(languages)):
        known = stop_words(language)
        if known is None:
            continue
        which, place = known.find(units)
        seen = np.zeros((len(languages), known.size), np.bool_)
        seen[owner[which], place] = True
        mine = np.array([x == language for x in languages], np.bool_)
        made[mine] = seen.sum(axis=1)[mine]
    return made


def share(units: Units, languages: Sequence[str]) -> npt.NDArray[np.float64]:
    """Stop words by words and marks; NaN where the language has no list, or there is no word."""
    made = np.full(len(languages), np.nan)
    count = np.diff(units.words.at)
    owner = units.words.owner
    for language in sorted(set(languages)):
        known = stop_words(language, common=True)
        if known is None:
            continue
        which, _ = known.find(units)
        mine = np.array([x == language for x in languages], np.bool_) & (count > 0)
        made[mine] = np.bincount(owner[which], minlength=count.size)[mine] / count[mine]
    return made


def _slot(keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    return (keys * _SPREAD >> np.uint64(64 - _BITS)).astype(np.int64)
