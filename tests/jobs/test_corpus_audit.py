"""``cleanpipe audit`` as it is typed: what it prints, its status, its own shards, saved datasets."""

import json
import os
import random
import re
import subprocess
import sys
from html import unescape

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from planted import SENTENCES, essay, planted, write

from cleanpipe_jobs.cli import main

TEXT = " ".join(SENTENCES[:8])


def run(capsys, *args):
    status = main(["audit", *map(str, args)])
    out = capsys.readouterr()
    return status, out.out, out.err


def ledger(out):
    return pq.read_table(out / "ledger").to_pylist()


def test_what_is_printed_is_what_is_wrong(tmp_path, capsys):
    documents, _ = planted(300)
    path = write(documents, tmp_path, "jsonl")
    status, text, _ = run(capsys, path, "--out", tmp_path / "out", "--workers", 1)
    assert status == 0
    flat = " ".join(text.split())
    assert "300 documents in 1 file," in flat
    assert "17.0 % of documents (51 of 300) hold invisible controls that cleaning removes" in flat
    assert "12.0 % of documents (36 of 300) are near duplicates of one that is kept" in flat
    assert "5.0 % of documents (15 of 300) hold mojibake" in flat
    assert max(map(len, text.splitlines()[:-1])) <= 100  # the last one names the folder
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["audit.html", "audit.json", "ledger"]


def test_each_number_of_the_verdict_stands_once_and_can_be_checked(tmp_path, capsys):
    documents, _ = planted(300)
    path = write(documents, tmp_path, "jsonl")
    path.write_text(path.read_text() + "{bad\n")
    assert run(capsys, path, "--out", tmp_path / "out", "--workers", 1, "-q")[0] == 0
    audit = json.loads((tmp_path / "out" / "audit.json").read_text(encoding="utf-8"))
    html = (tmp_path / "out" / "audit.html").read_text(encoding="utf-8")
    assert f"configuration {audit['identity']['config_hash'][:8]}</" in html
    assert audit["identity"]["config_hash"] not in html
    items = re.findall(r'<li[^>]*data-fault="[^"]*">(.*?)</li>', html, re.DOTALL)
    assert len(items) == len(audit["verdicts"])
    for at, (item, verdict) in enumerate(zip(items, audit["verdicts"], strict=True)):
        plain = unescape(re.sub(r"<[^>]+>", "", item)).strip()
        assert " ".join(plain.removesuffix("samples").split()) == " ".join(verdict["words"].split())
        numbers = re.findall(r'data-n="([^"]*)" data-of="([^"]*)"', item)
        if verdict["fault"] == "boilerplate":  # of characters: none is a number of documents
            assert numbers == []
        else:
            assert numbers == [(str(verdict["share"]["numerator"]), f"/verdicts/{at}/share/numerator")]
    everything = " ".join(re.sub(r"<[^>]+>", "", html).split())
    assert not re.search(r"\b1 (documents|rows|lines|files|hosts)\b", everything)


def test_the_floor_of_wipe_outs_is_said_and_can_be_lowered(tmp_path, capsys):
    rng = random.Random(3)
    documents = [{"text": essay(rng), "url": f"http://good.org/{i}"} for i in range(30)]
    documents += [{"text": documents[0]["text"], "url": f"http://{'ab'[i > 14]}.org/{i}"} for i in range(25)]
    path = write(documents, tmp_path, "jsonl")
    args = [path, "--out", tmp_path / "out", "--workers", 1, "-q"]
    status, text, _ = run(capsys, *args)
    html = re.sub(r"<[^>]+>", "", (tmp_path / "out" / "audit.html").read_text(encoding="utf-8"))
    assert status == 0
    assert "2 hosts of fewer than 20 documents would lose more than 50 %: a.org, b.org" in " ".join(text.split())
    assert "Hosts, files and languages of 20 or more documents that would lose more than 50.0 % of them" in html
    assert "And 2 hosts of fewer than 20 documents (" in html
    assert " of 25): a.org, b.org." in html
    run(capsys, *args, "--alarm-documents", 11)
    audit = json.loads((tmp_path / "out" / "audit.json").read_text(encoding="utf-8"))
    assert audit["wipeouts"]["least_documents"] == 11
    assert "a.org" in [w["name"] for w in audit["wipeouts"]["raised"]]
    assert audit["wipeouts"]["smaller"]["host"]["first"] == ["b.org"]


