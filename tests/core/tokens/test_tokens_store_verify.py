"""A store whose files are all as the manifest says, and yet tell different things: verify finds which."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_tokens import doc_id, make_store, url_of
from signed_tokens import named, resigned

from cleanpipe.tokens.store.verify import verify_tokens
from cleanpipe.tokens.tokenizer import open_tokenizer

DOCUMENTS = [[10, 11, 12, 13, 14, 15], [20, 21], [], [30, 31, 32]]
WINDOWS = [[(0, 4, 0), (2, 4, 2)], [(0, 2, 0)], [(0, 0, 0)], [(0, 2, 0), (2, 1, 0)]]
NAME = "tokens-00000-of-00001"
NAMED = f"{doc_id(0).hex()} ({url_of(0)})"


@pytest.fixture
def root(tmp_path):
    return Path(make_store(tmp_path / "t", DOCUMENTS, windows=WINDOWS))


def _found(root):
    resigned(root)
    return verify_tokens(root).findings


def test_what_is_signed_again_holds(root):
    assert _found(root) == []


def _ids(root, place, value):
    path = root / f"tokens/{NAME}.bin"
    ids = np.fromfile(path, "<u2")
    ids[place] = value
    path.write_bytes(ids.tobytes())


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (3, 1000, f"id 1000 at token 3 is none: {NAMED}"),
        (3, 1, f"control id 1 inside a document, token 3: {NAMED}"),
        (3, 2, f"control id 2 inside a document, token 3: {NAMED}"),
        (0, 9, "3 BOS for 4 documents"),
        (7, 9, "3 EOS for 4 documents"),
        (0, 2, f"control id 2 inside a document, token 0: {NAMED}"),
        (7, 1, f"control id 1 inside a document, token 7: {NAMED}"),
    ],
)
def test_ids_are_read(root, place, value, said):
    _ids(root, place, value)
    assert f"tokens/{NAME}.bin: {said}" in _found(root)


def test_a_control_id_that_is_neither_bos_nor_eos_is_found_in_a_body(root):
    info = json.loads((root / "store.json").read_bytes())
    info["controls"]["<pad>"] = 31
    resigned(root, info)
    assert verify_tokens(root).findings == [
        f"tokens/{NAME}.bin: control id 31 inside a document, token 16: {doc_id(3).hex()} ({url_of(3)})"
    ]


@pytest.mark.parametrize(("bos", "eos"), [(None, 2), (1, None), (2, 2), (None, None)])
def test_any_policy_holds(tmp_path, bos, eos):
    root = make_store(tmp_path / "t", DOCUMENTS, windows=WINDOWS, bos=bos, eos=eos)
    assert verify_tokens(root).findings == []


def test_indexes_of_other_documents_are_found(root, tmp_path):
    other = Path(make_store(tmp_path / "o", [[10, 11, 12, 13, 14], [20, 21, 22], [], [30, 31, 32]]))
    for suffix in ("idx", "ds.index"):
        path = root / f"tokens/{NAME}.{suffix}"
        data = path.read_bytes()
        shutil.copyfile(other / f"tokens/{NAME}.{suffix}", path)
        assert f"tokens/{NAME}.{suffix}: tells of other documents than tokens/{NAME}.offsets.npy" in _found(root)
        path.write_bytes(data)
    shutil.copyfile(other / f"tokens/{NAME}.offsets.npy", root / f"tokens/{NAME}.offsets.npy")
    found = _found(root)
    assert any("EOS for 4 documents" in f or "control id" in f for f in found)
    assert any("document_tokens is not the payload's" in f for f in found)


def test_a_copy_of_the_payload_that_differs_is_found(root):
    path = root / f"tokens/{NAME}.ds"
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data)
    assert _found(root) == []
    path.write_bytes(data[:-2] + b"\x09\0")
    resigned(root)
    assert verify_tokens(root).findings == [f"tokens/{NAME}.ds: is not the payload"]


def _spans(root, change):
    path = root / f"spans/{NAME}.arrow"
    table = pa.ipc.open_file(path.read_bytes()).read_all()
    rows = table.to_pylist()
    change(rows)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(pa.Table.from_pylist(rows, schema=table.schema))
    path.write_bytes(sink.getvalue().to_pybytes())


def _set(row, **values):
    def change(rows):
        rows[row].update(values)

    return change


def _swap(rows):
    rows[0], rows[1] = rows[1], rows[0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_set(0, document_start=1), "document_start is not the payload's"),
        (_set(2, document_tokens=5), "document_tokens is not the payload's"),
        (_set(0, token_start=0), "tokens lie outside their document"),
        (_set(1, token_count=5), "tokens lie outside their document"),
        (_set(0, token_count=-1), "tokens lie outside their document"),
        (_set(1, token_overlap=1), "a window does not follow the one before"),
        (_set(1, token_start=4, token_count=3), "a window does not follow the one before"),
        (_set(1, token_count=3), "the last window does not end with its document"),
        (_set(0, token_overlap=1), "a document's first window repeats tokens"),
        (_set(1, token_overlap=5), "token_overlap is not part of its window"),
        (_set(1, doc_id=doc_id(9)), "different doc_ids"),
        (_set(2, doc_id=doc_id(0)), "or two documents the same"),
        (_set(3, document=5), "documents are not numbered in order"),
        (_set(0, token_start=None), "rows without token_start"),
        (_swap, "a window does not follow the one before"),
        (lambda rows: rows.pop(), "5 windows, 6 in store.json"),
        (lambda rows: rows.pop(2), "documents are not numbered in order"),
        (lambda rows: (rows.pop(), rows.pop()), "1 documents have no window"),
        (lambda rows: rows.clear(), "has no windows"),
    ],
)
def test_spans_are_read(root, change, said):
    _spans(root, change)
    found = _found(root)
    assert any(f.startswith(f"spans/{NAME}.arrow: ") and said in f for f in found), found


def test_a_ledger_of_other_documents_is_found(root):
    path = root / "ledger/part-00000.parquet"
    table = pq.read_table(path)

    def changed(column, values):
        at = table.schema.get_field_index(column)
        pq.write_table(
            table.set_column(at, table.schema.field(at), pa.array(values, table.schema.field(at).type)), path
        )
        return [f.removeprefix("ledger/part-00000.parquet: ") for f in _found(root)]

    assert changed("tokens", [8, 4, 2, 6]) == [
        "20 tokens, 19 in store.json",
        f"tokens: not the documents of spans/{NAME}.arrow in their order",
    ]
    assert changed("doc_id", [doc_id(i) for i in (0, 1, 2, 9)]) == [
        f"doc_id: not the documents of spans/{NAME}.arrow in their order"
    ]
    assert changed("doc_id", [doc_id(i) for i in (0, 2, 1, 3)]) == [
        f"doc_id: not the documents of spans/{NAME}.arrow in their order"
    ]
    found = changed("fate", ["kept", "kept", "kept", "dropped"])
    assert "3 documents kept, 4 in store.json" in found
    assert any("have no reason" in f for f in found)
    pq.write_table(table.drop_columns(["fate"]), path)
    assert _found(root) == ["ledger/part-00000.parquet: has no column 'fate'"]


def test_totals_must_be_those_of_the_shards(root):
    for key in ("tokens", "documents", "windows"):
        info = json.loads((root / "store.json").read_bytes())
        info[key] += 1
        resigned(root, info)
        assert any(f.startswith(f"store.json: {info[key]} {key}, ") for f in verify_tokens(root).findings)


def test_windows_that_were_encoded_alone_follow_one_another(tmp_path):
    windows = [[(0, 4, 0), (4, 2, 2)], [(0, 2, 0)], [(0, 0, 0)], [(0, 2, 0), (2, 1, 0)]]
    root = Path(make_store(tmp_path / "t", DOCUMENTS, windows=windows))
    assert any("does not follow" in f for f in verify_tokens(root).findings)
    info = json.loads((root / "store.json").read_bytes())
    info["per_window"] = True
    resigned(root, info)
    assert verify_tokens(root).findings == []
    _spans(root, _set(1, token_start=4, token_count=3))
    assert any("does not follow" in f for f in _found(root))


def test_the_unknown_token_may_be_in_any_document(tmp_path):
    """A control token of the file, and yet what a text becomes that the vocabulary does not hold."""
    tokenizers = pytest.importorskip("tokenizers")
    vocabulary = {"<unk>": 0, "<s>": 1, "</s>": 2, **{chr(97 + i): 3 + i for i in range(26)}}
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    model.add_special_tokens(["<unk>", "<s>", "</s>"])
    model.save(str(tmp_path / "tokenizer.json"))
    root = Path(make_store(tmp_path / "t", [[3, 0, 5], [0]], vocabulary=29))
    for name, data in open_tokenizer(str(tmp_path / "tokenizer.json"), bos="<s>", eos="</s>").files().items():
        (root / "tokenizer" / name).write_bytes(data)
    info = json.loads((root / "store.json").read_bytes())
    info["controls"] = {"<unk>": 0, "<s>": 1, "</s>": 2}
    named(root, "tokenizer/tokenizer.json")
    resigned(root, info)
    assert verify_tokens(root).findings == []
    _ids(root, 2, 1)
    assert f"tokens/{NAME}.bin: control id 1 inside a document, token 2: {NAMED}" in _found(root)
