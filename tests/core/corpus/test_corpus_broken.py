"""Folders that hold what is no corpus, and files that are broken: one costs itself, and why is said."""

import bz2
import gzip
import json
import lzma
import os
import socket

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from planted import SENTENCES

from cleanpipe.corpus import lines
from cleanpipe.corpus.console import summary
from cleanpipe.corpus.files import CorpusFile, find_files
from cleanpipe.corpus.opening import open_bytes
from cleanpipe.corpus.page import to_html
from cleanpipe.corpus.run import Options, audit_corpus
from cleanpipe.errors import ConfigError

TEXT = " ".join(SENTENCES[:6])
ROW = json.dumps({"text": TEXT}) + "\n"


def audit(path, out, **options):
    return audit_corpus([str(path)], out, Options(workers=1, **options))


def documents(found):
    return found["documents"]["documents"]["value"]


def unreadable(found):
    return found["input"]["unreadable_files"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "good.jsonl").write_text(ROW)
    return tmp_path / "in"


def test_pipes_and_sockets_of_a_folder_are_passed_over(folder, tmp_path, monkeypatch):
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "link.txt").symlink_to("pipe.jsonl")
    monkeypatch.chdir(folder)  # the name of a socket is short
    with socket.socket(socket.AF_UNIX) as plug:
        plug.bind("plug.csv")
        found = audit(folder, tmp_path / "out")
    assert documents(found) == 1
    assert found["input"]["passed_over"]["value"] == 3
    assert not unreadable(found)
    with pytest.raises(ConfigError, match="is no regular file"):
        audit(folder / "pipe.jsonl", tmp_path / "out2")


def test_a_bad_name_costs_itself_in_a_folder_and_is_refused_where_it_was_named(folder, tmp_path):
    (folder / "dead.jsonl").symlink_to("/no/such/place")
    (folder / "self.jsonl").symlink_to("self.jsonl")
    (folder / "z.arrow").write_text("only text")
    (folder / "crawl.jsonl").write_text("WARC/1.0\r\n")
    (folder / "my.warc.jsonl").write_text(ROW)  # sound
    found = audit(folder, tmp_path / "out")
    assert documents(found) == 2
    why = unreadable(found)
    assert set(why) == {"crawl.jsonl", "dead.jsonl", "self.jsonl", "z.arrow"}
    assert why["dead.jsonl"] == "cannot be read: No such file or directory"
    assert "symbolic links" in why["self.jsonl"]
    assert why["z.arrow"].startswith("is no arrow file")
    assert why["crawl.jsonl"].startswith("is a web archive: clean it")
    assert found["verdicts"][0]["words"].startswith("4 of 6 files cannot be read, the first crawl.jsonl: is a web")
    for name in why:
        with pytest.raises(ConfigError, match=f"{name} is |{name} cannot"):
            audit(folder / name, tmp_path / "named")
    assert documents(audit(folder / "my.warc.jsonl", tmp_path / "one")) == 1


def test_a_shard_that_a_saved_dataset_lacks_costs_itself(folder, tmp_path):
    (folder / "state.json").write_text(
        json.dumps({"_data_files": [{"filename": "good.jsonl"}, {"filename": "b.arrow"}]})
    )
    assert set(unreadable(audit(folder, tmp_path / "out"))) == {"b.arrow"}


@pytest.mark.parametrize("name", ["a.warc", "b.warc.gz", "c.warc.wet.ZST", "d.arc.gz", "e.wat.gz"])
def test_archives_are_told_by_their_last_suffix(tmp_path, name):
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(ConfigError, match="is a web archive"):
        find_files([str(tmp_path / name)])


NAMES = [b"\xff\xfe\x00\x80bin", b"x" * 5000 + b"\xff", b"\x1b[31m\xe2\x80\xae"]


@pytest.mark.parametrize("name", NAMES)
def test_a_column_s_name_of_any_bytes_is_escaped_and_cut(tmp_path, name):
    (tmp_path / "c.csv").write_bytes(name + b"\n" + TEXT.encode() + b"\n")
    found = audit(tmp_path / "c.csv", tmp_path / "out")
    (column,) = json.loads((tmp_path / "out" / "audit.json").read_text(encoding="utf-8"))["input"]["columns"]
    assert column["text"].isprintable()
    assert len(column["text"]) <= 300
    to_html(found, "c").encode()
    assert all(line.isprintable() for line in summary(found))


def test_a_key_that_no_encoding_carries_is_written_out(tmp_path):
    (tmp_path / "c.jsonl").write_text(json.dumps({"\ud800": TEXT}) + "\n")
    found = audit(tmp_path / "c.jsonl", tmp_path / "out")
    assert found["input"]["columns"][0]["text"] == "<U+D800>"
    assert documents(found) == 1
    found = audit_corpus(
        [str(tmp_path / "c.jsonl")], tmp_path / "out2", Options(workers=1, columns=lines_column("\ud800"))
    )
    assert found["identity"]["options"]["columns"] == ["<U+D800>", "", ""]


def lines_column(name):
    from cleanpipe.corpus.files import Columns

    return Columns(name)


def test_a_name_with_bytes_of_no_utf8_and_a_table_of_long_names(folder, tmp_path):
    (folder / os.fsdecode(b"\xff.parquet")).write_bytes(b"PAR1")
    pq.write_table(pa.table({f"{i:03}" * 500: [i] for i in range(60)}), folder / "wide.parquet")
    why = unreadable(audit(folder, tmp_path / "out"))
    assert set(why) == {"\\udcff.parquet", "wide.parquet"}
    assert why["wide.parquet"].startswith("which column is the text?")  # the file is not named twice
    assert max(map(len, why.values())) <= 300


