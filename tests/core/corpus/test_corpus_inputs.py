"""What corpora look like in the wild: odd rows, odd columns, damaged files. A bad row costs itself and is named."""

import gzip
import json
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from planted import SENTENCES, essay

from cleanpipe.corpus import files, lines, rows, tables
from cleanpipe.corpus.files import Columns, find_files
from cleanpipe.corpus.reading import inspect, read_segment
from cleanpipe.corpus.run import Options, audit_corpus
from cleanpipe.errors import ConfigError

TEXT = " ".join(SENTENCES[:6])


def audit(path, out, **options):
    paths = [str(p) for p in path] if isinstance(path, list) else [str(path)]
    return audit_corpus(paths, out, Options(workers=1, **options))


def ledger(out):
    return pq.read_table(out / "ledger").sort_by([("source", "ascending"), ("row_no", "ascending")]).to_pylist()


def problems(found):
    told = found["input"]["problems"].items()
    return {kind: (v["count"], [(f["source"], f["row"]) for f in v["first"]]) for kind, v in told}


def test_each_bad_line_costs_itself_and_is_named_by_its_place(tmp_path):
    good = json.dumps({"text": TEXT}).encode()
    rows_ = [
        good,
        b"",  # 2: an empty line is no row that is wrong
        b'{"text": "cut',
        b"[1, 2]",
        b"\x00\x01\x02",
        json.dumps({"text": None}).encode(),
        json.dumps({"text": 7}).encode(),
        json.dumps({"other": TEXT}).encode(),
        b'{"text": "' + b"[" * 100_000,  # 9
        b"[" * 200_000,  # nested deeper than any parser goes
        b'{"text": ""}',  # 11: a document, but an empty one
        b'{"text": "x", "id": ' + b"9" * 5000 + b"}",  # 12: sound, with more digits than Python reads
        b'{"text": -' + b"9" * 5000 + b"}",  # 13
        good,
    ]
    (tmp_path / "c.jsonl").write_bytes(b"\n".join(rows_))
    found = audit(tmp_path / "c.jsonl", tmp_path / "out")
    assert problems(found) == {
        "bad_json": (4, [("c.jsonl", n) for n in (3, 5, 9, 10)]),
        "not_object": (1, [("c.jsonl", 4)]),
        "null_text": (1, [("c.jsonl", 6)]),
        "not_text": (2, [("c.jsonl", 7), ("c.jsonl", 13)]),
        "no_text_column": (1, [("c.jsonl", 8)]),
    }
    assert [r["row_no"] for r in ledger(tmp_path / "out")] == [1, 11, 12, 14]
    assert [x["message"] for x in found["input"]["problems"]["not_text"]["first"]] == ["'text' is int"] * 2
    assert found["documents"]["empty"]["numerator"] == 1
    assert found["verdicts"][0]["words"] == "4 lines that are no JSON, the first c.jsonl:3"


