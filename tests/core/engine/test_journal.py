"""The journal: what is finished, compacted, resumed, forgotten."""

import random

import pytest

from cleanpipe.engine import journal as module
from cleanpipe.engine.commit import Units, unit_key
from cleanpipe.engine.journal import Journal, heal
from cleanpipe.errors import DamagedFileError
from cleanpipe.io.store import LocalStore
from cleanpipe.tally import add


@pytest.fixture(autouse=True)
def small_books(monkeypatch):
    monkeypatch.setattr(module, "BOOK", 7)


def result(n):
    key = unit_key("test", n)
    files = {"rows": {"name": f"work/pass0/{key}/a-rows.arrow", "bytes": n, "sha256": "00"}}
    return key, {"files": files, "tally": {"read": {"docs": n, f"only{n}": 1}}, "unit": n, "facts": {"first": n}}


def finish(store, numbers, journal=None):
    journal = journal or Journal(store, "pass0")
    for n in numbers:
        key, made = result(n)
        journal.add(key, journal.units.commit(key, made))
    return journal


def expected(numbers):
    total = {}
    for n in numbers:
        add(total, result(n)[1]["tally"])
    return total


def check(journal, numbers):
    keys = {result(n)[0] for n in numbers}
    assert set(journal) == keys
    assert len(journal) == len(keys)
    for n in numbers:
        key, made = result(n)
        assert key in journal
        assert {**journal[key], "tally": made["tally"]} == made
    assert journal.tally(keys) == expected(numbers)


@pytest.mark.parametrize("count", [0, 1, 6, 7, 8, 50])
def test_what_was_finished_is_there_after_a_restart(tmp_path, count):
    store = LocalStore(str(tmp_path))
    check(finish(store, range(count)), range(count))
    check(Journal(store, "pass0"), range(count))


def test_books_replace_single_manifests(tmp_path):
    store = LocalStore(str(tmp_path))
    finish(store, range(16))
    names = [n.rpartition("/")[2] for n, _ in store.names("work/done/pass0/")]
    assert len([n for n in names if n.startswith("book-")]) == 2
    assert len([n for n in names if n.endswith(".json")]) == 2


def test_the_sum_over_some_units_of_a_book(tmp_path):
    store = LocalStore(str(tmp_path))
    journal = finish(store, range(20))
    rng = random.Random(4)
    for _ in range(20):
        some = rng.sample(range(20), rng.randrange(1, 20))
        assert journal.tally([result(n)[0] for n in some]) == expected(some)


@pytest.mark.parametrize("gone", [0, 3, 13, 15])
def test_a_forgotten_unit_is_not_finished_and_the_others_are(tmp_path, gone):
    store = LocalStore(str(tmp_path))
    journal = finish(store, range(16))
    journal.forget(result(gone)[0])
    left = [n for n in range(16) if n != gone]
    check(journal, left)
    check(Journal(store, "pass0"), left)
    check(finish(store, [gone], journal), range(16))
    check(Journal(store, "pass0"), range(16))


def whole(store, numbers):
    """Finished units whose files are there."""
    journal = Journal(store, "pass0")
    for n in numbers:
        key, made = result(n)
        file = made["files"]["rows"]
        made["files"]["rows"] = {"name": file["name"], **store.write(file["name"], f"rows of {n}".encode())}
        journal.add(key, journal.units.commit(key, made))
    return [result(n)[1]["files"]["rows"]["name"] for n in numbers]


def test_one_damaged_file_has_all_looked_for(tmp_path):
    store = LocalStore(str(tmp_path))
    files = whole(store, range(9))
    (tmp_path / files[5]).write_bytes(b"rows of 6")
    (tmp_path / files[2]).unlink()
    (tmp_path / files[8]).write_bytes(b"rows")
    assert heal(store, files[5]) == 3
    assert set(Journal(store, "pass0")) == {result(n)[0] for n in (0, 1, 3, 4, 6, 7)}


