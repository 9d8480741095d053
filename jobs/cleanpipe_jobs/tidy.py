"""``cleanpipe clean``: remove what killed attempts left in a run folder."""

from __future__ import annotations

import argparse
import json

from cleanpipe.engine.folder import place
from cleanpipe.io.store import open_store
from cleanpipe.recipe import load_recipe
from cleanpipe.tidy import tidy
from cleanpipe_jobs.output import show, warn

SHOWN = 20


def clean_up(args: argparse.Namespace) -> int:
    """Look, remove, tell; the exit status."""
    store = open_store(place(args.out, "OUT"), load_recipe("web", args.sets).storage)
    found = tidy(store, warn, work=args.work, dry=args.dry_run)
    if args.json:
        rows = [{"name": n, "bytes": s, "kind": k} for n, s, k in found]
        show(json.dumps({"out": args.out, "removed": not args.dry_run, "found": rows}, indent=2))
        return 0
    for kind in sorted({k for _, _, k in found}):
        some = [(n, s) for n, s, k in found if k == kind]
        show(f"{len(some):>9,}  {kind:8} {sum(max(s, 0) for _, s in some) / 1e6:,.1f} MB")
    if args.dry_run:
        for name, size, kind in found[:SHOWN]:
            show(f"{kind:8} {size:>14,}  {name}")
    show(("would be removed" if args.dry_run else "removed") if found else f"nothing to remove in {args.out}")
    return 0
