"""What a row holds, against a plain account of it token by token."""

import json
import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_tokens import doc_id, make_store, url_of

from cleanpipe.errors import ConfigError, DamagedFileError
from cleanpipe.tokens import Blocks, Plan, Reader, open_tokens
from cleanpipe.tokens.decisions import Decision, append
from cleanpipe.tokens.reading.sequences import Buffers
from cleanpipe.tokens.reading.source import kept

BOS, EOS, IGNORED = 1, 2, -100
KEPT = [True, True, True, False, False, False, True, True, False, False, False, False]


def bodies(count=90, seed=0, longest=50, special=False):
    draw = np.random.default_rng(seed)
    low = 0 if special else 3  # ids 1 and 2 are BOS and EOS
    return [draw.integers(low, 40 if special else 1000, draw.integers(0, longest)).tolist() for _ in range(count)]


class Account:
    """The store as plain lists: for each global token its id, document, place in it, and whether it repeats."""

    def __init__(self, documents, bos=BOS, eos=EOS, windows=None):
        self.ids, self.document, self.place, self.repeat, self.ends = [], [], [], [], []
        for number, body in enumerate(documents):
            ids = [*([bos] if bos is not None else []), *body, *([eos] if eos is not None else [])]
            again = [False] * len(ids)
            for first, _, overlap in windows[number] if windows else ():
                for token in range(first, first + overlap):
                    again[token + (bos is not None)] = True
            self.ids += ids
            self.document += [number] * len(ids)
            self.place += range(len(ids))
            self.repeat += again
            self.ends.append(len(self.ids))

    def row(self, pieces, length, unlearned=(), pad=EOS, positions="restart"):
        ids, labels, places, segments, documents = [], [], [], [], []
        for start, stop in pieces:
            for t in range(start, stop):
                begins = t == start or self.place[t] == 0
                if begins:
                    segments.append(len(ids))
                    documents.append(self.document[t])
                    zero = self.place[t] if positions == "restart" else 0
                ids.append(self.ids[t])
                places.append(self.place[t] - zero)
                after = t + 1
                learned = after < len(self.ids) and self.document[after] == self.document[t]
                learned = learned and not self.repeat[after] and self.document[after] not in unlearned
                labels.append(self.ids[after] if learned else IGNORED)
        if len(ids) < length:
            segments.append(len(ids))
            places += range(length - len(ids))
            labels += [IGNORED] * (length - len(ids))
            ids += [pad] * (length - len(ids))
        return ids, labels, places, segments, documents


def check(plan, account, unlearned=lambda g, epoch: (), epochs=1, batch=7, **form):
    """Every batch of a reader against the account; the tokens that were read, in their order."""
    read = []
    for got in Reader(plan, batch, epochs=epochs, **form):
        borders = []
        for at, g in enumerate(got.sequences.tolist()):
            pieces = [(p.start, p.stop) for p in plan.locate(g)]
            epoch = g // plan.sequences
            ids, labels, places, segments, documents = account.row(
                pieces, plan.length, unlearned(g, epoch), positions=form.get("positions", "restart")
            )
            if form.get("labels") == "same":
                labels = [IGNORED, *labels[:-1]]
            assert got.input_ids[at].tolist() == ids
            assert got.labels[at].tolist() == labels
            assert got.position_ids[at].tolist() == places
            assert got.documents[at].tolist() == documents
            borders += [s + at * plan.length for s in segments]
            read += [t for a, b in pieces for t in range(a, b)]
        assert got.cu_seqlens.tolist() == [*borders, len(got) * plan.length]
        assert got.max_seqlen == np.diff(got.cu_seqlens).max()
        assert {a.dtype for a in (got.input_ids, got.labels, got.position_ids)} == {np.dtype(np.int64)}
        assert got.cu_seqlens.dtype == np.int32
    return read


PACKINGS = ["concat", "best-fit"]


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("shuffle", ["feistel", "block", "none"])
@pytest.mark.parametrize("form", [{}, {"labels": "same"}, {"positions": "continue"}])
def test_rows_are_what_the_store_holds(tmp_path, packing, shuffle, form):
    documents = bodies()
    store = open_tokens(make_store(tmp_path / "t", documents, per_shard=25))
    plan = Plan(store, length=32, packing=packing, seed=4, shuffle=shuffle, blocks=Blocks(8, 2))
    read = check(plan, Account(documents), epochs=2, **form)
    assert sorted(read) == sorted([*range(store.tokens)] * 2)  # every token once an epoch
    half = len(read) // 2
    assert (read[:half] == read[half:]) == (shuffle == "none")


