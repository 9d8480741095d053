"""What `trace` and `decide` ask alike: which store, by which name, and which documents."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cleanpipe.errors import CleanpipeError, ConfigError

if TYPE_CHECKING:
    from cleanpipe.options import StorageOptions
    from cleanpipe.tokens.store import TokenStore
    from cleanpipe.tokens.tracing import Key
    from cleanpipe.tokens.tracing.absent import Absent

LEAST = 6  # hex digits of an id's beginning
LAST = 1 << 62
_ELSEWHERE = "; duplicates that the run dropped are not known here: --run OUT"


def number(text: str) -> int:
    """An argument: a whole number from 0; 1,000,000 and 1_000_000 are numbers too."""
    try:
        found = int(text.replace(",", ""))
    except ValueError:
        found = -1
    if not 0 <= found <= LAST:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0")
    return found


def key_arguments(parser: argparse.ArgumentParser) -> None:
    """Documents by what they are."""
    for name, metavar, help_ in (
        ("doc", "ID", f"a document by its doc_id, or at least {LEAST} digits of its beginning"),
        ("content", "ID", "every document of this content_id: the same text, in other crawls too"),
        ("url", "URL", "every document of this URL; without http:// or https:// of both"),
        ("host", "HOST", "every document of this host and its subdomains"),
    ):
        parser.add_argument(
            f"--{name}", action="extend", nargs="+", default=[], dest=f"{name}s", metavar=metavar, help=help_
        )


def storage_argument(parser: argparse.ArgumentParser) -> None:
    """How object stores are reached."""
    parser.add_argument(
        "--set", action="append", default=[], dest="sets", metavar="storage.OPTION=VALUE",
        help="how the object store is reached: storage.endpoint, region, profile, anonymous",
    )  # fmt: skip


# --- stores by the names that they were given


def typed(args: argparse.Namespace) -> dict[str, str]:
    """Where the stores and the run that were named lie → as they were named."""
    from cleanpipe.engine.folder import place

    out: dict[str, str] = {}
    for given in (args.tokens, *args.also, *([args.run] if args.run else [])):
        try:
            out.setdefault(place(given, "TOKENS"), str(given))
        except ConfigError:  # told when it is opened
            continue
    return out


def name_of(args: argparse.Namespace, store: TokenStore) -> str:
    """The store as it was named."""
    return typed(args).get(store.root, store.root)


def as_named(args: argparse.Namespace, text: str) -> str:
    """A message with stores and run as they were named."""
    names = {there: given for there, given in typed(args).items() if there != given}
    if not names:
        return text
    longest = sorted(names, key=len, reverse=True)
    pattern = rf"(?<![\w./-])({'|'.join(map(re.escape, longest))})(?![\w-]|\.\w)"
    return re.sub(pattern, lambda found: names[found[1]], text)


@contextmanager
def names_kept(args: argparse.Namespace) -> Iterator[None]:
    """Errors tell stores as they were named, as every other command does."""
    try:
        yield
    except CleanpipeError as error:
        error.message = as_named(args, error.message)
        raise


# --- documents


def keys_of(args: argparse.Namespace, store: TokenStore, storage: StorageOptions) -> list[Key]:
    """The keys that the arguments name; beginnings of ids are completed.

    Raises:
        ConfigError: a beginning is none, names nothing or several.
    """
    from cleanpipe.tokens.tracing import Key
    from cleanpipe.tokens.tracing.ranges import CONTENT_ID, DOC_ID, HOST_KEY, URL

    out = [Key(DOC_ID, _whole(args, store, storage, DOC_ID, one)) for one in args.docs]
    out += [Key(CONTENT_ID, _whole(args, store, storage, CONTENT_ID, one)) for one in args.contents]
    return [*out, *(Key(URL, one) for one in args.urls), *(Key(HOST_KEY, one) for one in args.hosts)]


def _whole(args: argparse.Namespace, store: TokenStore, storage: StorageOptions, kind: str, digits: str) -> str:
    """An id from its beginning: of a document of the store, of one that its build left out, of one in the run."""
    from cleanpipe.tokens.tracing.absent import ids_left_out, ids_of_run
    from cleanpipe.tokens.tracing.ranges import DOC_ID, beginning

    given = digits.strip().lower()
    if re.fullmatch(r"[0-9a-f]{32}", given):
        return given
    if not re.fullmatch(rf"[0-9a-f]{{{LEAST},31}}", given):
        raise ConfigError(f"{digits}: a {kind} has 32 hex digits; of its beginning at least {LEAST} are needed")
    found = beginning(store, kind, given) or ids_left_out(store, kind, given)
    if not found and args.run and kind == DOC_ID:
        found = ids_of_run(args.run, given, storage)
    if len(found) == 1:
        return found[0]
    if not found:
        more = "" if args.run else _ELSEWHERE
        raise ConfigError(f"no document of {store.root} has a {kind} that begins with {given}{more}")
    raise ConfigError(f"{given} begins {len(found):,} {kind}s: {', '.join(found[:5])}{' …' * (len(found) > 5)}")


def absent_of(
    args: argparse.Namespace, store: TokenStore, keys: Sequence[Key], storage: StorageOptions
) -> tuple[list[Absent], list[str]]:
    """Documents that the keys name and that the store does not have, each once, and cautions.

    By the store's own ledger, and with ``--run`` by that of the run.
    """
    from cleanpipe.tokens.tracing.absent import dropped_by_run, left_out

    given = [key.decision() for key in keys]
    found = left_out(store, given)
    if not args.run:
        return found, []
    known = {one.doc_id for one in found}
    theirs, caution = dropped_by_run(store, given, args.run, storage)
    return found + [one for one in theirs if one.doc_id not in known], [caution] * bool(caution)


def unknown(args: argparse.Namespace, store: TokenStore, keys: Sequence[Key]) -> str:
    """What to say of keys that no document has; with spellings that one has."""
    from cleanpipe.tokens.decisions_impact import hit_by
    from cleanpipe.tokens.tracing import Key
    from cleanpipe.tokens.tracing.ranges import URL

    named = ", ".join(f"{k.kind} {k.value}" for k in keys[:5]) + f" and {len(keys) - 5:,} more" * (len(keys) > 5)
    tried = list(dict.fromkeys(o for k in keys[:5] if k.kind == URL for o in spellings(k.value)))
    found = hit_by(store, [Key(URL, t).decision() for t in tried])
    near = [t for t, documents in zip(tried, found, strict=True) if len(documents)]
    hint = f"; it has {', '.join(near[:3])}" if near else "; nor has the run's ledger" if args.run else _ELSEWHERE
    return f"no document of {name_of(args, store)} has the {named}{hint}"


def spellings(url: str) -> list[str]:
    """Of a URL that is not found: another scheme, with and without www. and a slash at its end."""
    scheme, _, rest = url.rpartition("://")
    bare = rest.removeprefix("www.").rstrip("/")
    out = [f"{s}://{w}{bare}{e}" for s in ("https", "http") for w in ("", "www.") for e in ("", "/")]
    return [o for o in out if o != url and (scheme or o.partition("://")[2] != url)]
