"""Runs and token stores for traces: many languages and awkward characters, in WET records, long and short ones."""

import gzip
import uuid
from pathlib import Path

from made_tokenizers import languages

from cleanpipe.run import run
from cleanpipe.tokens.making.run import tokenize

AWKWARD = [
    "👩‍👩‍👧‍👦 family 🏳️‍🌈 flag 🇩🇪🇫🇷 é decomposed e\u0301 ﬁ ligature 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 ",
    "ไทยไม่มีช่องว่าง日本語もない한국어는있다 ",
    "नमस्ते क्षत्रिय ক্ষমা  العَرَبِيَّة עִבְרִית ",
    "𐍈 Gothic 𒀀 cuneiform 🀄 tile \U0010fffd private  ",
    "<|endoftext|> <s> </s> [CLS] <pad> are words here ",
    "tabs\tand   blanks    and\n\n\n\nlines \u2028 separator \u00a0 no-break ",
]
ALL_LANGUAGES = [f"{stage}.enabled=false" for stage in ("language_preview", "language_id", "quality_score")]


def record(kind, url, content_type, block):
    identity = uuid.uuid5(uuid.NAMESPACE_URL, f"{kind} {url} {len(block)}")
    head = f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <urn:uuid:{identity}>\r\n"
    head += f"WARC-Date: 2026-05-17T08:00:00Z\r\nWARC-Target-URI: {url}\r\nContent-Type: {content_type}\r\n"
    return head.encode() + f"Content-Length: {len(block)}\r\n\r\n".encode() + block + b"\r\n\r\n"


def conversion(url, text):
    return record("conversion", url, "text/plain", text.encode())


def response(url, paragraphs, title):
    body = "".join(f"<p>{p}</p>\n" for p in paragraphs)
    html = f"<!DOCTYPE html><html><head><meta charset=utf-8><title>{title}</title></head><body>{body}</body></html>"
    block = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n" + html.encode()
    return record("response", url, "application/http; msgtype=response", block)


def records():
    """A page for each text of a language or two, for the awkward ones, and some that are much longer than a window."""
    texts = [text for _, text in languages()]
    out = []
    for n, text in enumerate(texts):
        out.append(conversion(f"http://lang{n % 9}.example/{n}", text))
    for n, text in enumerate(AWKWARD):
        out.append(conversion(f"http://awkward.example/short/{n}", f"{n} {text}"))
        again = "".join(
            f"{i} {AWKWARD[(n + i) % len(AWKWARD)]}{texts[(7 * n + i) % len(texts)][:200]}" for i in range(30)
        )
        out.append(conversion(f"http://sub.awkward.example/long/{n}", f"\u2003 \n {again}"))
        out.append(response(f"https://markup.example/{n}?a=1&b=2", [again[:900], again[900:3000]], f"Page {n}"))
    return out


def make_run(folder):
    """A finished run over two archives of these records."""
    folder = Path(folder)
    crawl = folder / "crawl"
    crawl.mkdir(parents=True)
    for name, some in (("one", records()[::2]), ("two", records()[1::2])):
        (crawl / f"{name}.warc.gz").write_bytes(b"".join(gzip.compress(r, 6, mtime=0) for r in some))
    out = folder / "run"
    run("web", [str(crawl)], out, engine="serial", sets=[*ALL_LANGUAGES, "shards.max_bytes=200000"])
    return out


def make_tokens(run_folder, folder, tokenizer="cleanpipe-16k", **more):
    """Its token store."""
    tokenize(run_folder, folder, tokenizer=str(tokenizer), engine="serial", **more)
    return str(folder)