@pytest.mark.parametrize("name", ["data/data-00000-of-00001.arrow", "", "work/plan.json", "work/pass0/xyz/rows.arrow"])
def test_a_file_of_no_unit_heals_nothing(tmp_path, name):
    store = LocalStore(str(tmp_path))
    whole(store, range(3))
    assert heal(store, name) == 0
    assert len(Journal(store, "pass0")) == 3


def test_a_kill_between_the_book_and_the_removal_of_singles_harms_nothing(tmp_path):
    store = LocalStore(str(tmp_path))
    journal = finish(store, range(7))
    for n in range(3):  # they came back
        key, made = result(n)
        store.write_json(journal.units.manifest(key), made)
    check(Journal(store, "pass0"), range(7))


@pytest.mark.parametrize("damage", [b"", b"nonsense", b"\x28\xb5\x2f\xfd\0\0"])
def test_a_damaged_book_costs_its_units_and_nothing_else(tmp_path, damage):
    store = LocalStore(str(tmp_path))
    finish(store, range(9))
    book = next(n for n, _ in store.names("work/done/pass0/") if "/book-" in n)
    held = {n for n in range(9) if result(n)[0] not in set(_single(store))}
    (tmp_path / book).write_bytes(damage)
    check(Journal(store, "pass0"), sorted(set(range(9)) - held))


def _single(store):
    return [
        n.rpartition("/")[2].removesuffix(".json") for n, _ in store.names("work/done/pass0/") if n.endswith(".json")
    ]


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"files": 3}', b'{"files": {"rows": {}}}', b"[" * 100_000])
def test_a_damaged_manifest_is_no_finished_unit(tmp_path, damage):
    store = LocalStore(str(tmp_path))
    journal = finish(store, range(3))
    key, made = result(1)
    store.write(journal.units.manifest(key), damage)
    check(Journal(store, "pass0"), [0, 2])
    assert Units(store, "pass0").commit(key, made) == made  # and can be finished again
    check(Journal(store, "pass0"), range(3))


def test_the_first_attempt_counts_and_the_late_one_leaves_nothing(tmp_path):
    store = LocalStore(str(tmp_path))
    units = Units(store, "pass0")
    key = unit_key("x")

    def attempt():
        name = units.name(key, units.attempt(), "rows")
        facts = store.write(name, b"same rows")
        return {"files": {"rows": {"name": name, **facts}}, "tally": {}}

    first, late = attempt(), attempt()
    assert units.commit(key, first) == first
    assert units.commit(key, late) == first
    assert [n for n, _ in store.names("work/pass0/")] == [first["files"]["rows"]["name"]]
    assert units.done(key) == first


@pytest.mark.parametrize("damage", [None, b"", b"nonsense"])
def test_damaged_tallies_make_their_units_unfinished(tmp_path, damage):
    store = LocalStore(str(tmp_path))
    finish(store, range(9))
    side = next(n for n, _ in store.names("work/done/pass0/") if "/tally-" in n)
    held = set(range(9)) - {n for n in range(9) if result(n)[0] in set(_single(store))}
    if damage is None:
        (tmp_path / side).unlink()
    else:
        (tmp_path / side).write_bytes(damage)
    journal = Journal(store, "pass0")
    with pytest.raises(DamagedFileError):  # part of the book is wanted
        journal.tally([result(n)[0] for n in sorted(held)[:2]])
    check(Journal(store, "pass0"), sorted(set(range(9)) - held))
    journal = finish(store, held, Journal(store, "pass0"))
    check(journal, range(9))


def test_a_book_with_keys_that_are_none_is_none(tmp_path):
    store = LocalStore(str(tmp_path))
    finish(store, range(7))
    book = next(n for n, _ in store.names("work/done/pass0/") if "/book-" in n)
    data = module.unpacked((tmp_path / book).read_bytes()).replace(result(3)[0].encode(), b"x" * 32, 1)
    (tmp_path / book).write_bytes(module._packed([data]))
    assert len(Journal(store, "pass0")) == 0
