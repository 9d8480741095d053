"""``cleanpipe decide``: documents that training must not learn, or seldom, and those to leave out of the next build."""

from __future__ import annotations

import argparse
import getpass
import json
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from cleanpipe_jobs.output import show, warn
from cleanpipe_jobs.tokens_asked import as_named, key_arguments, name_of, names_kept, number, storage_argument
from cleanpipe_jobs.tokens_plan import PLAN_FILE, plan_arguments

if TYPE_CHECKING:
    from cleanpipe.options import StorageOptions
    from cleanpipe.tokens.decisions import Decision, Decisions
    from cleanpipe.tokens.reading.plan import Plan
    from cleanpipe.tokens.store import TokenStore

HELP = "mask, down-weight or quarantine documents: training honours it at once"
EPILOG = f"""\
ACTION:
  mask         the documents' tokens stay where they are; their labels are -100
  weight       the same in a share 1 - W of the epochs, chosen by a hash of
               doc_id and epoch
  quarantine   as mask, and the next `cleanpipe tokenize` leaves them out: only
               the shards that hold one are rewritten
  revoke       take lines back, by --line N …; what was quarantined comes back
               with the next build
  list         what was decided, what is in force, what it hits and what a build
               left out for it; of all lines, or of those for --doc …
Where several hit a document, quarantine is stronger than mask, mask than
weight; of two weights the later line holds.

Lines are only ever added to TOKENS/decisions.jsonl. --from-sequence N makes one
hold from that sequence of the training on: a replay of earlier ones sees them
as they were. The same decision again is said, not written. --sequence and
--token stand for the documents in them. --dry-run tells what a line would hit.

{PLAN_FILE}
examples:
  cleanpipe decide tokens/web mask --sequence 7 --length 4096 \\
      --from-sequence 51200 --reason 'loss spike at step 800'
  cleanpipe decide tokens/web quarantine --host spam.example --dry-run
  cleanpipe decide tokens/web weight --content 8d90c623 --weight 0.25
  cleanpipe decide tokens/web quarantine --doc 8d90c623 --run run/web
      tells which duplicates that the run dropped it stands for
  cleanpipe decide tokens/web revoke --line 3; cleanpipe decide tokens/web list
"""
_WHY = 5  # documents that are not there, with what became of them
ACTIONS = ("mask", "weight", "quarantine", "revoke", "list")


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own."""
    parser.add_argument("tokens", metavar="TOKENS", help="the folder of a token store, or s3://bucket/prefix")
    parser.add_argument("action", metavar="ACTION", choices=ACTIONS, help=", ".join(ACTIONS))
    key_arguments(parser)
    many: dict[str, Any] = {"action": "extend", "nargs": "+", "type": number, "default": [], "metavar": "N"}
    parser.add_argument("--token", dest="token_numbers", help="the document that holds this token", **many)
    parser.add_argument("--sequence", dest="sequences", help="every document of this sequence of a plan", **many)
    parser.add_argument("--line", dest="lines", help="with revoke: lines to take back", **many)
    parser.add_argument("--weight", type=float, metavar="W", help="with weight: share of the epochs, 0 to 1")
    parser.add_argument("--from-sequence", type=number, default=0, metavar="N", help="in force from there (default: 0)")
    for name, help_ in (
        ("reason", "why"),
        ("evidence", "where that can be looked up"),
        ("author", "who (default: you)"),
    ):
        parser.add_argument(f"--{name}", metavar="TEXT", help=help_)
    parser.add_argument("--dry-run", action="store_true", help="only say what it would hit")
    parser.add_argument("--even-if-none", action="store_true", help="write a line that hits no document of this store")
    parser.add_argument("--run", metavar="OUT", help="the run: which duplicates it dropped, and for which documents")
    parser.add_argument("--quiet", "-q", action="store_true", help="print nothing but warnings and errors")
    plan_arguments(parser)
    storage_argument(parser)


def loaded(args: argparse.Namespace, store: TokenStore) -> Decisions:
    """A store's decisions; of a torn line a warning."""
    from cleanpipe.tokens.decisions import load

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        out = load(store)
    for one in caught:
        warn(f"cleanpipe: {as_named(args, str(one.message))}")
    return out


def main(args: argparse.Namespace) -> int:
    """Decide; 0, or an error."""
    with names_kept(args):
        return _main(args)


