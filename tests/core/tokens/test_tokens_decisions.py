"""The file of decisions: a chain that shows every change, appended by many, taken back but never deleted."""

import dataclasses
import json
import multiprocessing
import os
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleanpipe.errors import ConfigError, DamagedFileError
from cleanpipe.tokens.decisions import Decision, append, load, parse
from cleanpipe.tokens.decisions_lines import Book
from cleanpipe.tokens.layout import DECISIONS

DOC, OTHER = "0f" * 16, "a1" * 16


def mask(key=DOC, **more):
    return Decision("mask", "doc_id", key, **more)


def revoke(line, **more):
    return Decision("revoke", "line", str(line), **more)


def test_no_file_is_no_decision(tmp_path):
    found = load(tmp_path)
    assert (found.version, found.lines) == (0, ())
    assert not (tmp_path / DECISIONS).exists()


def test_lines_are_numbered_chained_and_read_back(tmp_path):
    first = append(tmp_path, [mask(reason="loops", author="ann", evidence="step 9")], time="2026-11-30T12:00:00Z")
    second = append(tmp_path, [Decision("weight", "host", "Example.ORG.", weight=0.25, from_sequence=7)])
    found = load(tmp_path)
    assert found.lines == (*first, *second)
    assert [d.number for d in found.lines] == [1, 2]
    assert found.lines[1].previous == found.lines[0].digest
    assert found.digest == found.lines[1].digest
    assert found.upto(1).digest == found.lines[0].digest != found.digest
    assert found.lines[1].key == "example.org"
    raw = (tmp_path / DECISIONS).read_bytes().splitlines()
    assert json.loads(raw[0])["time"] == "2026-11-30T12:00:00Z"
    with pytest.raises(ConfigError, match="version 3"):
        found.upto(3)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (Decision("drop", "doc_id", DOC), "no action"),
        (Decision("mask", "path", DOC), "its key is"),
        (Decision("mask", "line", "1"), "of revoke a line"),
        (Decision("revoke", "doc_id", DOC), "of revoke a line"),
        (Decision("mask", "doc_id", "0f"), "32 hex"),
        (Decision("mask", "content_id", "z" * 32), "32 hex"),
        (Decision("mask", "url", " "), "empty"),
        (Decision("mask", "host", "a b"), "no host"),
        (Decision("mask", "host", "https:///x"), "no host"),
        (Decision("mask", "host", "a/b"), "no host"),
        (Decision("weight", "doc_id", DOC), "0 to 1"),
        (Decision("weight", "doc_id", DOC, weight=1.5), "0 to 1"),
        (Decision("weight", "doc_id", DOC, weight=float("nan")), "0 to 1"),
        (Decision("mask", "doc_id", DOC, weight=0.5), "means nothing"),
        (Decision("mask", "doc_id", DOC, from_sequence=-1), "0 or more"),
        (Decision("revoke", "line", "0"), "from 1"),
        (Decision("revoke", "line", "²"), "from 1"),
        (Decision("revoke", "line", "1"), "no line 1"),
    ],
)
def test_wrong_decisions_are_refused_and_write_nothing(tmp_path, wrong, said):
    with pytest.raises(ConfigError, match=said):
        append(tmp_path, [mask(OTHER), wrong] if wrong.action != "revoke" else [wrong])
    assert load(tmp_path).version == 0


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ("example.org", "example.org"),
        ("*.Example.org", "example.org"),
        (".example.org.", "example.org"),
        ("https://user@Sub.Example.org:8080/a/b?c", "sub.example.org"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("[2001:db8::1]", "[2001:db8::1]"),
        ("127.0.0.1", "127.0.0.1"),
    ],
)
def test_spellings_of_a_host(tmp_path, given, key):
    assert append(tmp_path, [Decision("mask", "host", given)])[0].key == key


def test_the_same_twice_is_one_line(tmp_path):
    (first,) = append(tmp_path, [mask()])
    assert append(tmp_path, [mask(reason="again", author="bob")]) == [first]
    assert append(tmp_path, [mask(from_sequence=500)]) == [first]  # covered already
    assert append(tmp_path, [mask(DOC.upper()), mask(DOC)]) == [first, first]
    assert load(tmp_path).version == 1
    append(tmp_path, [Decision("quarantine", "doc_id", DOC)])
    assert load(tmp_path).version == 2


def test_an_earlier_sequence_is_another_decision(tmp_path):
    append(tmp_path, [mask(from_sequence=500)])
    append(tmp_path, [mask(from_sequence=100)])
    assert load(tmp_path).version == 2


def test_a_weight_between_makes_the_same_weight_a_decision_again(tmp_path):
    low, high = (Decision("weight", "doc_id", DOC, weight=w) for w in (0.2, 0.8))
    elsewhere = Decision("weight", "doc_id", OTHER, weight=0.8)
    append(tmp_path, [low, elsewhere, low])  # another document's weight changes nothing
    assert load(tmp_path).version == 2
    append(tmp_path, [high, low])
    assert load(tmp_path).version == 4
    append(tmp_path, [Decision("weight", "host", "a.example", weight=1), low])  # it may be of that host
    assert load(tmp_path).version == 6


