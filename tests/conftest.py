"""Small archives made by us, and where the larger real samples lie."""

import gzip
import os
import signal
import sys
import uuid
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "support"))  # servers for tests: ``from s3_server import S3Server``

SAMPLES = Path(os.environ.get("CLEANPIPE_SAMPLES") or Path(__file__).parents[2] / "shared" / "samples")

SENTENCES = """The harbour pilot boards each ship outside the bar and knows the depth of every channel by heart.
Bookbinders press the folded sheets for a night before they are sewn, so that the spine stays flat.
Rain gauges on the ridge are read by hand, since the wind shakes the automatic ones to pieces.
The choir rehearses on Tuesdays in the old customs house, whose ceiling gives a long clear echo.
Salt is raked from the shallow pans by hand, and the finest crystals are lifted off at noon.
Engineers inspected the third bridge in spring and found that two of its bearings had seized.
Glass blowers keep a bucket of water at their feet, not for fire but to cool the iron pipe.
The town library lends tools as well as novels, and the drill is out more often than any book.
Each spring the volunteers sharpen the shears, oil the saws, and count the screws in every tray.
Letters from the archive were photographed page by page under soft light and described in a catalogue.
The night ferry leaves at twenty past nine and reaches the islands shortly before sunrise.
Beekeepers in the valley move their hives in early June, when the lime trees come into flower.""".splitlines()


def prose(seed, sentences=12):
    """English text of ordinary sentences; another order, and a number of its own, for every seed."""
    n = len(SENTENCES)
    chosen = [SENTENCES[(seed * 5 + i * (seed % 7 + 1)) % n] for i in range(sentences)]
    return [f"{s} This is note {seed * 100 + i} of the series." for i, s in enumerate(chosen)]


def page(paragraphs, title="A page"):
    body = "".join(f"<p>{p}</p>\n" for p in paragraphs)
    head = f"<!DOCTYPE html><html lang=en><head><meta charset=utf-8><title>{title}</title></head>"
    return f"{head}<body><main><article><h1>{title}</h1>\n{body}</article></main></body></html>"


def record(kind, url, content_type, block, extra=""):
    identity = uuid.uuid5(uuid.NAMESPACE_URL, f"{kind} {url} {len(block)}")
    head = (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <urn:uuid:{identity}>\r\nWARC-Date: 2024-05-17T08:00:00Z\r\n"
    )
    head += f"WARC-Target-URI: {url}\r\n" if url else ""
    head += f"Content-Type: {content_type}\r\nContent-Length: {len(block)}\r\n{extra}\r\n"
    return head.encode() + block + b"\r\n\r\n"


def response(url, html, status="200 OK", content_type="text/html; charset=utf-8", extra=""):
    body = html.encode() if isinstance(html, str) else html
    block = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\n{extra}\r\n".encode() + body
    return record("response", url, "application/http; msgtype=response", block)


def conversion(url, text):
    return record("conversion", url, "text/plain", text.encode())


def warcinfo():
    return record("warcinfo", "", "application/warc-fields", b"software: made for a test\r\n")


def write_gz(path, records):
    path.write_bytes(b"".join(gzip.compress(r, 6, mtime=0) for r in records))
    return path


@pytest.fixture
def make():
    """The functions above, for tests: ``make.write_gz(path, [make.response(url, make.page(make.prose(1)))])``."""

    class Make:
        pass

    for function in (prose, page, record, response, conversion, warcinfo, write_gz):
        setattr(Make, function.__name__, staticmethod(function))
    return Make


@pytest.fixture
def crawl(tmp_path):
    """Three small archives: pages of every fate, a near and an exact duplicate across files, a WET file, a cut tail."""
    folder = tmp_path / "crawl"
    folder.mkdir()
    first = [warcinfo()] + [response(f"http://a.example.org/{i}", page(prose(i))) for i in range(6)]
    first += [
        response("http://a.example.org/gone", page(prose(50)), status="404 Not Found"),
        response("http://a.example.org/pdf", b"%PDF-1.7 \x00\x01", content_type="application/pdf"),
        response(
            "http://a.example.org/de",
            page(["Der Hafenlotse kennt die Tiefe jeder Fahrrinne auswendig und geht vor der Barre an Bord."] * 9),
        ),
        response("http://a.example.org/empty", ""),
    ]
    write_gz(folder / "one.warc.gz", first)
    near = [*prose(2, 40)[:39], "The last sentence is another one here."]
    second = [
        warcinfo(),
        response("http://b.example.org/same", page(prose(1))),
        response("http://b.example.org/base", page(prose(2, 40))),
    ]
    second += [
        response("http://b.example.org/near", page(near)),
        response("http://b.example.org/cut", page(prose(9, 200))),
    ]
    write_gz(folder / "two.warc.gz", second)
    data = (folder / "two.warc.gz").read_bytes()
    (folder / "two.warc.gz").write_bytes(data[:-60])  # the last record is cut
    long = "\n\n".join(prose(77, 60))
    write_gz(
        folder / "three.warc.wet.gz", [warcinfo(), conversion("http://c.example.org/wet", "if a < b then\n" + long)]
    )
    return folder


@pytest.fixture
def samples():
    """The folder of larger real samples; the test is skipped where it is absent."""
    if not SAMPLES.is_dir():
        pytest.skip(f"the larger samples are not at {SAMPLES}: set CLEANPIPE_SAMPLES")
    return SAMPLES


@pytest.fixture(scope="session")
def s3_server():
    pytest.importorskip("moto", reason="an S3 for tests is moto's: pip install 'moto[s3,server]'")
    from s3_server import S3Server

    with S3Server() as server:
        yield server


@pytest.fixture
def s3(s3_server, monkeypatch):
    """An S3 on loopback with faults to order (tests/support/s3_server.py) and a bucket ``crawls``; waits are short."""
    from s3_server import KEYS

    from cleanpipe.io import remote

    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr(remote, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(remote, "LONGEST_WAIT", 0.1)
    s3_server.reset()
    s3_server.bucket("crawls")
    s3_server.forget()
    return s3_server


def pytest_sessionstart(session):
    """A shell starts what it puts behind (`&`) deaf to Ctrl-C, and the programs under test would be so too."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Where CLEANPIPE_MUST is set, what a test needs is known to be there: then a skip hides something."""
    report = (yield).get_result()
    if report.skipped and os.environ.get("CLEANPIPE_MUST") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
