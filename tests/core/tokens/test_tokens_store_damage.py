"""A flipped bit anywhere in a store is found: by verify in any file, by a read in what is read; told by document."""

import json
import random
import re
from pathlib import Path

import pytest
from made_tokens import doc_id, make_store, url_of
from signed_tokens import resigned

from cleanpipe.errors import DamagedFileError
from cleanpipe.tokens.decisions import Decision, append
from cleanpipe.tokens.layout import BLOCK
from cleanpipe.tokens.store import open_tokens
from cleanpipe.tokens.store.verify import is_store, verify_tokens

DOCUMENTS = [[3 + (i * 7 + j) % 900 for j in range(5 + i % 11)] for i in range(24)]


def _decided(root):
    append(root, [Decision(action="mask", key_kind="url", key=url_of(3))], time="2026-01-01T00:00:00Z")
    return Path(root)


def test_a_whole_store_holds(tmp_path):
    root = _decided(make_store(tmp_path / "t", DOCUMENTS, per_shard=7))
    report = verify_tokens(root)
    assert report.findings == []
    counts = {key: report.checked[key] for key in ("shards", "documents", "windows", "decisions")}
    assert counts == {"shards": 4, "documents": 24, "windows": 24, "decisions": 1}
    assert report.checked["tokens"] == sum(len(d) + 2 for d in DOCUMENTS)
    assert is_store(root)


def test_every_flipped_bit_of_every_file_is_found(tmp_path):
    root = _decided(make_store(tmp_path / "t", DOCUMENTS[:9], per_shard=5))
    rng = random.Random(11)
    flips = 0
    for path in sorted(p for p in root.rglob("*") if p.is_file()):
        data, inode = path.read_bytes(), path.stat().st_nlink
        bits = range(8 * len(data)) if len(data) <= 12 else rng.sample(range(8 * len(data)), 12)
        for bit in [*bits, 0, 8 * len(data) - 1]:
            changed = bytearray(data)
            changed[bit >> 3] ^= 1 << (bit & 7)
            path.write_bytes(changed)  # in place: links stay
            report = verify_tokens(root)
            assert report.findings, f"bit {bit} of {path.name}"
            name = path.relative_to(root).as_posix()
            assert any(f.startswith((name, name.removesuffix(".ds") + ".bin")) for f in report.findings), (
                report.findings
            )
            flips += 1
        path.write_bytes(data)
        assert path.stat().st_nlink == inode
    assert flips > 150
    assert verify_tokens(root).findings == []


def test_a_flipped_bit_of_the_payload_is_told_by_document_and_url(tmp_path):
    """Blocks are of 65,536 bytes: 32,768 ids. Of documents of 10,000 ids block 1 holds 3 to 6, not all of each."""
    documents = [[5] * 9_998 for _ in range(12)]
    root = Path(make_store(tmp_path / "t", documents, per_shard=8))
    path = root / "tokens/tokens-00000-of-00002.bin"
    data = bytearray(path.read_bytes())
    data[BLOCK + 100] ^= 4
    path.write_bytes(data)
    findings = [f for f in verify_tokens(root).findings if "block" in f]
    assert len(findings) == 1
    named = re.findall(r"([0-9a-f]{32}) \((\S+)\)", findings[0])
    assert named == [(doc_id(i).hex(), url_of(i)) for i in (3, 4, 5, 6)]
    assert "block 1 is damaged; it holds 4 documents:" in findings[0]

    with pytest.raises(DamagedFileError) as whole:  # at once
        open_tokens(root, check="all")
    assert whole.value.source == "tokens/tokens-00000-of-00002.bin"
    assert re.findall(r"([0-9a-f]{32}) \((\S+)\)", str(whole.value)) == named

    store = open_tokens(root)
    assert store.read(0, 32_768).tolist() == ([1] + [5] * 9_998 + [2]) * 3 + [1] + [5] * 2_767
    assert len(store.read(65_536, store.tokens)) == 120_000 - 65_536
    for start, stop in ((32_768, 32_769), (0, 120_000), (65_535, 65_536), (32_000, 33_000)):
        for _ in range(2):  # it is not forgotten
            with pytest.raises(DamagedFileError) as told:
                store.read(start, stop)
            assert str(told.value).startswith("tokens/tokens-00000-of-00002.bin: block 1 (tokens 32,768 to 65,535)")
            assert re.findall(r"([0-9a-f]{32}) \((\S+)\)", str(told.value)) == named
    with pytest.raises(DamagedFileError, match=r"tokens-00000-of-00002\.bin"):
        open_tokens(root, check="all")
    assert open_tokens(root, check="none").read(32_818, 32_819).tolist() == [5 ^ 4]


