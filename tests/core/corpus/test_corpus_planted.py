"""A corpus with planted faults: each is named with its right count, whatever the format, the workers or the order."""

import json
import random
import re

import duckdb
import pytest
from planted import FORMATS, MOJIBAKE, SPAM, essay, planted, write

from cleanpipe.corpus import files, run
from cleanpipe.corpus.console import summary
from cleanpipe.corpus.page import to_html
from cleanpipe.corpus.run import Options, audit_corpus

N = 2000


@pytest.fixture(scope="module")
def corpus():
    return planted(N)


def _shingles(text):
    words = re.findall(r"\w+", text.casefold())
    return {tuple(words[i : i + 5]) for i in range(len(words) - 4)}


def _named(audit):
    return {v["fault"]: v for v in audit["verdicts"]}


def _holds(audit, counts):
    named = _named(audit)
    assert named["invisible"]["share"]["numerator"] == counts["invisible"]
    assert f"U+200E LEFT-TO-RIGHT MARK in {counts['invisible']:,}" in named["invisible"]["words"]
    assert named["mojibake"]["share"]["numerator"] == counts["mojibake"]
    assert named["near_duplicate"]["share"]["numerator"] == counts["near_duplicate"]
    assert "exact_duplicate" not in named
    assert named["wiped_out_host"]["share"]["numerator"] == counts["wiped"]
    assert SPAM in named["wiped_out_host"]["words"]
    assert f"({counts['wiped']:,} of {counts['wiped']:,})" in named["wiped_out_host"]["words"]
    rest = set(named) - {"invisible", "mojibake", "near_duplicate", "wiped_out_host"}
    assert all(f.startswith(("language_id/", "quality_score/")) for f in rest)  # why the host is wiped out
    assert audit["documents"]["documents"]["value"] == N
    assert audit["documents"]["clean"]["numerator"] == N - sum(counts.values())


def test_the_near_duplicates_are_as_near_as_they_are_said_to_be(corpus):
    documents, counts = corpus
    by_start = {}
    for text in (d["text"] for d in documents):
        by_start.setdefault(text[:300], []).append(_shingles(text))
    pairs = [p for p in by_start.values() if len(p) == 2]
    assert len(pairs) == counts["near_duplicate"]
    assert all(0.92 <= len(a & b) / len(a | b) < 1 for a, b in pairs)


@pytest.mark.parametrize("form", FORMATS)
def test_each_fault_is_named_with_its_count_in_every_format(corpus, tmp_path, form):
    documents, counts = corpus
    path = write(documents, tmp_path / "in", form)
    audit = audit_corpus([str(path)], tmp_path / "out", Options(workers=1))
    _holds(audit, counts)
    assert audit == json.loads((tmp_path / "out" / "audit.json").read_text(encoding="utf-8"))
    assert not audit["input"]["unreadable_files"]
    assert not audit["input"]["problems"]


def test_kinds_of_mojibake_and_the_three_ways_to_see_them(corpus, tmp_path):
    documents, counts = corpus
    path = write(documents, tmp_path, "jsonl")
    audit = audit_corpus([str(path)], tmp_path / "out", Options(workers=1))
    expected = {}
    for i in range(counts["mojibake"]):
        kind = MOJIBAKE[i % len(MOJIBAKE)][0]
        expected[kind] = expected.get(kind, 0) + 1
    found = audit["damage"]["mojibake"]
    assert {kind: n["documents"]["numerator"] for kind, n in found.items()} == expected
    console, html = "\n".join(summary(audit, 10_000)), to_html(audit, "planted")
    planned = {"invisible": 340, "mojibake": 100, "near_duplicate": 240, "wiped_out_host": 60}
    for fault, count in planned.items():
        words = _named(audit)[fault]["words"]
        assert words in console
        item = html.split(f'data-fault="{fault}"')[1].split("</li>")[0]
        assert f'data-n="{count}"' in item
    assert "\u200e" not in console + html  # what is hidden is written out
    assert "<script" not in html


