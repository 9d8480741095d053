"""Each consumer's own reader gives back the documents that were written: Megatron, datatrove, LitData, MosaicML.

Run by the Python of an environment of theirs (see requirements.txt there): CLEANPIPE_READERS names it.
"""

import json
import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from made_tokens import doc_id, make_store, url_of

from cleanpipe.tokens.decisions import Decision, append
from cleanpipe.tokens.store import open_tokens
from cleanpipe.tokens.store.export import export

pytestmark = pytest.mark.readers
HERE = Path(__file__).parent
README = HERE.parents[1] / "README.md"
LENGTH = 7
KINDS = {"uint16": 1000, "int32": 70_000}


@pytest.fixture(scope="module")
def ask():
    """Run one of the programs here with the readers' Python; what it wrote."""
    python = os.environ.get("CLEANPIPE_READERS")
    if not python or not Path(python).exists():
        pytest.skip("no environment of the readers: make test-readers, or CLEANPIPE_READERS=…/bin/python")

    def run(program, folder, *args):
        out = folder / f"{program}.json"
        line = [python, "-W", "ignore", str(HERE / f"{program}.py"), str(out), *map(str, args)]
        settings = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "HOME": str(folder), "TMPDIR": str(folder)}
        done = subprocess.run(line, env={**os.environ, **settings}, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-4000:]
        return json.loads(out.read_bytes())

    return run


def _bodies(vocabulary):
    rng = np.random.default_rng(7)
    lengths = [3, 0, 1, *rng.integers(0, 60, 30).tolist(), 300, 70_000, 2]
    bodies = [rng.integers(3, vocabulary, n).tolist() for n in lengths]
    bodies[0] = [vocabulary - 1, 3, vocabulary - 1]
    return bodies


@pytest.fixture(scope="module", params=list(KINDS))
def made(request, tmp_path_factory):
    """A store of ids of one type, and its documents as lists by shard, read without any code of ours."""
    folder = tmp_path_factory.mktemp(request.param)
    bodies = _bodies(KINDS[request.param])
    root = Path(make_store(folder / "store", bodies, per_shard=13, vocabulary=KINDS[request.param]))
    by_shard = {}
    for path in sorted(root.glob("tokens/*.bin")):
        ids = np.fromfile(path, "<u2" if request.param == "uint16" else "<i4")
        borders = np.load(path.with_suffix(".offsets.npy"))
        by_shard[path.stem] = [ids[a:b].tolist() for a, b in pairwise(borders)]
    assert [d for documents in by_shard.values() for d in documents] == [[1, *b, 2] for b in bodies]
    return folder, root, by_shard, request.param


def _flat(documents):
    return [token for document in documents for token in document]


def test_megatron(ask, made):
    folder, root, by_shard, dtype = made
    found = ask("read_megatron", folder, *(root / "tokens" / name for name in by_shard))
    for documents, read in zip(by_shard.values(), found, strict=True):
        assert read["documents"] == documents
        assert read["by file"] == documents
        assert read["dtype"] == dtype
        assert read["lengths"] == [len(d) for d in documents]
        assert read["borders"] == list(range(len(documents) + 1))
        assert read["part"] == documents[0][1:2]
        gpt = read["gpt"]
        assert sorted(gpt["order"]) == list(range(len(documents)))
        stream = _flat(documents[d] for d in gpt["order"])
        assert len(gpt["samples"]) == (len(stream) - 1) // 8
        for at, sample in zip(gpt["shuffle"], gpt["samples"], strict=True):
            assert sample["tokens"] == stream[8 * at : 8 * at + 8]
            assert sample["labels"] == stream[8 * at + 1 : 8 * at + 9]


def test_datatrove(ask, made):
    folder, root, by_shard, dtype = made
    names = [f"{name}={len(_flat(documents))}" for name, documents in by_shard.items()]
    width = np.dtype(dtype).itemsize
    found = ask("read_datatrove", folder, width, root / "tokens", *names)
    assert found["documents"] == by_shard
    expected = []
    for documents in by_shard.values():
        flat = _flat(documents)
        expected += [flat[i : i + 5] for i in range(0, len(flat) - 4, 5)]
    assert found["windows"] == expected


@pytest.fixture(scope="module")
def exported(made):
    """The store in both forms, in files so small that there are many; then again without two documents."""
    folder, root, _, _ = made
    store = open_tokens(root)
    for form, length in (("mds", 0), ("litdata", LENGTH)):
        export(store, folder / form, form, length=length, file_bytes=20_000)
    lines = [Decision("quarantine", "url", url_of(5)), Decision("mask", "doc_id", doc_id(20).hex())]
    append(root, [*lines, Decision("weight", "url", url_of(6), weight=0.5)])
    for form, length in (("mds", 0), ("litdata", LENGTH)):
        assert export(store, folder / f"{form}-fewer", form, length=length, file_bytes=20_000).left_out == 2
    (root / "decisions.jsonl").unlink()
    return folder


