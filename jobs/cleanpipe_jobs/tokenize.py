"""``cleanpipe tokenize``: the shards of a run as tokens that training reads."""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cleanpipe.tokens.audit.limits import OURS
from cleanpipe_jobs.output import show, warn

if TYPE_CHECKING:
    from cleanpipe.tokens.making.folder import Made

HELP = "turn a run's shards into tokens that training reads"
EPILOG = """\
Windows are joined to documents again; each document is encoded once, between
BOS and EOS. A control string in a page (<|endoftext|>) stays text. DIR gets the
payload once, with indexes for Megatron (.bin and .idx), datatrove (.ds) and
numpy (.offsets.npy), for each window where its text lies in the archive
(spans/), for each document what became of it (ledger/), and audit/audit.html.
Read it by `cleanpipe.tokens.open_tokens(DIR)`.

The same line again resumes a job that was stopped, or finds it finished. After
`cleanpipe decide DIR quarantine …` it makes those shards anew that hold such a
document, and leaves all others byte for byte as they are. With --repair it
reads every file of a finished store, and makes those shards again of which a
file is not what the manifest says; the same bytes come out.

the tokenizer is one of
  cleanpipe-16k (default), gpt2         in the package
  a tokenizer.json, a SentencePiece .model, or a file of tiktoken ranks
  (--pattern says how it splits)
BOS and EOS are what a SentencePiece file says; of every other kind, and where
it says nothing, they go by name, not by what a post-processor would add: the
first of these that the tokenizer has.
  BOS
    <s> <|begin_of_text|> <|bos|> <bos> <|startoftext|>
    <|begin▁of▁sentence|> <｜begin▁of▁sentence｜> [BOS] <BOS>
  EOS
    </s> <|end_of_text|> <|endoftext|> <|eos|> <eos> <|end▁of▁sentence|>
    <｜end▁of▁sentence｜> [EOS] <EOS> <|eot_id|>
The line `borders` tells which were taken. With neither, nothing stands between
documents: name one by --eos.

the backend is one of
  auto (default)    fast where it is proven to give the reference's ids, else hf
  hf                the tokenizers library, or SentencePiece's own: the
                    reference
  fast, torch       refused where they cannot be exact; torch with --device cuda
                    asks Ray for a GPU a task
Whatever is chosen is compared with hf first, then on one document of every
shard and one of 1,000: one differing id, and hf makes every shard.

examples:
  cleanpipe tokenize run/web --tokens tokens/web
  cleanpipe tokenize run/web --tokens tokens/web --repair
  cleanpipe tokenize run/web --tokenizer gpt2 --tokens tokens/gpt2 --json
  cleanpipe tokenize run/web --tokenizer llama3/tokenizer.json \\
    --tokens tokens/llama3 --workers 16
  cleanpipe run web crawl/ --out run/web &
    cleanpipe tokenize run/web --tokens tokens/web --follow
  cleanpipe tokenize s3://bucket/run/web --tokens s3://bucket/tokens/web \\
    --engine ray

exit status: 0 done; 1 the balance does not close, a limit was passed, or
--strict and a document was quarantined; 2 usage or configuration; 3 stopped
before the end: start the same line again; 130/143 by signal
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Of the command."""
    parser.add_argument("out", metavar="OUT", help="the run: its folder, or s3://bucket/prefix")
    parser.add_argument(
        "--tokens", required=True, metavar="DIR", help="the token store, or s3://bucket/prefix; made if absent"
    )
    parser.add_argument(
        "--tokenizer", default="cleanpipe-16k", metavar="T", help="a name or a file, see below (default: %(default)s)"
    )
    for name, where in (("bos", "before"), ("eos", "after")):
        parser.add_argument(
            f"--{name}",
            default="auto",
            metavar="TOKEN",
            help=f"put {where} each document: auto (as the tokenizer says, the default), none, a token or its id",
        )
    parser.add_argument("--pattern", default="", metavar="P", help="how ranks split: gpt2, cl100k, o200k or a regex")
    parser.add_argument(
        "--per-window", action="store_true", help="encode each window by itself; what that costs is told"
    )
    parser.add_argument("--backend", default="auto", metavar="NAME", help="auto (default), hf, fast or torch")
    parser.add_argument("--device", default="cpu", metavar="D", help="of torch: cpu (default), cuda, cuda:1")
    parser.add_argument(
        "--splitters",
        type=int,
        metavar="N",
        help="of torch: processes that split texts for the device (default: 0 for cpu, else up to 4 by processors)",
    )
    parser.add_argument(
        "--engine", metavar="NAME", help="serial, local (default) or ray (default where RAY_ADDRESS is set)"
    )
    parser.add_argument(
        "--workers", type=int, metavar="N", help="worker processes (default: processors of this machine)"
    )
    parser.add_argument(
        "--follow", action="store_true", help="begin while the run still publishes shards, and wait for its end"
    )
    parser.add_argument(
        "--repair", action="store_true", help="prove every file by its SHA-256; make damaged shards again"
    )
    parser.add_argument("--strict", action="store_true", help="exit 1 if any document was quarantined")
    for name, share, what in (("unk", OURS.unk, "unknown"), ("byte-fallback", OURS.byte_fallback, "byte-fallback")):
        parser.add_argument(
            f"--max-{name}",
            type=float,
            default=share,
            metavar="SHARE",
            help=f"exit 1 where more of the tokens are {what} ones (default: {share:g})",
        )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="sets",
        metavar="TABLE.OPTION=VALUE",
        help="storage.… (how the object store is reached) and guards.… (when a worker is ended)",
    )
    parser.add_argument("--log", metavar="FILE", help="add JSON lines to this file; - is standard output")
    parser.add_argument("--metrics", metavar="FILE", help="keep Prometheus' text format in this file (name it *.prom)")
    parser.add_argument("--quiet", "-q", action="store_true", help="print nothing but warnings and errors")


