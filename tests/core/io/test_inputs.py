"""What a command line's inputs become: archives named, sorted, each once; everything else one clear line."""

from __future__ import annotations

import gzip
import os
import socket
import tracemalloc
from pathlib import Path

import pytest

from cleanpipe.errors import ConfigError
from cleanpipe.io import inputs
from cleanpipe.io.inputs import Input, resolve_inputs

WARC = b"WARC/1.0\r\nWARC-Type: warcinfo\r\nContent-Length: 0\r\n\r\n\r\n\r\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("a/x.warc.gz", "a/deep/y.WARC", "b/z.warc.wet.gz", "b/w.wat.gz", "b/v.arc", "b/u.warc.zst"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(WARC) if name.endswith(".gz") else WARC)
    (tmp_path / "b" / "README.md").write_text("no archive")
    (tmp_path / "b" / ".hidden.warc").write_bytes(WARC)
    (tmp_path / "empty").mkdir()
    return tmp_path


def sources(*names: object, root: object = None) -> list[str]:
    found = resolve_inputs([str(name) for name in names], source_root=None if root is None else str(root))
    assert [item.source for item in found] == sorted(item.source for item in found)
    return [item.source for item in found]


def refused(*names: object, root: object = None) -> str:
    with pytest.raises(ConfigError) as caught:
        sources(*names, root=root)
    assert "\n" not in str(caught.value)
    return str(caught.value)


ALL = ["u.warc.zst", "v.arc", "w.wat.gz", "x.warc.gz", "y.WARC", "z.warc.wet.gz"]


def test_a_file(tree: Path) -> None:
    path = tree / "a" / "x.warc.gz"
    stat = path.stat()
    assert resolve_inputs([str(path)], source_root=None) == [
        Input("x.warc.gz", str(path), stat.st_size, str(stat.st_mtime_ns))
    ]
    assert resolve_inputs([f"file://{path}"], source_root=None) == resolve_inputs([str(path)], source_root=None)


def test_folders_globs_and_order(tree: Path) -> None:
    assert sources(tree) == ALL
    assert sources(tree / "b", tree / "a") == ALL
    assert sources(tree / "a" / "*") == ["x.warc.gz"]
    assert sources(tree / "**" / "*.g?") == ["w.wat.gz", "x.warc.gz", "z.warc.wet.gz"]
    assert sources(tree / "[ab]" / "*.warc*") == ["u.warc.zst", "x.warc.gz", "z.warc.wet.gz"]


def test_a_name_with_brackets_is_a_name_where_it_exists(tree: Path) -> None:
    for name in ("n[1].warc", "n?m=1.warc"):
        (tree / "a" / name).write_bytes(WARC)
        assert sources(tree / "a" / name) == [name]


def test_one_file_named_twice_is_one_input(tree: Path) -> None:
    assert sources(tree / "a", tree / "a" / "x.warc.gz", tree / "a" / "deep" / ".." / "x.warc.gz") == [
        "x.warc.gz",
        "y.WARC",
    ]


