"""Laws of the audit of a corpus: parts add up to the whole; numbers on the page are those of audit.json."""

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from page_numbers import Numbers, evaluate
from planted import planted, write

from cleanpipe.corpus import recurring as module
from cleanpipe.corpus.damage import FAULTS, evidence, examine, written
from cleanpipe.corpus.files import Columns, CorpusFile, Segment
from cleanpipe.corpus.page import to_html
from cleanpipe.corpus.reading import read_segment
from cleanpipe.corpus.recurring import Lines, recurring
from cleanpipe.corpus.run import Options, audit_corpus
from cleanpipe.corpus.sampling import Keeper, interval, merge_samples, order_of, row_orders
from cleanpipe.corpus.tokens import estimate, script_counts
from cleanpipe.corpus.verdicts import percent
from cleanpipe.text.normalise import normalise

LINE = st.text(alphabet="ab \t", max_size=3)
DOCUMENT = st.lists(LINE, max_size=6).map("\n".join)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(DOCUMENT, max_size=6), min_size=1, max_size=4), st.integers(1, 9))
def test_recurring_lines_are_those_of_a_plain_count(units, rows):
    pending, held, merged = module._PENDING, module._HELD, module._ROWS
    module._PENDING, module._HELD, module._ROWS = rows, 3, rows  # spill and part as if it were much
    try:
        with TemporaryDirectory() as folder:
            for number, documents in enumerate(units):
                lines = Lines(number, Path(folder))
                for row, text in enumerate(documents):
                    lines.add(row, text)
                lines.save()
            found = recurring(Path(folder), sum(map(len, units)))
    finally:
        module._PENDING, module._HELD, module._ROWS = pending, held, merged
    documents_of, times, first = Counter(), Counter(), {}
    for number, documents in enumerate(units):
        for row, text in enumerate(documents):
            stripped = [line.strip(" \t") for line in text.split("\n")]
            held_ = Counter(line for line in stripped if line)
            documents_of.update(held_.keys())
            times.update(held_)
            for line in held_:
                first.setdefault(line, (number << 32) + row)
    assert found.lines == len(times)
    assert found.chars == sum(len(line) * n for line, n in times.items())
    for k, (lines_, chars) in found.at_least.items():
        often = [line for line, n in documents_of.items() if n >= k]
        assert (lines_, chars) == (len(often), sum(len(line) * times[line] for line in often))
    told = {module.line_hash(line): (documents_of[line], times[line], first[line]) for line in documents_of}
    for row in found.top:
        assert told[int(row["hash"]).to_bytes(8, "little")] == (row["documents"], row["times"], row["place"])
    assert sorted(found.top["documents"], reverse=True) == list(found.top["documents"])


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3)), max_size=30), st.integers(0, 5))
def test_samples_of_the_parts_are_those_of_the_whole(rows, k):
    def keep(some):
        keeper = Keeper(k)
        for n, group in some:
            if keeper.wants(str(group), order_of(bytes([n]), 7)):
                keeper.add(str(group), {"order": order_of(bytes([n]), 7), "doc_id": f"{n:02x}"})
        return keeper.samples

    rows = sorted(set(rows))
    half = len(rows) // 2
    parts = merge_samples(keep(rows[:half]), keep(rows[half:]), k)
    assert {g: s for g, s in parts.items() if s} == {g: s for g, s in keep(rows[::-1]).items() if s}


@given(st.text(max_size=80), st.integers(0, 3))
def test_a_text_is_examined_without_a_fault_of_ours(raw, invalid):
    found = examine(raw, normalise(raw), invalid)
    assert all(n > 0 for n in found.counts.values())
    assert set(found.counts) <= set(FAULTS)
    for fault in found.counts:
        shown = evidence(fault, raw)
        assert shown == written(shown)
        assert all(c.isprintable() for c in shown)
    if not found.counts.get("mojibake"):  # what the repairs took away, and what they left
        again = examine(normalise(raw), normalise(raw), 0)
        assert "invisible" not in again.counts
        assert "surrogates" not in again.counts


def test_an_interval_holds_what_it_should_about_as_often():
    rng = np.random.default_rng(3)
    for share in (0.01, 0.17, 0.5):
        inside = 0
        for n in rng.binomial(500, share, 400).tolist():
            low, high = interval(n, 500)
            assert 0 <= low <= n / 500 <= high <= 1
            inside += low <= share <= high
        assert inside >= 360
    assert interval(0, 0) is None


