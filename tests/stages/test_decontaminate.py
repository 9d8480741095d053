"""decontaminate: items found, and only those; files of every kind; the limits that drop."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleanpipe.errors import ConfigError
from cleanpipe.testing import batch, check_stage, run
from cleanpipe_stages.decontaminate import FILE, ITEMS, LINE, NGRAMS, SHARE, Decontaminate
from cleanpipe_stages.decontamination import index as indexing
from cleanpipe_stages.decontamination.index import Lengths, build
from cleanpipe_stages.dedup.hashing import window_hashes
from cleanpipe_stages.wording.stream import stream

WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau".split()  # noqa: SIM905
CHINESE = "在中国历史上哪一个朝代的首都曾经设在今天的南京市并且后来迁都到了北京"
ITEM = " ".join(WORDS)
CASES: list[tuple[str, str, int, float]] = [
    ("whole", ITEM, 7, 1.0),
    ("in other words around it", f"He asked: {ITEM}? Nobody knew.", 7, 1.0),
    ("capitals", ITEM.upper(), 7, 1.0),
    ("punctuation and line breaks", ",\n".join(WORDS) + "!", 7, 1.0),
    ("quotes and markup characters", "*" + "** «".join(WORDS), 7, 1.0),
    ("thirteen of its words", " ".join(WORDS[2:15]), 1, 0.142857),
    ("twelve are too few", " ".join(WORDS[2:14]), 0, 0.0),
    ("one word is another", " ".join([*WORDS[:9], "other", *WORDS[10:]]), 0, 0.0),
    ("one word more inside", " ".join([*WORDS[:9], "other", *WORDS[9:]]), 0, 0.0),
    ("in two halves, each too short", " ".join(WORDS[:10]) + " and then " + " ".join(WORDS[10:]), 0, 0.0),
    ("twice is one item", f"{ITEM} {ITEM}", 7, 1.0),
    ("order turned", " ".join(WORDS[::-1]), 0, 0.0),
    ("Chinese", f"他问：「{CHINESE}？」", 11, 1.0),
    ("Chinese with its own punctuation", "，".join(CHINESE[i : i + 5] for i in range(0, 34, 5)), 11, 1.0),
    ("23 letters of it are too few", CHINESE[3:26], 0, 0.0),
    ("24 letters of it", CHINESE[3:27], 1, 0.090909),
    ("a short item as a whole", "x one two three four five six seven eight y", 1, 1.0),
    ("a part of a short item", "one two three four five six seven nine", 0, 0.0),
    ("an item of seven words is not looked for", "seven words are too few to find", 0, 0.0),
    ("accents count", "Één twee drie vier vijf zes zeven acht negen", 1, 1.0),
    ("without its accents it is another", "Een twee drie vier vijf zes zeven acht negen", 0, 0.0),
    ("nothing", "The keeper weighs each hive every evening and writes the figure down.", 0, 0.0),
    ("empty", "", 0, 0.0),
]


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    path = tmp_path / "bench.jsonl"
    items = [ITEM, CHINESE + "？", "One, two, three, four, five, six, seven, eight.", "seven words are too few to find",
             "één twee drie vier vijf zes zeven acht negen", ""]  # fmt: skip
    path.write_text("\n".join(json.dumps({"id": i, "question": q, "n": None}) for i, q in enumerate(items)))
    return path


def test_cases(bench: Path) -> None:
    done = check_stage(Decontaminate(benchmarks=(str(bench),), fields=("question",)), batch(text=[c[1] for c in CASES]))
    found = {c[0]: (n, s) for c, n, s in zip(CASES, done.scores[NGRAMS], done.scores[SHARE], strict=True)}
    assert found == {c[0]: c[2:] for c in CASES}
    lines = dict(zip([c[0] for c in CASES], done.scores[LINE], strict=True))
    assert (lines["whole"], lines["Chinese"], lines["a short item as a whole"], lines["nothing"]) == (1, 2, 3, None)
    assert {f for f in done.scores[FILE] if f} == {"bench.jsonl"}
    assert done.reasons == [None] * len(CASES)


@pytest.mark.parametrize(
    ("options", "dropped"),
    [
        ({}, 0),
        ({"drop": True}, 12),
        ({"drop": True, "min_ngrams": 2}, 8),
        ({"drop": True, "min_share": 0.1}, 11),
        ({"drop": True, "min_share": 1.0}, 10),
        ({"drop": True, "min_ngrams": 2, "min_share": 1.0}, 8),
    ],
)
def test_limits_and_the_ledger_alike(bench: Path, options: Any, dropped: int) -> None:
    stage = Decontaminate(benchmarks=(str(bench),), fields=("question",), **options)
    done = run(stage, batch(text=[c[1] for c in CASES]))
    assert done.reasons.count("benchmark") == dropped
    ledger = pa.RecordBatch.from_pydict({n: pa.array(done.scores[n], t) for n, t in stage.scores.items()})
    assert stage.judge().judge(ledger).to_pylist() == done.reasons


def test_files_of_every_kind(tmp_path: Path) -> None:
    folder = tmp_path / "all"
    folder.mkdir()
    rows = [{"question": f"a{i} {ITEM}", "choices": ["x", f"b{i} {ITEM[::-1]}"], "label": i} for i in range(3)]
    (folder / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(("\n".join(map(json.dumps, rows))).encode()))
    (folder / "c.txt").write_text("\ufeff" + "\n".join(f"{r['question']}" for r in rows))
    table = pa.Table.from_pylist(rows)
    pq.write_table(table, folder / "d.parquet")
    for name, new in (("e.arrow", pa.ipc.new_file), ("f.arrow", pa.ipc.new_stream)):
        with pa.OSFile(str(folder / name), "wb") as sink, new(sink, table.schema) as writer:
            writer.write_table(table)
    (folder / ".hidden").write_text("no")
    for name in "abcdef":
        path = next(folder.glob(f"{name}.*"))
        done = run(Decontaminate(benchmarks=(str(path),)), batch(text=[f"a1 {ITEM}", ITEM[::-1]]))
        assert done.scores[ITEMS] == ([3, 3] if name != "c" else [3, 0]), name
        assert done.scores[LINE] == ([2, 1] if name != "c" else [2, None]), name
    stage = Decontaminate(benchmarks=(str(folder),), fields=("question",))
    assert len(stage.models()) == 6
    assert run(stage, batch(text=[ITEM, ITEM[::-1]])).scores[ITEMS] == [18, 0]


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "broken.jsonl").write_text('{"a": 1}\n{"a": ')
    (tmp_path / "array.json").write_text("[1, 2]")
    (tmp_path / "fields.jsonl").write_text('{"a": "x"}\n')
    (tmp_path / "blank.json").write_text('\n\n[{"question": "x"}]')
    (tmp_path / "pretty.json").write_text('[\n  {\n    "question": "x"\n  }\n]\n')
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "blank.jsonl").write_text("\n \n")
    (tmp_path / "none.jsonl").write_text('{"question": ""}\n')
    (tmp_path / "blank.txt").write_text("\n\n")
    (tmp_path / "wide.txt").write_bytes("words of it".encode("utf-16-le"))
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n")
    (tmp_path / "no.parquet").write_bytes(b"PAR0")
    for name, message in (
        ("broken.jsonl", "line 2: no JSON"),
        ("array.json", "one JSON array"),
        ("blank.json", "one JSON array"),
        ("pretty.json", "one JSON array"),
        ("empty.jsonl", "empty.jsonl names none"),
        ("blank.jsonl", "blank.jsonl names none"),
        ("none.jsonl", "none.jsonl names none"),
        ("blank.txt", "blank.txt names none"),
        ("wide.txt", "wide.txt cannot be read as UTF-8"),
        ("fields.jsonl", "no row .* has the field question"),
        ("latin.txt", "cannot be read"),
        ("no.parquet", "cannot be read"),
        ("none.txt", "no such file"),
    ):
        with pytest.raises(ConfigError, match=message):
            Decontaminate(benchmarks=(str(tmp_path / name),), fields=("question",)).open()
    for options in ({"n": 0}, {"min_n": 14}, {"letters": 0}, {"max_items": -1}, {"min_ngrams": 0}, {"min_share": 1.1}):
        with pytest.raises(ConfigError, match="it must be"):
            Decontaminate(**options).open()


def test_common_ngrams_can_be_ignored() -> None:
    template = "choose the right answer among the four that are listed here below now"
    items = [f"{template} item number {i} of them all" for i in range(5)]
    assert build(items, Lengths()).find([template])[0].items == 5
    assert build(items, Lengths(common=4)).find([template])[0].items == 0
    assert build(items, Lengths(common=4)).find([items[2]])[0].items == 1
    assert build(items, Lengths(common=4)).find([items[2]])[0].share == 1.0


def test_equal_hashes_of_other_words_count_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every n-gram has the same hash here: only the words can tell them apart."""
    whole = window_hashes
    monkeypatch.setattr(indexing, "window_hashes", lambda hashes, size: whole(hashes, size) * 0)
    found = build([ITEM], Lengths()).find([" ".join(WORDS[:13]), "other " * 20, ""])
    assert [f.grams for f in found] == [1, 0, 0]