def main(args: argparse.Namespace) -> int:
    """Tokenize, tell, return the exit status."""
    from cleanpipe.tokens.audit.console import many
    from cleanpipe.tokens.making.run import tokenize
    from cleanpipe_jobs.watch import log_target, watching

    with watching(args) as observer:
        made = tokenize(
            args.out,
            args.tokens,
            tokenizer=args.tokenizer,
            bos=args.bos,
            eos=args.eos,
            pattern=args.pattern,
            per_window=args.per_window,
            backend=args.backend,
            device=args.device,
            splitters=args.splitters,
            engine=args.engine,
            workers=args.workers,
            sets=args.sets,
            follow=args.follow,
            repair=args.repair,
            max_unk=args.max_unk,
            max_byte_fallback=args.max_byte_fallback,
            observer=observer,
        )
    aside = quarantined(made.audit)
    code = 1 if args.strict and aside else made.exit_code
    if args.json:
        show(json.dumps(_summary(args.tokens, made, code), indent=2))
    elif not args.quiet and log_target(args) != "-":
        _show(args.out, args.tokens, made)
    for alarm in made.audit["alarms"]:
        warn(f"cleanpipe: warning: {alarm['told']}")
    for gate in made.gates:
        warn(f"cleanpipe: {gate}")
    if aside and (args.quiet or code):
        told = f"{many(aside, 'document')} {'was' if aside == 1 else 'were'} quarantined"
        warn(f"cleanpipe: {told}: see {args.tokens}/ledger")
    return code


def quarantined(audit: Mapping[str, Any]) -> int:
    """Documents that were set aside, but for those that were decided to be."""
    lost = audit["funnel"]["quarantined"]
    return sum(int(entry["documents"]) for reason, entry in lost.items() if reason != "decision")


