"""The crawl that drills and chaos read: made from a seed, the same bytes each time, with a fate of every kind.

Pages of generated English (kept), their near and exact duplicates in other archives, other languages, bad statuses,
types that are no text, flipped bytes, a cut tail; and the real archives of the package, which others wrote.
"""

from __future__ import annotations

import gzip
import random
import shutil
import uuid
from pathlib import Path

PACKAGED = Path(__file__).parents[2] / "cleanpipe" / "recipes" / "sample-archives"

PEOPLE = """the pilot|the harbour master|a retired teacher|the older brother|the bookbinder|our neighbour|the miller|
the young engineer|a travelling musician|the librarian|the head gardener|the ferry captain|the mayor|a visiting doctor|
the tax collector|the station clerk|the glass blower|the beekeeper|a student of law|the night watchman"""
ACTS = """carried|repaired|described|painted|measured|sold|photographed|examined|forgot|collected|borrowed|lost|found|
defended|inspected|admired|moved|cleaned|counted|catalogued"""
THINGS = """the wooden bridge|an old letter|the copper kettle|the south wall|a box of seeds|the parish register|
two heavy chairs|the map of the valley|a set of keys|the broken clock|the winter coats|the first edition|the stone well|
a small boat|the brass lamp|the garden tools|the water wheel|the church bell|an empty barrel|the iron gate"""
TIMES = """before the rain came|after the long winter|in the early morning|on the last day of March|during the war|
when the market closed|while the others slept|late in the autumn|for the third time that year|at the end of the street|
with great care|without telling anyone|because the road was blocked|as the law required|near the railway station|
between the two houses|on the way to the coast|in spite of the cold|under the old lime tree|by the light of a candle"""
REMARKS = """Nobody in the village had expected it.|It stands in the book of the parish.|The costs were shared.|
Some of the older people still speak of it.|A short notice appeared in the newspaper.|The weather did not help.|
It took almost a week to finish the work.|There is a photograph of that day in the archive."""
GERMAN = (
    "Der Hafenlotse kennt die Tiefe jeder Fahrrinne auswendig und geht weit vor der Barre an Bord der großen Schiffe."
)


def _one(rng: random.Random, phrases: str) -> str:
    return rng.choice(phrases.replace("\n", "").split("|"))


def sentence(rng: random.Random) -> str:
    """One English sentence; few are made twice."""
    text = f"{_one(rng, PEOPLE)} {_one(rng, ACTS)} {_one(rng, THINGS)} {_one(rng, TIMES)}"
    if rng.random() < 0.5:
        text += f", and {_one(rng, PEOPLE)} {_one(rng, ACTS)} {_one(rng, THINGS)} {_one(rng, TIMES)}"
    text = text[0].upper() + text[1:] + "."
    return f"{text} {_one(rng, REMARKS)}" if rng.random() < 0.2 else text


def paragraphs(rng: random.Random, count: int) -> list[str]:
    """Paragraphs of four to nine sentences."""
    return [" ".join(sentence(rng) for _ in range(rng.randint(4, 9))) for _ in range(count)]


def page(text: list[str], title: str) -> bytes:
    """An ordinary page around some paragraphs, with a menu and a footer that are no content."""
    menu = "".join(f'<li><a href="/{w}">{w}</a></li>' for w in ("home", "news", "archive", "contact"))
    body = "".join(f"<p>{p}</p>\n" for p in text)
    head = f"<!DOCTYPE html><html lang=en><head><meta charset=utf-8><title>{title}</title></head>"
    main = f"<main><article><h1>{title}</h1>\n{body}</article></main><footer>All rights reserved</footer>"
    return f"{head}<body><nav><ul>{menu}</ul></nav>{main}</body></html>".encode()


def record(kind: str, url: str, content_type: str, block: bytes) -> bytes:
    """One WARC record as one gzip member with no time in its header."""
    identity = uuid.uuid5(uuid.NAMESPACE_URL, f"{kind} {url} {len(block)}")
    head = (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <urn:uuid:{identity}>\r\nWARC-Date: 2024-05-17T08:00:00Z\r\n"
    )
    head += f"WARC-Target-URI: {url}\r\n" if url else ""
    head += f"Content-Type: {content_type}\r\nContent-Length: {len(block)}\r\n\r\n"
    return gzip.compress(head.encode() + block + b"\r\n\r\n", 6, mtime=0)


def response(url: str, body: bytes, status: str = "200 OK", kind: str = "text/html; charset=utf-8") -> bytes:
    """A response record."""
    block = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    return record("response", url, "application/http; msgtype=response", block)


def _records(rng: random.Random, archive: int, pages: int, shared: list[list[str]]) -> list[bytes]:
    """One archive's records. shared: texts of earlier archives, to be met again."""
    out = [record("warcinfo", "", "application/warc-fields", b"software: made for a test\r\n")]
    for i in range(pages):
        url, roll = f"http://site-{archive}.example.org/{i}", rng.random()
        text = paragraphs(rng, rng.randint(3, 14))
        if roll < 0.06 and shared:
            text = rng.choice(shared)  # an exact duplicate, elsewhere
        elif roll < 0.14 and shared:
            text = [*rng.choice(shared), sentence(rng)]  # a near one
        if roll < 0.80:
            out.append(response(url, page(text, text[0][:40])))
        elif roll < 0.86:
            out.append(response(url, page([GERMAN] * 9, "Der Hafen")))
        elif roll < 0.92:
            out.append(response(url, page(text, "Not found"), status="404 Not Found"))
        elif roll < 0.96:
            out.append(response(url, rng.randbytes(3000), kind="image/png"))
        else:
            out.append(record("request", url, "application/http; msgtype=request", b"GET / HTTP/1.1\r\n\r\n"))
        if roll < 0.80 and rng.random() < 0.3:
            shared.append(text)
    return out


def build(folder: Path, archives: int, pages: int, seed: int = 1) -> Path:
    """Write ``archives`` of ``pages`` records each, one of them damaged and one cut; a WET; the packaged ones."""
    folder.mkdir(parents=True)
    rng, shared = random.Random(f"drill {seed}"), list[list[str]]()
    for n in range(archives):
        records = _records(rng, n, pages, shared)
        if n == 1:  # bytes flipped within three members
            for i in (3, len(records) // 2, len(records) - 3):
                half = len(records[i]) // 2
                flipped = bytes(b ^ 0x5A for b in records[i][half : half + 6])
                records[i] = records[i][:half] + flipped + records[i][half + 6 :]
        data = b"".join(records)
        (folder / f"made-{n:03d}.warc.gz").write_bytes(data[:-400] if n == 2 else data)
    wet = [record("warcinfo", "", "application/warc-fields", b"software: made for a test\r\n")]
    for i in range(pages // 2):
        text = "\n\n".join(paragraphs(rng, rng.randint(2, 9)))
        wet.append(record("conversion", f"http://wet.example.org/{i}", "text/plain", text.encode()))
    (folder / "made.warc.wet.gz").write_bytes(b"".join(wet))
    for path in sorted(PACKAGED.glob("*.gz")):
        shutil.copyfile(path, folder / path.name)
    return folder