def test_json_is_the_audit_and_nothing_else(tmp_path, capsys):
    path = write([{"text": TEXT, "url": "http://a.org/"}], tmp_path, "jsonl")
    status, text, err = run(capsys, path, "--out", tmp_path / "out", "--workers", 1, "--json")
    assert status == 0
    assert json.loads(text) == json.loads((tmp_path / "out" / "audit.json").read_text(encoding="utf-8"))
    assert not err


def test_the_folder_is_named_after_the_corpus(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write([{"text": TEXT, "url": "http://a.org/"}], tmp_path / "mine v2", "jsonl")
    assert run(capsys, "mine v2", "--workers", 1, "-q")[0] == 0
    assert (tmp_path / "audit-mine-v2" / "audit.html").is_file()


def test_a_host_name_with_markup_breaks_neither_page_nor_terminal(tmp_path, capsys):
    evil = '"><script>alert(1)</script>\x1b[31m\u202e'
    rows = [{"text": f"{i} \x1b[2J{evil} {TEXT}", "url": f"http://a.org/{evil}{i}", "id": evil} for i in range(30)]
    rows += [{"text": "aaaa " * 200 + str(i), "url": f"http://{evil}.org/"} for i in range(30)]
    (tmp_path / f"c{evil[:2]}\x1b.jsonl").write_text("\n".join(map(json.dumps, rows)))
    status, text, err = run(capsys, tmp_path, "--out", tmp_path / "out", "--workers", 1)
    html = (tmp_path / "out" / "audit.html").read_text(encoding="utf-8")
    assert status == 0
    assert "<script" not in html
    for shown in (text, err, html):
        assert not {"\x1b", "\u202e"} & set(shown)


def test_a_file_that_cannot_be_read_is_said_and_shows_in_the_status(tmp_path, capsys):
    write([{"text": TEXT, "url": "http://a.org/"}], tmp_path, "jsonl")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1")
    status, text, err = run(capsys, tmp_path, "--out", tmp_path / "out", "--workers", 1)
    assert status == 1
    assert "broken.parquet" in text
    assert "broken.parquet" in err


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["no-such"], "no such file or folder"),
        (["c.jsonl", "--column", "txt"], "no such column; did you mean 'text'"),
        (["c.jsonl", "--recipe", "webb"], "did you mean"),
        (["c.jsonl", "--set", "quality_score.min_entropi=2"], "min_entropy"),
        (["c.jsonl", "--alarm", "2"], "between 0 and 1"),
        (["c.jsonl", "--sample", "-1"], "0 or more"),
        (["c.jsonl", "--alarm-documents", "0"], "1 or more"),
        (["c.jsonl", "s3://b/c"], "only local files"),
        (["c.jsonl", "--tokenizer", "none.json"], "no such file"),
    ],
)
def test_wrong_usage_is_status_2_with_the_way_out(tmp_path, capsys, monkeypatch, args, why):
    monkeypatch.chdir(tmp_path)
    write([{"text": TEXT, "url": "http://a.org/"}], tmp_path, "jsonl")
    status, text, err = run(capsys, *args, "--out", "out", "--workers", 1)
    assert status == 2
    assert why in err
    assert not text
    assert not (tmp_path / "out").exists()