@pytest.mark.parametrize("unit", [1, 40, 997, 10_000])
def test_lines_belong_to_the_range_in_which_they_begin_wherever_it_is_cut(tmp_path, monkeypatch, unit):
    texts = ["x" * (1 + 37 * i % 400) + f" {i}" for i in range(60)]
    data = "\r\n".join(json.dumps({"text": t}) for t in texts).encode()
    (tmp_path / "c.jsonl").write_bytes(data)
    monkeypatch.setattr(files, "UNIT_BYTES", max(unit, len(data) // 200))
    found = audit(tmp_path / "c.jsonl", tmp_path / "out")
    rows_ = ledger(tmp_path / "out")
    assert [r["row_no"] for r in rows_] == list(range(1, 61))
    assert [r["length"] for r in rows_] == [len(t) for t in texts]
    assert found["input"]["rows"]["value"] == 60
    assert not found["input"]["problems"]


def test_what_no_encoding_allows_is_counted_and_costs_nothing_else(tmp_path):
    lines_ = [
        json.dumps({"text": TEXT}).encode(),
        b'{"text": "' + TEXT.encode() + b' \xff\xfe caf\xe9"}',  # three bytes of no UTF-8
        b'{"text": "' + TEXT.encode() + b' \\ud800 and \\udc00 \\ud83d\\ude00"}',  # two lone, one pair
        b'{"text": "nul \\u0000 ' + TEXT.encode() + b'"}',
        json.dumps({"text": TEXT + " a lost \ufffd one"}, ensure_ascii=False).encode(),
        json.dumps({"text": TEXT + " \x93quoted\x94"}, ensure_ascii=False).encode(),
        json.dumps({"text": "\ufeff" + TEXT + " private \ue000 \U000f0000"}, ensure_ascii=False).encode(),
    ]
    (tmp_path / "c.jsonl").write_bytes(b"\xef\xbb\xbf" + b"\n".join(lines_))
    found = audit(tmp_path / "c.jsonl", tmp_path / "out")
    assert not found["input"]["problems"]
    counted = {
        k: (n["documents"]["numerator"], n["occurrences"]["value"]) for k, n in found["damage"]["faults"].items()
    }
    assert counted == {
        "invisible": (2, 2), "mojibake": (0, 0), "c1_controls": (1, 2), "replacement": (1, 1), "invalid_utf8": (1, 3),
        "surrogates": (1, 2), "private_use": (1, 2), "entities": (0, 0), "tags": (0, 0),
    }  # fmt: skip
    points = {p["point"]: p["occurrences"] for p in found["damage"]["code_points"]}
    assert points == {"U+0000": 1, "U+0093": 1, "U+0094": 1, "U+FEFF": 1}


def test_joiners_that_a_script_or_an_emoji_needs_are_no_fault(tmp_path):
    england = "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"
    texts = ["می\u200cخواهم کتاب بخوانم و بنویسم", "क्\u200dष और हिन्दी का पाठ", f"👩\u200d🚀 and {england}"]
    (tmp_path / "c.jsonl").write_text("\n".join(json.dumps({"text": t}) for t in texts))
    found = audit(tmp_path / "c.jsonl", tmp_path / "out")
    assert found["damage"]["faults"]["invisible"]["documents"]["numerator"] == 0
    needed = {p["point"]: p["needed_in"] for p in found["damage"]["code_points"]}
    assert needed["U+200C"] == 1
    assert needed["U+200D"] == 2


def test_a_line_that_is_too_long_is_passed_over_and_the_next_one_read(tmp_path, monkeypatch):
    for module in (rows, lines):
        monkeypatch.setattr(module, "MAX_TEXT", 5000)
    rows_ = [json.dumps({"text": TEXT}), json.dumps({"text": "x" * 3_000_000}), json.dumps({"text": TEXT + " b"})]
    (tmp_path / "c.jsonl").write_text("\n".join(rows_))
    (tmp_path / "d.txt").write_text("y" * 9000)
    found = audit(tmp_path, tmp_path / "out")
    assert problems(found) == {"too_large": (2, [("c.jsonl", 2), ("d.txt", 1)])}
    assert [r["row_no"] for r in ledger(tmp_path / "out")] == [1, 3]


def test_a_compressed_file_that_breaks_off_gives_what_came_before(tmp_path):
    whole = "".join(json.dumps({"text": f"{i} {TEXT}"}) + "\n" for i in range(500)).encode()
    packed = gzip.compress(whole, mtime=0)
    (tmp_path / "cut.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    (tmp_path / "flipped.jsonl.gz").write_bytes(packed[:-8] + b"\x00" * 8)
    (tmp_path / "good.jsonl").write_bytes(whole)
    found = audit(tmp_path, tmp_path / "out")
    assert found["input"]["problems"]["damaged"]["count"] == 2
    got = [r["source"] for r in ledger(tmp_path / "out")]
    assert got.count("good.jsonl") == 500
    assert 100 < got.count("cut.jsonl.gz") < 500
    assert got.count("flipped.jsonl.gz") == 500


def test_a_damaged_row_group_costs_itself(tmp_path):
    table = pa.table({"text": [f"{i} {TEXT}" for i in range(1000)]})
    path = tmp_path / "c.parquet"
    pq.write_table(table, path, row_group_size=250, compression="none", use_dictionary=False)
    data = bytearray(path.read_bytes())
    second = pq.ParquetFile(path).metadata.row_group(1).column(0)
    at = second.data_page_offset
    data[at : at + 64] = b"\xff" * 64
    path.write_bytes(data)
    found = audit(path, tmp_path / "out")
    assert problems(found) == {"damaged": (1, [("c.parquet", 251)])}
    assert [r["row_no"] for r in ledger(tmp_path / "out")] == [*range(1, 251), *range(501, 1001)]


def test_files_that_are_none_are_set_aside_and_named(tmp_path):
    (tmp_path / "empty.jsonl").write_bytes(b"")
    (tmp_path / "noise.jsonl").write_bytes(bytes(range(256)) * 50)
    (tmp_path / "fake.parquet").write_bytes(b"PAR1 not really PAR1")
    (tmp_path / "good.jsonl").write_text(json.dumps({"text": TEXT}) + "\n")
    (tmp_path / "array.json").write_text(json.dumps([{"text": TEXT}]))
    found = audit(tmp_path, tmp_path / "out")
    assert set(found["input"]["unreadable_files"]) == {"array.json", "empty.jsonl", "fake.parquet", "noise.jsonl"}
    assert "jq -c '.[]' array.json > array.jsonl" in found["input"]["unreadable_files"]["array.json"]
    assert found["documents"]["documents"]["value"] == 1
    assert found["verdicts"][0]["words"].startswith("4 of 5 files cannot be read, the first array.json")


def test_arrow_columns_of_every_kind_of_text(tmp_path):
    bad = pa.array([b"ok " + TEXT.encode(), b"caf\xe9 " + TEXT.encode(), None, b""], pa.binary())
    for name, column in (
        ("binary", bad), ("string", bad.view(pa.string())),
        ("large", bad.cast(pa.large_binary()).view(pa.large_string())),
        ("view", bad.cast(pa.binary_view()).view(pa.string_view())),
        ("dictionary", pa.array([TEXT, TEXT + " b", None, ""]).dictionary_encode()),
    ):  # fmt: skip
        table = pa.table({"text": column, "n": [1, 2, 3, 4]})
        with pa.ipc.new_file(str(tmp_path / f"{name}.arrow"), table.schema) as writer:
            writer.write_table(table)
    found = audit(tmp_path, tmp_path / "out", columns=Columns("text"))
    names = ("binary", "dictionary", "large", "string", "view")
    assert problems(found) == {"null_text": (5, [(f"{n}.arrow", 3) for n in names])}
    assert found["damage"]["faults"]["invalid_utf8"]["documents"]["numerator"] == 4
    assert found["documents"]["empty"]["numerator"] == 5
    assert len(ledger(tmp_path / "out")) == 15


def test_long_texts_do_not_come_by_the_thousand(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "MAX_BYTES", 5000)
    table = pa.table({"text": [f"{i} {TEXT}" for i in range(300)]})
    pq.write_table(table, tmp_path / "c.parquet", row_group_size=100)
    with pa.ipc.new_file(str(tmp_path / "c.arrow"), table.schema) as writer:
        writer.write_table(table)
    for name in ("c.parquet", "c.arrow"):
        (file,) = find_files([str(tmp_path / name)]).files
        columns, pieces = inspect(file, Columns(""))
        (unit,) = files.cut([(file, columns, pieces)])
        parts = list(read_segment(unit.segments[0], None, by_line=False))
        assert sum(map(len, parts)) == 300
        assert max(p.held for p in parts) < 10_000
        assert [n for p in parts for n in p.place] == list(range(300))


def test_csv_with_quotes_line_breaks_and_bytes_of_no_utf8(tmp_path):
    data = (
        b'\xef\xbb\xbfid,text,url\r\n1,"two\nlines, ""quoted""",http://a.org/\r\n2,caf\xe9,\r\n3\r\n4,\x00nul,x.org\r\n'
    )
    (tmp_path / "c.csv").write_bytes(data)
    found = audit(tmp_path / "c.csv", tmp_path / "out")
    rows_ = ledger(tmp_path / "out")
    assert [(r["row_no"], r["record_id"], r["host"], r["length"]) for r in rows_] == [
        (1, "1", "a.org", len('two\nlines, "quoted"')), (2, "2", None, 4), (4, "4", "x.org", 3),
    ]  # fmt: skip
    assert problems(found) == {"no_text_column": (1, [("c.csv", 3)])}
    assert found["damage"]["faults"]["invalid_utf8"]["occurrences"]["value"] == 1


def test_plain_text_is_a_document_a_file_or_a_line(tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo\n\nthree\n")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"four"))
    assert len(ledger_of(tmp_path, "file")) == 2
    assert [(r["source"], r["row_no"]) for r in ledger_of(tmp_path, "line")] == [
        ("a.txt", 1), ("a.txt", 2), ("a.txt", 4), ("b.txt.gz", 1),
    ]  # fmt: skip


def ledger_of(folder, kind):
    out = folder / f"_out-{kind}"
    audit([folder / "a.txt", folder / "b.txt.gz"], out, by_line=kind == "line")
    return ledger(out)


NESTED = {"id": 5, "metadata": {"url": "https://n.org/a", "WARC-Target-URI": "x"}, "content": TEXT}
COLUMNS = [
    ({"text": "t", "url": "u"}, {}, Columns("text", "url")),
    ({"TEXT": "t", "URL": "u", "n": 1}, {}, Columns("TEXT", "URL")),
    ({"raw_content": "t", "url": "u", "title": "x"}, {}, Columns("raw_content", "url")),
    ({"content": "t", "text": "t"}, {}, Columns("text")),
    (NESTED, {}, Columns("content", "metadata.url", "id")),
    ({"warc_headers": {"warc-target-uri": "u"}, "text": "t"}, {}, Columns("text", "warc_headers.warc-target-uri")),
    ({"story": "t", "n": 3}, {}, Columns("story")),  # the only string
    ({"story": "t", "url": "u"}, {}, Columns("story", "url")),
    ({"doc": {"text": "t"}, "title": "x", "lang": "en"}, {}, Columns("doc.text")),
    ({"title": "x", "lang": "en"}, {}, "is the text? Name it with --column; it has title (text), lang (text)"),
    ({"title": "x", "lang": "en"}, {"text": "titel"}, "no such column; did you mean 'title'"),
    ({"title": "x", "lang": "en"}, {"text": "title", "url": "lang"}, Columns("title", "lang")),
]


@pytest.mark.parametrize(("row", "asked", "expected"), COLUMNS, ids=str)
def test_columns_are_found_or_asked_for(tmp_path, row, asked, expected):
    json_, parquet = tmp_path / "c.jsonl", tmp_path / "c.parquet"
    json_.write_text(json.dumps(row) + "\n")
    pq.write_table(pa.Table.from_pylist([row]), parquet)
    for path in (json_, parquet):
        options = {"columns": Columns(asked.get("text", ""), asked.get("url", ""))}
        if isinstance(expected, str):
            with pytest.raises(ConfigError) as caught:
                audit(path, tmp_path / "out", **options)
            assert expected.split("'")[0] in str(caught.value)
            continue
        found = audit(path, tmp_path / "out", **options)
        (chosen,) = found["input"]["columns"]
        assert (chosen["text"], chosen["url"] or "", chosen["id"] or "") == (expected.text, expected.url, expected.id)
        (document,) = ledger(tmp_path / "out")
        assert document["length"] > 0
        assert (document["url"] is None) == (not expected.url)


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path):
    (tmp_path / "c.jsonl").write_text(json.dumps({"text": TEXT}))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.doc").write_text("mine")
    with pytest.raises(ConfigError, match="is no audit of a corpus"):
        audit(tmp_path / "c.jsonl", tmp_path / "out")
    assert (tmp_path / "out" / "thesis.doc").read_text() == "mine"
    (tmp_path / "out" / "thesis.doc").unlink()
    first = audit(tmp_path / "c.jsonl", tmp_path / "out")
    again = audit(tmp_path / "c.jsonl", tmp_path / "out")  # an older audit is replaced
    assert again["documents"] == first["documents"]
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["audit.json", "ledger"]


def test_names_of_inputs_do_not_depend_on_how_they_are_given(tmp_path, monkeypatch):
    for name in ("a/x.jsonl", "b/x.jsonl", "b/_hidden.jsonl", "b/.git/y.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    monkeypatch.chdir(tmp_path)
    expected = ["a/x.jsonl", "b/x.jsonl"]
    for given in ([str(tmp_path)], ["b", "a"], ["*/x.jsonl"], ["a/x.jsonl", str(tmp_path / "b"), "./a/../a/x.jsonl"]):
        assert [f.source for f in find_files(given).files] == expected


def test_neither_a_run_s_ledger_nor_an_older_audit_is_taken_for_a_corpus(tmp_path):
    (tmp_path / "c.jsonl").write_text(json.dumps({"text": TEXT}))
    table = pa.table({"text": [f"{TEXT} in a shard"]})
    run = tmp_path / "runs" / "web"
    for name in ("data", "ledger"):
        (run / name).mkdir(parents=True)
    (run / "manifest.json").write_text("{}")
    (run / "data" / "state.json").write_text('{"_data_files": [{"filename": "data-0.arrow"}]}')
    with pa.ipc.new_stream(str(run / "data" / "data-0.arrow"), table.schema) as writer:
        writer.write_table(table)
    pq.write_table(table, run / "ledger" / "part-00000.parquet")
    for _ in range(2):  # the second time the first audit lies in the folder
        found = audit(tmp_path, tmp_path / "audit-mine")
        assert [g["name"] for g in found["groups"]["sources"]["top"]] == ["c.jsonl", "runs/web/data/data-0.arrow"]


def test_files_and_hosts_that_are_wiped_out_are_named_with_the_reason(tmp_path):
    rng = random.Random(3)
    good = [{"text": essay(rng), "url": f"http://good{i % 4}.org/{i}"} for i in range(120)]
    copies = [{"text": good[i % 3]["text"], "url": f"http://mirror.org/{i}"} for i in range(40)]
    noise = [{"text": f"{i} " + "ab " * 300, "url": f"http://n{i}.org/"} for i in range(30)]
    for name, part in (("a.jsonl", good), ("b.jsonl", copies), ("c.jsonl", noise)):
        (tmp_path / name).write_text("\n".join(map(json.dumps, part)))
    found = audit(tmp_path, tmp_path / "out")
    raised = {(w["kind"], w["name"]): w for w in found["wipeouts"]["raised"] if not w["by_design"]}
    assert set(raised) == {("host", "mirror.org"), ("source", "b.jsonl"), ("source", "c.jsonl")}
    lost = raised["host", "mirror.org"]
    copied = sum(r["host"] == "mirror.org" and r["reason"] == "exact_duplicate" for r in ledger(tmp_path / "out"))
    assert lost["lost"]["numerator"] == lost["reasons"]["minhash_drop/exact_duplicate"] == copied >= 37
    words = " ".join(v["words"] for v in found["verdicts"])
    assert "host mirror.org: " in words
    assert "source c.jsonl: 100.0 % of its documents (30 of 30) would be dropped" in words
    stricter = audit(tmp_path, tmp_path / "out", alarm_rows=41)
    assert stricter["wipeouts"]["raised"] == []


def test_what_is_wiped_out_below_the_floor_is_told_apart(tmp_path):
    rng = random.Random(3)
    good = [{"text": essay(rng), "url": f"http://good{i % 2}.org/{i}"} for i in range(60)]
    few = [{"text": good[0]["text"], "url": f"http://{'ab'[i % 5 > 2]}.org/{i}"} for i in range(25)]  # 15 and 10
    (tmp_path / "c.jsonl").write_text("\n".join(map(json.dumps, good + few)))
    found = audit(tmp_path, tmp_path / "out")["wipeouts"]
    assert (found["raised"], found["least_documents"]) == ([], 20)
    assert found["smaller"]["host"].pop("lost") >= 24  # one may be that which is kept
    assert found["smaller"] == {"host": {"groups": 2, "documents": 25, "first": ["a.org", "b.org"]}}
    found = audit(tmp_path, tmp_path / "out", alarm_rows=11)["wipeouts"]
    assert [w["name"] for w in found["raised"]] == ["a.org"]
    assert found["smaller"]["host"]["first"] == ["b.org"]


def test_columns_are_listed_once(tmp_path):
    (tmp_path / "c.jsonl").write_text(json.dumps({"text": TEXT, "zeta": "z"}))
    with pytest.raises(ConfigError) as caught:
        audit(tmp_path / "c.jsonl", tmp_path / "out", columns=Columns("nope"))
    assert str(caught.value).count("zeta") == 1


@pytest.mark.parametrize("kind", rows.PROBLEMS)
def test_one_is_no_plural(kind):
    assert rows.problem_words(kind, 2_000).startswith("2,000 ")
    one = rows.problem_words(kind, 1).split(" of more", 1)[0]
    assert not {"lines", "rows", "files", "documents", "are"} & set(one.split())


def test_a_line_that_is_too_long_and_not_chosen_is_no_problem_of_the_sample(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "MAX_TEXT", 50)
    (tmp_path / "c.txt").write_text("one\n" + "x" * 200 + "\nthree\n")
    (file,) = find_files([str(tmp_path / "c.txt")]).files
    segment = files.Segment(file, Columns("text"), 0, -1, file.size)
    for chosen, texts, bad in ((None, ["one", "three"], [1]), (frozenset({2}), ["three"], [])):
        parts = list(read_segment(segment, chosen, by_line=True))
        assert [t for p in parts for t in p.text] == texts
        assert [x.row for p in parts for x in p.problems] == bad
