"""``cleanpipe trace``: from tokens to documents and archive bytes, and from documents to their tokens."""

from __future__ import annotations

import argparse
import csv
import io
import json
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cleanpipe_jobs.output import show, warn
from cleanpipe_jobs.tokens_asked import as_named, key_arguments, name_of, names_kept, number, storage_argument
from cleanpipe_jobs.tokens_plan import PLAN_FILE, plan_arguments

if TYPE_CHECKING:
    from cleanpipe.options import StorageOptions
    from cleanpipe.tokens.decisions import Effects
    from cleanpipe.tokens.reading.plan import Plan
    from cleanpipe.tokens.store import TokenStore
    from cleanpipe.tokens.tracing import Part, Range, TracedSequence
    from cleanpipe.tokens.tracing.proof import Proof, Prover

HELP = "which documents tokens and steps came from; which tokens a document is"
EPILOG = f"""\
From tokens: --token is a number in the store; --sequence and --step are of a
plan, so say which: --length, --packing, --seed, --shuffle, or --plan FILE.
Step N of batches of B is the sequences N·B to N·B + B - 1. Their pieces of
documents are listed, the most suspect first, by
  1. n-grams of 1 to 13 tokens that come 32 times or more in a row (REPEATS);
  2. how many rare ids they have more than chance gives. Rare are the seldomest
     ids that together are 1 % of the store's tokens at most, so chance gives n
     tokens n/100 at most: 2 in 11 tokens are 1.89 more, 9 in 400 are 5;
  3. length.
With --run OUT each document's record is read again from its archive, treated by
the stages of its run, and the token's bytes must be in the text that comes out,
at the characters that the store tells (exit status 1 where they are not).

From documents: --url, --doc, --content, --host list their tokens: by number in
the store, in the shard's payload, and as bytes of its file; with a plan the
sequences too. That is the list for a takedown; `cleanpipe decide` acts on it.
What the build left out is told with its reason: the proof that it is gone. With
--run OUT so is what the run dropped, and of a duplicate the document that the
run kept in its place. Exit status 2 where a key names nothing, or the same text
is still in the store under another document.

{PLAN_FILE}
examples:
  cleanpipe trace tokens/web --token 123456 --text --run run/web
  cleanpipe trace tokens/web --sequence 7 --length 4096 --seed 1 --text
  cleanpipe trace tokens/web --step 1200 --batch 64 --plan reader.json --json
  cleanpipe trace tokens/web --url https://example.org/page --run run/web
  cleanpipe trace tokens/web --doc 8d90c623 --length 4096 --packing best-fit
  cleanpipe trace tokens/web --host example.org --csv > takedown.csv
"""
_LARGEST = 1 << 14  # sequences of a step
_CSV = (
    "doc_id", "url", "document", "token_start", "token_stop", "shard", "shard_start", "shard_stop", "byte_start",
    "byte_stop", "sequences",
)  # fmt: skip


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own."""
    parser.add_argument("tokens", metavar="TOKENS", help="the folder of a token store, or s3://bucket/prefix")
    parser.add_argument("--token", type=number, metavar="N", help="a token by its number in the store, from 0")
    parser.add_argument("--sequence", type=number, metavar="N", help="a sequence of a plan, from 0")
    parser.add_argument("--step", type=number, metavar="N", help="all sequences of a training step, from 0")
    parser.add_argument("--batch", type=number, metavar="B", help="sequences of a step")
    key_arguments(parser)
    plan_arguments(parser)
    parser.add_argument("--epoch", type=number, default=0, metavar="E", help="of sequences that are looked for")
    parser.add_argument("--text", action="store_true", help="show the text that the tokens are")
    parser.add_argument(
        "--run", metavar="OUT",
        help="the run that the store was made of: prove tokens from its archives; know documents that it dropped",
    )  # fmt: skip
    parser.add_argument(
        "--input", "--inputs", action="extend", nargs="+", default=[], dest="inputs", metavar="INPUT",
        help="with --run: where the archives lie now, if they were moved",
    )  # fmt: skip
    parser.add_argument("--top", type=number, default=20, metavar="N", help="pieces of a step shown (default: 20)")
    parser.add_argument("--csv", action="store_true", help="of documents: print their ranges as CSV")
    storage_argument(parser)


def main(args: argparse.Namespace) -> int:
    """Answer; 0, 1 where the archive does not give what the store holds, 2 for what is not there."""
    with names_kept(args):
        return _main(args)


def _main(args: argparse.Namespace) -> int:
    from cleanpipe.errors import ConfigError
    from cleanpipe.tokens.store import open_tokens
    from cleanpipe_jobs.reach import storage_options

    back = bool(args.docs or args.contents or args.urls or args.hosts)
    asked = [n for n in ("token", "sequence", "step") if getattr(args, n) is not None]
    if len(asked) + back != 1:
        raise ConfigError(
            "ask for one of --token, --sequence, --step, or for documents (--url, --doc, --content, --host)"
        )
    if (args.batch is not None) != (args.step is not None) or args.batch == 0:
        raise ConfigError("--step N goes with --batch B, the sequences of a step: 1 or more")
    if (args.batch or 0) > _LARGEST:
        raise ConfigError(f"--batch {args.batch:,}: {_LARGEST:,} sequences at most are traced at a time")
    if args.csv and (not back or args.json):
        raise ConfigError("--csv is for --url, --doc, --content and --host, and goes without --json")
    if args.csv and args.text:
        raise ConfigError("--csv has no column for --text: leave one of them out, or take --json")
    if args.inputs and (back or not args.run):
        raise ConfigError("--input goes with --run and --token, --sequence or --step")
    storage = storage_options(args.sets)
    store = open_tokens(args.tokens, storage)
    if back:
        return _back(args, store, storage)
    with _prover(args, storage) as prover:
        if args.token is not None:
            return _token(args, store, prover)
        return _sequences(args, store, prover, storage)


def _prover(args: argparse.Namespace, storage: StorageOptions) -> Any:
    if not args.run:
        return nullcontext()
    from cleanpipe.tokens.tracing.proof import open_prover

    return open_prover(args.run, args.inputs, storage)


def _decided(args: argparse.Namespace, store: TokenStore) -> Effects:
    from cleanpipe.tokens.decisions import effects
    from cleanpipe_jobs.decide import loaded

    return effects(store, loaded(args, store))


def _cautions(prover: Any) -> list[str]:
    out = [] if prover is None else list(prover.replayer.cautions())
    for line in out:
        warn(line)
    return out


def _token(args: argparse.Namespace, store: TokenStore, prover: Any) -> int:
    from cleanpipe.errors import ConfigError
    from cleanpipe.tokens.tracing import tokenizer_of, trace_token
    from cleanpipe_jobs.trace_text import around, token_facts, token_in_text

    if args.token >= store.tokens:
        raise ConfigError(f"token {args.token:,}: {store.root} has {store.tokens:,}, numbered from 0")
    tokenizer = tokenizer_of(store)
    traced = trace_token(store, args.token, tokenizer=tokenizer)
    facts = token_facts(traced, tokenizer, _decided(args, store))
    if args.text:
        facts["text"] = around(store, tokenizer, traced)
    if prover is not None:
        facts["cautions"] = _cautions(prover)
        facts |= _proven(prover.token(store, tokenizer, traced))
    show(json.dumps(facts, indent=2) if args.json else token_in_text(store, facts))
    return int(prover is not None and not facts["proof"]["same"])


def _proven(found: Any) -> dict[str, Any]:
    """What a proof says; the characters anew where it knows them better."""
    proof = {"same": found.same, "how": found.how, "text": found.text, "wrong": list(found.wrong)}
    return {"proof": proof, "characters": None if found.characters is None else asdict(found.characters)}


def _sequences(args: argparse.Namespace, store: TokenStore, prover: Any, storage: StorageOptions) -> int:
    from cleanpipe.tokens.tracing import ranked, tokenizer_of, trace_sequence
    from cleanpipe.tokens.tracing.sequence import rare_of
    from cleanpipe_jobs.tokens_plan import plan_of
    from cleanpipe_jobs.tokens_said import plan_facts
    from cleanpipe_jobs.trace_text import part_facts, step_in_text

    plan = plan_of(args, store, storage)
    numbers = [args.sequence] if args.step is None else range(args.step * args.batch, (args.step + 1) * args.batch)
    rare = rare_of(plan)
    found: list[TracedSequence] = [trace_sequence(plan, g, rare=rare) for g in numbers]
    decided = [_decided(args, s.store) for s in plan.sources]
    names = [name_of(args, s.store) for s in plan.sources]
    facts: dict[str, Any] = {
        "plan": plan_facts(plan),
        "step": args.step,
        "sequences": [
            {"sequence": s.sequence, "store": names[s.source], "epoch": s.epoch, "tokens": s.tokens,
             "padding": s.length - s.tokens, "documents": len(s.parts)}
            for s in found
        ],
    }  # fmt: skip
    parts = ranked([part for s in found for part in s.parts])
    facts["documents"] = [part_facts(names[p.source], p, decided[p.source]) for p in parts]
    if args.text:
        for s, one in zip(found, facts["sequences"], strict=True):
            one["text"] = _text(plan, s, tokenizer_of(plan.sources[s.source].store))
    wrong = 0
    if prover is not None:
        facts["cautions"] = _cautions(prover)
        for part, one in zip(parts, facts["documents"], strict=True):
            one |= _proven(_prove(plan, part, prover))
            one["proof"].pop("text")
            wrong += not one["proof"]["same"]
    show(json.dumps(facts, indent=2) if args.json else step_in_text(facts, args.top))
    return int(wrong > 0)


def _text(plan: Plan, found: TracedSequence, tokenizer: Any) -> str:
    from cleanpipe.tokens.tracing.characters import text_of

    store = plan.sources[found.source].store
    return "".join(text_of(tokenizer, store, store.read(p.start, p.stop)) for p in plan.locate(found.sequence))


def _prove(plan: Plan, part: Part, prover: Prover) -> Proof:
    from cleanpipe.tokens.tracing import tokenizer_of

    store = plan.sources[part.source].store
    return prover.range(store, tokenizer_of(store), part.origin, part.token_start, part.token_stop)


def _back(args: argparse.Namespace, store: TokenStore, storage: StorageOptions) -> int:
    import numpy as np

    from cleanpipe.errors import ConfigError
    from cleanpipe.tokens.decisions_impact import hit_by
    from cleanpipe.tokens.tracing.ranges import ranges
    from cleanpipe_jobs.tokens_asked import absent_of, keys_of, unknown
    from cleanpipe_jobs.tokens_plan import plan_of
    from cleanpipe_jobs.tokens_said import absent_facts, plan_facts
    from cleanpipe_jobs.trace_text import ranges_in_text, still_there

    keys = keys_of(args, store, storage)
    held = hit_by(store, [key.decision() for key in keys])
    gone, cautions = absent_of(args, store, keys, storage)
    known = {place for one in gone for place in one.keys}
    lost = [key for at, (key, found) in enumerate(zip(keys, held, strict=True)) if not len(found) and at not in known]
    if len(lost) == len(keys):
        error = ConfigError(unknown(args, store, lost))
        error.public = True
        raise error
    plan = plan_of(args, store, storage) if args.length is not None or args.plan else None
    found = ranges(store, np.unique(np.concatenate(held)))
    rows = list(_rows(args, store, found, plan))
    listed = {row["doc_id"] for row in rows}
    again = [one for one in gone if one.kept and one.kept_doc_id not in listed]
    for line in [f"caution: {c}" for c in cautions] + ([unknown(args, store, lost)] if lost else []):
        warn(f"cleanpipe: {as_named(args, line)}", public=True)
    for line in still_there(name_of(args, store), gone if args.csv else again):
        warn(f"cleanpipe: {line}", public=True)
    if args.csv:
        show(_csv(rows).rstrip("\n"))
    elif args.json:
        head = {} if plan is None else {"plan": plan.fingerprint, "epoch": args.epoch, "mixture": plan_facts(plan)}
        tokens = sum(r["token_stop"] - r["token_start"] for r in rows)
        answer = {"tokens": tokens, **head, "documents": rows, "absent": [absent_facts(one) for one in gone]}
        show(json.dumps(answer, indent=2))
    else:
        told = [one for one in gone if one not in again]
        show(ranges_in_text(name_of(args, store), store, rows, told, None if plan is None else plan_facts(plan)))
    return 2 if lost or again else 0


def _rows(
    args: argparse.Namespace, store: TokenStore, found: Sequence[Range], plan: Plan | None
) -> Iterator[dict[str, Any]]:
    from cleanpipe.tokens.tracing import tokenizer_of
    from cleanpipe.tokens.tracing.characters import text_of
    from cleanpipe.tokens.tracing.ranges import sequences_of
    from cleanpipe_jobs.trace_text import range_facts

    decided = _decided(args, store)
    for one in found:
        row = range_facts(one, decided)
        if plan is not None:
            row["sequences"] = sequences_of(plan, one, epoch=args.epoch).tolist()
        if args.text:
            row["text"] = text_of(tokenizer_of(store), store, store.read(one.token_start, one.token_stop))
        yield row


def _csv(rows: list[dict[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_CSV)
    for row in rows:
        writer.writerow([" ".join(map(str, row.get(n) or ())) if n == "sequences" else row[n] for n in _CSV])
    return out.getvalue()
