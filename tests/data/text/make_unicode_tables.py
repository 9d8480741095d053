"""Writes cleanpipe/text/unicode_tables.py from a folder of Unicode data files (Debian: package unicode-data 15.0.0).

usage: python make_unicode_tables.py UCD_FOLDER > cleanpipe/text/unicode_tables.py
"""

import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

VERSION = "15.0.0"
CONJUNCT_SCRIPTS = {"Beng", "Deva", "Gujr", "Mlym", "Orya", "Telu"}


def rows(path: Path) -> Iterator[tuple[range, list[str]]]:
    """Code point range and further fields of each line of a data file."""
    for line in path.read_text(encoding="utf-8").splitlines():
        fields = [f.strip() for f in line.split("#")[0].split(";")]
        if len(fields) < 2:
            continue
        first, _, last = fields[0].partition("..")
        yield range(int(first, 16), int(last or first, 16) + 1), fields[1:]


def property_sets(path: Path, field: int = 0) -> dict[str, set[int]]:
    """Code points by the value of one field."""
    found: dict[str, set[int]] = {}
    for span, fields in rows(path):
        found.setdefault(fields[field], set()).update(span)
    return found


def ranges(points: Iterable[int]) -> str:
    """Sorted hexadecimal ranges, separated by blanks."""
    out: list[list[int]] = []
    for p in sorted(points):
        if out and p == out[-1][1] + 1:
            out[-1][1] = p
        else:
            out.append([p, p])
    return " ".join(f"{a:X}" if a == b else f"{a:X}-{b:X}" for a, b in out)


def main(folder: Path) -> None:
    """Write the module to standard output."""
    grapheme = property_sets(folder / "auxiliary/GraphemeBreakProperty.txt")
    category = property_sets(folder / "extracted/DerivedGeneralCategory.txt")
    classes = property_sets(folder / "extracted/DerivedCombiningClass.txt")
    bidi = property_sets(folder / "extracted/DerivedBidiClass.txt")
    scripts = property_sets(folder / "Scripts.txt")
    indic = property_sets(folder / "IndicSyllabicCategory.txt")
    emoji = property_sets(folder / "emoji/emoji-data.txt")
    joining = property_sets(folder / "extracted/DerivedJoiningType.txt")
    aliases = {}
    for line in (folder / "PropertyValueAliases.txt").read_text(encoding="utf-8").splitlines():
        if m := re.match(r"sc\s*;\s*(\w+)\s*;\s*(\w+)", line):
            aliases[m[2]] = m[1]
    script_of = {p: aliases[name] for name, points in scripts.items() for p in points}
    extensions = {p: set(fields[0].split()) for span, fields in rows(folder / "ScriptExtensions.txt") for p in span}

    conjunct = {p for p, s in script_of.items() if s in CONJUNCT_SCRIPTS}
    linker = indic["Virama"] & conjunct
    consonant = indic["Consonant"] & conjunct
    letters = set().union(*(category[c] for c in ("Lu", "Ll", "Lt", "Lm", "Lo")))
    marks = category["Mn"] | category["Me"] | set().union(*(v for k, v in classes.items() if k != "0"))
    tail = marks | category["Mc"] | grapheme["Extend"] | {0x200D}
    cursive = set().union(*(joining[t] for t in "RDL" if t in joining)) & letters
    stacking = indic["Virama"] | indic["Invisible_Stacker"]
    needing = {script_of[p] for p in cursive | stacking} - {"Zyyy", "Zinh"}
    joiner = {p for p, s in script_of.items() if s in needing}
    joiner |= {p for p, s in extensions.items() if s & needing and p not in grapheme["Extend"]}
    joiner = {p for p in joiner if p in letters or p in category["Nd"] or p in {0x640}} - tail

    tables = {
        "GRAPHEME_CONTROL": ("GCB=Control", grapheme["Control"]),
        "GRAPHEME_EXTEND": ("GCB=Extend less linkers and ZWNJ", grapheme["Extend"] - linker - {0x200C}),
        "GRAPHEME_PREPEND": ("GCB=Prepend", grapheme["Prepend"]),
        "GRAPHEME_SPACING_MARK": ("GCB=SpacingMark", grapheme["SpacingMark"]),
        "HANGUL_L": ("GCB=L", grapheme["L"]),
        "HANGUL_V": ("GCB=V", grapheme["V"]),
        "HANGUL_T": ("GCB=T", grapheme["T"]),
        "PICTOGRAPHIC": ("Extended_Pictographic", emoji["Extended_Pictographic"]),
        "CONJUNCT_LINKER": ("virama of " + ", ".join(sorted(CONJUNCT_SCRIPTS)), linker),
        "CONJUNCT_CONSONANT": ("consonant of the same", consonant),
        "MARKS": ("gc=Mn, gc=Me or ccc≠0", marks),
        "TAIL": ("MARKS, gc=Mc, GCB=Extend, ZWJ: what hangs on the character before it", tail),
        "JOINER_LETTERS": ("letters and digits of scripts in which ZWNJ and ZWJ choose forms", joiner),
        "RTL_LETTERS": ("letters of bidi class R or AL", (bidi["R"] | bidi["AL"]) & letters),
    }
    parts = [HEAD]
    for name, (what, points) in tables.items():
        body = textwrap.wrap(ranges(points), 118, break_on_hyphens=False)
        short = len(body) == 1 and len(body[0]) + len(name) < 110
        value = f'"{body[0]}"' if short else '"""\n' + "\n".join(body) + '\n"""'
        parts.append(f"# {what}\n{name} = {value}\n")
    sys.stdout.write("\n".join(parts) + TAIL)


HEAD = f'''\"\"\"Unicode properties as ranges of code points, in hexadecimal: data.

Made by tests/data/text/make_unicode_tables.py from the Unicode Character Database {VERSION}
(GraphemeBreakProperty, emoji-data, DerivedGeneralCategory, DerivedCombiningClass, DerivedBidiClass,
DerivedJoiningType, IndicSyllabicCategory, Scripts, ScriptExtensions); copyright Unicode, Inc., Unicode licence.
The tables are our own so that no result hangs on the Unicode version of the Python in use. The conjunct classes
follow rule GB9c of Unicode 15.1 with Unicode 16's reading of InCB=Extend.
\"\"\"

UNICODE_VERSION = "{VERSION}"
'''

TAIL = """

def spans(table: str) -> list[tuple[int, int]]:
    \"\"\"The ranges of a table, first and last code point of each.\"\"\"
    pairs = (part.partition("-") for part in table.split())
    return [(int(first, 16), int(last or first, 16)) for first, _, last in pairs]


def char_class(*tables: str) -> str:
    \"\"\"The inside of a regular expression's class that holds every character of the tables.\"\"\"
    return "".join(f"\\\\U{first:08x}-\\\\U{last:08x}" for table in tables for first, last in spans(table))
"""


if __name__ == "__main__":
    main(Path(sys.argv[1]))