def test_revoke(tmp_path):
    append(tmp_path, [mask(), mask(OTHER), revoke(1)])
    found = load(tmp_path)
    assert [d.number for d, _, _ in found.spans()] == [2]
    assert append(tmp_path, [revoke("01")])[0].number == 3  # once is enough
    with pytest.raises(ConfigError, match="is a revoke"):
        append(tmp_path, [revoke(3)])
    assert append(tmp_path, [mask()])[0].number == 4  # and again
    assert load(tmp_path).version == 4


def test_revoke_from_a_sequence_leaves_the_earlier_ones(tmp_path):
    append(tmp_path, [mask(from_sequence=10), revoke(1, from_sequence=30)])
    ((_, begin, end),) = load(tmp_path).spans()
    assert (begin, end) == (10, 30)
    append(tmp_path, [revoke(1, from_sequence=20)])
    assert load(tmp_path).spans()[0][2] == 20
    append(tmp_path, [revoke(1, from_sequence=10)])
    assert load(tmp_path).spans() == []
    assert append(tmp_path, [revoke(1, from_sequence=40)])[0].number == 2  # an earlier one says it


# --- the file


@pytest.fixture
def three(tmp_path):
    append(tmp_path, [mask(reason="é\n\x85"), mask(OTHER), Decision("quarantine", "url", "http://a.example/x")])
    return tmp_path / DECISIONS


@pytest.mark.parametrize("line", [0, 1, 2])
@pytest.mark.parametrize("place", [0, 5, 40, -3])
def test_a_changed_byte_is_found(three, line, place):
    raw = three.read_bytes().splitlines(keepends=True)
    one = bytearray(raw[line])
    one[place] ^= 1
    raw[line] = bytes(one)
    three.write_bytes(b"".join(raw))
    with pytest.raises(DamagedFileError, match=f"line {line + 1} "):
        load(three.parent)
    with pytest.raises(DamagedFileError):
        append(three.parent, [mask("b" * 32)])
    assert three.read_bytes() == b"".join(raw)


def test_a_lost_or_doubled_or_moved_line_is_found(three):
    a, b, c = three.read_bytes().splitlines(keepends=True)
    for wrong, line in ((a + c, 2), (b + c, 1), (a + a + b + c, 2), (a + c + b, 2), (a + b"\n" + b + c, 2)):
        with pytest.raises(DamagedFileError, match=f"line {line} "):
            parse(wrong)
    assert (
        parse(a + b).version == 2
    )  # of a file that was cut at a line's end nothing tells: the store's own record does


def test_a_line_with_a_right_digest_but_wrong_chain_is_found(three):
    lines = list(load(three.parent).lines)
    lines[1] = dataclasses.replace(lines[1], key="c3" * 16)  # the forger takes the digest anew, and stops there
    with pytest.raises(DamagedFileError, match="line 3 "):
        parse(b"".join(line.line() for line in lines))


def test_a_torn_line_is_ignored_with_a_warning_and_repaired(three):
    whole = three.read_bytes()
    ends = [i + 1 for i, byte in enumerate(whole) if byte == 10]
    for cut in range(ends[1] + 1, ends[2] - 1):
        three.write_bytes(whole[:cut])
        with pytest.warns(UserWarning, match="what is left of a line"):
            found = load(three.parent)
        assert (found.version, found.torn) == (2, whole[ends[1] : cut])
    append(three.parent, [mask("d4" * 16)])
    found = load(three.parent)  # without a warning: those are errors here
    assert [d.key for d in found.lines] == [DOC, OTHER, "d4" * 16]


@pytest.mark.parametrize("rest", [b"\0" * 40, b'{"action":"mask"', b"\xff"])
def test_other_remains_of_a_crash(three, rest):
    whole = three.read_bytes()
    three.write_bytes(whole + rest)
    with pytest.warns(UserWarning, match="left of a line"):
        assert load(three.parent).version == 3
    append(three.parent, [mask("d4" * 16)])
    assert three.read_bytes().startswith(whole + b'{"action"')


def test_a_line_that_only_lost_its_end_counts(three):
    whole = three.read_bytes()
    three.write_bytes(whole[:-1])
    assert load(three.parent).version == 3
    append(three.parent, [mask("d4" * 16)])
    assert three.read_bytes().startswith(whole)
    assert load(three.parent).version == 4


def test_a_full_disk_leaves_the_file_as_it_was(three, monkeypatch):
    from cleanpipe.errors import StopError

    whole, real = three.read_bytes(), os.pwrite

    def some(file, data, at):
        if at > len(whole):
            raise OSError(28, "No space left on device")
        return real(file, data[:10], at)

    monkeypatch.setattr(os, "pwrite", some)
    with pytest.raises(StopError, match="No space left"):
        append(three.parent, [mask("d4" * 16)])
    assert three.read_bytes() == whole


