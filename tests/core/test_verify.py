"""verify: passes what a run published, and names the file and the fault whatever is done to it."""

import json
import shutil
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from cleanpipe.io.hashing import sha256_of
from cleanpipe.io.store import LocalStore, spelled
from cleanpipe.recipe import fingerprint
from cleanpipe.run import run
from cleanpipe.tidy import tidy
from cleanpipe.verify import verify

SHARD, PART = "data/data-00000-of-00001.arrow", "ledger/part-00000.parquet"
CHANGED = "SHA-256 differs from the manifest: the file was changed after the run"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run over a crawl of pages, one WET file and a cut tail; made once, copied for each test."""
    spec = spec_from_file_location("makers", Path(__file__).parents[1] / "conftest.py")
    makers = module_from_spec(spec)
    spec.loader.exec_module(makers)
    folder = tmp_path_factory.mktemp("verify")
    pages = [makers.response(f"http://a.example/{i}", makers.page(makers.prose(i, 12 + 30 * i))) for i in range(5)]
    pages += [makers.response("http://a.example/same", makers.page(makers.prose(1, 42)))]
    makers.write_gz(folder / "one.warc.gz", [makers.warcinfo(), *pages])
    makers.write_gz(folder / "two.warc.wet.gz", [makers.conversion("http://b.example/", " ".join(makers.prose(9, 60)))])
    data = makers.write_gz(folder / "cut.warc.gz", [makers.response("http://c.example/", "x" * 999)]).read_bytes()
    (folder / "cut.warc.gz").write_bytes(data[:-20])
    run("web", [str(p) for p in sorted(folder.glob("*.gz"))], folder / "out", engine="serial")
    return folder / "out"


@pytest.fixture
def out(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "run")
    return tmp_path / "run"


def flip(path, at=None):
    data = bytearray(path.read_bytes())
    data[len(data) // 2 if at is None else at] ^= 1
    path.write_bytes(data)


def reseal(out, *names):
    """Bring the manifest in line with files that a test rewrote: what digests alone cannot find must be found too."""
    manifest = json.loads((out / "manifest.json").read_text())
    for name in names:
        path = out / name
        entry = manifest["files"].setdefault(name, {})
        entry.update(bytes=path.stat().st_size, sha256=sha256_of(path))
    rest = {k: v for k, v in manifest.items() if k != "digest"}
    (out / "manifest.json").write_bytes(spelled({**rest, "digest": fingerprint(rest)}))


def test_a_finished_run_passes_and_says_what_was_read(out):
    report = verify(out)
    assert report.findings == []
    assert report.checked["shards"] == 1
    assert report.checked["documents"] >= 5
    assert report.checked["rows"] > report.checked["documents"]  # some are cut into windows
    assert report.checked["ledger_rows"] == 8
    assert report.checked["quarantine_rows"] == 1
    assert report.checked["files"] == len(json.loads((out / "manifest.json").read_text())["files"])


def names(finished):
    return sorted(json.loads((finished / "manifest.json").read_text())["files"])


def test_one_flipped_byte_of_any_file_is_found_in_that_file(finished, out):
    for name in names(finished):
        flip(out / name)
        assert verify(out).findings == [f"{name}: {CHANGED}"], name
        shutil.copy(finished / name, out / name)


def test_any_deleted_file_is_named(finished, out):
    for name in names(finished):
        (out / name).unlink()
        assert verify(out).findings == [f"{name}: missing: the manifest names it, and it was deleted after the run"], (
            name
        )
        shutil.copy(finished / name, out / name)


@pytest.mark.parametrize("left", [0, 1, 100])
def test_a_truncated_file_is_named_with_both_sizes(out, left):
    whole = (out / SHARD).read_bytes()
    (out / SHARD).write_bytes(whole[:left])
    changed = f"{left} bytes, {len(whole):,} in the manifest: the file was changed after the run"
    assert verify(out).findings == [f"{SHARD}: {changed}"]


def test_a_flipped_byte_anywhere_in_the_manifest_is_found(finished, out):
    size = (out / "manifest.json").stat().st_size
    for at in [*range(0, size, 97), size - 1]:
        flip(out / "manifest.json", at)
        findings = verify(out).findings
        assert any(f.startswith("manifest.json: ") for f in findings), (at, findings)
        shutil.copy(finished / "manifest.json", out / "manifest.json")


def test_another_spelling_of_the_manifest_is_a_change(out):
    path = out / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text())))
    [found] = verify(out).findings
    assert found == "manifest.json: its own digest does not fit its content: the file was changed after the run"


MANIFESTS = [
    "",
    "{",
    "[]",
    "null",
    '{"files": 3}',
    '{"files": {"/etc/passwd": {"bytes": 1, "sha256": ""}}}',
    "\xff",
    "[" * 9999,
]


@pytest.mark.parametrize("content", MANIFESTS)
def test_what_is_no_manifest_is_one_finding(out, content):
    (out / "manifest.json").write_text(content, encoding="latin-1")
    [found] = verify(out).findings
    assert found.startswith("manifest.json: is no")


def test_a_folder_without_a_run(tmp_path):
    assert verify(tmp_path).findings == ["manifest.json: missing: the run did not finish, or the file was deleted"]
    assert verify(tmp_path / "absent").findings == [f"{tmp_path / 'absent'}: no such folder"]
    (tmp_path / "file").write_text("")
    assert verify(tmp_path / "file").findings == [f"{tmp_path / 'file'}: no such folder"]


@pytest.mark.parametrize("name", ["stray", "data/data-00001-of-00002.arrow", "ledger/x/y"])
def test_a_file_that_the_manifest_does_not_name(out, name):
    (out / name).parent.mkdir(exist_ok=True)
    (out / name).write_text("")
    assert verify(out).findings == [f"{name}: is in the folder, but the manifest does not name it"]


def test_work_that_was_left_over(out):
    (out / "work").mkdir()
    (out / "work" / "plan.json").write_text("{}")
    assert verify(out).findings == ["work/: left over: a finished run deletes it; it can be deleted"]
    facts = json.loads((out / "run.json").read_text())
    (out / "run.json").write_bytes(spelled({**facts, "kept_work": True}))
    reseal(out, "run.json")
    assert verify(out).findings == []


def test_what_a_late_worker_leaves_is_no_part_of_the_run(out):
    """It was frozen, or cut off, and goes on when the run is over: a draft, or a whole unit below work/."""
    for name in ("data/.tmp-1-data-00000-of-00001.arrow", "work/pass0/ab/1-rows.arrow", "work/done/pass0/ab.json"):
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_bytes(b"late")
    assert verify(out).findings == []
    tidy(LocalStore(str(out)), print)
    assert not [p for p in out.rglob("*") if p.is_file() and p.read_bytes() == b"late"]


def test_another_config_hash(out):
    (out / "config_hash.txt").write_text("deadbeef\n")
    reseal(out, "config_hash.txt")
    [found] = verify(out).findings
    assert found.startswith("config_hash.txt: configuration hash 'deadbeef', '")


def test_settings_that_do_not_give_the_hash(out):
    facts = json.loads((out / "run.json").read_text())
    facts["identity"]["settings"]["audit"]["seed"] = 12345
    (out / "run.json").write_bytes(spelled(facts))
    reseal(out, "run.json")
    assert verify(out).findings == ["run.json: settings, models, code and inputs do not give its configuration hash"]


# changes that agree with the manifest: only the contents tell


def rewrite(out, change):
    """The shard with its table changed, and a manifest and audit that agree with the new file."""
    with pa.ipc.open_stream((out / SHARD).read_bytes()) as reader:
        table = reader.read_all()
    table = change(table)
    with pa.OSFile(str(out / SHARD), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    reseal(out, SHARD)


def cell(name, row, value):
    """Set one cell."""

    def change(table):
        values = table.column(name).to_pylist()
        values[row] = value(values[row]) if callable(value) else value
        at = table.schema.get_field_index(name)
        return table.set_column(at, table.schema.field(at), pa.array(values, table.schema.field(at).type))

    return change


def first_cut(table):
    """Row of the second window of the first document that has two."""
    return pc.index(table.column("window"), 1).as_py()


def swapped(table):
    at = first_cut(table)
    order = list(range(table.num_rows))
    order[at - 1], order[at] = at, at - 1
    return table.take(order)


def without_last(table):
    last = table.column("doc_id")[-1]
    return table.slice(0, pc.index(table.column("doc_id"), last).as_py())


def without(row):
    return lambda t: pa.concat_tables([t.slice(0, row(t)), t.slice(row(t) + 1)])


SHARDS = [  # what was done to the shard, what must be said of it
    ("a letter changed", cell("text", 0, lambda t: t.swapcase()), "do not join to the text whose content_id"),
    ("a letter lost", cell("text", 0, lambda t: t[:-1]), "do not fit the text"),
    ("a length", cell("length", 0, lambda n: n + 1), "do not fit the text"),
    ("bytes", cell("bytes", 0, lambda n: n + 1), "do not fit the text"),
    ("an overlap", lambda t: cell("overlap", first_cut(t), lambda n: n - 1)(t), "with an overlap of"),
    ("a window number", lambda t: cell("window", first_cut(t), 2)(t), "windows are lost or out of order"),
    ("a window count", cell("windows", 0, 9), "of its 9 windows are there"),
    ("windows out of order", swapped, "windows are lost or out of order"),
    ("a window lost", without(first_cut), "windows are lost or out of order"),
    ("a null text", cell("text", 0, None), "may not be null"),
    ("a document renamed", cell("doc_id", 0, b"0" * 16), "stands at place 0, where the ledger has"),
    ("the last document lost", without_last, "1 documents that the ledger has here"),
    ("a column lost", lambda t: t.drop_columns(["overlap"]), "has no column 'overlap'"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "change", "said"), SHARDS, ids=[s[0] for s in SHARDS])
def test_a_shard_that_is_not_the_ledger_s_documents(out, what, change, said):
    rewrite(out, change)
    findings = [f for f in verify(out).findings if f.startswith(f"{SHARD}: ")]
    assert any(said in f for f in findings), verify(out).findings


def test_a_shard_of_garbage_with_a_fitting_digest(out):
    (out / SHARD).write_bytes(b"\xff" * 64)
    reseal(out, SHARD)
    assert any(f.startswith(f"{SHARD}: cannot be read as an Arrow stream") for f in verify(out).findings)


def relabel(out, change):
    """The ledger part of the archive of six pages, rewritten; the name of that part."""
    name = next(n for n in names(out) if n.startswith("ledger/") and pq.read_metadata(out / n).num_rows == 6)
    pq.write_table(change(pq.read_table(out / name)), out / name)
    reseal(out, name)
    return name


def kept(table):
    return pc.index(table.column("fate"), "kept").as_py()


def dropped(table):
    return pc.index(table.column("fate"), "dropped").as_py()


LEDGERS = [
    ("an unknown fate", lambda t: cell("fate", 0, "lost")(t), "fate other than kept, dropped, quarantined"),
    ("a kept row with a reason", lambda t: cell("reason", kept(t), "x")(t), "are kept, yet have a stage or reason"),
    ("a shard that is not there", lambda t: cell("shard", kept(t), "data-9.arrow")(t), "not in the manifest"),
    ("no content", lambda t: cell("content_id", kept(t), None)(t), "are kept, and have no content_id"),
    ("a document twice", lambda t: cell("doc_id", 0, t.column("doc_id")[1].as_py())(t), "doc_ids stand twice"),
    ("an unknown keeper", lambda t: cell("kept_doc_id", 0, b"1" * 16)(t), "names a kept_doc_id that is in no row"),
    ("a row lost", lambda t: t.slice(1), "5 rows, 6 in the manifest"),
    ("a row that was not dropped", lambda t: cell("reason", dropped(t), None)(t), "lack a stage or reason"),
    ("chars_out", lambda t: cell("chars_out", kept(t), 5)(t), "5 and"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "change", "said"), LEDGERS, ids=[s[0] for s in LEDGERS])
def test_a_ledger_that_breaks_a_law(out, what, change, said):
    relabel(out, change)
    found = verify(out).findings
    assert any(said.replace("names a", "name a") in f for f in found), found


def test_a_ledger_that_says_another_reason_than_the_audit(out):
    relabel(out, lambda t: cell("reason", dropped(t), "near_duplicate")(t))
    found = verify(out).findings
    assert found
    assert all(f.startswith("audit/audit.json: ") for f in found)
    assert any("documents dropped by minhash_drop" in f for f in found)


def test_an_audit_whose_balance_is_broken(out):
    path = out / "audit" / "audit.json"
    audit = json.loads(path.read_text())
    audit["conservation"]["balanced"] = audit["conservation"]["lines"][0]["ok"] = False
    path.write_bytes(spelled(audit))
    reseal(out, "audit/audit.json")
    assert verify(out).findings == ["audit/audit.json: the balance does not close: records of the run"]


@pytest.mark.parametrize("content", ["[]", "{}", '{"ledger": [], "shards": 3, "input": []}'])
def test_what_is_no_audit_is_a_finding(out, content):
    (out / "audit" / "audit.json").write_text(content)
    reseal(out, "audit/audit.json")
    assert any(f.startswith("audit/audit.json: ") for f in verify(out).findings)


def test_many_faults_of_one_file_are_few_lines(out):
    rewrite(out, lambda t: t.set_column(t.schema.get_field_index("bytes"), "bytes", pc.add(t.column("bytes"), 1)))
    lines = [f for f in verify(out).findings if f.startswith(f"{SHARD}: ")]
    assert len(lines) <= 6
