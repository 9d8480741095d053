"""``cleanpipe plan``: what a run would keep and cost, from a sample, before it is started."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from cleanpipe.errors import ConfigError
from cleanpipe_jobs.output import show, warn

if TYPE_CHECKING:
    from cleanpipe.planning.figures import Forecast
    from cleanpipe.planning.intervals import Interval

HELP = "what a run would keep and cost, from a sample of its records, before it is started"
EPILOG = """\
Reads places drawn by a hash of --seed from all the inputs' compressed bytes (archives on S3 or a web server by ranges),
takes their records through the recipe as a run does, and tells what all of the inputs would give: documents kept and
why others go, windows, bytes, shards, CPU, memory, disk, network and wall time, each with a 90 % interval. Inputs no
larger than the sample are read whole, and then counts and output are exact. Nothing is written but a temporary folder.
What any run takes to start is measured by a run of one record.
A larger sample costs more time and gives narrower intervals; near duplicates profit most.

examples:
  cleanpipe plan web crawl/ --cores 8,64
  cleanpipe plan web s3://bucket/crawl.txt --sample-bytes 256MB --places 512
  cleanpipe plan mine.toml crawl/*.warc.gz --set language_id.threshold=0.8 --json
"""
_PROSE = (
    "<p>The pilot comes aboard where the river opens to the sea, and she knows the depth of every channel by heart. "
    "Before the old lighthouse was built, ships waited for days until the weather was clear enough to enter. Today the "
    "harbour is open in every season, but the sand still moves after each storm, and the charts are drawn again.</p>"
)
_PATIENCE = 60.0  # seconds for a run of one record
SHOWN, WIDTH = 12, 100  # reasons; characters of a line
_SUFFIXES = {"": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("recipe", metavar="RECIPE", help="name of a recipe or path of a TOML file")
    parser.add_argument(
        "inputs", metavar="INPUT", nargs="*", help="as for `cleanpipe run`; default: the recipe's own inputs"
    )
    parser.add_argument("--cores", default="", metavar="N,N…", help="tell the wall time for so many cores")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="another sample (default: 0)")
    parser.add_argument(
        "--places", type=int, default=128, metavar="N", help="places the sample is taken at (default: 128)"
    )
    parser.add_argument(
        "--sample-bytes", default="64MiB", metavar="SIZE", help="compressed bytes to read, about (default: 64MiB)"
    )
    parser.add_argument(
        "--source-root", metavar="DIR", help="name inputs by their path below this folder, not by base name"
    )
    parser.add_argument(
        "--set", action="append", default=[], dest="sets", metavar="TABLE.OPTION=VALUE", help="as for `cleanpipe run`"
    )
    parser.add_argument("--quiet", "-q", action="store_true", help="no progress on standard error")


def main(args: argparse.Namespace) -> int:
    """Plan and print. Raises ConfigError and StopError as a run does."""
    cores, sample = _cores(args.cores), _size(args.sample_bytes)
    from cleanpipe.planning.forecast import forecast
    from cleanpipe.recipe import load_recipe
    from cleanpipe.run import prepare

    recipe = load_recipe(args.recipe, args.sets)
    _, inputs = prepare(recipe, args.inputs, args.source_root)
    progress = _Progress(min(sample, sum(i.size for i in inputs)), quiet=args.quiet)
    began, clock = time.process_time(), time.monotonic()
    try:
        found = forecast(
            recipe, inputs, seed=args.seed, places=args.places, sample_bytes=sample, cores=cores, progress=progress,
            starting=lambda folder: _starting(args.recipe, args.sets, folder),
        )  # fmt: skip
    finally:
        progress.end()
    took = {"cpu_seconds": round(time.process_time() - began, 3), "seconds": round(time.monotonic() - clock, 3)}
    if args.json:
        show(json.dumps(as_json(found, recipe.name, args.seed, took), indent=2))
        return 0
    for warning in found.warnings:
        warn(f"warning: {_plain(warning)}")
    for line in as_text(found, recipe.name, args.seed, took):
        show(_plain(line))
    return 0


def as_json(found: Forecast, recipe: str, seed: int, took: dict[str, float]) -> dict[str, Any]:
    """The plan as plain data. ``took``, CPU, wall and starting seconds and memory differ from time to time."""
    from cleanpipe.planning.figures import UNITS
    from cleanpipe.planning.intervals import LEVEL

    return {
        "format": 1,
        "recipe": recipe,
        "inputs": found.inputs,
        "sample": {**found.sample, "seed": seed, **took},
        "level": LEVEL,
        "figures": {name: {**_ends(i), "unit": UNITS[name]} for name, i in found.figures.items()},
        "losses": [{"fate": x.fate, "stage": x.stage, "reason": x.reason, **_ends(x.documents)} for x in found.losses],
        "cpu_seconds": {name: _ends(i) for name, i in found.cpu.items()},
        "wall_seconds": {str(n): _ends(i) for n, i in found.wall.items()},
        "starting_seconds": round(found.starting, 3),
        "assumptions": found.assumptions,
        "warnings": found.warnings,
    }


def as_text(found: Forecast, recipe: str, seed: int, took: dict[str, float]) -> list[str]:
    """The plan for a terminal, line by line."""
    from cleanpipe.audit.console import size
    from cleanpipe.audit.tables import many

    inputs: dict[str, Any] = found.inputs
    sample: dict[str, Any] = found.sample
    figures, documents = found.figures, max(found.figures["documents"].estimate, 1.0)

    def number(value: float) -> str:
        return f"{value:,.0f}"

    def share(value: float) -> str:
        return f"{value:.1%}".replace("%", " %")

    def amount(value: float) -> str:
        return size(round(value))

    read = (
        "all of them"
        if sample["whole"]
        else f"{many(sample['places'], 'place')}, {share(sample['share'])} of the bytes"
    )
    archives, units = many(inputs["files"], "archive"), many(inputs["units"], "unit")
    lines = [
        f"{recipe} over {archives}, {size(inputs['bytes'])}, in {units}",
        f"sample: {read}, {size(sample['bytes'])}, {many(sample['documents'], 'document')}, seed {seed}, "
        f"{took['cpu_seconds']:.1f} CPU s",
        "",
        f"{'':22}{'expected':>14}   90 % interval",
    ]
    rows = [
        ("documents", "documents", number),
        ("kept", "kept", number),
        ("kept share", "kept_share", share),
        ("duplicates (compared)", "duplicates_share", share),
        ("windows", "rows", number),
        ("output", "output_bytes", amount),
        ("shards", "shards", number),
        ("disk, at the peak", "peak_disk_bytes", amount),
        ("  work/ between passes", "work_bytes", amount),
        ("  ledger", "ledger_bytes", amount),
        ("memory of a worker", "worker_memory", amount),
        ("memory of the driver", "driver_memory", amount),
        ("network, inputs", "network_bytes", amount),
    ]
    lines += [_row(name, figures[key], write) for name, key, write in rows]
    lines += [_row("CPU", figures["cpu_seconds"], clock)]
    lines += [_row(f"wall, {n:,} core{'s' * (n != 1)}", i, clock) for n, i in found.wall.items()]
    lines += [f"{'  of it, starting':22}{clock(found.starting):>14}"]
    lines += ["", f"{'why documents go':44}{'expected':>12}  of all   90 % interval"]
    for loss in found.losses[:SHOWN]:
        count = loss.documents
        name = f"{loss.stage} / {loss.reason}" + (" (quarantined)" if loss.fate == "quarantined" else "")
        lines.append(
            f"{name:44}{number(count.estimate):>12}{share(count.estimate / documents):>8}   {_span(count, number)}"
        )
    if len(found.losses) > SHOWN:
        lines.append(f"… and {len(found.losses) - SHOWN:,} more: --json lists all")
    total = sum(i.estimate for i in found.cpu.values()) or 1.0
    most = sorted(found.cpu.items(), key=lambda c: -c[1].estimate)
    of_stages = ", ".join(f"{n} {share(i.estimate / total)}" for n, i in most[:8])
    lines += ["", *wrap(f"CPU by stage: {of_stages}", WIDTH, subsequent_indent="  "), ""]
    said = (wrap(f"- {line}", WIDTH, subsequent_indent="  ") for line in found.assumptions)
    return [*lines, *(part for line in said for part in line)]


def _starting(recipe: str, sets: list[str], folder: Path) -> float | None:
    """Wall seconds of a run of one record by one worker: processes, models, publishing, the page. None if it fails."""
    page = f"<html><head><title>Pilots</title></head><body>{_PROSE}</body></html>".encode()
    http = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: %d\r\n\r\n" % len(page) + page
    head = (
        "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://starting.example/\r\n"
        "WARC-Date: 2026-01-01T00:00:00Z\r\nWARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-000000000000>\r\n"
        f"Content-Type: application/http; msgtype=response\r\nContent-Length: {len(http)}\r\n\r\n"
    )
    archive = folder / "starting.warc"
    archive.write_bytes(head.encode() + http + b"\r\n\r\n")
    words = ["run", recipe, str(archive), "--out", str(folder / "starting"), "--workers", "1", "--quiet"]
    words += [word for one in sets for word in ("--set", one)]
    began = time.monotonic()
    try:
        done = subprocess.run(  # by this Python, words of ours
            [sys.executable, "-m", "cleanpipe_jobs.cli", *words],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            timeout=_PATIENCE, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return time.monotonic() - began if done.returncode == 0 else None


def clock(seconds: float) -> str:
    """``4.2 s``, ``12.3 min``, ``1,234.5 h``."""
    if seconds < 100:
        return f"{seconds:,.1f} s"
    return f"{seconds / 60:,.1f} min" if seconds < 6000 else f"{seconds / 3600:,.1f} h"


def _row(name: str, found: Interval, write: Callable[[float], str]) -> str:
    return f"{name:22}{write(found.estimate):>14}   {_span(found, write)}"


def _span(found: Interval, write: Callable[[float], str]) -> str:
    low, high = write(found.low), write(found.high)
    return low if low == high else f"{low} to {high}"


def _ends(found: Interval) -> dict[str, float]:
    return {"estimate": round(found.estimate, 6), "low": round(found.low, 6), "high": round(found.high, 6)}


def _plain(text: str) -> str:
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def _cores(text: str) -> list[int]:
    if not text:
        return sorted({len(os.sched_getaffinity(0)), 8, 64})
    try:
        cores = [int(part) for part in text.split(",")]
    except ValueError:
        cores = [0]
    if any(c < 1 for c in cores):
        raise ConfigError(f"--cores {text}: whole numbers above 0, with commas between: 1,8,64")
    return cores


def _size(text: str) -> int:
    digits = text.rstrip("kKmMgGiIbB ")
    unit = text[len(digits) :].strip().lower().removesuffix("b")
    factor = _SUFFIXES.get(f"{unit}b" if unit else "")
    try:
        number = int(float(digits) * (factor or 0))
    except (ValueError, OverflowError):
        number = 0
    if number < 1:
        raise ConfigError(f"--sample-bytes {text}: a number of bytes, as 67108864, 64MiB or 100MB")
    return number


class _Progress:
    """One line on standard error: rewritten on a terminal, else one every five seconds."""

    def __init__(self, size: int, *, quiet: bool) -> None:
        self._size, self._read, self._quiet = max(size, 1), 0, quiet
        self._terminal = not quiet and sys.stderr.isatty()
        self._told = time.monotonic()

    def __call__(self, size: int) -> None:
        self._read += size
        now = time.monotonic()
        if self._quiet or now - self._told < (0.2 if self._terminal else 5.0):
            return
        self._told = now
        text = f"sampling: {min(1.0, self._read / self._size):4.0%} of {self._size / 1e6:,.1f} MB"
        if self._terminal:
            sys.stderr.write(f"\r{text}")
            sys.stderr.flush()
        else:
            warn(text)

    def end(self) -> None:
        """Wipe the line."""
        if self._terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
