"""README.md of the shards: YAML that dataset hubs read, then Markdown for people."""

from __future__ import annotations

import json
from collections.abc import Iterable

from cleanpipe.audit.console import size
from cleanpipe.audit.tables import code, escape, table, title
from cleanpipe.card.facts import INPUTS, LICENCE, Card, plain

_SIZES = ("1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B", "100B", "1T")


def to_readme(card: Card) -> str:
    """The whole file."""
    parts = (_front(card), _head(card), _columns(card), _made(card), _funnel(card), _limits(card), _licence())
    return "\n".join(line for part in parts for line in part) + "\n"


def size_category(rows: int) -> str:
    """A hub's name for so many rows: ``n<1K``, ``1K<n<10K`` … ``n>1T``."""
    at = sum(rows >= 1000 * 10**i for i in range(len(_SIZES)))
    if at == 0:
        return f"n<{_SIZES[0]}"
    return f"n>{_SIZES[-1]}" if at == len(_SIZES) else f"{_SIZES[at - 1]}<n<{_SIZES[at]}"


def quoted(text: str) -> str:
    """A double-quoted YAML scalar of one line."""
    out = []
    for c in plain(text):
        if c in '"\\':
            out.append(f"\\{c}")
        elif c == " " or c.isprintable():
            out.append(c)
        else:
            point = ord(c)
            out.append(
                f"\\x{point:02x}" if point < 0x100 else f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"
            )
    return f'"{"".join(out)}"'


def _front(card: Card) -> Iterable[str]:
    yield from ("---", f"pretty_name: {quoted(card.title)}")
    if card.languages:
        yield "language:"
        yield from (f"- {quoted(language)}" for language in card.languages)
    yield from ("license: unknown", "task_categories:", "- text-generation", "task_ids:", "- language-modeling")
    yield from ("size_categories:", f"- {size_category(card.rows)}")
    yield from ("tags:", "- cleanpipe", "- croissant")
    yield from ("configs:", "- config_name: default", "  data_files:", "  - split: train", '    path: "data-*.arrow"')
    yield from ("---", "")


def _head(card: Card) -> Iterable[str]:
    shards, days = card.shards, card.days
    yield f"# {escape(card.title)}"
    yield ""
    yield (
        "Text that cleanpipe took from web archives: main content of pages, filtered, deduplicated and cut into "
        "windows by the recipe below. Written by the run itself; `croissant.json` says the same for programs."
    )
    yield ""
    rows = [
        ["documents", f"{card.documents:,}, of {card.read:,} records and damaged ranges read"],
        ["windows (rows)", f"{card.rows:,}"],
        ["characters", f"{card.characters:,}, each counted once"],
        ["shards", f"{len(shards):,}, {size(sum(s['bytes'] for s in shards))}"],
        ["languages", ", ".join(card.languages) or "not told"],
        ["captured", f"{days[0]} to {days[1]}" if days else "not said"],
        ["configuration", f"`{card.config}`"],
    ]
    yield from table(["", ""], rows, left=(0, 1))
    yield ""
    yield from ("```python", "import datasets", "", 'dataset = datasets.load_from_disk("PATH/OF/THIS/FOLDER")', "```")


def _columns(card: Card) -> Iterable[str]:
    yield from title("Columns")
    yield from table(
        ["column", "type", "meaning"], [[f"`{n}`", str(t), escape(m)] for n, t, m in card.columns()], (0, 1, 2)
    )


def _made(card: Card) -> Iterable[str]:
    yield from title("How it was made")
    yield f"Recipe {escape(card.recipe.name)}: {escape(card.recipe.description) or 'no description'}"
    yield ""
    yield f"- cleanpipe's code: SHA-256 `{card.code}`"
    yield from (f"- model {escape(name)}: SHA-256 `{digest}`" for name, digest in card.models.items())
    yield ""
    yield "```"  # no line of JSON begins with one, so nothing in it ends the block
    for name, on, options in card.settings():
        yield json.dumps({"stage": name, "enabled": on, "options": options})
    yield "```"
    yield from title("Inputs", 3)
    inputs = card.inputs
    yield f"{len(inputs):,} archives, {size(sum(i['size'] for i in inputs))}."
    yield ""
    rows = [[code(plain(i["source"])), f"{i['size']:,}", f"`{i['sha256']}`" if i["sha256"] else "—"] for i in inputs]
    yield from table(["archive", "bytes", "SHA-256"], rows[:INPUTS], left=(0, 2))
    if len(rows) > INPUTS:
        yield from ("", f"The first {INPUTS:,} of {len(rows):,}; the run's run.json has all.")


def _funnel(card: Card) -> Iterable[str]:
    yield from title("Funnel")
    rows = []
    for name, words, entered, left, lost in card.steps():
        why = ", ".join(f"{escape(reason)} {n:,}" for reason, n in lost.items())
        rows.append([escape(name), escape_all(words), f"{entered:,}", f"{left:,}", why])
    yield from table(["stage", "what it does", "documents in", "out", "lost"], rows, left=(0, 1, 4))
    yield from ("", card.balance())


def _limits(card: Card) -> Iterable[str]:
    yield from title("Known limits")
    yield from (f"- {escape_all(limit)}" for limit in card.limits())


def _licence() -> Iterable[str]:
    yield from title("Licence")
    yield LICENCE


def escape_all(text: str) -> str:
    """As ``escape``, of whatever length."""
    return "".join(escape(text[i : i + 150]) for i in range(0, len(text), 150))
