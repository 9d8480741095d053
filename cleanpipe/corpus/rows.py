"""What readers give: rows of a corpus in pieces of bounded size, and rows that are none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

MAX_ROWS, MAX_BYTES = 1000, 8 << 20  # of one piece
MAX_TEXT = 64 << 20  # bytes of one row as it lies; a longer one is a bad row

# why a row is no document
BAD_JSON, NOT_OBJECT, NULL_TEXT, NOT_TEXT, TOO_LARGE = "bad_json", "not_object", "null_text", "not_text", "too_large"
DAMAGED, NO_COLUMN, TORN = "damaged", "no_text_column", "window_missing"
PROBLEMS = {
    BAD_JSON: "lines that are no JSON",
    NOT_OBJECT: "lines that are JSON but no object",
    NULL_TEXT: "rows whose text is null",
    NOT_TEXT: "rows whose text is no string",
    NO_COLUMN: "rows without the text column",
    TOO_LARGE: f"rows of more than {MAX_TEXT >> 20} MiB",
    DAMAGED: "files or parts of files that cannot be read",
    TORN: "documents of which a window is missing",
}
_ONE = {
    BAD_JSON: "line that is no JSON",
    NOT_OBJECT: "line that is JSON but no object",
    NULL_TEXT: "row whose text is null",
    NOT_TEXT: "row whose text is no string",
    NO_COLUMN: "row without the text column",
    TOO_LARGE: f"row of more than {MAX_TEXT >> 20} MiB",
    DAMAGED: "file or part of a file that cannot be read",
    TORN: "document of which a window is missing",
}


def problem_words(kind: str, n: int) -> str:
    """``1 line that is no JSON``, ``1,234 lines that are no JSON``."""
    return f"{n:,} {_ONE[kind] if n == 1 else PROBLEMS[kind]}"


@dataclass(frozen=True, slots=True)
class Problem:
    """row: counted from 0 inside the segment, -1 where it is not of one row."""

    kind: str
    row: int
    message: str


@dataclass(slots=True)
class Rows:
    """Columns of one piece, all of one length. place: row inside the segment, from 0. offset: what tells the row from
    all others of its file: bytes (JSONL), else its number in the file. invalid: bytes that are no UTF-8.
    """

    place: list[int] = field(default_factory=list)
    offset: list[int] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    url: list[str | None] = field(default_factory=list)
    id: list[str | None] = field(default_factory=list)
    invalid: list[int] = field(default_factory=list)
    windows: list[int] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    read: int = 0  # rows gone by, documents or not
    size: int = 0  # bytes gone by, as the file lies, as far as that is known
    held: int = 0

    def add(
        self, place: int, offset: int, text: str, url: str | None, id_: str | None, invalid: int = 0, windows: int = 1
    ) -> None:
        """One document."""
        self.place.append(place)
        self.offset.append(offset)
        self.text.append(text)
        self.url.append(url)
        self.id.append(id_)
        self.invalid.append(invalid)
        self.windows.append(windows)
        self.held += len(text)

    def __len__(self) -> int:
        return len(self.text)

    @property
    def full(self) -> bool:
        """Whether it is time to hand it on."""
        return len(self.text) >= MAX_ROWS or self.held >= MAX_BYTES or len(self.problems) >= MAX_ROWS


Pieces = Iterator[Rows]


def decoded(data: bytes) -> tuple[str, int]:
    """UTF-8 as text, each byte that is none as U+FFFD; and how many U+FFFD that put in."""
    try:
        return data.decode(), 0
    except UnicodeDecodeError:
        text = data.decode(errors="replace")
        return text, max(1, text.count("\ufffd") - data.count(b"\xef\xbf\xbd"))


def as_name(value: object) -> str | None:
    """A URL or id as text that a file can hold; None where there is none."""
    if value is None or value == "":
        return None
    if isinstance(value, bytes):
        return value.hex()
    return str(value).encode("utf-8", "replace").decode()[:4096]