def test_every_document_of_a_block_is_named_up_to_a_hundred(tmp_path):
    """A checksum cannot say which of them has the wrong bit."""
    for many, more in ((24, ""), (130, " and 30 more")):
        root = Path(make_store(tmp_path / str(many), [[5, 6, 7]] * many))
        path = root / "tokens/tokens-00000-of-00001.bin"
        data = bytearray(path.read_bytes())
        data[-1] ^= 128
        path.write_bytes(data)
        with pytest.raises(DamagedFileError) as told:
            open_tokens(root).read(0, 1)
        named = re.findall(r"([0-9a-f]{32}) \((\S+)\)", str(told.value))
        assert named == [(doc_id(n).hex(), url_of(n)) for n in range(min(many, 100))]
        assert f"holds {many} documents: " in str(told.value)
        assert more in str(told.value)
        assert bool(more) == (" more" in str(told.value))


def test_documents_are_counted_where_spans_are_damaged_too(tmp_path):
    root = Path(make_store(tmp_path / "t", DOCUMENTS))
    for name in ("tokens/tokens-00000-of-00001.bin", "spans/tokens-00000-of-00001.arrow"):
        data = bytearray((root / name).read_bytes())
        data[20] ^= 1
        (root / name).write_bytes(data)
    with pytest.raises(DamagedFileError, match=r"block 0 .* holds 24 documents: document 0 of tokens-00000"):
        open_tokens(root).read(0, 1)
    (root / "tokens/tokens-00000-of-00001.offsets.npy").write_bytes(b"")
    assert any("block 0 is damaged; it holds documents that cannot be named" in f for f in verify_tokens(root).findings)


@pytest.mark.parametrize("name", ["spans/{}.arrow", "tokens/{}.offsets.npy", "tokens/{}.sums"])
def test_the_small_files_are_proven_when_they_are_first_read(tmp_path, name):
    root = Path(make_store(tmp_path / "t", DOCUMENTS))
    path = root / name.format("tokens-00000-of-00001")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 16
    path.write_bytes(data)
    store = open_tokens(root)
    with pytest.raises(DamagedFileError, match=re.escape(path.name)):
        {"arrow": store.spans, "npy": store.offsets, "sums": lambda _: store.read(0, 1)}[path.name.rpartition(".")[2]](
            0
        )
    with pytest.raises(DamagedFileError, match=re.escape(path.name)):
        open_tokens(root, check="all")


def test_a_payload_cut_short_is_told_by_what_is_lost(tmp_path):
    root = Path(make_store(tmp_path / "t", DOCUMENTS))
    path = root / "tokens/tokens-00000-of-00001.bin"
    path.write_bytes(path.read_bytes()[:-30])
    found = [f for f in verify_tokens(root).findings if "lost" in f]
    assert re.search(rf"lost: 2 documents: {doc_id(22).hex()} \({url_of(22)}\), {doc_id(23).hex()}", found[0])


@pytest.mark.parametrize("suffix", ["bin", "idx", "ds", "ds.index", "offsets.npy", "sums"])
def test_a_file_that_is_gone_is_found(tmp_path, suffix):
    root = Path(make_store(tmp_path / "t", DOCUMENTS, per_shard=8))
    name = f"tokens/tokens-00001-of-00003.{suffix}"
    (root / name).unlink()
    assert f"{name}: missing: the manifest names it" in verify_tokens(root).findings


def test_files_that_nobody_named_are_found_and_what_may_be_there_is_not(tmp_path):
    root = _decided(make_store(tmp_path / "t", DOCUMENTS))
    (root / "work").mkdir()
    (root / "work/plan.json").write_text("{}")
    (root / "tokens/.tmp-a-x").write_text("")
    assert verify_tokens(root).findings == []
    (root / "tokens/extra.bin").write_text("x")
    (root / "note").write_text("x")
    assert [f.partition(":")[0] for f in verify_tokens(root).findings] == ["note", "tokens/extra.bin"]


def test_an_unfinished_or_empty_folder_is_a_finding(tmp_path):
    root = Path(make_store(tmp_path / "t", DOCUMENTS))
    (root / "manifest.json").unlink()
    assert verify_tokens(root).findings == [
        "manifest.json: missing: the store is not finished, or the file was deleted"
    ]
    for data in (b"", b"{}", b"[]", b"\xff", b'{"files": 1}', b'{"files": {"../x": {"bytes": 1, "sha256": ""}}}'):
        (root / "manifest.json").write_bytes(data)
        assert verify_tokens(root).findings == [
            "manifest.json: is no manifest of a token store: the file was changed after it was written"
        ]
    assert not is_store(tmp_path)
    (tmp_path / "run" / "data").mkdir(parents=True)
    (tmp_path / "run" / "tokens").mkdir()
    assert not is_store(tmp_path / "run")


def test_decisions_that_were_built_in_must_still_be_there(tmp_path):
    root = _decided(make_store(tmp_path / "t", DOCUMENTS))
    info = json.loads((root / "store.json").read_bytes())
    line = json.loads((root / "decisions.jsonl").read_bytes())
    info["decisions"] = {"lines": 1, "sha256": line["digest"]}
    resigned(root, info)
    assert verify_tokens(root).findings == []
    (root / "decisions.jsonl").unlink()
    assert verify_tokens(root).findings == [
        "decisions.jsonl: does not begin with the 1 lines that the store was built with"
    ]
