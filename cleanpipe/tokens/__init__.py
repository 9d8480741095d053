"""Token stores: made from a run's shards by ``cleanpipe tokenize``, read by training.

from cleanpipe.tokens import Plan, Reader, open_tokens

plan = Plan(open_tokens("run/web/tokens"), length=4096, packing="best-fit", seed=1)
for batch in Reader(plan, batch=64):
    batch.input_ids, batch.labels, batch.position_ids, batch.cu_seqlens
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cleanpipe.tokens.making.run import tokenize as tokenize
    from cleanpipe.tokens.reading.feistel import Blocks as Blocks
    from cleanpipe.tokens.reading.mixing import Mixture as Mixture
    from cleanpipe.tokens.reading.plan import Plan as Plan
    from cleanpipe.tokens.reading.reader import Reader as Reader
    from cleanpipe.tokens.reading.remask import remask as remask
    from cleanpipe.tokens.reading.sequences import Batch as Batch
    from cleanpipe.tokens.reading.torch_adapters import TokenDataset as TokenDataset
    from cleanpipe.tokens.reading.torch_adapters import collate as collate
    from cleanpipe.tokens.reading.torch_adapters import state_after as state_after
    from cleanpipe.tokens.store import TokenStore as TokenStore
    from cleanpipe.tokens.store import open_tokens as open_tokens
    from cleanpipe.tokens.tracing import ranges_of as ranges_of
    from cleanpipe.tokens.tracing import trace_sequence as trace_sequence
    from cleanpipe.tokens.tracing import trace_token as trace_token

_WHERE = {
    "open_tokens": "store",
    "TokenStore": "store",
    "Plan": "reading.plan",
    "Blocks": "reading.feistel",
    "Mixture": "reading.mixing",
    "Reader": "reading.reader",
    "Batch": "reading.sequences",
    "remask": "reading.remask",
    "TokenDataset": "reading.torch_adapters",
    "TokenIterableDataset": "reading.torch_adapters",
    "collate": "reading.torch_adapters",
    "state_after": "reading.torch_adapters",
    "tokenize": "making.run",
    "trace_token": "tracing",
    "trace_sequence": "tracing",
    "ranges_of": "tracing",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE})