def _main(args: argparse.Namespace) -> int:
    from cleanpipe.tokens.store import open_tokens
    from cleanpipe_jobs.reach import storage_options

    _check(args)
    storage = storage_options(args.sets)
    store = open_tokens(args.tokens, storage)
    if args.action == "list":
        return _list(args, store, storage)
    return _decide(args, store, storage)


def _check(args: argparse.Namespace) -> None:
    from cleanpipe.errors import ConfigError

    documents = any((args.docs, args.contents, args.urls, args.hosts, args.token_numbers, args.sequences))
    if args.action == "revoke" and (documents or not args.lines):
        raise ConfigError(
            "revoke takes lines back: name them by --line N …, as `cleanpipe decide TOKENS list` shows them"
        )
    if args.action != "revoke" and args.lines:
        raise ConfigError(f"--line goes with revoke, not with {args.action}")
    if args.action not in ("revoke", "list") and not documents:
        raise ConfigError("which documents? --doc, --content, --url, --host, --token or --sequence")
    if (args.action == "weight") != (args.weight is not None):
        raise ConfigError("weight needs --weight W, 0 to 1, and nothing else does")


# --- writing


def _decide(args: argparse.Namespace, store: TokenStore, storage: StorageOptions) -> int:
    from cleanpipe.errors import ConfigError
    from cleanpipe.tokens.decisions import append, effects, preview
    from cleanpipe.tokens.decisions_impact import hit_by, impact, standing
    from cleanpipe_jobs import decide_text as words
    from cleanpipe_jobs.tokens_said import plan_facts

    before = loaded(args, store)
    plan = _plan(args, store, storage)
    given = _given(args, store, storage, plan)
    targets = [
        before.lines[int(d.key) - 1] if d.action == "revoke" and int(d.key) <= before.version else d for d in given
    ]
    found = hit_by(store, targets)
    after, written = preview(before, given)
    new = [line.number > before.version and line.action != "revoke" for line in written]
    none = [
        d for d, hit, is_new in zip(given, found, new, strict=True) if is_new and not len(hit)
    ]  # others may be built in
    if none and not args.even_if_none:
        error = ConfigError(_nothing(args, store, storage, none))
        error.public = True
        raise error
    if not args.dry_run:
        written = append(args.tokens, given, storage)
        after = loaded(args, store)
    answer: dict[str, Any] = {"dry_run": args.dry_run, "version": after.version, "digest": after.digest, "lines": []}
    for line, hit in zip(written, found, strict=True):
        answer["lines"].append(
            {
                **words.line_facts(line),
                "new": line.number > before.version,
                "hits": impact(store, hit).facts(store),
                "documents": words.first_documents(store, hit),
            }
        )
    changed = [line for line in written if line.number > before.version]
    answer["before"], answer["after"] = (standing(store, effects(store, d)) for d in (before, after))
    answer["next"] = words.next_steps(store, before, after, changed, args.dry_run)
    if plan is not None:
        answer["plan"] = plan_facts(plan)
    if args.run:
        answer["stands_for"] = words.stood_for(store, args.run, storage, found)
    _show(args, answer, words.in_text)
    return 0


def _show(args: argparse.Namespace, answer: dict[str, Any], in_text: Callable[[dict[str, Any]], str]) -> None:
    if args.json:
        show(json.dumps(answer, indent=2))
    elif not args.quiet:
        show(in_text(answer))


def _nothing(args: argparse.Namespace, store: TokenStore, storage: StorageOptions, none: Sequence[Decision]) -> str:
    """What to say of lines that hit nothing: why the store does not have these documents, where that is known."""
    from cleanpipe.tokens.tracing import Key
    from cleanpipe_jobs.tokens_asked import absent_of, unknown
    from cleanpipe_jobs.tokens_said import fate_in_text

    keys = [Key(d.key_kind, d.key) for d in none]
    gone, cautions = absent_of(args, store, keys, storage)
    known = {place for one in gone for place in one.keys}
    lost = [key for at, key in enumerate(keys) if at not in known]
    said = [f"{one.url or one.doc_id} is not in {name_of(args, store)}; {fate_in_text(one)}" for one in gone[:_WHY]]
    said += [f"so it is of {len(gone) - _WHY:,} more"] * (len(gone) > _WHY)
    said += [unknown(args, store, lost)] * bool(lost) + [f"caution: {c}" for c in cautions]
    return f"{'; '.join(said)}: nothing is written; --even-if-none writes it for later builds"


