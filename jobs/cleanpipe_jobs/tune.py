"""``cleanpipe tune``: what other thresholds would have kept, told from a run's ledger."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from cleanpipe.errors import ConfigError
from cleanpipe_jobs.output import outside, show, warn

HELP = "what other thresholds would keep or lose, from the ledger alone"
EPILOG = """\
Nothing is run again: the scores in the ledger are judged by the new limits. The answer is that of a real run, to the
document. Where a score is missing (a page dropped earlier was never scored further on) the documents are counted as
unknown, with the stage and the reason; they can be listed by --unknown.

examples:
  cleanpipe tune run/web --set language_id.threshold=0.9
  cleanpipe tune run/web --set quality_score.max_perplexity=5000 --set quality_score.min_chars=200
  cleanpipe tune run/web --set minhash_drop.threshold=0.9 --flips flips.parquet
  cleanpipe tune run/web --set http_filter.types=text/html,application/pdf --unknown unknown.jsonl
  cleanpipe tune run/web --set quality_score.enabled=false --write mine.toml; cleanpipe run mine.toml crawl/ --out new

exit status: 0; 2 if the run cannot be read or an option cannot work
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("out", metavar="OUT", help="a run folder, or s3://bucket/prefix")
    parser.add_argument(
        "--set", action="append", default=[], dest="sets", metavar="STAGE.OPTION=VALUE",
        help="another value; may stand more than once. storage.… options say how an object store is reached",
    )  # fmt: skip
    parser.add_argument("--write", metavar="FILE", help="save the recipe with these values; valid for `cleanpipe run`")
    parser.add_argument("--flips", metavar="FILE", help="write every document whose fate changes (.parquet or .jsonl)")
    parser.add_argument("--unknown", metavar="FILE", help="write every document whose fate is unknown, likewise")
    parser.add_argument(
        "--samples", type=int, default=20, metavar="N", help="documents shown of each kind (default: 20)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="other samples (default: 0)")


def main(args: argparse.Namespace) -> int:
    """Tell; the exit status."""
    from cleanpipe.queries.opened_run import open_run
    from cleanpipe.queries.tune import tune
    from cleanpipe.queries.tune_samples import check_file, write_rows
    from cleanpipe.queries.tune_steps import no_sets
    from cleanpipe.queries.tune_tell import masks, tell
    from cleanpipe.queries.tune_text import text
    from cleanpipe_jobs.reach import storage_options

    if not 0 <= args.samples <= 1000:
        raise ConfigError(f"--samples {args.samples}: 0 to 1,000")
    if not 0 <= args.seed < 1 << 63:
        raise ConfigError(f"--seed {args.seed}: 0 or more")
    reach = [s for s in args.sets if s.startswith("storage.")]
    sets = [s for s in args.sets if not s.startswith("storage.")]
    if not sets:
        raise no_sets()
    for name, option in ((args.flips, "--flips"), (args.unknown, "--unknown")):
        check_file(name, option)
    for name, option in ((args.flips, "--flips"), (args.unknown, "--unknown"), (args.write, "--write")):
        if name:
            outside(name, option, args.out)
    with open_run(args.out, storage_options(reach), want=("ledger",)) as run:
        if run.caution:
            warn(run.caution)
        tuned = tune(run, sets)
        answer = tell(run, tuned, samples=args.samples, seed=args.seed)
        written = {}
        if args.flips:
            written[args.flips] = write_rows(tuned, args.flips, masks(tuned, ("lost", "gained", "moved", "decided")))
        if args.unknown:
            written[args.unknown] = write_rows(tuned, args.unknown, masks(tuned, ("unknown",)))
    if args.write:
        _write(Path(args.write), tuned.plan.recipe.to_toml(machine=False))
    if args.json:
        show(json.dumps({**answer, "written": written}, indent=2))
        return 0
    encoding = sys.stdout.encoding or "utf-8"
    for line in text(answer):
        show(line.encode(encoding, "replace").decode(encoding))
    for name, rows in written.items():
        show(f"{name}: {rows:,} documents")
    if args.write:
        show(f"{args.write}: the recipe with these values; run it: cleanpipe run {args.write} INPUT … --out NEW")
    return 0


def _write(path: Path, recipe: str) -> None:
    try:
        path.write_text(recipe, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--write {path} cannot be written: {error.strerror or error}") from error