def test_relative_names(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    (found,) = resolve_inputs(["a/x.warc.gz"], source_root="a")
    assert (found.source, found.uri) == ("x.warc.gz", str(tree / "a" / "x.warc.gz"))


def test_source_root(tree: Path) -> None:
    assert sources(tree, root=tree)[:2] == ["a/deep/y.WARC", "a/x.warc.gz"]
    assert "does not lie below --source-root" in refused(tree / "a", root=tree / "b")


def test_two_inputs_of_one_name(tree: Path) -> None:
    (tree / "b" / "x.warc.gz").write_bytes(gzip.compress(WARC))
    message = refused(tree)
    assert str(tree / "a" / "x.warc.gz") in message
    assert str(tree / "b" / "x.warc.gz") in message
    assert "--source-root" in message
    assert len(sources(tree, root=tree)) == 7


class TestManifests:
    def test_entries_are_looked_for_beside_and_above(self, tree: Path) -> None:
        lines = f"x.warc.gz\n\n# a comment\ndeep/y.WARC\nb/z.warc.wet.gz\n{tree}/b/v.arc\nfile://{tree}/b/u.warc.zst\n"
        (tree / "a" / "list.paths").write_text(lines)
        expected = ["u.warc.zst", "v.arc", "x.warc.gz", "y.WARC", "z.warc.wet.gz"]
        assert sources(tree / "a" / "list.paths") == expected
        (tree / "a" / "list.paths.gz").write_bytes(gzip.compress(lines.replace("\n", "\r\n").encode()))
        assert sources(tree / "a" / "list.paths.gz") == expected
        (tree / "a" / "list.txt").write_text("\ufeff" + lines)
        assert sources(tree / "a" / "list.txt") == expected

    def test_the_nearer_folder_wins(self, tree: Path) -> None:
        (tree / "x.warc.gz").write_bytes(WARC)
        (tree / "a" / "list.paths").write_text("x.warc.gz\n")
        (found,) = resolve_inputs([str(tree / "a" / "list.paths")], source_root=None)
        assert found.uri == str(tree / "a" / "x.warc.gz")

    def test_common_crawl_paths_from_far_above(self, tree: Path) -> None:
        (tree / "a" / "deep" / "list.paths").write_text("b/v.arc\n")
        assert sources(tree / "a" / "deep" / "list.paths") == ["v.arc"]

    def test_the_working_folder_is_last(
        self, tree: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other = tmp_path_factory.mktemp("other")
        (other / "list.txt").write_text("a/x.warc.gz\n")
        monkeypatch.chdir(tree)
        assert sources(other / "list.txt") == ["x.warc.gz"]

    def test_globs_and_folders_in_a_manifest(self, tree: Path) -> None:
        (tree / "list.txt").write_text("a\nb/*.warc.*\n")
        assert sources(tree / "list.txt") == ["u.warc.zst", "x.warc.gz", "y.WARC", "z.warc.wet.gz"]

    def test_wrong_manifests(self, tree: Path) -> None:
        manifest = tree / "list.paths"
        manifest.write_text("x.warc.gz\nnot-there.warc.gz\n")
        message = refused(manifest)
        assert str(manifest) in message
        assert "x.warc.gz does not exist" in message
        manifest.write_text("# nothing\n")
        assert "names no input" in refused(manifest)
        manifest.write_bytes(b"\xff\xfe\x00")
        assert "no list of paths" in refused(manifest)
        gz = tree / "list.paths.gz"
        gz.write_bytes(gzip.compress(b"a/x.warc.gz")[:-4])
        assert "no list of paths" in refused(gz)

    def test_an_archive_named_txt_is_an_archive(self, tree: Path) -> None:
        (tree / "sample.txt").write_bytes(WARC)
        assert sources(tree / "sample.txt") == ["sample.txt"]

    @pytest.mark.slow
    @pytest.mark.parametrize("packed", [True, False])
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (b"\0" * (16 << 20), "a line is longer than"),
            (b"x" * 70_000, "a line is longer than"),
            (b"# much\n" * (1 << 18), "larger than 1 MiB"),
            (b"\n" * (1 << 20) + b"x", "larger than 1 MiB"),
        ],
    )
    def test_bombs(self, text: bytes, message: str, packed: bool, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(inputs, "_LIST", 1 << 20)
        path = tree / ("list.paths.gz" if packed else "list.paths")
        path.write_bytes(gzip.compress(text) if packed else text)
        tracemalloc.start()
        assert message in refused(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 2 << 20

    @pytest.mark.parametrize(
        "bad", [b"\xff\xfe", b"\x1f\x8b\x08\0\0\0\0\0\0\0\xff\xff", gzip.compress(b"\xff", mtime=0)]
    )
    def test_what_is_no_list(self, bad: bytes, tree: Path) -> None:
        (tree / "list.paths").write_bytes(bad)
        assert "no list of paths" in refused(tree / "list.paths")


@pytest.mark.parametrize("name", ["", " ", "\t", "\n", "file://"])
def test_an_empty_name(name: str, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    assert "an empty input name" in refused(name)
    assert "an empty input name" in refused(tree / "a", name)


class TestNoRegularFile:
    """None of them is opened: that would wait for a writer, or take what can be read once."""

    @pytest.fixture
    def fifo(self, tree: Path) -> Path:
        os.mkfifo(tree / "empty" / "p.warc.gz")
        return tree / "empty" / "p.warc.gz"

    def test_pipes(self, fifo: Path, tree: Path) -> None:
        (tree / "link.warc").symlink_to(fifo)
        (tree / "list.paths").write_text(f"{fifo}\n")
        os.mkfifo(tree / "pipe.paths")
        for name in (
            fifo,
            f"file://{fifo}",
            tree / "link.warc",
            tree / "empty",
            tree / "empty" / "*.gz",
            tree / "list.paths",
            tree / "pipe.paths",
        ):
            assert "a pipe can be read only once: save it to a file first" in refused(name)

    def test_devices_and_sockets(self, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tree)  # a socket's name must be short
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("s.warc")
            for name in ("/dev/null", "/dev/zero", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0", tree / "s.warc"):
                message = refused(name)
                assert "no regular file" in message or "does not exist" in message  # no stdin at all, in some harness

    def test_streams_by_number_even_of_a_file(self, tree: Path) -> None:
        with (tree / "a" / "x.warc.gz").open("rb") as file:  # in a worker process the number is another file's
            assert "no regular file" in refused(f"/dev/fd/{file.fileno()}")

    def test_links_to_nothing(self, tree: Path) -> None:
        (tree / "empty" / "x.warc").symlink_to(tree / "gone")
        assert "does not exist" in refused(tree / "empty")
        assert "does not exist" in refused(tree / "empty" / "*")
        assert "does not exist" in refused(tree / "empty" / "x.warc")


class TestNames:
    @pytest.mark.parametrize("raw", [b"\xff\xfe.warc.gz", b"caf\xe9.warc", b"d\xff/x.warc"])
    def test_not_utf8(self, raw: bytes, tree: Path) -> None:
        path = tree / "empty" / os.fsdecode(raw)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(WARC)
        for name in (path, tree / "empty", tree / "empty" / "**" / "*.w*"):
            message = refused(name)
            assert "not UTF-8" in message
            assert "\\x" in message
            message.encode()

    def test_names_that_would_break_a_line(self, tree: Path) -> None:
        for name in ("no\nway.warc", "no\rway*.warc", "no\ud800.warc", "nul\0.warc"):
            message = refused(tree / name)
            assert message.isprintable()
        (tree / "empty" / "two\nlines.warc").write_bytes(WARC)
        assert sources(tree / "empty") == ["two\nlines.warc"]


class TestLinkedFolders:
    def test_are_followed_each_once(self, tree: Path) -> None:
        (tree / "empty" / "to-a").symlink_to(tree / "a")
        (tree / "a" / "up").symlink_to(tree)
        (tree / "a" / "deep" / "self").symlink_to(tree / "a" / "deep")
        assert sources(tree / "empty") == ALL
        assert sources(tree) == ALL
        assert sources(tree / "a") == ALL

    def test_real_folders_come_first(self, tree: Path) -> None:
        (tree / "a" / "0-link").symlink_to(tree / "a" / "deep")
        assert sources(tree / "a", root=tree / "a") == ["deep/y.WARC", "x.warc.gz"]

    def test_globs_find_each_once(self, tree: Path) -> None:
        (tree / "a" / "0-link").symlink_to(tree / "a" / "deep")
        (tree / "a" / "loop").symlink_to(tree / "a")
        assert sources(tree / "**" / "*.WARC", root=tree) in (["a/deep/y.WARC"], ["a/0-link/y.WARC"])

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_a_folder_that_may_not_be_read(self, tree: Path) -> None:
        (tree / "a" / "deep").chmod(0)
        message = refused(tree)
        (tree / "a" / "deep").chmod(0o755)
        assert "Permission denied" in message


def test_what_is_refused(tree: Path) -> None:
    assert "does not exist" in refused(tree / "missing.warc.gz")
    assert "holds no archive" in refused(tree / "empty")
    assert "matches no archive" in refused(tree / "*.warc")
    assert "matches no archive (1 other names)" in refused(tree / "b" / "*.md")
    assert "unknown kind" in refused(tree / "b" / "README.md")
    assert "no input" in refused()
    (tree / "nothing").write_bytes(b"")
    assert "unknown kind" in refused(tree / "nothing")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tree: Path) -> None:
    path = tree / "a" / "x.warc.gz"
    path.chmod(0)
    assert "Permission denied" in refused(path)


def test_bytes_speak_for_a_file_of_any_name(tree: Path) -> None:
    (tree / "download").write_bytes(gzip.compress(WARC))
    assert sources(tree / "download") == ["download"]
    (tree / "zero.warc.gz").write_bytes(b"")  # an archive by its name: the reader reports it
    assert sources(tree / "zero.warc.gz") == ["zero.warc.gz"]
