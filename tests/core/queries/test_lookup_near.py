"""What is offered for a key that names nothing: a typo in the host, the path or an id, a word; and why."""

import gzip
import json
import shutil
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleanpipe.queries import lookup, near
from cleanpipe.queries.lookup import Finder, UnknownKeyError
from cleanpipe.queries.near import is_one_off, one_off, word_of
from cleanpipe.queries.shelf import open_shelf
from cleanpipe.run import run

URLS = [
    "http://www.archive.org/",
    "http://www.archive.org/about/terms.php",
    "https://help-es.office.example/draw/gradient.html",
    "http://other.example/draw/gradient.html",
    "http://b\u00fccher.example/liste",
]


def record(url):
    body = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>A page."
    head = f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: {url}\r\nContent-Type: application/http\r\n"
    name = f"WARC-Record-ID: <urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, url)}>\r\n"
    return f"{head}{name}Content-Length: {len(body)}\r\n\r\n".encode() + body + b"\r\n\r\n"


@pytest.fixture(scope="module", params=["indexed", "bare"])
def made(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("near")
    archive = folder / "CRAWL-2020-harvest.warc.gz"
    archive.write_bytes(b"".join(gzip.compress(record(url)) for url in URLS))
    run("web", [str(archive)], folder / "out", engine="serial")
    if request.param == "bare":
        shutil.rmtree(folder / "out/index")
        manifest = json.loads((folder / "out/manifest.json").read_text())
        manifest["files"] = {n: f for n, f in manifest["files"].items() if not n.startswith("index/")}
        (folder / "out/manifest.json").write_text(json.dumps(manifest))
    return folder / "out"


def asked(out, key):
    with open_shelf(out) as shelf, pytest.raises(UnknownKeyError) as caught:
        Finder(shelf).find(key)
    return caught.value


HOST = "its host is one letter off, the path the same"
TYPOS = [
    # typed; the first that is offered; why
    ("http://www.archive.or/", 0, HOST),  # one missing
    ("http://www.archive.orgg/", 0, HOST),  # one too many
    ("http://www.arcbive.org/", 0, HOST),  # another
    ("http://www.acrhive.org/", 0, HOST),  # in the wrong order
    ("ww.archive.org", 0, None),
    ("https://archve.org/about/terms.php", 1, HOST),
    ("https://archve.org/about/other.php", 1, "its host is one letter off"),
    ("https://help-es.ofice.example/draw/gradient.html", 2, HOST),
    ("http://b\u00fcchr.example/liste", 4, None),  # more than a letter of its name in the DNS
    ("http://nothing.alike.example/about/terms.php", 1, "of the same path, on another host"),
    ("http://www.archive.org/about/term.php", 1, "of the same host, one letter off"),
    ("http://www.archive.org/abuot/terms.php", 1, "of the same host, one letter off"),
    ("http://www.archive.org/about", 1, "of the same host"),
    ("https://www.archive.org/", 0, "the same page, of the other scheme"),
    ("http://archive.org/#top", 0, "the same page, spelled so"),
    ("archive", 0, "its URL has 'archive' in it"),
    ("GRADIENT", 3, "its URL has 'GRADIENT' in it"),
    ("http://office.exampl/x", 2, "its URL has 'office' in it"),
]


@pytest.mark.parametrize(("key", "first", "why"), TYPOS, ids=[t[0] for t in TYPOS])
def test_a_typo_is_answered_with_what_was_meant(made, key, first, why):
    nearest = asked(made, key).nearest
    urls = [n.url for n in nearest]
    if key == "GRADIENT":
        assert set(urls) == {URLS[2], URLS[3]}
        first = URLS.index(urls[0])
    if key == "archive":
        assert set(urls) == {URLS[0], URLS[1]}
    assert urls[0] == URLS[first]
    if why is not None:
        assert nearest[0].why == why
    with open_shelf(made) as shelf:
        for one in nearest:  # each is a key that is found
            assert one.doc_id in [r["doc_id"].hex() for r in Finder(shelf).find(one.key).rows]


def test_a_word_of_an_input_names_its_first_record(made):
    for word, why in (("harvest", "first record of an input whose name has this word in it"),
                      ("CRAWL-2020-harvst", "first record of an input whose name is like it")):  # fmt: skip
        (first, *_) = asked(made, word).nearest
        assert first.why == why
        assert first.key.startswith("CRAWL-2020-harvest.warc.gz@")


def test_what_has_no_form_of_a_key_is_told_the_forms(made):
    for key in ("nonsense", "two words", "\u4e2d\u6587"):
        error = asked(made, key)
        assert error.nearest == []
        for form in ("URL", "record id", "doc_id", "SOURCE@OFFSET"):
            assert form in str(error)
    assert "a KEY is" not in str(asked(made, "http://nowhere.example/"))


def test_a_digit_of_an_id_that_is_wrong(made):
    with open_shelf(made) as shelf:
        finder = Finder(shelf)
        row = finder.find(URLS[0]).rows[0]
    for value in (row["doc_id"].hex(), row["record_id"].strip("<>").removeprefix("urn:uuid:")):
        for at in (0, 2, 7, 12, len(value) - 1):
            wrong = value[:at] + ("0" if value[at] not in "0-" else "1") + value[at + 1 :]
            if value[at] == "-":
                continue
            first = asked(made, wrong).nearest[0]
            assert (first.doc_id, first.why) == (row["doc_id"].hex(), "one digit off"), (wrong, at)


def test_a_word_is_looked_for_in_so_many_parts(tmp_path, monkeypatch):
    run("sample", [], tmp_path / "out", engine="serial")
    assert "was looked for" not in str(asked(tmp_path / "out", "nonsense"))
    for module in (near, lookup):
        monkeypatch.setattr(module, "PARTS", 2)
    assert "('nonsense' was looked for in the URLs of 2 of its 7 parts)" in str(asked(tmp_path / "out", "nonsense"))


@given(a=st.text("abc", max_size=5), b=st.text("abc", max_size=5))
def test_one_off_both_ways(a, b):
    assert is_one_off(a, b) == (b in one_off(a, "abc") or (b == "" and len(a) == 1))
    assert is_one_off(a, b) == is_one_off(b, a)


@pytest.mark.parametrize(
    ("key", "word"),
    [("http://www.archive.org/x", "archive"), ("plain", "plain"), ("ab", ""), ("...", ""), ("x" * 101, "")],
)
def test_the_word_of_a_key(key, word):
    assert word_of(key) == word
