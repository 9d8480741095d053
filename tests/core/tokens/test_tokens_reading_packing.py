"""Best-fit packing: every token once, no document cut that fits, full sequences; and the folder that keeps the plan."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from made_tokens import make_store

from cleanpipe.errors import ConfigError
from cleanpipe.tokens import Plan, open_tokens
from cleanpipe.tokens.reading import packing
from cleanpipe.tokens.reading.packed import packed
from cleanpipe.tokens.reading.packing import pack, pack_groups

LENGTHS = st.lists(st.integers(0, 70), max_size=120)


def natural(count, seed=0, middle=600, wide=1.2):
    """Lengths as those of pages: log-normal (web documents of about 600 tokens, some of tens of thousands)."""
    return np.maximum(1, np.random.default_rng(seed).lognormal(np.log(middle), wide, count)).astype(np.int64)


def bins(pieces):
    """For each sequence its pieces as (document, begin, tokens)."""
    rows = list(zip(pieces.document.tolist(), pieces.begin.tolist(), pieces.tokens.tolist(), strict=True))
    ends = [0, *pieces.ends.tolist()]
    return [rows[a:b] for a, b in pairwise(ends)]


def one_at_a_time(rests, length):
    """Best-fit decreasing as textbooks have it: what is left of each bin (of bins with equal room any may be taken)."""
    room = []
    for item in sorted(rests, reverse=True):
        fits = [(r, at) for at, r in enumerate(room) if r >= item]
        if fits:
            at = min(fits)[1]
        else:
            at = len(room)
            room.append(length)
        room[at] -= item
    return sorted(room)


@given(LENGTHS, st.integers(1, 40))
@example([5, 5, 5, 3, 3, 3, 2, 2, 2, 2, 1], 10)
@settings(max_examples=300, deadline=None)
def test_every_token_once_and_no_document_cut_that_fits(lengths, length):
    found = bins(pack(np.array(lengths, np.int64), length))
    covered = {}
    for sequence in found:
        assert sequence
        assert sum(n for _, _, n in sequence) <= length
        for document, begin, tokens in sequence:
            assert begin % length == 0 and tokens > 0
            covered.setdefault(document, []).append((begin, begin + tokens))
    for document, size in enumerate(lengths):
        parts = sorted(covered.get(document, []))
        assert [p for part in parts for p in range(*part)] == list(range(size))
        assert len(parts) == -(-size // length)  # whole if it fits, else full pieces and one rest
    firsts = [min(d for d, _, _ in sequence) for sequence in found]
    assert firsts == sorted(firsts)


@given(LENGTHS, st.integers(1, 40))
@settings(max_examples=300, deadline=None)
def test_it_is_best_fit_decreasing(lengths, length):
    rests = [n % length for n in lengths if n % length]
    left = [length - sum(n for _, _, n in s) for s in bins(pack(np.array(lengths, np.int64), length))]
    for _ in range(sum(n // length for n in lengths)):
        left.remove(0)  # full pieces
    assert sorted(left) == one_at_a_time(rests, length)


@pytest.mark.parametrize(("length", "middle"), [(2048, 600), (4096, 600), (4096, 300), (8192, 1000)])
def test_sequences_of_natural_documents_are_full_to_99_in_100(length, middle):
    lengths = natural(20_000, seed=length, middle=middle)
    found = pack(lengths, length)
    assert lengths.sum() / (len(found.ends) * length) >= 0.99
    whole = lengths[found.document] <= length
    assert (found.tokens[whole] == lengths[found.document[whole]]).all()  # no document under the limit is cut


def test_groups_are_planned_apart_and_by_any_number_of_processes(monkeypatch):
    ends = np.cumsum(natural(1500, middle=40))
    one = pack_groups(ends, 128, group=400)
    many = pack_groups(ends, 128, group=400, workers=2)
    for name in ("ends", "document", "begin", "tokens"):
        assert np.array_equal(getattr(one, name), getattr(many, name)), name
    for sequence in bins(one):
        assert len({d // 400 for d, _, _ in sequence}) == 1
    assert one.tokens.sum() == ends[-1]


def test_lengths_alone_decide():
    """Frozen: other pieces for these documents need another ``packing.VERSION``."""
    found = bins(pack(np.array([3, 25, 7, 4, 10, 1, 6, 2]), 10))
    assert found == [
        [(2, 0, 7), (0, 0, 3)],
        [(1, 0, 10)],
        [(1, 10, 10)],
        [(1, 20, 5), (7, 0, 2), (5, 0, 1)],
        [(6, 0, 6), (3, 0, 4)],
        [(4, 0, 10)],
    ]
    assert packing.VERSION == 1


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    draw = np.random.default_rng(3)
    documents = [draw.integers(3, 900, draw.integers(0, 90)).tolist() for _ in range(300)]
    return open_tokens(make_store(tmp_path_factory.mktemp("tokens") / "t", documents, per_shard=70))


def same(one, two):
    names = ("ends", "starts", "tokens", "goes_on")
    return one.fingerprint == two.fingerprint and all(np.array_equal(getattr(one, n), getattr(two, n)) for n in names)


def test_a_kept_plan_is_read_back_and_never_made_again(store, tmp_path, monkeypatch):
    made = Plan(store, length=64, packing="best-fit", cache=tmp_path).packed[0]
    assert same(made, Plan(store, length=64, packing="best-fit").packed[0])
    assert [p.suffix for p in tmp_path.iterdir()] == [".plan"]  # nothing half-written beside it
    monkeypatch.setattr("cleanpipe.tokens.reading.packed.pack_groups", None)  # were it called, this would fail
    assert same(made, Plan(store, length=64, packing="best-fit", cache=tmp_path).packed[0])
    with pytest.raises(TypeError):
        Plan(store, length=65, packing="best-fit", cache=tmp_path)


@pytest.mark.parametrize("where", [0, 30, 4095, 4096, 5000, -1, "short", "empty", "longer"])
def test_a_damaged_plan_is_made_again(store, tmp_path, where):
    made = Plan(store, length=64, packing="best-fit", cache=tmp_path).packed[0]
    (path,) = tmp_path.iterdir()
    data = bytearray(path.read_bytes())
    whole = bytes(data)
    if where == "short":
        data = data[:-5]
    elif where == "empty":
        data = bytearray()
    elif where == "longer":
        data += b"x"
    else:
        data[where] ^= 1
    path.unlink()  # the plan that is mapped keeps its own
    path.write_bytes(data)
    again = packed(Plan(store, length=64).sources[0], 64, cache=tmp_path)
    assert same(made, again)
    if where != 4095:  # a blank of the head, which says nothing
        assert path.read_bytes() == whole


def test_a_folder_that_cannot_be_written_is_told(store, tmp_path):
    (tmp_path / "file").write_text("")
    for cache in (tmp_path / "file", tmp_path / "file" / "below", "/proc/nope", "\0", 5):
        with pytest.raises(ConfigError, match="cache "):
            Plan(store, length=64, packing="best-fit", cache=cache)