@given(
    st.lists(st.lists(st.integers(0, 9), max_size=30), min_size=1, max_size=12),
    st.integers(1, 25),
    st.sampled_from(PACKINGS),
    st.sampled_from([(1, 2), (None, 2), (1, None), (None, None)]),
    st.integers(1, 5),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_token_once_whatever_the_documents(tmp_path_factory, documents, length, packing, ends, per_shard):
    """Documents without tokens, shards without tokens, one-token sequences; ids 1 and 2 within the bodies."""
    bos, eos = ends
    account = Account(documents, bos, eos)
    root = make_store(tmp_path_factory.mktemp("t") / "t", documents, per_shard=per_shard, bos=bos, eos=eos)
    store = open_tokens(root)
    if not account.ids:
        with pytest.raises(ConfigError, match="no tokens"):
            Plan(store, length=length, packing=packing)
        return
    read = check(Plan(store, length=length, packing=packing), account, pad=2, positions="continue")
    assert sorted(read) == [*range(len(account.ids))]


@pytest.mark.parametrize("packing", PACKINGS)
def test_no_id_forges_a_border(tmp_path, packing):
    """Bodies full of the ids of BOS and EOS: borders come from where documents lie, not from what they hold."""
    documents = bodies(special=True, count=200)
    assert sum(body.count(EOS) for body in documents) > 50
    store = open_tokens(make_store(tmp_path / "t", documents))
    plan = Plan(store, length=48, packing=packing)
    check(plan, Account(documents))
    borders = sum(int((b.labels == IGNORED).sum()) for b in Reader(plan, 5))
    padding = plan.sequences * 48 - store.tokens
    assert borders == len(documents) + padding


def test_large_vocabularies_and_ids_of_32_bits(tmp_path):
    documents = [[99_999, 70_000, 3], [65_536] * 9]
    store = open_tokens(make_store(tmp_path / "t", documents, vocabulary=100_000))
    assert store.dtype == np.dtype("<i4")
    for packing in PACKINGS:
        check(Plan(store, length=6, packing=packing), Account(documents))


PIECES = [
    "</s>",
    "<s>",
    "<unk>",
    "<|endoftext|>",
    "<|bos|>",
    "<|eos|>",
    "a",
    "Das Ende. ",
    "\n\n",
    "</",
    "s>",
    "🙂",
    " ",
]


def test_no_control_string_forges_a_border(tmp_path):
    """Text that looks like EOS, through the tokenizer and the store: a border for each document, and no other."""
    pytest.importorskip("tokenizers", reason="the extra tokenize brings tokenizers")
    from cleanpipe.tokens.backends import open_backend
    from cleanpipe.tokens.tokenizer import open_tokenizer

    tokenizer = open_tokenizer("cleanpipe-16k")
    backend, _ = open_backend(tokenizer, "hf")
    draw = random.Random(8)
    names = [*PIECES, *tokenizer.controls]
    texts = ["".join(draw.choice(names) for _ in range(draw.randrange(1, 40))) for _ in range(300)]
    encoded = backend.encode(texts)
    ends = encoded.ends.tolist()
    documents = [encoded.ids[a:b].tolist() for a, b in pairwise([0, *ends])]
    bos, eos = tokenizer.bos, tokenizer.eos
    assert not {bos, eos} & {i for body in documents for i in body}
    root = make_store(tmp_path / "t", documents, vocabulary=tokenizer.vocabulary, bos=bos, eos=eos)
    for packing in PACKINGS:
        plan = Plan(open_tokens(root), length=64, packing=packing)
        borders = sum(int((b.labels == IGNORED).sum()) for b in Reader(plan, 8))
        assert borders == len(texts) + plan.sequences * 64 - plan.sources[0].tokens
        seen = {d for b in Reader(plan, 8) for row in b.documents for d in row.tolist()}
        assert seen == set(range(300))


def per_window(root):
    """Say of a made store that its windows were encoded by themselves."""
    path = Path(root, "store.json")
    store = open_tokens(root)
    store.info = {**store.info, "per_window": True}
    assert json.loads(path.read_text())["per_window"] is False
    return store


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("labels", ["next", "same"])
def test_what_windows_repeat_is_not_learned_twice(tmp_path, packing, labels):
    documents = bodies(count=60, seed=2, longest=70)
    windows = []
    for body in documents:
        cuts = list(range(0, max(len(body), 1), 20))
        windows.append([(c, min(20, len(body) - c), min(6, len(body) - c) if c else 0) for c in cuts])
    store = per_window(make_store(tmp_path / "t", documents, per_shard=17, windows=windows))
    check(Plan(store, length=32, packing=packing), Account(documents, windows=windows), labels=labels)
    plain = open_tokens(store.root)  # whole documents: the same ranges hold nothing twice
    check(Plan(plain, length=32, packing=packing), Account(documents), labels=labels)


def decide(root, action, number, **more):
    append(root, [Decision(action, "doc_id", doc_id(number).hex(), **more)])


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("labels", ["next", "same"])
def test_decided_documents_are_masked_in_place(tmp_path, packing, labels):
    documents = bodies(seed=6)
    root = make_store(tmp_path / "t", documents, per_shard=25)
    decide(root, "mask", 3)
    decide(root, "quarantine", 40, from_sequence=20)
    decide(root, "weight", 41, weight=0.4)
    decide(root, "weight", 42, weight=0.0, from_sequence=50)
    decide(root, "mask", 43)
    append(root, [Decision("revoke", "line", "5", from_sequence=60)])
    for number in range(60, 80):
        decide(root, "weight", number, weight=0.5)

    def unlearned(g, epoch):
        out = {3}
        out |= {40} if g >= 20 else set()
        out |= {41} if not kept(doc_id(41), epoch, 0.4) else set()
        out |= {42} if g >= 50 else set()
        out |= {43} if g < 60 else set()
        return out | {n for n in range(60, 80) if not kept(doc_id(n), epoch, 0.5)}

    store = open_tokens(root)
    plan = Plan(store, length=32, packing=packing, seed=1)
    check(plan, Account(documents), unlearned, epochs=4, labels=labels)
    changing = [{n for n in range(60, 80) if not kept(doc_id(n), e, 0.5)} for e in range(4)]
    assert len({frozenset(c) for c in changing}) == 4


def test_a_weight_is_a_share_of_the_epochs():
    shares = [sum(kept(doc_id(n), epoch, 0.3) for epoch in range(1000)) for n in range(20)]
    assert all(240 < share < 360 for share in shares)  # 300 ± 4 standard deviations
    assert all(kept(doc_id(n), 0, 1.0) and not kept(doc_id(n), 0, 0.0) for n in range(100))
    assert [kept(bytes(16), epoch, 0.5) for epoch in range(12)] == KEPT  # frozen: a promise between versions


def test_a_flipped_bit_is_named_by_document_and_url(tmp_path):
    documents = bodies()
    root = make_store(tmp_path / "t", documents, per_shard=50)
    path = sorted(Path(root, "tokens").glob("*.bin"))[1]
    store = open_tokens(root)
    data = bytearray(path.read_bytes())
    data[100] ^= 4
    path.write_bytes(data)
    for packing in PACKINGS:
        for prefetch in (0, 2):
            with pytest.raises(DamagedFileError) as error:
                list(Reader(Plan(store, length=32, packing=packing), 4, prefetch=prefetch))
            assert url_of(50) in str(error.value) and path.name.removesuffix(".bin") in str(error.value)


@pytest.mark.parametrize("packing", PACKINGS)
def test_where_a_range_of_tokens_is_read(tmp_path, packing):
    one = open_tokens(make_store(tmp_path / "a", bodies(seed=1)))
    two = open_tokens(make_store(tmp_path / "b", bodies(seed=2), salt="b"))
    for shuffle in ("feistel", "block", "none"):
        plan = Plan([one, two], length=32, packing=packing, shuffle=shuffle, blocks=Blocks(4, 3), weights=[1, 2])
        places = {}
        for g in range(3 * plan.sequences):
            for piece in plan.locate(g):
                places.setdefault(piece.source, []).append((g, piece.start, piece.stop))
        for source, begin, end in [(0, 0, 1), (0, 700, 760), (1, 31, 33), (1, two.tokens - 1, two.tokens)]:
            n = plan.counts[source]
            first = {g for g, a, b in places[source][:None] if a < end and b > begin}
            found = [g for e in (0, 1) for g in plan.sequences_of(source, begin, end, e).tolist()]
            assert set(found) <= first and len(found) == len(set(found))
            hit = {(a, b) for g, a, b in places[source] if g in set(found) and a < end and b > begin}
            assert hit == {(a, b) for _, a, b in places[source] if a < end and b > begin}
            assert not len(plan.sequences_of(source, begin, begin))
            assert plan.sequences_of(source, begin, end, 0).max() < plan.mixture.nth(source, n)


@pytest.mark.parametrize(
    "wrong",
    [
        {"length": 0}, {"length": 1 << 28}, {"length": True}, {"packing": "first-fit"}, {"shuffle": "yes"},
        {"seed": -1}, {"seed": 1 << 63}, {"weights": [1, 2]}, {"weights": [0]}, {"blocks": Blocks(0, 1)},
    ],
)  # fmt: skip
def test_a_plan_that_means_nothing_is_refused(tmp_path, wrong):
    store = open_tokens(make_store(tmp_path / "t", [[5, 6, 7]]))
    with pytest.raises(ConfigError):
        Plan(store, **{"length": 16, **wrong})


def test_stores_of_different_tokenizers_are_refused(tmp_path):
    one = open_tokens(make_store(tmp_path / "a", [[5, 6, 7]]))
    two = open_tokens(make_store(tmp_path / "b", [[5, 6, 7]], name="other"))
    with pytest.raises(ConfigError, match=r"tokenized as .* digest"):
        Plan([one, two], length=16)
    with pytest.raises(ConfigError, match="needs a token store"):
        Plan([], length=16)


def test_the_fingerprint_changes_with_everything_that_decides(tmp_path):
    one = open_tokens(make_store(tmp_path / "a", bodies(seed=1)))
    two = open_tokens(make_store(tmp_path / "b", bodies(seed=2)))
    same = open_tokens(make_store(tmp_path / "c", bodies(seed=1)))
    base = {"length": 16}
    plans = [
        Plan(one, **base), Plan(two, **base), Plan([one, two], **base), Plan([two, one], **base), Plan(one, length=17),
        Plan(one, **base, seed=1), Plan(one, **base, packing="best-fit"), Plan(one, **base, shuffle="none"),
        Plan(one, **base, shuffle="block"), Plan(one, **base, shuffle="block", blocks=Blocks(2, 2)),
    ]  # fmt: skip
    assert len({p.fingerprint for p in plans}) == len(plans)
    assert Plan(same, **base).fingerprint == plans[0].fingerprint  # where it lies says nothing
    assert all(len(p.fingerprint) == 32 for p in plans)


def test_memory_is_used_again_only_when_nothing_looks_at_it():
    buffers = Buffers(3)
    address = lambda a: a.__array_interface__["data"][0]  # noqa: E731
    one = buffers.take(2, 8)
    first, labels = address(one), one[1]
    del one
    assert address(buffers.take(2, 8)) != first  # labels are still looked at
    row = labels[1]
    del labels
    assert address(buffers.take(2, 8)) != first  # a row of them too
    del row
    assert address(buffers.take(2, 8)) == first
    kept_ = [buffers.take(2, 8) for _ in range(20)]
    assert len({address(a) for a in kept_}) == 20
    assert len(buffers._held) == 3


def test_batches_that_are_kept_stay_as_they_were(tmp_path):
    store = open_tokens(make_store(tmp_path / "t", bodies()))
    plan = Plan(store, length=32)
    held, copies = [], []
    for batch in Reader(plan, 4, epochs=3, prefetch=2):
        held.append(batch.labels[1] if len(batch) > 1 else batch.labels)
        copies.append(held[-1].copy())
    assert all(np.array_equal(a, b) for a, b in zip(held, copies, strict=True))
