"""The plan whose sequences `trace` and `decide` count: from options, or from a file."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cleanpipe.errors import ConfigError
from cleanpipe_jobs.tokens_asked import LAST, number

if TYPE_CHECKING:
    from cleanpipe.options import StorageOptions
    from cleanpipe.tokens.reading.plan import Plan
    from cleanpipe.tokens.store import TokenStore

_PLAN = ("length", "packing", "seed", "shuffle", "weights")
_FILE = (*_PLAN, "also", "changes")  # what a plan's file may say
_STATE = ("format", "plan", "stores", "epoch", "sequences", "mixture", "decisions", "worker")  # and a reader's state
_BLOCKS = re.compile(r"block (\d+)x(\d+)")
_MOST = 8 << 20  # bytes of a plan's file
_EXAMPLE = '{"length": 4096, "seed": 1, "also": ["tokens/b"], "weights": [3, 1]}'
PLAN_FILE = f"""\
--plan FILE is JSON, of as many of these as are wanted ("length" is needed), or
what json.dump(reader.state_dict(), file) wrote; options stand above it:
  {_EXAMPLE}
  "packing", "shuffle"; "changes": [[51200, [1, 1]]], weights from a sequence on
"""


def plan_arguments(parser: argparse.ArgumentParser) -> None:
    """The plan whose sequences are meant: as for ``cleanpipe.tokens.Plan``."""
    parser.add_argument("--length", type=number, metavar="L", help="tokens of a sequence, as training reads them")
    parser.add_argument("--packing", choices=("concat", "best-fit"), help="default: concat")
    parser.add_argument("--seed", type=number, metavar="S", help="of the order (default: 0)")
    parser.add_argument("--shuffle", choices=("feistel", "block", "none"), help="default: feistel")
    parser.add_argument(
        "--also", action="extend", nargs="+", default=[], metavar="TOKENS", help="further stores of the mixture"
    )
    parser.add_argument("--weights", type=float, nargs="+", metavar="W", help="of the stores in the mixture")
    parser.add_argument(
        "--plan", metavar="FILE", help="all of this as JSON (below); a reader's state will do, and is compared"
    )


def plan_of(args: argparse.Namespace, store: TokenStore, storage: StorageOptions) -> Plan:
    """The plan that the arguments name, over the store and those of ``--also``, or of the file's ``also``.

    Raises:
        ConfigError: it is not named, or its file is none, or of another plan or mixture.
    """
    from cleanpipe.tokens.reading.feistel import Blocks
    from cleanpipe.tokens.reading.plan import Plan
    from cleanpipe.tokens.store import open_tokens

    told = _told(args.plan) if args.plan else {}
    args.also = args.also or told.get("also", [])  # there for whoever tells a store's name
    given = {n: getattr(args, n) for n in _PLAN if getattr(args, n) is not None}
    wanted: dict[str, Any] = {n: told[n] for n in (*_PLAN, "changes") if told.get(n) is not None} | given
    if wanted.get("length") is None:
        raise ConfigError("which sequences? name the plan: --length L (--packing, --seed, --shuffle …) or --plan FILE")
    if found := _BLOCKS.fullmatch(str(wanted.get("shuffle"))):
        wanted |= {"shuffle": "block", "blocks": Blocks(int(found[1]), int(found[2]))}
    stores = [store, *(open_tokens(one, storage) for one in args.also)]
    many = len(weights) if isinstance(weights := wanted.get("weights"), list) else len(stores)
    if many != len(stores):
        raise ConfigError(
            f"{many} weights for {len(stores)} stores: TOKENS is the first, the others are --also, in order"
        )
    try:
        plan = Plan(stores, **wanted)
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"{args.plan or 'the plan'}: {error}") from error
    if told.get("plan") not in (None, plan.fingerprint):
        raise ConfigError(
            f"{args.plan} is of another plan ({str(told['plan'])[:16]}, not {plan.fingerprint[:16]}): stores, their "
            "order, length, packing, seed or shuffle differ; further stores are named by --also"
        )
    if "mixture" in told:
        _same_mixture(args.plan, told, plan)
    return plan


def _same_mixture(path: str, told: Mapping[str, Any], plan: Plan) -> None:
    """See that a state was read by these weights: the fingerprint of a plan does not have them."""
    from cleanpipe_jobs.tokens_said import plan_facts, weights_in_text

    count = told.get("sequences", 0)
    if type(count) is not int or not 0 <= count <= LAST:
        raise ConfigError(f"{path}: 'sequences' is {count!r:.40}: the state was changed or cut short")
    here = plan.mixture.version(count)
    if told["mixture"] != here:
        raise ConfigError(
            f"{path} was read by other mixing weights ({told['mixture']!s:.12} there; {here} here, which is "
            f"{weights_in_text(plan_facts(plan))}): name them by --weights, and what changed by "
            '"changes" in a --plan FILE'
        )


def _told(path: str) -> dict[str, Any]:
    try:
        with Path(path).open("rb") as file:
            data = file.read(_MOST + 1)
        value = json.loads(data)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is no JSON: a plan is {_EXAMPLE}, or a reader's state") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{path} names no plan: it is {_EXAMPLE}, or a reader's state")
    if other := [name for name in value if name not in (*_FILE, *_STATE)]:
        raise ConfigError(f"{path}: {other[0]!r:.42} is unknown{_nearest(other[0])}; a plan has {', '.join(_FILE)}")
    if isinstance(value.get("stores"), list):
        raise ConfigError(f"{path}: 'stores' is a digest, of a reader's state; further stores are named by \"also\"")
    also = value.pop("also", None) or []
    value["also"] = [also] if isinstance(also, str) else also
    if not isinstance(value["also"], list) or not all(isinstance(one, str) for one in value["also"]):
        raise ConfigError(f'{path}: "also" is a list of token stores, like ["tokens/b"]')
    return value


def _nearest(word: str) -> str:
    from cleanpipe.registry import nearest

    hint = nearest(word, _FILE)
    return hint if "did you mean" in hint else ""
