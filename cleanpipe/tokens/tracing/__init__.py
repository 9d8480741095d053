"""From tokens to where they came from, and back."""

from cleanpipe.tokens.tracing.characters import Characters, tokenizer_of
from cleanpipe.tokens.tracing.origin import Origin, Window, origin_of
from cleanpipe.tokens.tracing.ranges import Key, Range, documents_with, ranges_of, sequences_of
from cleanpipe.tokens.tracing.sequence import Part, TracedSequence, ranked, trace_sequence
from cleanpipe.tokens.tracing.token import Traced, trace_token

__all__ = [
    "Characters", "Key", "Origin", "Part", "Range", "Traced", "TracedSequence", "Window",
    "documents_with", "origin_of", "ranges_of", "ranked", "sequences_of", "tokenizer_of", "trace_sequence",
    "trace_token",
]  # fmt: skip
