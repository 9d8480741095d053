"""minhash_sign: how many shingles a text has, and keys that depend on the text alone."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cleanpipe import batch as col
from cleanpipe.errors import ConfigError
from cleanpipe_stages.dedup.bands import BAND_KEYS, SHINGLES, Layout, from_arrow
from cleanpipe_stages.minhash_sign import MinhashSign

LINES = (Path(__file__).parent / "cases" / "minhash_sign.jsonl").read_text(encoding="utf-8").splitlines()
CASES = [json.loads(line) for line in LINES]
LONG = "It is a truth universally acknowledged, that a single man in possession of a good fortune"


def run(texts: Sequence[str | None], **options: Any) -> Any:
    return MinhashSign(**options).open()(pa.record_batch({col.TEXT: pa.array(texts, pa.large_string())}))


def keys(texts: Sequence[str | None], **options: Any) -> list[bytes | None]:
    found: list[bytes | None] = run(texts, **options).batch.column(BAND_KEYS).to_pylist()
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["comment"][:40])
@pytest.mark.parametrize("scheme", ["cleanpipe", "datasketch"])
def test_cases(case: dict[str, Any], scheme: str) -> None:
    if scheme == "datasketch":
        pytest.importorskip("datasketch")
    outcome = run([case["text"]], scheme=scheme)
    assert outcome.scores[SHINGLES].to_pylist() == [case["shingles"]]
    assert (outcome.batch.column(BAND_KEYS)[0].as_py() is None) == (case["shingles"] == 0)
    assert outcome.skipped.to_pylist() == [case["shingles"] == 0]
    assert outcome.facts == {"without_shingles": int(case["shingles"] == 0)}


def test_it_keeps_its_declaration() -> None:
    outcome = run([LONG, None, "", "short"])
    assert outcome.drops is None
    assert outcome.batch.column(BAND_KEYS).type == MinhashSign.writes[BAND_KEYS]
    assert {n: a.type for n, a in outcome.scores.items()} == dict(MinhashSign.scores)
    assert outcome.batch.num_rows == 4
    outcome.batch.validate(full=True)
    assert outcome.scores[SHINGLES].to_pylist() == [12, 0, 0, 0]
    assert run([]).batch.num_rows == 0


def test_keys_depend_on_the_words_alone() -> None:
    texts = [LONG, "短い文章ですが八文字より長い", "", LONG.upper(), LONG.replace(" ", "\n\n"), LONG + " x"]
    together = keys(texts)
    assert together == [keys([t])[0] for t in texts]
    assert together == keys(texts[::-1])[::-1]
    assert together[0] == together[3] == together[4]
    assert together[0] != together[5]


def test_options_change_keys_and_say_so() -> None:
    usual = from_arrow(run([LONG]).batch.column(BAND_KEYS))[0]
    assert Layout.read(int(usual[0])) == Layout.of(bands=16, rows=8, words=5, characters=8, scheme="cleanpipe", seed=1)
    for options in ({"seed": 2}, {"ngram": 4}, {"rows": 4}, {"bands": 8}):
        other = from_arrow(run([LONG], **options).batch.column(BAND_KEYS))[0]
        assert other[0] != usual[0]
        assert set(other[1:].tolist()).isdisjoint(usual[1:].tolist()) or "bands" in options
    assert run([LONG], ngram=3).scores[SHINGLES].to_pylist() == [14]


def test_datasketch_keys_are_equal_where_its_signatures_are() -> None:
    pytest.importorskip("datasketch")
    one, same, other = keys([LONG, LONG.upper(), "entirely other words stand in this text"], scheme="datasketch")
    assert one == same != other
    assert one != keys([LONG])[0]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"scheme": "simhash"}, "scheme = 'simhash': choose one of"),
        ({"bands": 0}, "bands"),
        ({"rows": 300}, "rows"),
        ({"ngram": 0}, "ngram"),
    ],
)
def test_options_that_cannot_work(options: dict[str, Any], what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        MinhashSign(**options).open()


def test_datasketch_absent_is_said_before_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "datasketch", None)
    with pytest.raises(ConfigError, match="pip install datasketch"):
        MinhashSign(scheme="datasketch").open()
    assert keys([LONG])[0] is not None


def test_it_travels_to_workers() -> None:
    stage = MinhashSign(seed=9)
    assert pickle.loads(pickle.dumps(stage)) == stage


def test_golden_keys() -> None:
    """In the work folders and --against runs of users: may never change unseen."""
    found = from_arrow(run([LONG]).batch.column(BAND_KEYS))[0]
    assert [f"{int(v):016x}" for v in found[:4]] == [
        "52a75e4b08050810",
        "c7d196445aa7aeb9",
        "255eacb4029b0be7",
        "6225140feb26f937",
    ]