def test_a_folder_that_is_none(tmp_path):
    with pytest.raises(ConfigError, match="is no folder"):
        append(tmp_path / "nothing", [mask()])


def _write(folder, number, count):
    for i in range(count):
        append(folder, [mask(f"{number:016x}{i:016x}"), mask(f"{number:016x}f{i:015x}")])


def test_writers_at_once_lose_nothing(tmp_path):
    context = multiprocessing.get_context("fork")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        writers = [context.Process(target=_write, args=(tmp_path, n, 15)) for n in range(1, 4)]
        for one in writers:
            one.start()
        for one in writers:
            one.join(60)
    assert [w.exitcode for w in writers] == [0, 0, 0]
    found = load(tmp_path)
    assert found.version == 90
    keys = [d.key for d in found.lines]
    for n in (1, 2, 3):
        mine = [k for k in keys if k.startswith(f"{n:016x}0")]
        assert mine == sorted(mine)
        assert all(keys[keys.index(k) + 1] == k[:16] + "f" + k[17:] for k in mine)  # of one call, together


def test_kills_leave_a_file_that_goes_on(tmp_path):
    """A writer is killed at any moment: what it was told is written is there, and the next one goes on."""
    context = multiprocessing.get_context("fork")
    told = context.Value("q", 0)

    def endless():
        for i in range(1_000_000):
            append(tmp_path, [mask(f"{os.getpid():016x}{i:016x}")])
            told.value += 1

    for pause in (0.02, 0.05, 0.01, 0.03, 0.07, 0.015):
        writer = context.Process(target=endless)
        writer.start()
        writer.join(pause)
        writer.kill()
        writer.join()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = load(tmp_path).version
    assert told.value <= before <= told.value + 6
    append(tmp_path, [mask("ff" * 16)])
    assert load(tmp_path).version == before + 1


def test_many_lines_at_once_and_again(tmp_path):
    """Linear: 4,000 lines in seconds, and the same 4,000 again."""
    lines = [mask(f"{i:032x}") for i in range(4000)]
    assert len(append(tmp_path, lines)) == 4000
    assert append(tmp_path, lines) == list(load(tmp_path).lines)


def test_a_folder_in_the_files_place(tmp_path):
    (tmp_path / DECISIONS).mkdir()
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path)


def test_on_an_object_store(s3):
    from cleanpipe.options import StorageOptions

    where, options = "s3://crawls/tokens", StorageOptions(endpoint=s3.url)
    assert load(where, options).version == 0
    append(where, [mask()], options)
    append(where, [mask(), mask(OTHER)], options)
    assert [d.key for d in load(where, options).lines] == [DOC, OTHER]


class _Store:
    root = "there"

    def __init__(self, path, **built):
        self.root, self.info = str(path), {"decisions": built}


def test_a_store_knows_what_it_was_built_with(three):
    """By its store.json too, where it is not open: for a build, and for who appends."""
    digest = load(three.parent).upto(2).digest
    info = three.parent / "store.json"
    for right in ({"lines": 2, "sha256": digest}, {"lines": 0, "sha256": ""}):
        assert load(_Store(three.parent, **right)).version == 3
        info.write_text(json.dumps({"decisions": right}))
        assert load(three.parent).version == 3
    for wrong in ({"lines": 4, "sha256": digest}, {"lines": 1, "sha256": digest}):
        info.write_text(json.dumps({"decisions": wrong}))
        for use in (lambda w=wrong: load(_Store(three.parent, **w)), lambda: load(three.parent)):
            with pytest.raises(DamagedFileError, match="does not begin with"):
                use()
    info.write_text(json.dumps({"decisions": {"lines": 2, "sha256": digest}}))
    three.unlink()
    for use in (lambda: load(three.parent), lambda: append(three.parent, [mask()])):
        with pytest.raises(DamagedFileError, match="does not begin with"):
            use()
    for broken in ("[", "[1]", "{}", '{"decisions": 7}'):
        info.write_text(broken)
        assert load(three.parent).version == 0


TEXTS = st.text(max_size=20)


@given(st.lists(st.tuples(TEXTS, TEXTS, st.integers(0, 1 << 40), st.floats(0, 1)), max_size=6))
def test_any_text_comes_back(given_):
    lines, out = [], b""
    found = parse(b"")
    for reason, url, since, weight in given_:
        one = Decision("weight", "url", f"u{url}", weight=weight, from_sequence=since, reason=reason).checked()
        book = Book(found)
        line = book.add(one, "2026-11-30T00:00:00Z")
        if line.number == len(lines) + 1:
            lines.append(line)
            out += line.line()
        found = parse(out)
        assert found == book.decisions()
    assert list(found.lines) == lines
    assert not found.torn