def test_the_ledger_answers_the_same_in_sql(corpus, tmp_path):
    documents, counts = corpus
    path = write(documents, tmp_path, "parquet")
    audit = audit_corpus([str(path)], tmp_path / "out", Options(workers=1))
    ledger = f"'{tmp_path}/out/ledger/*.parquet'"

    def ask(sql):
        return duckdb.sql(sql.replace("LEDGER", ledger)).fetchall()

    assert ask("select count(*), count(*) filter (invisible > 0), count(*) filter (mojibake > 0) from LEDGER") == [
        (N, counts["invisible"], counts["mojibake"])
    ]
    assert ask("select count(*), count(distinct cluster) from LEDGER where reason = 'near_duplicate'") == [
        (counts["near_duplicate"], counts["near_duplicate"])
    ]
    assert ask(f"select count(*), count(*) filter (fate = 'dropped') from LEDGER where host = '{SPAM}'") == [
        (counts["wiped"], counts["wiped"])
    ]
    fates = ask("select stage || '/' || reason, count(*) from LEDGER where fate = 'dropped' group by 1 order by 1")
    told = {f"{r['stage']}/{r['reason']}": r["would_drop"]["numerator"] for r in audit["would_drop"]["reasons"]}
    assert dict(fates) == {k: n for k, n in told.items() if n}
    sample = audit["samples"]["mojibake"][0]
    (place,) = ask(f"select source, row_no, url from LEDGER where hex(doc_id) = '{sample['doc_id'].upper()}'")
    assert place == (sample["source"], sample["row"], sample["url"])
    assert documents[sample["row"] - 1]["url"] == sample["url"]


def _tree(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture
def same_code(monkeypatch):
    """The digest of the code is part of an audit, and not what is compared here: someone may be editing it."""
    monkeypatch.setattr(run, "code_version", lambda refs: "0" * 64)


def test_the_same_bytes_for_any_workers_units_and_order_of_inputs(corpus, tmp_path, monkeypatch, same_code):
    documents, _ = corpus
    parts = [write(documents[i::4], tmp_path / "in" / f"{i}", f) for i, f in enumerate(list(FORMATS)[:3])]
    parts.append(write(documents[3::4], tmp_path / "in" / "3", "parquet"))
    with monkeypatch.context() as patched:
        patched.setattr(files, "UNIT_BYTES", 100_000)
        first = audit_corpus([str(p) for p in parts], tmp_path / "one", Options(workers=1))
        audit_corpus([str(p) for p in reversed(parts)], tmp_path / "two", Options(workers=2))
    assert _tree(tmp_path / "one") == _tree(tmp_path / "two")
    assert len(list((tmp_path / "one" / "ledger").iterdir())) > 8
    whole = audit_corpus([str(tmp_path / "in")], tmp_path / "three", Options(workers=1))
    assert whole == first  # and the counts do not depend on how the files are cut


def test_a_clean_corpus_raises_no_alarm(tmp_path):
    rng = random.Random(7)
    documents = [{"text": essay(rng, sep="\n"), "url": f"http://h{i % 9}.org/{i}"} for i in range(400)]
    path = write(documents, tmp_path, "jsonl")
    audit = audit_corpus([str(path)], tmp_path / "out", Options(workers=1))
    assert audit["verdicts"] == []
    assert audit["documents"]["clean"]["value"] == 1
    assert "no fault was found" in list(summary(audit))


def test_a_sample_says_how_sure_it_is(corpus, tmp_path, monkeypatch, same_code):
    documents, counts = corpus
    monkeypatch.setattr(files, "UNIT_BYTES", 300_000)
    path = write(documents, tmp_path, "jsonl")
    one = audit_corpus([str(path)], tmp_path / "one", Options(workers=1, sample=500))
    audit_corpus([str(path)], tmp_path / "two", Options(workers=2, sample=500))
    assert _tree(tmp_path / "one") == _tree(tmp_path / "two")
    assert one["documents"]["documents"]["value"] == 500
    assert one["input"]["rows"]["value"] == N
    share = _named(one)["invisible"]["share"]
    low, high = share["interval"]
    assert low < counts["invisible"] / N < high
    assert high - low < 0.08
    copies = _named(one).get("near_duplicate", {"share": {}, "words": "of a sample only"})
    assert "interval" not in copies["share"]  # for most copies of a sample's documents lie outside of it
    assert "of a sample only" in copies["words"]
    other = audit_corpus([str(path)], tmp_path / "three", Options(workers=1, sample=500, seed=1))
    assert other["samples"]["clean"] != one["samples"]["clean"]
    whole = audit_corpus([str(path)], tmp_path / "four", Options(workers=1, sample=5000))
    assert whole["input"]["sampled"] is None
    assert _named(whole)["invisible"]["share"]["numerator"] == counts["invisible"]