def test_our_own_shards_are_joined_to_documents_again(tmp_path, capsys):
    out = tmp_path / "run"
    assert main(["run", "sample", "--out", str(out), "--engine", "serial", "--quiet"]) == 0
    capsys.readouterr()
    kept = [r for r in pq.read_table(out / "ledger").to_pylist() if r["fate"] == "kept"]
    assert run(capsys, out, "--out", tmp_path / "audit", "--workers", 1)[0] == 0
    rows = ledger(tmp_path / "audit")
    assert sorted(r["content_id"] for r in rows) == sorted(r["content_id"] for r in kept)  # text for text
    assert {r["record_id"] for r in rows} == {r["doc_id"].hex() for r in kept}
    assert {r["record_id"]: r["windows"] for r in rows} == {r["doc_id"].hex(): r["windows"] for r in kept}
    audit = json.loads((tmp_path / "audit" / "audit.json").read_text(encoding="utf-8"))
    assert audit["documents"]["windows"]["windows"]["value"] == sum(r["windows"] for r in kept)
    assert audit["would_drop"]["kept"]["value"] == 1  # a second run would drop nothing
    # what runs do not repair: characters lost before, HTML that pages quote
    assert {v["fault"] for v in audit["verdicts"]} == {"tags", "entities", "replacement"}
    # U+FFFD that was encoded twice ("Archiveï¿½s") is repaired to the one that the page had: what it stood for is lost
    assert "Archive\ufffds" in " ".join(s["evidence"] for s in audit["samples"]["replacement"])


def test_windows_are_joined_wherever_a_file_is_cut(tmp_path, capsys, monkeypatch):
    from cleanpipe.corpus import files

    columns = {"text": [], "url": [], "doc_id": [], "window": [], "windows": [], "overlap": []}
    whole = {}
    for n in range(40):
        text = f"{n} " + TEXT[: 200 + 13 * n].rstrip()
        count = 1 + n % 5
        step = len(text) // count + 1
        whole[f"{n:032x}"] = len(text)
        for w in range(count):
            overlap = min(10, w * step)
            row = {"text": text[w * step - overlap : (w + 1) * step], "url": f"http://a.org/{n}"}
            row |= {"doc_id": n.to_bytes(16, "big"), "window": w, "windows": count, "overlap": overlap}
            for name, value in row.items():
                columns[name].append(value)
    kinds = {"doc_id": pa.binary(16), "window": pa.int32(), "windows": pa.int32(), "overlap": pa.int32()}
    table = pa.table({n: pa.array(v, kinds.get(n, pa.string())) for n, v in columns.items()})
    pq.write_table(table, tmp_path / "w.parquet", row_group_size=7)
    with pa.ipc.new_file(str(tmp_path / "w.arrow"), table.schema) as writer:
        writer.write_table(table, max_chunksize=9)
    monkeypatch.setattr(files, "UNIT_BYTES", 1)
    for name in ("w.parquet", "w.arrow"):
        out = tmp_path / f"out-{name}"
        assert run(capsys, tmp_path / name, "--out", out, "--workers", 1)[0] == 0
        assert len(list((out / "ledger").iterdir())) > 5
        assert {r["record_id"]: r["length"] for r in ledger(out)} == whole
    torn = table.filter(pa.array([i != 2 for i in range(table.num_rows)]))  # a window in the midst is lost
    pq.write_table(torn, tmp_path / "torn.parquet")
    assert run(capsys, tmp_path / "torn.parquet", "--out", tmp_path / "torn", "--workers", 1)[0] == 0
    audit = json.loads((tmp_path / "torn" / "audit.json").read_text(encoding="utf-8"))
    assert audit["input"]["problems"]["window_missing"]["count"] == 1
    assert audit["documents"]["documents"]["value"] == 40


