"""``cleanpipe fetch-list``: from a crawl's list to URLs, over a web server that fails to order."""

import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleanpipe.errors import ConfigError
from cleanpipe.io.inputs import resolve_inputs
from cleanpipe_jobs.cli import main
from cleanpipe_jobs.fetch_list import parsed, sample

SEGMENT = "crawl-data/CC-MAIN-2026-46/segments/1.2"
PATHS = [f"{SEGMENT}/warc/CC-MAIN-20261109-{i:05}.warc.gz" for i in range(40)]
BASE = "https://data.commoncrawl.org/"


def packed(paths):
    return gzip.compress("".join(f"{p}\n" for p in paths).encode(), mtime=0)


@pytest.fixture
def server():
    """A web server: ``files`` {path: a status, bytes, or a list of such, the last one for ever}; ``asked``: paths."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.server.asked.append(self.path)
            answer = self.server.files.get(self.path, 404)
            if isinstance(answer, list):
                answer = answer.pop(0) if len(answer) > 1 else answer[0]
            status, body = (answer, b"<html>no</html>") if isinstance(answer, int) else (200, answer)
            begin = self.headers.get("Range")
            if status == 200 and begin:
                first, _, last = begin.removeprefix("bytes=").partition("-")
                part = body[int(first) : int(last) + 1 if last else None]
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {first}-{int(first) + len(part) - 1}/{len(body)}")
                body = part
            else:
                self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.files, httpd.asked = {}, []
    httpd.url = f"http://127.0.0.1:{httpd.server_port}/"
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield httpd
    httpd.shutdown()
    thread.join()
    httpd.server_close()


@pytest.fixture
def paths(tmp_path):
    path = tmp_path / "warc.paths.gz"
    path.write_bytes(packed(PATHS))
    return str(path)


def ask(capsys, *args):
    """Status, the lines on standard output, standard error."""
    status = main(["fetch-list", *args])
    out, err = capsys.readouterr()
    return status, out.splitlines(), err


def test_a_local_list(paths, capsys):
    assert ask(capsys, paths) == (0, [BASE + p for p in PATHS], "")
    assert ask(capsys, paths, "--first", "2", "--base", "s3://commoncrawl") == (
        0,
        ["s3://commoncrawl/" + p for p in PATHS[:2]],
        "",
    )


def test_a_crawl_by_its_name(server, capsys):
    server.files["/crawl-data/CC-MAIN-2026-46/wet.paths.gz"] = packed(["a/x.warc.wet.gz"])
    server.files["/crawl-data/CC-NEWS/2026/11/warc.paths.gz"] = packed(["b/y.warc.gz"])
    assert ask(capsys, "CC-MAIN-2026-46", "--kind", "wet", "--base", server.url)[1] == [server.url + "a/x.warc.wet.gz"]
    assert ask(capsys, "CC-NEWS-2026-11", "--base", server.url)[1] == [server.url + "b/y.warc.gz"]


def test_a_list_by_its_url_and_a_server_that_is_busy(server, capsys):
    server.files["/warc.paths.gz"] = [503, 503, packed(PATHS)]
    assert ask(capsys, server.url + "warc.paths.gz", "--first", "1") == (0, [BASE + PATHS[0]], "")
    assert len(server.asked) >= 3


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [
        (404, 2, "is not there (404"),
        (403, 2, "cannot be read: 403"),
        (503, 3, "503"),
        (b"<!DOCTYPE html><html><title>Error</title>", 2, "it begins '<!DOCTYPE html>"),
    ],
)
def test_a_server_that_says_no(server, capsys, answer, status, said):
    server.files["/warc.paths.gz"] = answer
    got, out, err = ask(capsys, server.url + "warc.paths.gz", "--set", "storage.attempts=2")
    assert (got, out) == (status, [])
    assert said in err
    assert err.count("\n") == 1


def test_a_server_that_is_not_there(capsys, server):
    server.shutdown()
    server.server_close()
    status, _, err = ask(capsys, server.url + "warc.paths.gz", "--set", "storage.attempts=1")
    assert status == 3
    assert err.count("\n") == 1


def test_a_list_on_an_object_store(s3, capsys):
    s3.fill("crawls", ["warc.paths.gz"], packed(PATHS))
    s3.fail("GET", "warc.paths.gz", "503", times=2)
    where = ["--set", f"storage.endpoint={s3.url}"]
    assert ask(capsys, "s3://crawls/warc.paths.gz", "--first", "1", *where) == (0, [BASE + PATHS[0]], "")
    status, _, err = ask(capsys, "s3://crawls/other.paths.gz", *where)
    assert (status, "is not there" in err, err.count("\n")) == (2, True, 1)


def test_no_credentials_in_what_is_said(server, capsys):
    url = server.url.replace("://", "://user:word@") + "x.paths.gz?X-Amz-Signature=abcdef"
    _, _, err = ask(capsys, url)
    assert "is not there" in err
    assert "word" not in err
    assert "abcdef" not in err


GOOD = b"a/b.warc.gz\n"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty"),
        (gzip.compress(b"", mtime=0), "is empty"),
        (b"\n \n# nothing\n", "is empty"),
        (gzip.compress(GOOD, mtime=0)[:-3], "is damaged"),
        (gzip.compress(GOOD, mtime=0)[:12] + b"\xff" * 9, "is damaged"),
        (gzip.compress(GOOD, mtime=0) + b"junk", "is damaged"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "neither text nor gzip"),
        (b"  <html><body>Access Denied", "is no list of paths"),
        (b'{"message": "Forbidden"}', "is no list of paths"),
        (b"<?xml version='1.0'?><Error>", "is no list of paths"),
        (
            GOOD + b"https://data.commoncrawl.org/a.warc.gz\n",
            "line 2: 'https://data.commoncrawl.org/a.warc.gz' is a URL",
        ),
        (GOOD + b"s3://commoncrawl/a.warc.gz\n", "is a URL already"),
        (GOOD + b"../../etc/x.warc.gz\n", "leads out"),
        (b"a/../../x.warc.gz\n", "leads out"),
        (b"a//x.warc.gz\n", "leads out"),
        (b"./x.warc.gz\n", "leads out"),
        (b"/etc/x.warc.gz\n", "is no path below"),
        (b"C:\\x.warc.gz\n", "is no path below"),
        (b"a b.warc.gz\n", "characters"),
        (b"a%0a?x.warc.gz\n", "characters"),
        (b"a/*.warc.gz\n", "characters"),
        (b"a/\x00b.warc.gz\n", "characters"),
        ("a/\u202eb.warc.gz\n".encode(), "characters"),
        (GOOD + b"cc-index/part-0.parquet\n", "line 2: 'cc-index/part-0.parquet' is no archive"),
        (b"just some text\n", "characters"),
        (b"word\n", "is no archive"),
        (b"x" * 1000 + b"\n", "is no archive"),
    ],
)
def test_what_is_no_list(tmp_path, capsys, data, said):
    path = tmp_path / "list.paths.gz"
    path.write_bytes(data)
    status, out, err = ask(capsys, str(path))
    assert (status, out) == (2, [])
    assert said in err
    assert err.count("\n") == 1
    assert len(err) < 400


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (b"\xef\xbb\xbfa.warc.gz\r\n\r\n  b.warc.gz  \n", ["a.warc.gz", "b.warc.gz"]),  # a list that Windows had
        (b"a.warc.gz", ["a.warc.gz"]),  # no line end, not packed: a proxy did it
        (b"b.warc.gz\na.warc.gz\nb.warc.gz\n", ["b.warc.gz", "a.warc.gz"]),
        (b"# comment\na.wat.gz\nB.WARC\nc.arc.gz\n", ["a.wat.gz", "B.WARC", "c.arc.gz"]),
    ],
)
def test_what_is_a_list(data, wanted):
    assert parsed(data, "x") == wanted
    assert parsed(gzip.compress(data), "x") == wanted


def test_a_bomb_is_no_list(monkeypatch):
    monkeypatch.setattr("cleanpipe_jobs.fetch_list.LARGEST", 1 << 20)
    with pytest.raises(ConfigError, match="inflates to more than 1 MiB"):
        parsed(gzip.compress(b"\n" * (2 << 20)), "x")


@given(order=st.permutations(PATHS[:12]), seed=st.integers(), n=st.integers(1, 12), more=st.integers(0, 12))
def test_a_sample_is_stable_sorted_and_grows(order, seed, n, more):
    chosen = sample(order, n, seed)
    assert chosen == sample(PATHS[:12], n, seed)
    assert chosen == sorted(set(chosen))
    assert len(chosen) == n
    assert set(chosen) <= set(sample(order, n + more, seed))


def test_samples_of_two_seeds_differ_and_one_is_pinned(paths, capsys):
    one = ask(capsys, paths, "--sample", "3", "--seed", "1")[1]
    assert one != ask(capsys, paths, "--sample", "3", "--seed", "2")[1]
    assert [u.rpartition("-")[2] for u in one] == PINNED


PINNED = ["00009.warc.gz", "00029.warc.gz", "00034.warc.gz"]  # sha256 of "1", NUL, path: the three smallest


def test_more_than_there_is(paths, capsys):
    status, out, err = ask(capsys, paths, "--sample", "100")
    assert (status, len(out)) == (0, 40)
    assert "names 40 files, not 100" in err


@pytest.mark.parametrize("name", ["crawl.txt", "crawl.paths", "crawl.paths.gz"])
def test_a_file_that_run_takes(crawl, tmp_path, capsys, name):
    listed = tmp_path / "list.paths"
    listed.write_text("crawl/one.warc.gz\ncrawl/three.warc.wet.gz\n")
    out = tmp_path / name
    status, said, _ = ask(capsys, str(listed), "--base", str(tmp_path), "--out", str(out))
    assert status == 0
    assert said == [f"{out}: 2 files of {listed}"]
    found = resolve_inputs([str(out)], source_root=None)
    assert [i.source for i in found] == ["one.warc.gz", "three.warc.wet.gz"]
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["crawl", "list.paths", name])


def test_json(paths, tmp_path, capsys):
    out = tmp_path / "x.txt"
    _, lines, _ = ask(capsys, paths, "--first", "2", "--json")
    assert json.loads("\n".join(lines)) == {
        "list": paths, "files": 40, "chosen": 2, "urls": [BASE + p for p in PATHS[:2]]
    }  # fmt: skip
    _, lines, _ = ask(capsys, paths, "--out", str(out), "--json")
    assert json.loads("\n".join(lines)) == {"list": paths, "files": 40, "chosen": 40, "out": str(out)}


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["nothing.paths.gz"], "does not exist"),
        (["CC-MAIN-26"], "is no name of a crawl"),
        (["cc-main-2026-46"], "is no name of a crawl"),
        (["CC-NEWS-2026-11", "--kind", "wet"], "has WARC files alone"),
        (["PATHS", "--out", "x.csv"], "end it in .txt or .paths"),
        (["PATHS", "--out", "no/x.txt"], "cannot be written: No such file"),
        (["PATHS", "--base", "commoncrawl"], "--base 'commoncrawl': a URL"),
        (["PATHS", "--base", ""], "a URL"),
        (["PATHS", "--base", "https://u:p@host/"], "credentials belong into the environment"),
        (["PATHS", "--base", "https://host/?x="], "has a query"),
        (["PATHS", "--set", "language_id.threshold=0.5"], "only storage.… options"),
        (["PATHS", "--set", "storage.endpont=x"], "did you mean 'endpoint'"),
        (["nosuch://x/y.paths"], "cannot be read"),
    ],
)
def test_what_is_asked_wrongly_is_one_line(paths, capsys, args, said):
    status, out, err = ask(capsys, *[paths if a == "PATHS" else a for a in args])
    assert (status, out) == (2, [])
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("args", [["--first", "0"], ["--sample", "x"], ["--first", "1", "--sample", "1"]])
def test_numbers_that_cannot_be(paths, capsys, args):
    with pytest.raises(SystemExit) as end:
        main(["fetch-list", paths, *args])
    assert end.value.code == 2


def test_a_folder_is_no_list(tmp_path, capsys):
    status, _, err = ask(capsys, str(tmp_path))
    assert status == 2
    assert "Is a directory" in err