NAMES = st.lists(st.sampled_from(["a", "b", "c", "中", "文", "é"]), max_size=14)


@given(st.lists(NAMES, max_size=5), st.lists(NAMES, max_size=5))
def test_as_a_plain_search_finds_them(items: list[list[str]], texts: list[list[str]]) -> None:
    lengths = Lengths(words=4, letters=6, least_words=2, least_letters=3)

    def grams(words: list[str]) -> set[tuple[str, ...]]:
        letters = 2 * sum(w in "中文" for w in words) > len(words)
        most, least = (6, 3) if letters else (4, 2)
        size = min(most, len(words)) if len(words) >= min(most, least) else 0
        return {tuple(words[i : i + size]) for i in range(len(words) - size + 1)} if size else set()

    known = [grams(words) for words in items]
    found = build([" ".join(w) for w in items], lengths).find([" ".join(w) for w in texts])
    for words, one in zip(texts, found, strict=True):
        all_runs = {tuple(words[i:j]) for i in range(len(words)) for j in range(i + 1, len(words) + 1)}
        shared = [g & all_runs for g in known]
        assert one.items == sum(bool(s) for s in shared)
        assert one.grams == len(set().union(*shared)) if shared else one.grams == 0
        best = max((len(s) / len(g) for s, g in zip(shared, known, strict=True) if g), default=0.0)
        assert one.share == pytest.approx(best)


@given(st.lists(st.text(max_size=20), max_size=5))
def test_words_of_the_stream_are_those_of_a_plain_split(texts: list[str]) -> None:
    import re

    from cleanpipe_stages.dedup import characters as ch

    done = stream(texts)
    for row, text in enumerate(texts):
        plain: list[str] = []
        for run_ in re.findall(r"\w+", text.casefold()):
            word = ""
            for letter in run_:
                if ch.flags()[ord(letter)] & ch.UNSPACED:
                    plain += [w for w in (word, letter) if w]
                    word = ""
                else:
                    word += letter
            plain += [word] if word else []
        first, stop = int(done.offsets[row]), int(done.offsets[row + 1])
        assert [w.decode() for w in done.words(first, stop - first)] == plain
