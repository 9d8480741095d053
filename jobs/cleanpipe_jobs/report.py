"""``cleanpipe report``: a run's page again, from its audit.json and run.json; of an unfinished run, what is there; of
tokens the page of their audit.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from pathlib import Path

from cleanpipe.errors import ConfigError
from cleanpipe_jobs.output import show, warn

HELP = "draw the page (audit.html) of a run or of tokens again, unfinished ones too"
EPILOG = """\
A finished run has its page already: OUT/audit/audit.html. This draws it again,
with this version of cleanpipe, for runs that an earlier version wrote, for runs
on an object store, and for runs that are not finished: then it shows the units
that are done, and says so. The page is one file without scripts that asks the
network for nothing: send it around.

Nothing is written into the run's folder: its manifest seals its files.

examples:
  cleanpipe report run/web                    writes web-audit.html here
  cleanpipe report run/web --out so-far.html  while the run is at work
  cleanpipe report s3://bucket/run/web --out web.html
  cleanpipe report tokens/web                 of what `cleanpipe tokenize` wrote
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own."""
    parser.add_argument(
        "out", metavar="OUT", help="the run folder, or s3://bucket/prefix; unfinished ones and tokens too"
    )
    parser.add_argument("--out", dest="target", metavar="FILE", help="write the page there (default: NAME-audit.html)")
    parser.add_argument(
        "--set", action="append", default=[], dest="sets", metavar="storage.OPTION=VALUE",
        help="how the object store is reached: storage.endpoint, region, profile, anonymous",
    )  # fmt: skip


def main(args: argparse.Namespace) -> int:
    """Write the page, print where it is; 0."""
    from cleanpipe.queries.opened_run import open_run
    from cleanpipe.report.audit_page import to_html
    from cleanpipe.tokens.audit.page import to_html as of_tokens
    from cleanpipe_jobs.reach import storage_options

    target = Path(args.target or f"{_name(args.out)}-audit.html")
    _outside(target, args.out)
    with open_run(args.out, storage_options(args.sets), want=("audit",), tokens=()) as run:
        page = (of_tokens(run.audit) if run.tokens else to_html(run.audit, run.facts, caution=run.caution)).encode()
        caution, finished = run.caution, run.finished
    _write(target, page)
    if args.json:
        answer = {"out": args.out, "page": str(target), "bytes": len(page), "finished": finished}
        show(json.dumps({**answer, **({"caution": caution} if caution else {})}, indent=2))
        return 0
    if caution:
        warn(f"cleanpipe: {caution}")
    show(str(target))
    return 0


def _name(out: str) -> str:
    """The last part of the run's place that can be a file's name."""
    last = out.rstrip("/").rpartition("/")[2] if "://" in out else Path(out).resolve().name
    return re.sub(r"[^\w.\-]+", "-", last).strip("-.") or "run"


def _outside(target: Path, out: str) -> None:
    """Raises ConfigError: the page would lie in a run's folder, whose manifest would not hold any more."""
    place = out.removeprefix("file://")
    own = Path(place).resolve() if "://" not in place else None
    for folder in target.resolve().parents:
        if folder == own or all((folder / n).is_file() for n in ("manifest.json", "run.json")):
            raise ConfigError(
                f"{target} would lie in the run's folder {folder}, which is sealed: name a --out elsewhere"
            )


def _write(target: Path, page: bytes) -> None:
    """Whole or not at all.

    Raises:
        ConfigError: it cannot be written there.
    """
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        if target.is_dir():
            raise ConfigError(f"--out {target} is a folder: name a file")
        draft.write_bytes(page)
        draft.replace(target)
    except OSError as error:
        raise ConfigError(f"{target} cannot be written: {error.strerror or error}") from error
    finally:
        draft.unlink(missing_ok=True)