def _plan(args: argparse.Namespace, store: TokenStore, storage: StorageOptions) -> Plan | None:
    from cleanpipe_jobs.tokens_plan import plan_of

    return plan_of(args, store, storage) if args.sequences or args.length is not None or args.plan else None


def _given(args: argparse.Namespace, store: TokenStore, storage: StorageOptions, plan: Plan | None) -> list[Decision]:
    """The lines that are asked for, each once."""
    from cleanpipe.tokens.decisions import Decision
    from cleanpipe_jobs.tokens_asked import keys_of

    rest = {
        "from_sequence": args.from_sequence, "reason": args.reason or "", "evidence": args.evidence or "",
        "author": _author() if args.author is None else args.author, "plan": "" if plan is None else plan.fingerprint,
    }  # fmt: skip
    if args.action == "revoke":
        keys = [("line", str(n)) for n in args.lines]
    else:
        keys = [(k.kind, k.value) for k in keys_of(args, store, storage)]
        keys += [("doc_id", one) for one in _inside(args, store, plan)]
    action = "mask" if args.action == "list" else args.action
    given = [Decision(action, kind, key, weight=args.weight, **rest).checked() for kind, key in keys]
    return list({(d.key_kind, d.key): d for d in given}.values())


def _inside(args: argparse.Namespace, store: TokenStore, plan: Plan | None) -> list[str]:
    """The doc_ids of documents that hold tokens, or are in sequences."""
    from cleanpipe.errors import ConfigError
    from cleanpipe.tokens.tracing import origin_of

    documents: list[int] = []
    for token in args.token_numbers:
        if token >= store.tokens:
            raise ConfigError(f"token {token:,}: {store.root} has {store.tokens:,}, numbered from 0")
        documents.append(store.document_of(token))
    for g in args.sequences:
        assert plan is not None  # made where there are sequences
        if any(piece.source for piece in plan.locate(g)):
            raise ConfigError(f"sequence {g:,} is of another store of the mixture: decide about it there")
        documents += plan.documents(g).tolist()
    return [origin_of(store, d).doc_id for d in dict.fromkeys(documents)]


def _author() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user without a name, as in containers
        return ""


# --- list


def _list(args: argparse.Namespace, store: TokenStore, storage: StorageOptions) -> int:
    from cleanpipe.tokens.decisions import effects
    from cleanpipe.tokens.decisions_impact import hit_by, impact, standing
    from cleanpipe_jobs import decide_text as words

    found = loaded(args, store)
    lines = _asked(args, store, storage, found)
    ends = {d.number: end for d, _, end in found.spans()}
    hits = hit_by(store, lines)
    rows = [
        {
            **words.line_facts(d),
            **words.force(d, ends.get(d.number)),
            "hits": None if d.action == "revoke" else impact(store, h).facts(store),
            "left_out": None if d.action == "revoke" else out,
        }
        for d, h, out in zip(lines, hits, _left_out(store, lines), strict=True)
    ]
    answer = {
        "version": found.version,
        "digest": found.digest,
        "built_in": int((store.info.get("decisions") or {}).get("lines") or 0),
        "standing": standing(store, effects(store, found)),
        "lines": rows,
    }
    _show(args, answer, lambda told: words.list_in_text(name_of(args, store), told))
    return 0


def _left_out(store: TokenStore, lines: Sequence[Decision]) -> list[int]:
    """For each line how many documents that it would hit the build left out by decision."""
    from cleanpipe.tokens.tracing.absent import left_out

    out = [0] * len(lines)
    if (store.info.get("decisions") or {}).get("lines"):
        for one in left_out(store, lines):
            for place in one.keys if one.decided else ():
                out[place] += 1
    return out


def _asked(
    args: argparse.Namespace, store: TokenStore, storage: StorageOptions, found: Decisions
) -> Sequence[Decision]:
    """All lines, or those that hit the documents that were named."""
    import numpy as np

    from cleanpipe.tokens.decisions_impact import hit_by

    given = _given(args, store, storage, _plan(args, store, storage))
    if not given:
        return found.lines
    wanted = np.unique(np.concatenate(hit_by(store, given)))
    hits = hit_by(store, found.lines)
    mine = {d.number for d, hit in zip(found.lines, hits, strict=True) if np.isin(hit, wanted).any()}
    mine |= {d.number for d in found.lines if any((d.key_kind, d.key) == (g.key_kind, g.key) for g in given)}
    return [d for d in found.lines if d.number in mine or (d.action == "revoke" and int(d.key) in mine)]
