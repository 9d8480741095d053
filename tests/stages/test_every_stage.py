"""The contract, run over every stage that the registry lists; a pack of your own is tested by listing it here too."""

import inspect
import json
import re
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from cleanpipe import batch as col
from cleanpipe.registry import catalogue, load
from cleanpipe.stage import Stage
from cleanpipe.testing import batch, check_stage

STAGES = sorted(catalogue())
PROSE = "The keeper weighs each hive every evening and writes the figure on the inside of the lid. "
PAGES = [
    "<html><body><main><p>" + PROSE * 9 + "</p></main></body></html>",
    "<html><body></body></html>",
    "",
    "<p>" + "Der Hafenlotse kennt die Tiefe jeder Fahrrinne auswendig. " * 9,
    "<div>" * 40 + "deep" + "</div>" * 40,
    "\x00<p>a\x00b",
    "نص عربي قصير " * 30,
    "0123456789abcdef" * 200,
]
TEXTS = [
    PROSE * 40,
    "x",
    "a b c d e f",
    "Der Hafenlotse kennt die Tiefe.\n\n" * 30,
    "deep",
    "a b",
    "نص عربي قصير " * 30,
    "0123456789abcdef" * 200,
]
ROWS = len(PAGES)


def everything():
    """Every column that a shipped stage may read, with values of the right types."""
    ids = [i.to_bytes(16, "big") for i in range(ROWS)]
    values = {
        **{name: [None] * ROWS for name in col.READ_COLUMNS},
        col.DOC_ID: ids,
        col.SOURCE: ["a.warc.gz"] * ROWS,
        col.RECORD_OFFSET: list(range(ROWS)),
        col.RECORD_TYPE: ["response"] * (ROWS - 1) + ["conversion"],
        col.HTTP_STATUS: [200, 200, 404, 200, None, 206, 200, None],
        col.IS_HTTP: [True] * (ROWS - 1) + [None],
        col.MEDIA_TYPE: ["text/html"] * (ROWS - 1) + [None],
        col.MARKUP: PAGES,
        col.SCRUBBED: TEXTS,
        col.TEXT: [t.strip() for t in TEXTS],
        col.BYTES: [len(t.strip().encode()) for t in TEXTS],
        col.CONTENT_ID: ids,
        col.LANGUAGE: ["en", None, "und", "de", "en", "en", "ar", "en"],
        col.KEPT_DOC_ID: [None] * (ROWS - 1) + [ids[0]],
        col.JACCARD: [None] * (ROWS - 1) + [0.9],
        "duplicate": [None] * (ROWS - 1) + ["near_duplicate"],
    }
    types = {"duplicate": pa.string()}
    for stage in STAGES:
        for name, kind in {**load(catalogue()[stage]).writes, **load(catalogue()[stage]).scores}.items():
            if name not in values and name not in {*col.WINDOW_COLUMNS, *col.TEXT_COLUMNS}:
                values[name], types[name] = [None] * ROWS, kind
    return batch(types, **values)


@pytest.mark.parametrize("name", STAGES)
def test_declaration(name):
    kind = load(catalogue()[name])
    assert issubclass(kind, Stage)
    assert is_dataclass(kind)
    assert kind.__dataclass_params__.frozen
    assert kind.name == name == catalogue()[name].path.stem
    assert len(inspect.getdoc(kind) or "") > 20
    assert all(re.fullmatch(r"[a-z][a-z_]*", r) for r in kind.reasons)
    for spec in fields(kind):
        assert spec.metadata.get("doc"), f"{name}.{spec.name} has no line saying what it does"
    met = kind().exchange()
    brought = {col.TEXT, col.LENGTH, col.BYTES} | set(met.writes if met else ())
    assert not kind.reads & (set(kind.writes) | set(kind.scores)) - brought, "a stage reads what it writes itself"
    assert len(catalogue()[name].path.read_text().splitlines()) < 150


@pytest.mark.parametrize("name", STAGES)
def test_promises_hold_on_odd_rows(name):
    stage = load(catalogue()[name])()
    rows = everything()
    wanted = [
        n for n in rows.schema.names if n in {*stage.reads, *stage.reads_optional, col.DOC_ID, col.LENGTH, col.URL}
    ]
    done = check_stage(stage, rows.select(wanted))
    assert {r for r in done.reasons if r} <= stage.reasons


@pytest.mark.parametrize("name", STAGES)
def test_no_row_is_no_trouble(name):
    stage = load(catalogue()[name])()
    rows = everything().slice(0, 0)
    wanted = [
        n for n in rows.schema.names if n in {*stage.reads, *stage.reads_optional, col.DOC_ID, col.LENGTH, col.URL}
    ]
    assert check_stage(stage, rows.select(wanted)).rows.num_rows == 0


@pytest.mark.parametrize("name", STAGES)
def test_the_catalogue_page_names_it_its_reasons_and_options(name):
    page = (Path(__file__).parents[2] / "stages" / "README.md").read_text()
    kind = load(catalogue()[name])
    assert f"### {name}" in page
    section = page.split(f"### {name}\n")[1].split("\n### ")[0]
    for word in [*kind.reasons, *kind.scores, *(f.name for f in fields(kind))]:
        assert f"`{word}`" in section, f"stages/README.md does not say `{word}` in the section on {name}"
    for spec in fields(kind):
        rows = [line for line in section.splitlines() if line.startswith("| ") and f"`{spec.name}`" in line]
        default = spec.default if spec.default is not MISSING else spec.default_factory()
        assert any(_tells(row, default) for row in rows), f"{name}.{spec.name} is {default!r} in the code: {rows}"


def _tells(row, default):
    words = {json.dumps(default), str(default), f"{default:,}" if isinstance(default, int) else "", "unset"}
    told = {t.strip(' `"') for t in re.split(r"[,(:]", row.split("|")[2])}
    return json.dumps(default) in row or bool(words & told)
