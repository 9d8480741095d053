"""Makes the hostile archives that ``*.toml`` here describe: the same bytes every time, from a few lines each.

    python tests/hostile/build.py FOLDER [NAME ...]     # all archives, or those of these names (PART* will do)

A case is one archive: an ordinary page, the hostile parts in order, another ordinary page. README.md tells the words.
"""

from __future__ import annotations

import gzip
import json
import random
import sys
import tomllib
import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import brotli
import zstandard

HERE = Path(__file__).parent
PROSE = (HERE / "prose.txt").read_text(encoding="utf-8").splitlines()
Parts = Iterable[Any]


# --- the cases --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One row that the ledger must hold: where the record lies, and what must hold of it (``want``)."""

    offset: int
    length: int
    offset_kind: str
    record_id: str | None
    want: Mapping[str, Any]


@dataclass
class Archive:
    """A case's file, and the rows it must give, in offset order."""

    name: str
    data: bytes
    rows: list[Row] = field(default_factory=list)


_DEFAULTS = {"slow": False, "pack": "gzip", "end": ".warc.gz", "around": "before, after"}


def load() -> list[dict[str, Any]]:
    """Every case of every file, ``kind`` and defaults filled in."""
    found = []
    for path in sorted(HERE.glob("*.toml")):
        for case in tomllib.loads(path.read_text(encoding="utf-8"))["case"]:
            found.append({"kind": path.stem, **_DEFAULTS, **case})
    return found


