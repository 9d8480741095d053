"""``cleanpipe fetch-list``: a crawl's list of files (``warc.paths.gz``) as the URLs that a run reads."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import tempfile
import zlib
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path

from cleanpipe.errors import ConfigError
from cleanpipe.io.bytesource import is_url, local_path
from cleanpipe.io.inputs import ENDINGS, MANIFESTS
from cleanpipe_jobs.cli_parser import BASE
from cleanpipe_jobs.output import scrubbed, show, warn
from cleanpipe_jobs.reach import fetch, storage_options

LARGEST = 256 << 20  # bytes of a list, inflated: the largest crawl's has 20 MB
_MAIN, _NEWS = re.compile(r"CC-MAIN-\d{4}(-\d{2}(\d{2})?)?"), re.compile(r"CC-NEWS-(\d{4})-(\d{2})")
_LIKE_CRAWL = re.compile(r"(?i)cc-(main|news)\b")


def fetch_list(args: Namespace) -> int:
    """Print or write the list.

    Raises:
        ConfigError: it is no list of archives, or is not there. StopError: its server did not answer.
    """
    if args.out and not args.out.endswith(MANIFESTS):
        raise ConfigError(f"--out {args.out}: end it in .txt or .paths, so that `cleanpipe run` takes it for a list")
    base = checked_base(args.base)
    storage = storage_options(args.sets)
    name = address(args.paths, base, args.kind)
    paths = parsed(fetch(name, storage, LARGEST), scrubbed(name))
    chosen = first(paths, args.first) if args.first is not None else paths
    if args.sample is not None:
        chosen = sample(paths, args.sample, args.seed)
    wanted = args.first if args.first is not None else args.sample
    if wanted is not None and wanted > len(paths):
        warn(f"warning: {scrubbed(name)} names {len(paths):,} files, not {wanted:,}")
    urls = [base + path for path in chosen]
    if args.out:
        write(Path(args.out), urls)
    if args.json:
        facts = {"list": scrubbed(name), "files": len(paths), "chosen": len(urls)}
        show(json.dumps({**facts, "out": args.out} if args.out else {**facts, "urls": urls}, indent=2))
    elif args.out:
        of = f"{len(urls):,} of the {len(paths):,}" if len(urls) < len(paths) else f"{len(urls):,}"
        show(f"{args.out}: {of} files of {scrubbed(name)}")
    else:
        show("\n".join(urls))
    return 0


def checked_base(base: str) -> str:
    """The prefix of every URL, with a slash at its end.

    Raises:
        ConfigError: it is neither a URL nor an absolute folder, or holds a query or a password.
    """
    if not base.strip() or not (is_url(base) or base.startswith("/")) or "::" in base:
        raise ConfigError(f"--base {base!r}: a URL such as {BASE} or s3://commoncrawl/, or an absolute folder")
    if "?" in base or "#" in base:
        raise ConfigError("--base has a query: paths are put behind it, so it must end with a folder")
    if "@" in base.partition("://")[2].partition("/")[0]:
        raise ConfigError("--base holds a password: lists are passed on; credentials belong into the environment")
    return base if base.endswith("/") else base + "/"


def address(paths: str, base: str, kind: str) -> str:
    """Where the list lies: a file or URL as it is given, or a crawl by its name, looked for below ``base``.

    Raises:
        ConfigError: there is no such file and the name is none of a crawl.
    """
    place = local_path(paths)
    if place is None or Path(place).exists():
        return paths
    if _MAIN.fullmatch(paths):
        return f"{base}crawl-data/{paths}/{kind}.paths.gz"
    if news := _NEWS.fullmatch(paths):
        if kind != "warc":
            raise ConfigError(f"--kind {kind}: {paths} has WARC files alone")
        return f"{base}crawl-data/CC-NEWS/{news[1]}/{news[2]}/warc.paths.gz"
    if _LIKE_CRAWL.match(paths) and "/" not in paths:
        raise ConfigError(f"{paths} is no name of a crawl: they look like CC-MAIN-2026-46 or CC-NEWS-2026-11")
    raise ConfigError(f"{paths} does not exist: name a list (warc.paths.gz), its URL, or a crawl (CC-MAIN-2026-46)")


def parsed(data: bytes, name: str) -> list[str]:
    """The paths of a list, gzipped or plain, each once, in its order.

    Raises:
        ConfigError: it is none; what is wrong and on which line.
    """
    text = _text(data, name)
    if text.lstrip()[:1] in ("<", "{"):
        raise ConfigError(f"{name} is no list of paths: it begins {text.lstrip()[:40].splitlines()[0]!r}")
    seen: dict[str, None] = {}
    for number, line in enumerate(text.splitlines(), 1):
        path = line.strip()
        if not path or path.startswith("#"):
            continue
        if wrong := _fault(path):
            raise ConfigError(f"{name}, line {number}: {path[:80]!r} {wrong}")
        seen[path] = None
    if not seen:
        raise ConfigError(f"{name} is empty: it names no file")
    return list(seen)


def _text(data: bytes, name: str) -> str:
    if data.startswith(b"\x1f\x8b"):
        try:
            data = _inflated(data)
        except (OSError, EOFError, zlib.error) as error:
            raise ConfigError(f"{name} is damaged: {error}: fetch it again") from error
        if len(data) > LARGEST:
            raise ConfigError(f"{name} is no list of paths: it inflates to more than {LARGEST >> 20} MiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{name} is no list of paths: neither text nor gzip") from None


def _inflated(data: bytes) -> bytes:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        with gzip.GzipFile(fileobj=file) as unpacked:
            return unpacked.read(LARGEST + 1)


def _fault(path: str) -> str:
    """What is wrong with a line; "" if nothing is."""
    if is_url(path):
        return "is a URL already: give this list to `cleanpipe run` as it is"
    if path.startswith("/") or "\\" in path:
        return "is no path below a crawl's root"
    parts = path.split("/")
    if ".." in parts or "." in parts or "" in parts:
        return "leads out of the crawl's root, or is not in its plain form"
    if not path.isprintable() or any(c in path for c in ' ?#*[]"<>'):
        return "holds characters that no path of a crawl has"
    if not path.lower().endswith(ENDINGS):
        return "is no archive: their names end in .warc.gz, .wet.gz, .wat.gz, .arc.gz"
    return ""


def first(paths: list[str], count: int) -> list[str]:
    """The first so many."""
    return paths[:count]


def sample(paths: Iterable[str], count: int, seed: int) -> list[str]:
    """So many, chosen by a hash of seed and path, sorted: the same in any order, and part of any larger sample."""
    chosen = sorted(paths, key=lambda p: (hashlib.sha256(f"{seed}\0{p}".encode()).digest(), p))[:count]
    return sorted(chosen)


def write(out: Path, urls: list[str]) -> None:
    """The file, whole or not at all; packed if its name ends in .gz.

    Raises:
        ConfigError: it cannot be written.
    """
    data = "".join(f"{url}\n" for url in urls).encode()
    beside = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        beside.write_bytes(gzip.compress(data, mtime=0) if out.suffix == ".gz" else data)
        beside.replace(out)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise ConfigError(f"--out {out} cannot be written: {error.strerror or error}") from error
