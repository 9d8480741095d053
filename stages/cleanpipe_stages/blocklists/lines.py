"""Lines of blocklists: plain domains, hosts files, URL prefixes, UT1's folders; each line becomes a rule.

``example.org``, ``.example.org``, ``||example.org^`` mean the domain and all below it; ``*.example.org`` all below it;
``0.0.0.0 example.org`` (hosts file) and ``https://example.org`` that host alone; with a path, every URL of that host
that begins so. ``#`` and ``!`` begin comments.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from zlib import error as zlib_error

from cleanpipe.errors import ConfigError
from cleanpipe_stages.blocklists.address import address, host_name, path_name
from cleanpipe_stages.html.names import names_of

DOMAIN, BELOW, HOST, PREFIX = 0, 1, 2, 3  # kinds of rules
Rule = tuple[int, str]

_CHUNK = 2 << 20
_WIDE = (b"\xff\xfe", b"\xfe\xff")  # how UTF-16 and UTF-32 begin
_IP = r"(?:\d{1,3}\.){3}\d{1,3}|[0-9a-fA-F:]*:[0-9a-fA-F:.]*"
_HOSTS = re.compile(rf"(?:{_IP})(?:%\w+)?[ \t]+(\S.*)")
_ADBLOCK = re.compile(r"\|\|([^/^$|*\s]+)\^(?:\$(?:all|document|important|third-party|popup)(?:,\w+)*)?")
_NAME = re.compile(r"[^\s/\\?#@:,;|$^*\"'<>(){}!=+&\[\]]+")
_NO_HOST = names_of(
    "localhost localhost.localdomain local broadcasthost 0.0.0.0 ip6-localhost ip6-loopback ip6-localnet"
    " ip6-mcastprefix ip6-allnodes ip6-allrouters ip6-allhosts"
)
PARTS = ("domains", "urls")  # what a category of UT1's folder holds


def files_of(places: tuple[str, ...], stage: str, option: str) -> dict[str, Path]:
    """Files by a name that says which of the user's lists each is: of a folder those called ``domains`` and ``urls``
    (UT1's categories), else its ``*.txt``.

    Raises:
        ConfigError: nothing there.
    """
    found: dict[str, Path] = {}
    for place in places:
        path = Path(place)
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if p.name in PARTS and p.is_file())
            inside = inside or sorted(p for p in path.rglob("*.txt") if p.is_file())
            if not inside:
                raise ConfigError(f"{option}: {place} holds no file called domains or urls, and no .txt", stage=stage)
        elif path.is_file():
            inside = [path]
        else:
            raise ConfigError(f"{option}: no such file or folder: {place}", stage=stage)
        for file in inside:
            name = f"{path.name}/{file.relative_to(path).as_posix()}" if path.is_dir() else path.name
            if file in found.values():
                raise ConfigError(f"{option} names {file} twice", stage=stage)
            found[name if name not in found else f"{name}#{len(found)}"] = file
    return found


def chunks(path: Path, stage: str | None = None) -> Iterator[bytes]:
    """The file's bytes in whole lines, which end with a line feed; gzip is undone.

    Raises:
        ConfigError: it cannot be read, or is no text in UTF-8: UTF-16 and UTF-32, or bytes 0.
    """
    with path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
    try:
        with gzip.open(path, "rb") if packed else path.open("rb") as file:
            kept = file.read(3).removeprefix(b"\xef\xbb\xbf").replace(b"\r", b"\n")
            if kept.startswith(_WIDE) or b"\0" in kept:
                raise _no_text(path, stage)
            while more := file.read(_CHUNK).replace(b"\r", b"\n"):
                if b"\0" in more:
                    raise _no_text(path, stage)
                whole, line_end, kept_next = (kept + more).rpartition(b"\n")
                yield whole + line_end
                kept = kept_next
            if kept:
                yield kept + b"\n"
    except (OSError, EOFError, zlib_error) as error:
        raise ConfigError(f"{path} cannot be read: {error}", stage=stage) from error


def text_lines(path: Path, stage: str) -> Iterator[str]:
    """The lines of a list of words, without blanks around, empty lines and comments.

    Raises:
        ConfigError: it cannot be read, is not UTF-8, or names no word.
    """
    named = False
    for chunk in chunks(path, stage):
        try:
            lines = chunk.decode("utf-8").splitlines()
        except UnicodeDecodeError as error:
            raise ConfigError(f"the list of words {path} cannot be read as UTF-8: {error}", stage=stage) from error
        for line in lines:
            bare = line.strip().strip("\ufeff").strip()
            if bare and bare[0] != "#":
                named = True
                yield bare
    if not named:
        raise ConfigError(f"the list of words {path} names none: one word or phrase a line", stage=stage)


def _no_text(path: Path, stage: str | None) -> ConfigError:
    return ConfigError(f"the list {path} cannot be read as UTF-8: it is UTF-16, or no text", stage=stage)


def rules_of(line: str) -> list[Rule] | None:
    """The rules of one line; none of a comment, None of a line that is no rule."""
    line = line.strip(" \t\r\0\ufeff")
    if not line or line[0] in "#!;" or line.startswith("[Adblock"):
        return []
    line = re.split(r"[ \t]+[#;]", line, maxsplit=1)[0].rstrip()
    if hosts := _HOSTS.fullmatch(line):
        names = [host_name(name) for name in hosts[1].split()]
        return [(HOST, name) for name in names if name not in _NO_HOST and "." in name]
    if filter_ := _ADBLOCK.fullmatch(line):
        line = filter_[1]
    if "://" in line[:32] or line.startswith("//"):
        found = address(line)
        if found is None or not _is_name(found[0]):
            return None
        host, rest = found
        return [(PREFIX, host + rest) if rest not in ("", "/") else (HOST, host)]
    if line in _NO_HOST:
        return []
    name, slash, rest = line.partition("/")
    below = name.startswith("*.")
    bare = name.removeprefix("*.").removeprefix(".")
    wide = below or name.startswith(".")
    host = host_name(bare)
    if not _is_name(host) or ("." not in host and not wide and not host.startswith("[")):
        return None
    if slash:
        return None if wide else [(PREFIX, host + path_name(slash + rest))]
    return [(BELOW if below else DOMAIN, host)]


def _is_name(host: str) -> bool:
    return bool(host) and "\ufffd" not in host and bool(host.startswith("[") or _NAME.fullmatch(host))
