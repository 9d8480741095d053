"""Whole runs over the larger real samples: the facts of their README files are expected values."""

import re

import pytest

from cleanpipe.opening import ledger
from cleanpipe.run import run

FACTS = re.compile(r"^\| `([^`]+)` \|.*records \(warcio\): \d+ = ([^;|]+)(?:;.*?statuses: ([^;|]+))?", re.MULTILINE)


def numbers(text):
    return {name.strip(): int(n) for name, n in re.findall(r"([^,]+?) (\d+)(?:,|\s*$)", text)}


def facts(samples):
    """File → records by type and HTTP statuses, as the README says."""
    out = {}
    for folder in ("warc", "wet"):
        page = (samples / folder / "README.md").read_text(encoding="utf-8")
        for name, records, statuses in FACTS.findall(page):
            out[f"{folder}/{name}"] = numbers(records), numbers(statuses)
    out["wet/cc_net-sample.warc.wet"] = (
        {"warcinfo": 1, "conversion": 3},
        {},
    )  # counted by hand: three heads with LF ends
    # the table's reader parses no HTTP at chrome-extension://; its block begins "HTTP/1.1 200 OK200 OK": an eighth 200
    out["warc/wget-parseme.warc.gz"][1]["200"] += 1
    return out


def test_the_facts_of_the_samples_hold(samples, tmp_path):
    expected = facts(samples)
    assert len(expected) >= 20
    done = run("web", [str(samples / name) for name in expected], tmp_path / "out", engine="local", workers=2)
    assert done.exit_code == 0
    assert done.audit["conservation"]["balanced"]
    by_source = done.audit["input"]["records"]["by_source"]
    rows = ledger(done.out).to_table(columns=["source", "http_status"]).to_pylist()
    for name, (records, statuses) in expected.items():
        source = name.rpartition("/")[2]
        assert by_source[source] == records, source
        for status, n in statuses.items():
            assert sum(r["source"] == source and r["http_status"] == int(status) for r in rows) == n, (source, status)


def test_arc_and_warc_of_one_crawl_give_the_same_documents(samples, tmp_path):
    columns = [
        "url",
        "date",
        "http_status",
        "media_type",
        "charset",
        "bytes_in",
        "fate",
        "stage",
        "reason",
        "content_id",
    ]
    found = []
    for kind in ("warc", "arc"):
        path = samples / "warc" / f"iah-blackbook-2008.{kind}.gz"
        done = run("web", [str(path)], tmp_path / kind, engine="serial")
        found.append(sorted(repr(list(r.values())) for r in ledger(done.out).to_table(columns=columns).to_pylist()))
    assert len(found[0]) == 299
    assert found[0] == found[1]


def test_broken_archives_end_well_and_everything_read_is_accounted_for(samples, tmp_path):
    files = sorted(p for p in (samples / "broken").iterdir() if p.suffix in (".gz", ".warc", ".arc"))
    assert len(files) >= 25
    done = run("web", [str(f) for f in files], tmp_path / "out", engine="local", workers=2)
    assert done.exit_code in (0, 1)
    assert done.audit["conservation"]["balanced"]
    assert set(done.audit["input"]["records"]["by_source"]) == {f.name for f in files}


def test_literal_runs_with_another_model_and_its_threshold(samples, tmp_path):
    pytest.importorskip("html2text")
    pytest.importorskip("datasketch")
    pytest.importorskip("tokenizers")  # perplexity is the embedded RoBERTa's
    sets = ["language_id.model=lid.176.ftz", "language_id.threshold=0.65"]
    path = samples / "warc" / "wget-creativecommons-ai2-commoncrawl.warc.gz"
    done = run("literal", [str(path)], tmp_path / "out", engine="serial", sets=sets)
    rows = ledger(done.out).to_table().to_pylist()
    kept = [r for r in rows if r["fate"] == "kept"]
    assert len(kept) >= 10
    assert all(r["language_id_score"] >= 0.65 and r["entropy"] > 3.2 for r in kept)
    assert all(1 < r["perplexity"] < 1e6 for r in kept)  # they are English, which it reads; no limit of it is on
    assert done.audit["conservation"]["balanced"]
