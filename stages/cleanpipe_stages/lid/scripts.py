"""Scripts of letters (ISO 15924), and labels that a text's letters make impossible."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from cleanpipe_stages.lid.names import languages, parts

# first code point of each stretch, and its script; "" for what is of no script or of many (Unicode 16, Scripts.txt)
_STRETCHES = (
    (0x0041, "Latn"), (0x02B0, ""), (0x0370, "Grek"), (0x0400, "Cyrl"), (0x0530, "Armn"), (0x0590, "Hebr"),
    (0x0600, "Arab"), (0x0700, "Syrc"), (0x0750, "Arab"), (0x0780, "Thaa"), (0x07C0, "Nkoo"), (0x0800, "Samr"),
    (0x0840, "Mand"), (0x0860, "Syrc"), (0x0870, "Arab"), (0x0900, "Deva"), (0x0980, "Beng"), (0x0A00, "Guru"),
    (0x0A80, "Gujr"), (0x0B00, "Orya"), (0x0B80, "Taml"), (0x0C00, "Telu"), (0x0C80, "Knda"), (0x0D00, "Mlym"),
    (0x0D80, "Sinh"), (0x0E00, "Thai"), (0x0E80, "Laoo"), (0x0F00, "Tibt"), (0x1000, "Mymr"), (0x10A0, "Geor"),
    (0x1100, "Hang"), (0x1200, "Ethi"), (0x13A0, "Cher"), (0x1400, "Cans"), (0x1680, "Ogam"), (0x16A0, "Runr"),
    (0x1700, "Tglg"), (0x1780, "Khmr"), (0x1800, "Mong"), (0x18B0, "Cans"), (0x1900, "Limb"), (0x1950, "Tale"),
    (0x1980, "Talu"), (0x19E0, "Khmr"), (0x1A00, "Bugi"), (0x1A20, "Lana"), (0x1AB0, ""), (0x1B00, "Bali"),
    (0x1B80, "Sund"), (0x1BC0, "Batk"), (0x1C00, "Lepc"), (0x1C50, "Olck"), (0x1C80, "Cyrl"), (0x1C90, "Geor"),
    (0x1CC0, "Sund"), (0x1CD0, ""), (0x1D00, "Latn"), (0x1D26, "Grek"), (0x1D2B, "Cyrl"), (0x1D2C, "Latn"),
    (0x1DC0, ""), (0x1E00, "Latn"), (0x1F00, "Grek"), (0x2000, ""), (0x2C00, "Glag"), (0x2C60, "Latn"),
    (0x2C80, "Copt"), (0x2D00, "Geor"), (0x2D30, "Tfng"), (0x2D80, "Ethi"), (0x2DE0, "Cyrl"), (0x2E00, ""),
    (0x3005, "Hani"), (0x3008, ""), (0x3041, "Hira"), (0x3099, ""), (0x309D, "Hira"), (0x30A0, "Kana"),
    (0x30FC, ""), (0x30FD, "Kana"), (0x3100, "Bopo"), (0x3130, "Hang"), (0x3190, ""), (0x31A0, "Bopo"), (0x31C0, ""),
    (0x31F0, "Kana"), (0x3200, ""), (0x3400, "Hani"), (0x4DC0, ""), (0x4E00, "Hani"), (0xA000, "Yiii"),
    (0xA4D0, "Lisu"), (0xA500, "Vaii"), (0xA640, "Cyrl"), (0xA6A0, "Bamu"), (0xA700, ""), (0xA722, "Latn"),
    (0xA800, "Sylo"), (0xA840, "Phag"), (0xA880, "Saur"), (0xA8E0, "Deva"), (0xA900, "Kali"), (0xA930, "Rjng"),
    (0xA960, "Hang"), (0xA980, "Java"), (0xA9E0, "Mymr"), (0xAA00, "Cham"), (0xAA60, "Mymr"), (0xAA80, "Tavt"),
    (0xAAE0, "Mtei"), (0xAB00, "Ethi"), (0xAB30, "Latn"), (0xAB70, "Cher"), (0xABC0, "Mtei"), (0xAC00, "Hang"),
    (0xD800, ""), (0xF900, "Hani"), (0xFB00, "Latn"), (0xFB13, "Armn"), (0xFB1D, "Hebr"), (0xFB50, "Arab"),
    (0xFE00, ""), (0xFE70, "Arab"), (0xFEFF, ""), (0xFF21, "Latn"), (0xFF66, "Kana"), (0xFFA0, "Hang"),
    (0xFFE0, ""), (0x10000, "*"), (0x1D000, ""), (0x1DF00, "Latn"), (0x1E000, "*"), (0x1F000, ""), (0x20000, "Hani"),
    (0x32000, ""),
)  # fmt: skip
_STARTS = np.array([0, *(start for start, _ in _STRETCHES)], np.uint32)
SCRIPTS = ("", *sorted({name for _, name in _STRETCHES if name}))
_SCRIPT_OF = np.array([0, *(SCRIPTS.index(name) for _, name in _STRETCHES)], np.uint8)
_TABLE = np.repeat(_SCRIPT_OF, np.diff(np.append(_STARTS, 0x110000)))  # 1.1 MB, a look-up for each code point
_TABLE[:256][[not chr(n).isalpha() for n in range(256)]] = 0
_LEAST = 0.25  # of the letters: a page in Japanese with more code than words has more


_ASCII_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_LATIN = np.array([name == "Latn" for name in SCRIPTS], np.int64)


def letters_by_script(line: str) -> npt.NDArray[np.int64]:
    """How many characters of each of SCRIPTS a prepared line has; the first, those of none, are not counted.

    A line with three ASCII letters for each other character than ASCII is said to have one letter, a Latin one: no
    other script reaches a quarter. So is a line of ASCII alone: ``line_of`` gives none without a letter.
    """
    if line.isascii():
        return _LATIN
    plain = line.encode("ascii", "ignore")
    if len(plain) - len(plain.translate(None, _ASCII_LETTERS)) > 3 * (len(line) - len(plain)):
        return _LATIN
    points = np.frombuffer(line.encode("utf-32-le", "surrogatepass"), np.uint32)
    found = np.bincount(_TABLE[points], minlength=len(SCRIPTS))
    found[0] = 0
    return found


def script_of(letters: npt.NDArray[np.int64]) -> str:
    """The script most letters are of; "" without a letter of a script."""
    return SCRIPTS[int(letters.argmax())]


@lru_cache(maxsize=4096)
def _allowed(label: str) -> npt.NDArray[np.bool_] | None:
    code, script = parts(label)
    known = languages().get(code)
    names = known.scripts if known else ()
    if script:
        names = {"Jpan": ("Hira", "Kana", "Hani"), "Kore": ("Hang", "Hani"), "Hans": ("Hani",), "Hant": ("Hani",)}.get(
            script, (script,)
        )
    if not names or not set(names) & set(SCRIPTS):
        return None
    return np.array([name in names for name in SCRIPTS])


def without(label: str, letters: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The letters of the scripts that the label's language is not written in."""
    allowed = _allowed(label)
    return letters if allowed is None else np.where(allowed, 0, letters)


def impossible(label: str, letters: npt.NDArray[np.int64]) -> bool:
    """Whether fewer than a quarter of the letters are of a script that the label's language is written in.

    A language whose scripts are not known is possible for any text. Letters of no script (mathematical ones) are no
    language's.
    """
    allowed = _allowed(label)
    return allowed is not None and bool(letters[allowed].sum() < _LEAST * max(1, int(letters.sum())))
