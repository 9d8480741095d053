"""``cleanpipe quarantine``: what a run set aside, the bytes of one of it, and another try after a fix."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe.complete import complete, quarantine
from cleanpipe.engine.folder import Finished, load, place
from cleanpipe.errors import ConfigError
from cleanpipe.io.archive import read_one
from cleanpipe.io.inputs import resolve_inputs
from cleanpipe.io.record import Damage, ReadLimits
from cleanpipe.io.remote import redacted
from cleanpipe.io.store import Store, open_store
from cleanpipe.observer import Observer
from cleanpipe.recipe import Recipe, load_recipe, recipe_of
from cleanpipe.tokens.layout import POLICY, STORE
from cleanpipe_jobs.output import show, warn

SHOWN = 20  # rows listed without --json
HEAD = 2000  # bytes of a body that are shown
_ASIDE = "SELECT doc_id, url, reason, detail FROM ledger WHERE fate = 'quarantined'"  # of a token store
_MEND = {
    "damaged_range": "the bytes are damaged: fetch the archive again, then start a new run",
    "too_large": "above read.max_body: raise it in a new run",
    "bad_content_encoding": "the page's own coding is broken: nothing can mend it",
    "stage_error": "a step raised: mend the stage, then --rerun",
    "resource_limit": "a guard ended it: mend the stage or raise [guards], then --rerun",
}


def show_quarantine(args: argparse.Namespace, observer: Observer) -> int:
    """List, show one, or try again; the exit status."""
    root = place(args.out, "OUT")
    recipe = load_recipe("web", args.sets)  # for its [storage] and [guards]
    store = open_store(root, recipe.storage)
    if max(store.size(STORE), store.size(POLICY)) >= 0:
        raise ConfigError(
            f"{args.out} is a token store: which documents were set aside, and why, its ledger tells: "
            f'cleanpipe query {args.out} "{_ASIDE}"'
        )
    if args.rerun and (args.stage or args.reason or args.source):
        raise ConfigError(
            "--rerun tries everything again that may end otherwise: --stage, --reason, --source choose rows to list"
        )
    if args.rerun:
        return _rerun(args, store, recipe, observer)
    rows = list(_rows(args, store))
    if args.show is not None:
        return _show(args, store, rows, recipe)
    if args.json:
        show(json.dumps(rows, indent=2))
    elif not rows:
        show(f"nothing in the quarantine of {args.out}" + (" fits" if args.stage or args.reason or args.source else ""))
    else:
        _table(rows)
    return 0


def _rows(args: argparse.Namespace, store: Store) -> Iterator[dict[str, Any]]:
    wanted = {col.STAGE: args.stage, col.REASON: args.reason, col.SOURCE: args.source}
    for part in quarantine(store):
        table: pa.Table = part.rows
        for row in table.to_pylist():
            if all(not v or row[n] == v for n, v in wanted.items()):
                yield {**row, col.DOC_ID: row[col.DOC_ID].hex(), "unit": part.unit}


def _table(rows: list[dict[str, Any]]) -> None:
    counts: dict[tuple[str, str, str], int] = {}
    for r in rows:
        key = (r[col.STAGE], r[col.REASON], r["error"])
        counts[key] = counts.get(key, 0) + 1
    show(f"{len(rows):,} records or ranges\n")
    for (stage, reason, error), n in sorted(counts.items(), key=lambda c: -c[1]):
        show(f"{n:>9,}  {stage} / {reason} / {error}")
        if reason in _MEND:
            show(f"{'':9}  {_MEND[reason]}")
    show()
    for r in rows[:SHOWN]:
        where = f"{r[col.SOURCE]}@{r[col.RECORD_OFFSET]}+{r[col.RECORD_LENGTH]}"
        show(f"{r[col.DOC_ID]}  {where}  {r[col.URL] or '-'}")
        show(f"{'':34}{r[col.STAGE]}: {r['error']}: {_short(r['message'])}")
    if len(rows) > SHOWN:
        show(f"… and {len(rows) - SHOWN:,} more: --json lists all, --stage, --reason and --source choose")
    show("\n--show DOC_ID re-reads one from its archive; --rerun tries again what may end otherwise")


def _show(args: argparse.Namespace, store: Store, rows: list[dict[str, Any]], recipe: Recipe) -> int:
    found = [r for r in rows if args.show in (r[col.DOC_ID], str(r[col.RECORD_OFFSET]), r[col.RECORD_ID], r[col.URL])]
    found = found or [r for r in rows if r[col.DOC_ID].startswith(args.show)]
    if len(found) != 1:
        what = "nothing" if not found else f"{len(found):,} rows"
        raise ConfigError(
            f"--show {args.show}: {what} in the quarantine; give a doc_id, an offset, a record id or a URL"
        )
    row = found[0]
    facts = load(store, "run.json", ("inputs", "identity"))
    now = resolve_inputs(args.inputs, source_root=None, storage=recipe.storage) if args.inputs else ()
    named = {i["source"]: i["uri"] for i in facts["inputs"]} | {i.source: i.uri for i in now}
    uri = named[row[col.SOURCE]]
    read = facts["identity"]["settings"]["read"]
    limits = ReadLimits(max_body=read["max_body"], expansion=read["expansion"])
    place_of = row[col.RECORD_OFFSET], row[col.RECORD_LENGTH], row[col.OFFSET_KIND]
    item = read_one(uri, *place_of, limits=limits, storage=recipe.storage)
    if args.json:
        shown = {**row, "uri": redacted(uri), "headers": None if isinstance(item, Damage) else dict(item.headers)}
        show(json.dumps(shown, indent=2))
        return 0
    for name, value in row.items():
        if value is not None:
            show(f"{name:14} {_short(str(value))}")
    show(f"{'uri':14} {redacted(uri)}\n")
    if isinstance(item, Damage):
        show(f"no record can be read there: {item.error}: {item.message}")
        return 0
    for name, value in item.headers.items():
        show(f"{name}: {_short(value)}")
    show(f"\nblock, {len(item.block):,} bytes{', the first ' + f'{HEAD:,}' if len(item.block) > HEAD else ''}:\n")
    show(item.block[:HEAD].decode("utf-8", "backslashreplace"))
    return 0


def _rerun(args: argparse.Namespace, store: Store, machine: Recipe, observer: Observer) -> int:
    recipe = recipe_of(store, machine)
    done: Finished = complete(
        recipe,
        args.out,
        engine=args.engine,
        workers=args.workers,
        accept_code=args.accept_code,
        given=args.inputs,
        observer=observer,
    )
    left, again = int(done.facts["quarantined"]), int(done.facts["again"])
    if args.json:
        show(json.dumps({"out": args.out, "quarantined": left, "again": again, "exit_code": done.exit_code}))
    else:
        show(f"{args.out} is complete: {left:,} records or ranges in its quarantine, {again:,} could be tried again")
    for source, why in done.failed.items():
        warn(f"cleanpipe: {source} could not be read: {why}")
    return done.exit_code


def _short(text: str) -> str:
    text = " ".join(str(text).split())
    text = text if len(text) <= 160 else text[:159] + "…"
    return (
        text if sys.stdout.encoding is None else text.encode(sys.stdout.encoding, "replace").decode(sys.stdout.encoding)
    )