@pytest.mark.parametrize("first", [b'{"text": "' + b"x" * 3000 + b'"}', b"y" * 3000, b"z" * 9000])
def test_a_long_first_line_hides_no_others(tmp_path, monkeypatch, first):
    monkeypatch.setattr(lines, "_LOOK", 1000)
    monkeypatch.setattr(lines, "MAX_TEXT", 5000)
    (tmp_path / "c.jsonl").write_bytes(first + b"\n" + ROW.encode() * 3)
    found = audit(tmp_path / "c.jsonl", tmp_path / "out")
    assert documents(found) == 3 + first.startswith(b"{")
    assert sum(p["count"] for p in found["input"]["problems"].values()) == (not first.startswith(b"{"))


def test_the_search_for_a_first_row_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "_LOOK", 1000)
    (tmp_path / "c.jsonl").write_bytes(b"no\n" * 1000 + ROW.encode())
    with pytest.raises(ConfigError, match="no line of its first"):
        audit(tmp_path / "c.jsonl", tmp_path / "out")


PACK = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": zstandard.compress}


@pytest.mark.parametrize("codec", PACK)
def test_damage_at_the_start_is_said_as_damage(tmp_path, codec):
    packed = PACK[codec]("".join(ROW[:-2] + f', "n": {i}}}\n' for i in range(50)).encode())
    half = len(packed) // 2
    for name, data in (("cut", packed[:half]), ("bad", packed[:12] + b"\xff" * 40 + packed[52:])):
        path = tmp_path / f"{name}.jsonl.{codec}"
        path.write_bytes(data)
        try:
            found = audit(path, tmp_path / name)
        except ConfigError as error:
            assert f"{name}.jsonl.{codec}: damaged: " in str(error)
        else:
            assert found["input"]["problems"]["damaged"]["count"] == 1


def test_zstd_that_breaks_off_is_damage_and_gives_what_came_before(tmp_path):
    whole = "".join(json.dumps({"text": f"{i} {os.urandom(300).hex()}"}) + "\n" for i in range(2000)).encode()
    packed = zstandard.compress(whole)
    (tmp_path / "cut.jsonl.zst").write_bytes(packed[: len(packed) // 2])
    found = audit(tmp_path / "cut.jsonl.zst", tmp_path / "out")
    assert 500 < documents(found) < 1500
    assert "inside a frame of zstd" in found["input"]["problems"]["damaged"]["first"][0]["message"]


@pytest.mark.parametrize("tail", [b"", zstandard.compress(b""), b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd"])
def test_zstd_of_several_frames_is_read_to_its_end(tmp_path, tail):
    parts = [b"a" * 5000, os.urandom(3000), b"", b"b" * 3_000_000]
    path = tmp_path / "c.zst"
    path.write_bytes(tail + b"".join(map(zstandard.compress, parts)) + tail)
    with open_bytes(CorpusFile(str(path), "c.zst", "txt", "zst", 0)) as source:
        assert source.read() == b"".join(parts)


def test_a_file_of_nothing_but_damage_is_one_that_cannot_be_read(folder, tmp_path):
    table = pa.table({"text": [f"{i} {TEXT}" for i in range(50)]})
    pq.write_table(table, folder / "c.parquet", compression="none", use_dictionary=False)
    data = (folder / "c.parquet").read_bytes()
    (folder / "c.parquet").write_bytes(data[:4] + b"\xff" * 300 + data[304:])
    packed = gzip.compress(os.urandom(1000))
    (folder / "d.txt.gz").write_bytes(packed[:500])
    found = audit(folder, tmp_path / "out")
    assert set(unreadable(found)) == {"c.parquet", "d.txt.gz"}
    assert documents(found) == 1


CSV = [
    ("c.csv", "url,text", "http://a/{i},{text}", 2),
    ("c.csv", "url;text", "http://a/{i};{text}, and; more", 3),  # the first line alone tells
    ("c.csv", "url\ttext", "http://a/{i}\t{text}; b, c", 2),
    ("c.csv", "url|text", "http://a/{i}|{text}", 2),
    ("c.csv", "text", "{text}", 1),
    ("c.csv", "id;text,note;url", '{i};"{text}, with, both; x";http://a/', 3),
    ("c.tsv", "url,text", "http://a/{i},{text}", 2),
]


@pytest.mark.parametrize(("name", "head", "row", "cells"), CSV)
def test_what_parts_the_cells_is_found(tmp_path, name, head, row, cells):
    text = TEXT.replace(",", "").replace(";", "")
    rows = [head, *(row.format(i=i, text=text) for i in range(5))]
    (tmp_path / name).write_text("\n".join(rows) + "\n")
    (file,) = find_files([str(tmp_path / name)]).files
    assert [len(r) for r in lines.csv_rows(file)][1:] == [cells] * 5
    if "note" not in head:
        assert documents(audit(tmp_path / name, tmp_path / "out")) == 5


def test_the_recipe_s_own_language_is_not_said_to_be_unwanted(tmp_path):
    again = f"{SENTENCES[0]}\n" * 30  # dropped as repetitive
    german = "Der Hafenlotse kennt die Tiefe jeder Fahrrinne und geht weit vor der Barre an Bord der Schiffe."
    (tmp_path / "c.csv").write_text(f'text,url\n"{again}",http://a/\n"{german}",http://b/\n')
    found = audit(tmp_path / "c.csv", tmp_path / "out")
    assert found["languages"]["judged"] == {"en": 1, "de": 1}
    assert found["languages"]["would_drop"]["en"]["value"] == 1  # for another reason than its language
    assert found["languages"]["not_wanted"]["en"]["numerator"] == 0
    assert found["languages"]["not_wanted"]["de"]["numerator"] == 1
    told = "".join(summary(found))
    assert "does not want 'de'" in told
    assert "does not want 'en'" not in told
