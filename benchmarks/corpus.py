"""A benchmark corpus from nothing but the sample archives that come with the package.

Each edition repeats every HTML page; in the English ones each longer run of text gives way to one drawn, with a fixed
seed, from all English pages: natural paragraphs, other documents. Deterministic, byte for byte.
"""

from __future__ import annotations

import io
import random
import re
from pathlib import Path

from warcio.archiveiterator import ArchiveIterator
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

RUN = re.compile(rb">([^<>]{40,})<")
ENGLISH = ("iah-blackbook-2008.arc.gz", "wget-creativecommons-ai2-commoncrawl.warc.gz")
LARGEST_PAGE = 200_000  # three pages of the crawl are long lists and would be most of the bytes


def sample_pages(folder: Path) -> list[tuple[bool, str, bytes]]:
    """(in English?, Content-Type, body) of every HTML response with status 200 under ``folder``."""
    pages = []
    for file in sorted(p for p in folder.iterdir() if ".warc" in p.name or ".arc" in p.name):
        with file.open("rb") as stream:
            for record in ArchiveIterator(stream):
                head = record.http_headers
                if record.rec_type != "response" or head is None or head.get_statuscode() != "200":
                    continue
                kind, body = head.get_header("Content-Type") or "", record.content_stream().read()
                if "html" in kind and 500 < len(body) < LARGEST_PAGE:
                    pages.append((file.name in ENGLISH, kind, body))
    return pages


def build(folder: Path, target: Path, megabytes: float) -> Path:
    """Write editions of the pages under ``folder`` to ``target`` until they hold that many bytes of HTML."""
    pages = sample_pages(folder)
    runs = sorted({run for english, _, body in pages if english for run in RUN.findall(body)})
    chance, written, number = random.Random(7), 0, 0
    partial = target.with_suffix(".part")
    with partial.open("wb") as stream:
        writer = WARCWriter(stream, gzip=True)
        while written < megabytes * 1e6:
            for english, kind, page in pages:
                number += 1
                body = (
                    RUN.sub(lambda _: b">" + chance.choice(runs) + b"<", page)
                    if english
                    else page + b"<!-- %d -->" % number
                )
                record = writer.create_warc_record(
                    f"https://pages.example/{number}",
                    "response",
                    payload=io.BytesIO(body),
                    length=len(body),
                    http_headers=StatusAndHeaders("200 OK", [("Content-Type", kind)], protocol="HTTP/1.1"),
                    warc_headers_dict={
                        "WARC-Date": "2024-01-01T00:00:00Z",
                        "WARC-Record-ID": f"<urn:uuid:00000000-0000-4000-8000-{number:012}>",
                    },
                )
                writer.write_record(record)
                written += len(body)
    partial.rename(target)
    return target