def test_a_folder_that_datasets_saved(tmp_path, capsys):
    datasets = pytest.importorskip("datasets", reason="pip install datasets")
    documents, counts = planted(200)
    data = datasets.Dataset.from_list(documents)
    data.save_to_disk(str(tmp_path / "one"), num_shards=3)
    halves = {"train": data.select(range(150)), "test": data.select(range(150, 200))}
    datasets.DatasetDict(halves).save_to_disk(str(tmp_path / "two"))
    for name in ("one", "two"):
        status, text, _ = run(capsys, tmp_path / name, "--out", tmp_path / f"out-{name}", "--workers", 1)
        assert status == 0
        flat = " ".join(text.split())
        assert f"({counts['invisible']} of 200) hold invisible controls" in flat
        assert f"({counts['near_duplicate']} of 200) are near duplicates" in flat


def test_tokens_are_counted_by_a_tokenizer_where_one_is_given(tmp_path, capsys):
    tokenizers = pytest.importorskip("tokenizers", reason="pip install tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({"the": 0, "?": 1}, unk_token="?"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    made.save(str(tmp_path / "t.json"))
    path = write([{"text": TEXT, "url": "http://a.org/"}], tmp_path / "in", "jsonl")
    status, text, _ = run(capsys, path, "--out", tmp_path / "out", "--workers", 1, "--tokenizer", tmp_path / "t.json")
    assert status == 0
    assert f", {len(TEXT.split())} tokens" in " ".join(text.split())
    audit = json.loads((tmp_path / "out" / "audit.json").read_text(encoding="utf-8"))
    assert audit["tokens"]["tokens"]["method"] == "exact"


def test_another_language_is_a_choice_of_the_recipe_and_the_way_is_said(tmp_path, capsys):
    german = "Der Hafenlotse kennt die Tiefe jeder Fahrrinne und geht vor der Barre an Bord. Nummer {}, {} und {}."
    rows = []
    for i in range(90):
        text = "\n".join(german.format(i * 7 + j, j, i) for j in range(6))
        rows.append({"text": text, "url": f"http://h{i % 3}.de/{i}"})
    path = write(rows, tmp_path, "jsonl")
    off = ["--set", "minhash_drop.enabled=false"]
    status, text, _ = run(capsys, path, "--out", tmp_path / "out", "--workers", 1, *off)
    assert status == 0
    flat = " ".join(text.split())
    assert "no fault was found" in flat
    assert "--set 'language_id.languages=[\"de\"]' judges the corpus by it" in flat
    wanted = ["--set", 'language_id.languages=["de"]', *off]
    status, text, _ = run(capsys, path, "--out", tmp_path / "out2", "--workers", 1, *wanted)
    assert "would keep 100.0 % of the documents" in " ".join(text.split())


DEADLY = '''
import os
import random
import re
from dataclasses import dataclass
from typing import ClassVar

from cleanpipe import batch as col
from cleanpipe.stage import Outcome, Stage


@dataclass(frozen=True, kw_only=True)
class Deadly(Stage):
    """Dies."""

    name: ClassVar[str] = "deadly"
    reads: ClassVar = frozenset({col.TEXT})
    reasons: ClassVar = frozenset({"dead"})

    def open(self):
        def step(batch):
            if any("POISON" in text for text in batch.column(col.TEXT).to_pylist()):
                os._exit(9)
            return Outcome(batch)

        return step
'''


@pytest.mark.slow
def test_a_worker_that_dies_costs_its_unit(tmp_path):
    """A stage that ends its process on one text: the other units are there, and the unit is named."""
    (tmp_path / "deadly.py").write_text(DEADLY)
    (tmp_path / "r.toml").write_text('name = "r"\nstages = ["./deadly.py"]\n')
    for i in range(5):
        text = f"{TEXT} POISON" if i == 2 else f"{TEXT} {i}"
        (tmp_path / f"c{i}.jsonl").write_text(json.dumps({"text": text}) + "\n")
    code = (
        "import sys\nfrom cleanpipe.corpus import files\nfrom cleanpipe_jobs.cli import main\n"
        "if __name__ == '__main__':\n    files.UNIT_BYTES = 500\n    sys.exit(main(sys.argv[1:]))\n"
    )
    (tmp_path / "start.py").write_text(code)
    args = ["audit", *(str(tmp_path / f"c{i}.jsonl") for i in range(5)), "--recipe", str(tmp_path / "r.toml")]
    done = subprocess.run(
        [sys.executable, str(tmp_path / "start.py"), *args, "--out", str(tmp_path / "out"), "--workers", "2"],
        capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHONWARNINGS": "default"}, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "c2.jsonl: a worker died on it: set aside" in done.stderr
    assert sorted(r["source"] for r in ledger(tmp_path / "out")) == [f"c{i}.jsonl" for i in (0, 1, 3, 4)]


def test_what_would_be_dropped_is_what_a_run_drops(tmp_path, capsys, make):
    """The same texts as a WET archive through a run: fate, stage, reason and scores are those of the audit."""
    documents, _ = planted(300)
    documents += [{"text": documents[i]["text"], "url": f"http://copy.example.org/{i}"} for i in range(9)]
    documents += [{"text": "1 2 3 4 5 " * 90 + str(i), "url": f"http://n.example.org/{i}"} for i in range(9)]
    path = write(documents, tmp_path, "jsonl")
    records = [make.warcinfo(), *(make.conversion(d["url"], d["text"]) for d in documents)]
    make.write_gz(tmp_path / "c.warc.wet.gz", records)
    wet = str(tmp_path / "c.warc.wet.gz")
    assert main(["run", "web", wet, "--out", str(tmp_path / "run"), "--engine", "serial", "--quiet"]) == 0
    assert run(capsys, path, "--out", tmp_path / "out", "--workers", 1)[0] == 0
    told = {r["url"]: r for r in ledger(tmp_path / "out")}
    ran = {r["url"]: r for r in ledger(tmp_path / "run") if r["record_type"] == "conversion"}
    assert len(told) == len(ran) == len(documents)
    assert len({r["reason"] for r in ran.values()}) >= 5
    names = ("fate", "stage", "reason", "language", "language_id_score", "content_id")
    assert {u: [r[n] for n in names] for u, r in told.items()} == {u: [r[n] for n in names] for u, r in ran.items()}
    by_id = {r["doc_id"]: r["url"] for r in [*told.values(), *ran.values()]}
    stands = [
        {u: (by_id[r["kept_doc_id"]], r["jaccard"]) for u, r in rows.items() if r["stage"] == "minhash_drop"}
        for rows in (told, ran)
    ]  # in the audit those that leave earlier have met too
    assert stands[0] == stands[1]
    assert len(stands[0]) > 36


@pytest.mark.slow
def test_ten_thousand_documents_in_many_files_by_two_workers(tmp_path):
    documents, counts = planted(10_000, seed=11)
    assert counts == {"invisible": 1700, "mojibake": 500, "near_duplicate": 1200, "wiped": 300}
    for i, form in enumerate(("jsonl", "jsonl.gz", "parquet", "arrow file", "jsonl.zst")):
        write(documents[i::5], tmp_path / "in" / str(i), form)
    command = [sys.executable, "-m", "cleanpipe_jobs.cli", "audit", str(tmp_path / "in"), "--workers", "2"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "out")], capture_output=True, text=True, timeout=600, check=True
    )
    flat = " ".join(done.stdout.split())
    for words in (
        "17.0 % of documents (1,700 of 10,000) hold invisible controls that cleaning removes: U+200E LEFT-TO-RIGHT MARK"
        " in 1,700",
        "12.0 % of documents (1,200 of 10,000) are near duplicates of one that is kept",
        "5.0 % of documents (500 of 10,000) hold mojibake",
        "host spam.example.com: 100.0 % of its documents (300 of 300) would be dropped, 3.0 % of the corpus",
    ):
        assert words in flat
    audit = json.loads((tmp_path / "out" / "audit.json").read_text(encoding="utf-8"))
    assert [v["fault"] for v in audit["verdicts"]][:4] == ["invisible", "near_duplicate", "mojibake", "wiped_out_host"]
    assert audit["documents"]["clean"]["numerator"] == 6300