def _show(out: str, tokens: str, made: Made) -> None:
    from cleanpipe.tokens.audit.console import many, summary

    facts, folder = made.facts, tokens.rstrip("/")
    if made.already:
        proven = f", and each of its {made.proven:,} files is as it was written" if made.proven else ""
        show(f"{tokens} is finished{proven}: nothing to do (made {facts['ended']} from {out})\n")
    if made.damaged:
        show(f"{_damaged(made.damaged)}: {made.rebuilt[0] if made.rebuilt else 0:,} of "
             f"{many(len(made.info['shards']), 'shard')} made again\n")  # fmt: skip
    elif made.rebuilt is not None:
        k, n = made.rebuilt
        rest = ", all others byte-identical" if k < n else ""
        show(f"{k:,} of {n:,} shard{'s' * (n != 1)} rebuilt{rest}\n")
    show(summary(made.audit, width=max(60, shutil.get_terminal_size((100, 24)).columns)))
    show()
    work, units = facts["work"], facts["units"]
    told = {"resumed": units["resumed"], "taken over": units["taken"], "tries more": units.get("retries", 0)}
    again = ", ".join(f"{n:,} {w}" for w, n in told.items() if n)
    show(f"store     {folder}    (Megatron: {folder}/tokens/*.bin, datatrove: *.ds)")
    show(f"ledger    {folder}/ledger    one row for every document of the run's shards")
    show(f"audit     {folder}/audit/audit.html")
    show(
        f"cost      {work['cpu_seconds']:,.1f} s of CPU, {facts['wall_seconds']:,.1f} s of wall time, largest worker "
        f"{work['peak_memory_bytes'] / 1e6:,.0f} MB, engine {facts['engine']}" + (f"; {again}" if again else "")
    )
    if said := _speed(work):
        show(f"speed     {said}")
    if said := _device(facts["backend"].get("work", {})):
        show(f"device    {said}")
    show("next      from cleanpipe.tokens import Plan, Reader, open_tokens")
    show(f'          for batch in Reader(Plan([open_tokens("{folder}")], length=4096), batch=8): batch.input_ids')


def _damaged(names: Sequence[str]) -> str:
    more = f" and {len(names) - 2:,} more" if len(names) > 2 else ""
    return f"{', '.join(names[:2])}{more} {'was' if len(names) == 1 else 'were'} damaged"


def _speed(work: Mapping[str, Any]) -> str:
    """Of encoding alone: what a job costs once is told apart from what grows with the text."""
    total, encode, text = (float(work.get(n, 0)) for n in ("cpu_seconds", "encode_seconds", "encoded_bytes"))
    if not encode or not text:
        return ""
    rest = max(0.0, total - encode)
    return (
        f"{text / 1e6 / encode:,.1f} MB of text a CPU second of encoding ({text / 1e6:,.1f} MB in {encode:,.1f} s); "
        f"the other {rest:,.1f} s: start-up, proof, spans"
    )


def _device(work: Mapping[str, Any]) -> str:
    """Of a backend that has one: where it worked, and which texts it left to hf."""
    told = work.get("torch", {})
    if not told:
        return ""
    begin = "texts_by_reference_"
    why = [f"{name.removeprefix(begin)} {n:,}" for name, n in sorted(told.items()) if name.startswith(begin) and n]
    memory, lack = told.get("device_bytes", 0) / 1e6, told.get("batches_out_of_memory", 0)
    return (
        f"{told.get('device', '')}: {told.get('texts', 0):,} texts, {told.get('texts_by_reference', 0):,} of them by hf"
        + (f" ({', '.join(why)})" if why else "")
        + f", {memory:,.0f} MB at most"
        + (f", {lack:,} batches did not fit" if lack else "")
    )


def _summary(tokens: str, made: Made, code: int) -> dict[str, Any]:
    audit = made.audit
    names = ("totals", "rates", "funnel", "windows", "conservation")
    return {
        "tokens": tokens,
        "already_finished": made.already,
        "exit_code": code,
        "digest": made.info.get("digest"),
        "repaired": list(made.damaged),
        "proven": made.proven,
        "alarms": audit["alarms"],
        "rebuilt": None if made.rebuilt is None else {"shards": made.rebuilt[0], "of": made.rebuilt[1]},
        "gates": list(made.gates),
        "backend": made.facts["backend"],
        "shards": made.info["shards"],
        "audit": {name: audit[name] for name in names},
        "work": made.facts["work"],
    }
