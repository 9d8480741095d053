"""``cleanpipe export``: a token store written again for loaders that have a form of their own."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from cleanpipe_jobs.output import show
from cleanpipe_jobs.reach import storage_options

HELP = "write a token store for MosaicML streaming (mds) or LitData (litdata)"
EPILOG = """\
Megatron, datatrove, nanotron and plain numpy read a token store as it lies;
nothing has to be exported for them:
  TOKENS/tokens/NAME.bin and .idx
      megatron.core.datasets.indexed_dataset.IndexedDataset(
          "TOKENS/tokens/NAME")
  TOKENS/tokens/NAME.ds and .ds.index
      datatrove.utils.dataset.DatatroveFileDataset
  TOKENS/tokens/NAME.bin and .offsets.npy
      numpy.fromfile, numpy.load(mmap_mode="r")

The two forms here hold the ids once more. What `cleanpipe decide` masked or
quarantined is left out of them. They have no place for weights: documents that
have one are in them whole, and it is told how many. An export that was stopped
goes on by the same line; `cleanpipe verify DIR` proves its files.

examples:
  cleanpipe export tokens/ --to mds --out tokens-mds/
      streaming.StreamingDataset(local="tokens-mds/", batch_size=8)[0]["tokens"]
      is one document; so its "url", "doc_id"
  cleanpipe export tokens/ --to litdata --length 2049 --out s3://bucket/lit
      litdata.StreamingDataset("s3://bucket/lit",
          item_loader=litdata.TokensLoader(block_size=2049))
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("tokens", metavar="TOKENS", help="a token store: a folder, or s3://bucket/prefix")
    parser.add_argument("--to", required=True, choices=("mds", "litdata"), help="the form")
    parser.add_argument("--out", required=True, metavar="DIR", help="a folder, or s3://bucket/prefix; made if absent")
    parser.add_argument("--length", type=int, default=0, metavar="L", help="litdata: tokens of a block (block_size)")
    parser.add_argument(
        "--set", action="append", default=[], dest="sets", metavar="storage.OPTION=VALUE",
        help="how the object store is reached: storage.endpoint, region, profile, anonymous",
    )  # fmt: skip


def main(args: argparse.Namespace) -> int:
    """Export; the exit status."""
    from cleanpipe.tokens.audit.console import many
    from cleanpipe.tokens.store import open_tokens
    from cleanpipe.tokens.store.export import export

    store = open_tokens(args.tokens, storage_options(args.sets))
    done = export(store, args.out, args.to, length=args.length)
    if args.json:
        show(json.dumps(asdict(done), indent=2))
        return 0
    what = "is there already" if done.already else "written"
    told = f"{many(done.documents, 'document')}, {many(done.tokens, 'token')}"
    show(f"{done.out}: {what}: {told}, {done.bytes / 1e6:,.1f} MB")
    if (n := done.left_out) == 1:
        show("1 document was left out: it is masked or quarantined in decisions.jsonl")
    elif n:
        show(f"{n:,} documents were left out: they are masked or quarantined in decisions.jsonl")
    if done.weighted:
        has, are = ("has", "it is") if done.weighted == 1 else ("have", "they are")
        show(
            f"{many(done.weighted, 'document')} ({many(done.weighted_tokens, 'token')}) {has} a weight below 1: "
            f"{args.to} has no place for it, {are} in it whole"
        )
    if done.unread == 1:
        show(f"the last token fills no block of {args.length:,}: LitData does not read it")
    elif done.unread:
        show(f"the last {done.unread:,} tokens fill no block of {args.length:,}: LitData does not read them")
    show(f"prove it by `cleanpipe verify {done.out}`")
    return 0