def test_rows_are_chosen_evenly_and_by_the_seed():
    chosen = row_orders("a.jsonl", 0, 100_000, 0) <= np.uint64((1 << 64) // 10)
    assert 9_600 < chosen.sum() < 10_400
    assert all(900 < part.sum() < 1_100 for part in np.split(chosen, 10))
    assert (row_orders("a.jsonl", 0, 9, 0) != row_orders("a.jsonl", 0, 9, 1)).all()
    assert row_orders("a.jsonl", 0, 9, 0).tolist()[:5] == row_orders("a.jsonl", 0, 5, 0).tolist()


@pytest.mark.parametrize(
    ("text", "scripts"),
    [
        ("plain", {"latin": 5}),
        ("né", {"latin": 1, "latin_accented": 1}),
        ("да", {"cyrillic": 2}),
        ("中文、", {"cjk": 3}),
        ("かな한국", {"kana_hangul": 4}),
        ("हिन", {"indic_thai": 3}),
        ("שלום", {"arabic_hebrew": 4}),
        ("“x”", {"latin": 3}),
        ("😀", {"other": 1}),
        ("", {}),
    ],
)
def test_scripts(text, scripts):
    assert script_counts(text) == scripts
    assert sum(scripts.values()) == len(text)
    assert estimate(scripts) <= max(1, len(text))


@pytest.mark.parametrize(
    ("share", "shown"),
    [(0, "0.0 %"), (1, "100.0 %"), (0.17, "17.0 %"), (0.05, "5.0 %"), (0.0055, "0.55 %"), (0.00096, "0.096 %"),
     (0.00001, "0.001 %"), (0.9996, "99.96 %"), (0.99999, "99.999 %")],
)  # fmt: skip
def test_shares_in_words_are_never_rounded_to_nothing_or_all(share, shown):
    assert percent(share) == shown


def test_every_number_on_the_page_is_the_one_of_its_place(tmp_path):
    documents, _ = planted(300)
    documents += [documents[0]] * 3 + [{"text": "", "url": None}]
    path = write(documents, tmp_path, "jsonl")
    with path.open("a") as file:
        file.write("no json\n")
    audit = audit_corpus([str(path)], tmp_path / "out", Options(workers=1))
    page = to_html(audit, "x")
    numbers = Numbers(page).found
    assert len(numbers) > 300
    for exact, of, _ in numbers:
        assert float(exact) == evaluate(json.loads(json.dumps(audit)), {}, of), of
    assert len(page) < 2 << 20
    for part in ("http://", "https://"):  # it asks for nothing
        assert f'href="{part}' not in page
        assert f'src="{part}' not in page


BYTES = st.one_of(
    st.binary(max_size=30),
    st.sampled_from([b"\n", b"\r\n", b'{"text": "a"}', b'{"text": null}', b"[]", b'{"text": "\\ud800"}']),
    st.sampled_from([b"\xff", b'"', b",", b"\xef\xbb\xbf", b" "]),
)


@settings(deadline=None, max_examples=150)
@given(st.lists(BYTES, max_size=20).map(b"".join), st.integers(1, 60), st.sampled_from(["jsonl", "csv", "txt"]))
def test_no_bytes_end_an_audit_and_no_row_is_lost(data, width, kind):
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"c.{kind}"
        path.write_bytes(b"text\n" + data if kind == "csv" else data)
        file = CorpusFile(str(path), path.name, kind, "", path.stat().st_size)
        cuts = [*range(0, file.size, width), file.size] if kind != "csv" and file.size else [0, -1]
        found = []
        for first, last in pairwise(cuts):
            segment = Segment(file, Columns("text"), first, last, 0)
            found += list(read_segment(segment, None, by_line=True))
    documents, problems = sum(map(len, found)), sum(len(f.problems) for f in found)
    if kind == "csv":
        assert documents + problems >= sum(f.read for f in found)  # what breaks off is one problem more
        return
    ended = data.split(b"\n") if data else []
    ended = ended[:-1] if ended and not ended[-1] else ended
    assert sum(f.read for f in found) == len(ended)
    if kind == "txt":
        assert (documents, problems) == (sum(1 for line in ended if line.rstrip(b"\r")), 0)
    else:
        marked = [line.removeprefix(b"\xef\xbb\xbf") if i == 0 else line for i, line in enumerate(ended)]
        empty = sum(1 for line in marked if not line.strip())
        assert documents + problems == len(ended) - empty


def test_two_halves_are_the_whole(tmp_path):
    documents, _ = planted(200)
    for name, part in (("a", documents[:90]), ("b", documents[90:]), ("ab", documents)):
        write(part, tmp_path / name, "jsonl")
    a, b, ab = (
        audit_corpus([str(tmp_path / name)], tmp_path / f"out-{name}", Options(workers=1)) for name in ("a", "b", "ab")
    )

    for fault in FAULTS:
        pick = [x["damage"]["faults"][fault] for x in (a, b, ab)]
        for line, number in (("documents", "numerator"), ("documents", "denominator"), ("occurrences", "value")):
            assert pick[0][line][number] + pick[1][line][number] == pick[2][line][number]
    for score in ("entropy", "perplexity"):
        one, two, both = (Counter(x["scores"]["quality_score"][score]["histogram"]) for x in (a, b, ab))
        assert one + two == both
    for name in ("documents", "characters", "bytes"):
        assert a["documents"][name]["value"] + b["documents"][name]["value"] == ab["documents"][name]["value"]
