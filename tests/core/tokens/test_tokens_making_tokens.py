"""Documents to ids, as wholes and window by window, for any text and any cut: the laws that a reader relies on."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanpipe import batch as col
from cleanpipe.tokens.backend import Backend, Encoded
from cleanpipe.tokens.making.documents import documents_of
from cleanpipe.tokens.making.encoding import Encoder
from cleanpipe.tokens.making.tokens import encode_whole, encode_windows

TOKENIZER = SimpleNamespace(vocabulary=0x110000 + 9, bos=0x110000, eos=0x110001, unk=None, controls={})


class Pairs(Backend):
    """A token for two code points: the id is the first, or 0 for one alone at the end. It shows where tokens begin."""

    name = "pairs"

    def encode(self, texts, *, starts=False):
        ids = [np.array([ord(c) for c in text[::2]], np.uint32) for text in texts]
        begins = [np.arange(0, len(text), 2) for text in texts]
        ends = np.cumsum([len(i) for i in ids], dtype=np.int64)
        whole = np.concatenate([*ids, np.zeros(0, np.uint32)])
        return Encoded(
            whole, ends, np.concatenate([*begins, np.zeros(0, np.int64)]).astype(np.int64) if starts else None
        )


def rows_of(docs):
    """(text, edges of the windows) → a batch as a shard has it."""
    rows = []
    for number, (text, edges) in enumerate(docs):
        for k, (a, b) in enumerate(edges):
            part = text[a:b]
            rows.append({
                col.DOC_ID: number.to_bytes(16, "big"), col.TEXT: part, col.LENGTH: len(part),
                col.BYTES: len(part.encode()), col.WINDOW: k, col.WINDOWS: len(edges), col.CHAR_START: a,
                col.CHAR_END: b, col.OVERLAP: edges[k - 1][1] - a if k else 0,
            })  # fmt: skip
    types = {col.DOC_ID: col.ID, col.TEXT: pa.large_string(), col.LENGTH: pa.int32(), col.BYTES: pa.int64()}
    types |= col.WINDOW_COLUMNS
    return pa.RecordBatch.from_pylist(rows, schema=pa.schema(list(types.items())))


@st.composite
def documents(draw):
    """Texts with blanks at their ends, cut anywhere: a window begins in the one before, and none lies in another."""
    out = []
    for _ in range(draw(st.integers(1, 5))):
        blanks = st.text(" \n\u3000", max_size=9)
        body = draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
        text = draw(blanks) + body + draw(blanks)
        edges = []
        begin, end = 0, 0
        while end < len(text) or not edges:
            end = draw(st.integers(min(end + 1, len(text)), len(text)))
            edges.append((begin, end))
            begin = draw(st.integers(min(begin + 1, end), end))
            if begin >= end and end < len(text):
                begin = end
        out.append((text, edges))
    return out


def prepared(docs):
    (piece,) = documents_of([rows_of(docs)])
    assert piece.texts == [text for text, _ in docs]
    bodies = [text.strip() for text, _ in docs]
    leads = [len(text) - len(text.lstrip()) for text, _ in docs]
    alive = [at for at, body in enumerate(bodies) if body]
    return piece, alive, bodies, leads


@given(documents())
@settings(deadline=None, max_examples=150)
def test_a_document_as_a_whole(docs):
    piece, alive, bodies, leads = prepared(docs)
    found = encode_whole(Encoder(TOKENIZER, Pairs(), Pairs()), piece, alive, bodies, leads)
    assert found.documents == alive
    assert found.texts == [bodies[at] for at in alive]
    assert found.ids.tolist() == [ord(c) for at in alive for c in bodies[at][::2]]
    assert found.lengths.tolist() == [-(-len(bodies[at]) // 2) for at in alive]
    counts, overlaps = found.rows("count"), found.rows("overlap")
    assert int((counts - overlaps).sum()) == len(found.ids)
    row = 0
    for at in alive:
        tokens = -(-len(bodies[at]) // 2)
        edges = docs[at][1]
        for k, (a, b) in enumerate(edges):
            low = 0 if k == 0 else sum(2 * t < a - leads[at] for t in range(tokens))
            high = tokens if k == len(edges) - 1 else sum(2 * t < b - leads[at] for t in range(tokens))
            got = (int(found.rows("start")[row]), int(counts[row]))
            assert got == (low, high - low)
            row += 1
    assert row == len(counts)
    inner = [(at, a) for at in alive for a, _ in docs[at][1][1:]]
    assert found.seen == len(inner)
    within = [a - leads[at] for at, a in inner if 0 < a - leads[at] < len(bodies[at])]
    last = [len(bodies[at]) - 1 for at, a in inner if 0 < a - leads[at] < len(bodies[at])]
    assert found.cut == sum(a % 2 == 1 and a < n for a, n in zip(within, last, strict=True))


@given(documents())
@settings(deadline=None, max_examples=150)
def test_each_window_by_itself(docs):
    piece, alive, bodies, leads = prepared(docs)
    found = encode_windows(Encoder(TOKENIZER, Pairs(), Pairs()), piece, alive, bodies, leads)
    assert found.documents == alive
    assert found.each == [len(docs[at][1]) for at in alive]
    texts = []
    for at in alive:
        text, edges = docs[at]
        low, high = leads[at], leads[at] + len(bodies[at])
        texts += [text[max(a, low) : max(min(b, high), 0)] if max(a, low) < min(b, high) else "" for a, b in edges]
    assert found.texts == texts
    assert found.ids.tolist() == [ord(c) for text in texts for c in text[::2]]
    starts, counts = found.rows("start").tolist(), found.rows("count").tolist()
    row = 0
    for number, at in enumerate(alive):
        at_now = 0
        for _ in docs[at][1]:
            assert starts[row] == at_now
            at_now += counts[row]
            row += 1
        assert found.lengths[number] == at_now
    for text, shared, held in zip(texts, found.overlaps, found.rows("overlap").tolist(), strict=True):
        # whole pairs within what is repeated; one alone at the end is a token too
        assert held == sum(min(t + 2, len(text)) <= shared for t in range(0, len(text), 2))
    whole = sum(-(-len(bodies[at]) // 2) for at in alive)
    assert found.whole == whole


def test_marks_stand_around_documents_not_windows():
    docs = [("abcdef", [(0, 4), (2, 6)]), ("xy", [(0, 2)])]
    piece, alive, bodies, leads = prepared(docs)
    for encode, body in ((encode_whole, ["ace", "x"]), (encode_windows, ["acce", "x"])):
        found = encode(Encoder(TOKENIZER, Pairs(), Pairs()), piece, alive, bodies, leads)
        marked = found.with_marks(7, 8).tolist()
        assert marked == [7, *map(ord, body[0]), 8, 7, *map(ord, body[1]), 8]
        assert found.with_marks(None, None).tolist() == [*map(ord, body[0]), *map(ord, body[1])]
        assert found.with_marks(None, 8).tolist() == [*map(ord, body[0]), 8, *map(ord, body[1]), 8]


def test_no_document_has_no_tokens():
    piece, _, bodies, leads = prepared([("  ", [(0, 2)])])
    for encode in (encode_whole, encode_windows):
        found = encode(Encoder(TOKENIZER, Pairs(), Pairs()), piece, [], bodies, leads)
        assert (found.documents, found.lengths.tolist(), found.with_marks(1, 2).tolist()) == ([], [], [])
        assert found.facts()["window_tokens"] == 0
