"""Runs and token stores for tests: small, of several shards, with texts that tokenizers find hard."""

import gzip
import hashlib
import shutil
import uuid
from pathlib import Path

from cleanpipe.run import run
from cleanpipe.tokens.making.run import tokenize

SHARD = 20_000  # bytes of a shard: a handful of shards of a few documents
APART = ("run.json", "manifest.json")  # what may differ from one job to the next
BARE = [f"{stage}.enabled=false" for stage in ("language_preview", "language_id", "quality_score", "http_filter")]
TEXTS = {
    "plain": "The harbour pilot boards each ship outside the bar and knows the depth of every channel. " * 60,
    "short": "Salt is raked from the shallow pans by hand.",
    "controls": "A page about <|endoftext|>, <s> and </s>: [INST] is a word here, and <|im_end|> too.\n" * 40,
    "forged": "A page that ends <|eos|> and begins <|bos|> within itself, <|reserved_0|> and all. " * 9,
    "japanese": "港の水先人は船に乗り込み、水路の深さをすべて覚えている。塩は浅い塩田で手で集められる。" * 70,
    "thai": "นักบินท่าเรือรู้จักความลึกของทุกช่องทางและขึ้นเรือแต่ละลำนอกสันดอน " * 50,
    "emoji": "🙂🇩🇪👩‍👩‍👧 the crew \u200d sings 🎶 until dawn. " * 90,
    "code": "def f(x):\n\treturn [x ** 2 for x in range(10)]\n\n" * 70,
    "digits": " ".join(str(n * n) for n in range(700)),
    "marks": "a\u0301e\u0300o\u0308 " * 500,
    "run": "a" * 3000 + " end",
    "russian": "Лоцман знает глубину каждого фарватера и поднимается на борт каждого судна за баром. " * 40,
    "blank": "\u2028 between \u2028 lines and\u3000wide blanks \u00a0 here " * 60,
}


def small_crawl(folder, texts=None):
    """WET archives, one document a text."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    items = list((TEXTS if texts is None else texts).items())
    for at in range(0, max(1, len(items)), 5):
        records = [_record("warcinfo", "", b"software: made for a test\r\n")]
        records += [
            _record("conversion", f"http://{name}.example.org/", text.encode()) for name, text in items[at : at + 5]
        ]
        data = b"".join(gzip.compress(r, 6, mtime=0) for r in records)
        (folder / f"part-{at // 5}.warc.wet.gz").write_bytes(data)
    return folder


def _record(kind, url, block):
    identity = uuid.uuid5(uuid.NAMESPACE_URL, f"{kind} {url} {len(block)}")
    head = (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <urn:uuid:{identity}>\r\nWARC-Date: 2024-05-17T08:00:00Z\r\n"
    )
    head += f"WARC-Target-URI: {url}\r\n" if url else ""
    head += f"Content-Type: text/plain\r\nContent-Length: {len(block)}\r\n\r\n"
    return head.encode() + block + b"\r\n\r\n"


def made_run(crawl, out, *, shard=SHARD, sets=(), **more):
    """A run over these, in several shards, by the serial engine."""
    return run("web", [str(crawl)], out, engine="serial", sets=[*BARE, f"shards.max_bytes={shard}", *sets], **more)


def tokens(out, target, **options):
    """A job by the serial engine and the reference backend."""
    marks = {} if "tokenizer" in options else {"bos": "<|bos|>", "eos": "<|eos|>"}
    return tokenize(out, target, **{"engine": "serial", "backend": "hf", **marks, **options})


def tree(folder, *, without=APART):
    """Every file's digest by its name, what may differ left out."""
    folder = Path(folder)
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    found = {p.relative_to(folder).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}
    return {n: d for n, d in found.items() if n not in without and not n.startswith("work/")}


def copy(folder, to):
    """A folder again, somewhere else."""
    shutil.copytree(folder, to)
    return Path(to)