def made(case: Mapping[str, Any], number: int) -> Archive:
    """The archive of a case. number: tells its ordinary pages from those of other cases."""
    parts: list[Mapping[str, Any]] = list(case.get("part", ()))
    for one in case.get("each", ()):  # a part for each value of a list, or so many
        parts += [_filled(one, value) for value in one.get("values", range(one.get("times", 0)))]
    parts = [_owned(part, 10_000 + 64 * number + i % 64 + 100_000 * (i // 64)) for i, part in enumerate(parts)]
    shape, around = {"arc": "arc", "wet": "conversion"}.get(case.get("neighbours", ""), "response"), case["around"]
    before = [_good(2 * number, shape)] if "before" in around else []
    after = [_good(2 * number + 1, shape)] if "after" in around else []
    return _packed(case, [_part(case["name"], i, part) for i, part in enumerate([*before, *parts, *after])])


def _owned(part: Mapping[str, Any], number: int) -> dict[str, Any]:
    """``@own``: three paragraphs of this part's own, as HTML; ``@own-text``: as text; ``@own-page``: a whole page."""
    title, paragraphs = prose(number)
    inner = "".join(f"<p>{p}</p>\n" for p in paragraphs)
    text = "\n\n".join([title, *paragraphs])
    own = {"@own": inner, "@own-text": text, "@own-page": page(title, inner), "@own-title": title}
    part = {k: _put(v, own) for k, v in part.items()}
    for want in (part, *part.get("either", ())):
        if want.pop("keeps", False):
            want |= {"fate": "kept", "has": [*paragraphs, *want.get("has", ())]}
        if want.pop("exact", False):
            want |= {"fate": "kept", "text": text}
    return part


def _put(value: Any, own: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return own.get(value, value)
    if isinstance(value, list):
        return [_put(v, own) for v in value]
    return {k: _put(v, own) for k, v in value.items()} if isinstance(value, dict) else value


def _filled(value: Any, given: Any) -> Any:
    if isinstance(value, str):
        return value.replace("{value}", str(given))
    if isinstance(value, list):
        return [_filled(v, given) for v in value]
    if isinstance(value, dict):
        return {k: _filled(v, given) for k, v in value.items()}
    return value


def _good(number: int, make: str) -> dict[str, Any]:
    title, paragraphs = prose(number)
    text = "\n\n".join([title, *paragraphs])
    return {
        "make": make,
        "url": f"http://good.example.org/{number}",
        "body": [text if make == "conversion" else page(title, "".join(f"<p>{p}</p>\n" for p in paragraphs))],
        "fate": "kept",
        "text": text,
    }


def prose(number: int) -> tuple[str, list[str]]:
    """A title and paragraphs of ordinary English; no two numbers have near duplicates."""
    pick = random.Random(number)
    chosen = pick.sample(PROSE, 9)
    marked = [f"{s} This is entry {number * 16 + i} of the log." for i, s in enumerate(chosen)]
    return f"Log book {number}", [" ".join(marked[i : i + 3]) for i in (0, 3, 6)]


def page(title: str, inner: str) -> str:
    """An ordinary page around ``inner``."""
    head = f"<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8><title>{title}</title></head>"
    return f"{head}\n<body><main><article><h1>{title}</h1>\n{inner}</article></main></body></html>\n"


# --- bodies -----------------------------------------------------------------------------------------------------------


def pieces(body: Parts, charset: str = "utf-8") -> Iterator[bytes]:
    """The bytes of a body, a few MiB at a time; README.md lists what a body may be made of."""
    size = 0
    for item in body:
        if isinstance(item, dict) and "fill" in item:  # letters up to this size of the whole
            item = {**item, "letters": item["fill"] - size - len(item.get("after", ""))}
        for piece in _piece(item, charset):
            size += len(piece)
            yield piece


def _piece(item: Any, charset: str) -> Iterator[bytes]:
    if isinstance(item, str):
        yield item.encode(charset, "surrogatepass" if charset.startswith("utf") else "strict")
    elif "hex" in item:
        yield from _times(bytes.fromhex(item["hex"]), int(item.get("times", 1)))
    elif "repeat" in item:
        yield from _times(item["repeat"].encode(charset, "surrogatepass"), int(item["times"]))
    elif "count" in item:  # numbers in a pattern: no two alike
        first = int(item.get("first", 0))
        for start in range(first, first + item["times"], 10_000):
            stop = min(start + 10_000, first + item["times"])
            yield "".join([item["count"].replace("{n}", str(n)) for n in range(start, stop)]).encode(charset)
    elif "noise" in item:
        yield random.Random(item.get("seed", 0)).randbytes(item["noise"])
    elif "letters" in item:  # of a-z, a blank behind every ``word`` of them
        yield item.get("before", "").encode()
        yield from _letters(item["letters"], int(item.get("seed", 0)), item.get("word", 0))
        yield item.get("after", "").encode()
    elif "prose" in item:
        title, paragraphs = prose(item["prose"])
        inner = "".join(f"<p>{p}</p>\n" for p in paragraphs)
        yield (page(title, inner) if item.get("as") == "page" else inner).encode(charset)
    elif "page" in item:
        title = item.get("title", "A page")
        above, below = page(title, "\0").split("\0")
        yield above.encode(charset)
        yield from pieces(item["page"], charset)
        yield below.encode(charset)
    elif "packed" in item:
        inside = coded(pieces(item["packed"], charset), item["coding"])
        if "cut" in item or "flip" in item:
            data = bytearray(b"".join(inside))
            if "flip" in item:
                data[item["flip"]] ^= 0x55
            inside = iter([bytes(data[: len(data) - item.get("cut", 0)])])
        yield from inside
    elif "chunked" in item:
        yield b"".join(b"%x\r\n%b\r\n" % (len(c), c) for c in pieces(item["chunked"], charset))
        yield item.get("end", "0\r\n\r\n").encode()
    elif "archive" in item:  # an archive inside a record
        yield b"".join(gzip.compress(_record({**_good(n, "response")}, "", 0)[0], 6, mtime=0) for n in item["archive"])
    else:
        raise ValueError(f"no such piece: {item}")


def _times(what: bytes, times: int) -> Iterator[bytes]:
    at_once = max(1, (1 << 20) // max(1, len(what)))
    block = what * min(at_once, times)
    for _ in range(times // at_once):
        yield block
    if rest := times % at_once:
        yield what * rest


def _letters(size: int, seed: int, word: int) -> Iterator[bytes]:
    noise = random.Random(seed)
    for start in range(0, size, 1 << 20):
        block = bytearray(noise.randbytes(min(1 << 20, size - start)).translate(_LETTERS))
        if word:
            block[word :: word + 1] = b" " * len(block[word :: word + 1])
        yield bytes(block)


_LETTERS = bytes(97 + b % 26 for b in range(256))


def coded(body: Iterable[bytes], coding: str) -> Iterator[bytes]:
    """A body in a content coding. ``gzip-nested-3``: gzip of gzip of gzip."""
    name, _, depth = coding.partition("-nested-")
    for _ in range(int(depth or 1) - 1):
        body = coded(body, name)
    if name == "brotli":
        packer = brotli.Compressor(quality=1)
        yield from (out for piece in body if (out := packer.process(piece)))
        yield packer.finish()
        return
    if name == "zstd":
        frame = zstandard.ZstdCompressor(level=3, write_checksum=True).compressobj()
        yield from (out for piece in body if (out := frame.compress(piece)))
        yield frame.flush()
        return
    window = {"gzip": 31, "deflate": 15, "raw-deflate": -15}[name]
    stream = zlib.compressobj(9, zlib.DEFLATED, window)
    yield from (out for piece in body if (out := stream.compress(piece)))
    yield stream.flush()


# --- records ----------------------------------------------------------------------------------------------------------

_EXPECTED = ("fate", "stage", "reason", "error", "message", "text", "has", "lacks", "chars", "columns", "windows",
             "either", "counts", "any")  # fmt: skip


@dataclass
class _Made:
    """A part's bytes before they are packed."""

    data: bytes
    record_id: str | None
    spec: Mapping[str, Any]


def _part(case: str, number: int, spec: Mapping[str, Any]) -> _Made:
    spec = {"url": f"http://hostile.example.org/{case}/{number}", **spec}
    if spec.get("make") == "bytes":
        return _Made(b"".join(pieces(spec["body"], spec.get("charset", "utf-8"))), None, spec)
    data, record_id = _record(spec, case, number)
    return _Made(data, record_id, spec)


def _record(spec: Mapping[str, Any], case: str, number: int) -> tuple[bytes, str | None]:
    make, charset = spec.get("make", "response"), spec.get("charset", "utf-8")
    body = b"".join(pieces(spec.get("body", []), charset)) + bytes.fromhex(spec.get("tail", ""))
    if make == "arc":
        block = _http(spec) + body
        date, kind = spec.get("date", "20240517080000"), spec.get("type", "text/html")
        line = spec.get("line", f"{spec['url']} 192.0.2.7 {date} {kind} {spec.get('length', len(block))}\n")
        return line.encode() + block + b"\n", None
    block = _http(spec) + body if make == "response" else body
    own = uuid.uuid5(uuid.NAMESPACE_URL, f"{case}/{number}/{spec['url'][:999]}")
    identity = spec.get("id", f"<urn:uuid:{own}>")
    types = {"response": "application/http; msgtype=response", "conversion": "text/plain"}
    lines = [
        spec.get("version", "WARC/1.0"),
        f"WARC-Type: {spec.get('kind', make)}",
        f"WARC-Record-ID: {identity}" if identity else "",
        f"WARC-Date: {date}" if (date := spec.get("date", "2024-05-17T08:00:00Z")) else "",
        f"WARC-Target-URI: {spec['url']}" if spec["url"] else "",
        f"Content-Type: {spec.get('record_type', types.get(make, 'text/html'))}",
        f"Content-Length: {spec.get('length', len(block))}",
        *spec.get("warc", []),
    ]
    head = b"".join(line.encode("utf-8", "surrogateescape") + b"\r\n" for line in lines if line)
    head += b"".join(pieces(spec.get("warc_raw", [])))
    return head + b"\r\n" + block + b"\r\n\r\n", identity or None


def _http(spec: Mapping[str, Any]) -> bytes:
    if "http_raw" in spec:
        return b"".join(pieces(spec["http_raw"]))
    kind = spec.get("type", "text/html; charset=utf-8")
    lines = [
        f"HTTP/1.1 {spec.get('status', '200 OK')}",
        *([f"Content-Type: {kind}"] * bool(kind)),
        *spec.get("http", []),
    ]
    return "".join(f"{line}\r\n" for line in lines).encode("utf-8", "surrogatepass") + b"\r\n"


# --- files ------------------------------------------------------------------------------------------------------------


def packed(data: bytes, how: str) -> bytes:
    """One member or frame; as it is where ``how`` is neither."""
    if how == "gzip":
        return gzip.compress(data, 6 if len(data) < 1 << 20 else 1, mtime=0)
    if how == "zstd":
        return zstandard.ZstdCompressor(level=3, write_checksum=True).compress(data)
    return data


def _packed(case: Mapping[str, Any], parts: list[_Made]) -> Archive:
    name = f"{case['name']}{case['end']}"
    archive = Archive(name, b"")
    how, out, at = case["pack"], [], 0
    if "lead" in case:
        out.append(b"".join(pieces(case["lead"])))
        at = len(out[0])
    rows: list[list[Any]] = []
    leading = 0
    for part in parts:
        spec = part.spec
        raw = spec.get("make") == "bytes" and not spec.get("packed", False)
        data = part.data if raw or how == "one" else packed(part.data, spec.get("pack", how))
        if "cut" in spec:
            data = data[: -spec["cut"]]
        for place in spec.get("flip", []):
            data = data[:place] + bytes([data[place] ^ 0x55]) + data[place:][1:]
        data += b"".join(pieces(spec.get("after", [])))
        want = {k: spec[k] for k in _EXPECTED if k in spec}
        gives = spec.get("gives", "row")  # "nothing": its bytes are no row's
        lead, leading = leading, 0
        if gives == "row":
            identity = None if want.get("reason") == "damaged_range" else part.record_id
            rows.append([at - lead, len(data) + lead, identity, want])
        elif gives == "joins":  # its bytes belong to the row before
            rows[-1][1] += len(data)
        elif gives == "leads":  # ... to the row behind
            leading = len(data)
        elif gives == "several":  # what its bytes become is spelled out: begin and end, from the end where negative
            for begin, end, more in spec["rows"]:
                start, stop = (p + len(data) if p < 0 else p for p in (begin, end or len(data)))
                rows.append([at + start, stop - start, more.get("id"), {k: v for k, v in more.items() if k != "id"}])
        out.append(data)
        at += len(data)
    whole = b"".join(out)
    archive.data = gzip.compress(whole, 6, mtime=0) if how == "one" else whole
    kind = "inflated" if how == "one" else "file"
    archive.rows = [Row(offset, length, kind, identity, want) for offset, length, identity, want in rows]
    return archive


def main(arguments: list[str]) -> None:
    """Writes archives, and beside each what it must give."""
    folder, names = Path(arguments[0]), arguments[1:]
    folder.mkdir(parents=True, exist_ok=True)
    for number, case in enumerate(load()):
        if names and case["name"] not in names and not any(n.endswith("*") and n[:-1] in case["name"] for n in names):
            continue
        archive = made(case, number)
        (folder / archive.name).write_bytes(archive.data)
        rows = [asdict(row) for row in archive.rows]
        (folder / f"{archive.name}.json").write_text(json.dumps(rows, ensure_ascii=False, indent=1), encoding="utf-8")


def written(folder: Path, name: str) -> Archive:
    """What ``main`` wrote of one archive, its bytes left where they are."""
    rows = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return Archive(name, b"", [Row(**row) for row in rows])


if __name__ == "__main__":
    main(sys.argv[1:])
