"""``cleanpipe explain``: why one document was kept or not, and the same again from its archive as proof."""

from __future__ import annotations

import argparse
import json
import time
from typing import TYPE_CHECKING, Any

from cleanpipe_jobs.output import show, warn

if TYPE_CHECKING:
    from cleanpipe.options import StorageOptions
    from cleanpipe.queries.opened_run import OpenRun
    from cleanpipe.queries.replay import Replay

HELP = "why a document was kept or dropped: scores beside thresholds, and a replay from its archive"
EPILOG = """\
KEY is a URL, a record id (with or without <urn:uuid:…>), a doc_id or at least 6 digits of its beginning, or
SOURCE@OFFSET, as reports and `cleanpipe quarantine` show them. A key that names nothing is answered with the nearest
ones (exit status 2), and why each: another scheme, a letter off in host or path, the same host or path, a word in it.
Of several captures of a URL the first is explained; choose another by its doc_id.

The answer comes from the ledger. Then the record is read again from its archive and treated by the stages one by one:
the text at each boundary is shown, and fate, content_id, every score, windows and shard rows are compared with what the
run wrote (exit status 1 where they differ, or where the archive cannot be read). A near duplicate meets the document
that stands for it again.

examples:
  cleanpipe explain run/web https://example.org/page
  cleanpipe explain run/web 8d90c623 --diff                        what each step took out of the text
  cleanpipe explain run/web CC-MAIN-2026.warc.gz@48321 --full      all of the text
  cleanpipe explain run/web '<urn:uuid:bed28f39-…>' --input /new/place    the archives were moved
  cleanpipe explain s3://bucket/run/web 8d90c623 --no-replay --json
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own."""
    parser.add_argument("out", metavar="OUT", help="the run folder, or s3://bucket/prefix; unfinished ones too")
    parser.add_argument("key", metavar="KEY", help="URL, record id, doc_id, or SOURCE@OFFSET")
    parser.add_argument("--no-replay", action="store_true", help="answer from the ledger alone")
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        dest="inputs",
        metavar="INPUT",
        help="where inputs lie now, as for a run",
    )
    parser.add_argument("--full", action="store_true", help="show all of each text, not its first lines")
    parser.add_argument("--diff", action="store_true", help="show what changed from one text to the next")
    parser.add_argument(
        "--set", action="append", default=[], dest="sets", metavar="storage.OPTION=VALUE",
        help="how the object store is reached: storage.endpoint, region, profile, anonymous",
    )  # fmt: skip


def main(args: argparse.Namespace) -> int:
    """Answer; 0, 1 where the replay does not give the same, 2 for an unknown key."""
    from cleanpipe.queries.explain import explain
    from cleanpipe.queries.lookup import Finder, UnknownKeyError
    from cleanpipe.queries.shelf import open_shelf
    from cleanpipe_jobs.explain_text import in_text, printable, replay_in_text
    from cleanpipe_jobs.reach import storage_options

    storage = storage_options(args.sets)
    began = time.perf_counter()
    with open_shelf(args.out, storage) as shelf:
        run, finder = shelf.run, Finder(shelf)
        if run.caution:
            warn(run.caution)
        try:
            found = finder.find(args.key)
        except UnknownKeyError as error:
            return _unknown(args, error)
        part, row = found.places[0], shelf.rows(found.places[:1])[0]
        answer = explain(finder, found, row, part[0])
        answer["lookup_seconds"] = round(time.perf_counter() - began, 3)
        if not args.json:
            for line in answer["cautions"]:
                warn(line)
            show(printable(in_text(answer)))
        if args.no_replay:
            if args.json:
                show(json.dumps({**answer, "replay": None}, indent=2))
            return 0
        said = answer["quarantine"] or {}
        answer["replay"], done = _replayed(args, run, finder, row, str(said.get("error") or ""), storage)
        if args.json:
            show(json.dumps(answer, indent=2))
        else:
            show(printable(replay_in_text(answer["replay"], full=args.full)))
        same = done.proven and not answer["replay"]["shard_differs"]
        return 0 if same or done.declined else 1


def _unknown(args: argparse.Namespace, error: Any) -> int:
    from cleanpipe_jobs.explain_text import nearest_in_text, safe

    if args.json:
        nearest = [{"key": n.key, "why": n.why, "doc_id": n.doc_id, "url": n.url} for n in error.nearest]
        show(json.dumps({"error": str(error), "nearest": nearest, "exit_code": 2}, indent=2))
    else:
        warn(f"cleanpipe: {safe(str(error))}", public=error.public)
        if error.nearest:
            warn(nearest_in_text(error.nearest))
    return 2


def _replayed(
    args: argparse.Namespace, run: OpenRun, finder: Any, row: dict[str, Any], error: str, storage: StorageOptions
) -> tuple[dict[str, Any], Replay]:
    """The replay as plain data, and itself."""
    from cleanpipe.errors import ConfigError
    from cleanpipe.queries.explain import against_shard, shard_rows
    from cleanpipe.queries.moved import uris_now
    from cleanpipe.queries.replay import Replayer
    from cleanpipe_jobs.explain_text import boundaries, replay_facts, words_apart

    replayer = Replayer(run, uris_now(run, args.inputs or (), storage), finder.row_of)
    cautions = [*replayer.cautions(), *replayer.input_changes(row)]
    if not args.json:
        for line in cautions:
            warn(line)
    done = replayer.replay(row, error)
    out: dict[str, Any] = {"cautions": cautions, **replay_facts(done)}
    out["boundaries"] = boundaries(done, full=args.full, diff=args.diff)
    out["shard_rows"], out["shard_differs"] = None, []
    if done.windows is not None and row.get("shard"):
        try:
            if (written := shard_rows(finder.shelf, row)) is not None:
                out["shard_rows"] = written.num_rows
                out["shard_differs"] = against_shard(written, done.windows, done.text, done.unproven)
        except ConfigError as fault:
            out["shard_rows"], out["shard_differs"] = 0, [str(fault)]
    out["words"] = words_apart(done.text, done.keeper.text) if done.keeper is not None else None
    return out, done