def test_mds(ask, made, exported):
    folder, _, by_shard, dtype = made
    whole, fewer = ask("read_mds", folder, folder / "mds", folder / "mds-fewer")
    documents = [d for shard in by_shard.values() for d in shard]
    assert whole["documents"] == whole["in turn"] == documents
    assert whole["dtype"] == dtype
    assert whole["doc_ids"] == [doc_id(i).hex() for i in range(len(documents))]
    assert whole["urls"] == [url_of(i) for i in range(len(documents))]
    stay = [i for i in range(len(documents)) if i not in (5, 20)]
    assert fewer["documents"] == [documents[i] for i in stay]
    assert fewer["urls"] == [url_of(i) for i in stay]


def test_litdata(ask, made, exported):
    folder, _, by_shard, dtype = made
    whole, fewer = ask("read_litdata", folder, LENGTH, folder / "litdata", folder / "litdata-fewer")
    documents = [d for shard in by_shard.values() for d in shard]
    stay = [d for i, d in enumerate(documents) if i not in (5, 20)]
    for read, expected in ((whole, _flat(documents)), (fewer, _flat(stay))):
        assert read["same"]
        assert read["dtype"] == f"torch.{dtype}"
        assert _flat(read["blocks"]) == expected[: len(expected) // LENGTH * LENGTH]


@pytest.mark.parametrize("dtype", KINDS)
def test_the_forms_that_are_written_are_what_their_own_writers_write(ask, tmp_path, dtype):
    """Byte for byte MosaicML's MDSWriter; LitData's, where one item is given, but for its clock."""
    root = make_store(tmp_path / "store", _bodies(KINDS[dtype]), vocabulary=KINDS[dtype])
    for form, length in (("mds", 0), ("litdata", LENGTH)):
        export(open_tokens(root), tmp_path / form, form, length=length, file_bytes=20_000)
    ask("write_own", tmp_path, root, tmp_path / "mds", tmp_path / "own", 20_000)
    names = sorted(p.name for p in (tmp_path / "own/mds").iterdir())
    assert len(names) > 3
    for name in names:
        ours, theirs = (tmp_path / "mds" / name).read_bytes(), (tmp_path / "own/mds" / name).read_bytes()
        if name == "index.json":
            ours, theirs = json.loads(ours), json.loads(theirs)
        assert ours == theirs, name
    ours, theirs = (json.loads((tmp_path / f / "index.json").read_bytes()) for f in ("litdata", "own/litdata"))
    assert ours["chunks"][0] == theirs["chunks"][0]
    for one in (ours, theirs):
        del one["chunks"], one["updated_at"], one["config"]["chunk_bytes"], one["config"]["chunk_size"]
    assert ours == theirs
    assert (tmp_path / "litdata/chunk-0-0.bin").read_bytes() == (tmp_path / "own/litdata/chunk-0-0.bin").read_bytes()


def test_a_run_of_real_pages(ask, tmp_path):
    """The archives in the package, cleaned and tokenized: what the readers find is what the payload holds."""
    command = [sys.executable, "-m", "cleanpipe_jobs.cli"]
    for line in (
        ["run", "sample", "--out", "run", "--engine", "serial", "-q"],
        ["tokenize", "run", "--tokens", "tokens", "--engine", "serial", "-q"],
    ):
        subprocess.run([*command, *line], cwd=tmp_path, check=True, timeout=200)
    root = tmp_path / "tokens"
    store = open_tokens(root)
    expected = {}
    for path in sorted(root.glob("tokens/*.bin")):
        ids, borders = np.fromfile(path, store.dtype), np.load(path.with_suffix(".offsets.npy"))
        expected[path.stem] = [ids[a:b].tolist() for a, b in pairwise(borders)]
    documents = [d for shard in expected.values() for d in shard]
    assert len(documents) == store.documents > 50
    found = ask("read_megatron", tmp_path, *(root / "tokens" / name for name in expected))
    assert [d for read in found for d in read["documents"]] == documents
    names = [f"{name}={len(_flat(shard))}" for name, shard in expected.items()]
    assert ask("read_datatrove", tmp_path, store.dtype.itemsize, root / "tokens", *names)["documents"] == expected
    export(store, str(tmp_path / "mds"), "mds")
    export(store, str(tmp_path / "lit"), "litdata", length=2049)
    (mds,) = ask("read_mds", tmp_path, tmp_path / "mds")
    assert mds["documents"] == documents
    rows = pa.ipc.open_stream((tmp_path / "run/data/data-00000-of-00001.arrow").read_bytes()).read_all()
    assert mds["urls"] == rows.filter(pc.equal(rows.column("window"), 0)).column("url").to_pylist()
    (lit,) = ask("read_litdata", tmp_path, 2049, tmp_path / "lit")
    assert _flat(lit["blocks"]) == _flat(documents)[: len(lit["blocks"]) * 2049]
    assert len(lit["blocks"]) == store.tokens // 2049


def test_the_megatron_example_of_the_readme(ask, tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    (example,) = [b for b in blocks if "megatron" in b]
    bodies = [[10, 11, 12], [20] * 30]
    (tmp_path / "run").mkdir()
    make_store(tmp_path / "run/tokens", bodies)
    (tmp_path / "example.py").write_text(example)
    line = [os.environ["CLEANPIPE_READERS"], "-W", "ignore", "example.py"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1] == "2 [ 1 10 11 12  2]"
