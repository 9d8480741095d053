"""cleanpipe beside other whole programs on one corpus: CPU seconds of the work alone, one worker each, in turn.

Every round runs every program once, each as its own process, the order turned by one from round to round; what counts
is the median of the CPU seconds each program reports for its work (imports and model loading left out), since wall time
says little on a shared machine. Without a corpus one is made from the sample archives that come with the package, and
cleanpipe is compared with plain.py; README.md names the larger comparisons.

    python benchmarks/end_to_end.py
    python benchmarks/end_to_end.py CORPUS.warc.gz --rounds 3 --rival 'NAME=COMMAND {corpus} {threshold} {work}'

A rival's COMMAND must print a JSON object as its last line with ``total_s`` or ``cpu_s``; peak memory and the number of
documents kept are taken from it too where it names them (``peak_mb``, ``rss``, ``rss_self``; ``kept``).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import corpus

CPU_SECONDS = ("work", "cpu_seconds")  # where run.json has the CPU seconds of the work alone
PEAK_BYTES = ("work", "peak_memory_bytes")  # and the largest peak of one worker
KEPT = ("ledger", "fates", "kept", "documents")  # where audit.json has the number of documents kept
HERE = Path(__file__).resolve().parent
SAMPLES = HERE.parent / "cleanpipe/recipes/sample-archives"
OURS = (
    "{cleanpipe} run {recipe} {corpus} --out {work}/cleanpipe-out --engine serial --workers 1 --quiet"
    " --set language_id.threshold={threshold}"
)
PLAIN = "plain={python} {here}/plain.py {corpus} --threshold {threshold} --work {work}"
NAMED = (
    "cleanpipe",
    "turbohtml",
    "fastwarc",
    "resiliparse",
    "fasttext-predict",
    "kenlm-ex",
    "numpy",
    "pyarrow",
    "warcio",
    "html2text",
    "datasketch",
    "datasets",
)


@dataclass
class Program:
    """One candidate: how to start it, and what its runs said."""

    name: str
    command: list[str]
    ours: bool = False
    cpu: list[float] = field(default_factory=list)
    process_cpu: list[float] = field(default_factory=list)
    peak_mb: list[float] = field(default_factory=list)
    kept: set[int] = field(default_factory=set)


def dig(facts: Any, path: tuple[str, ...]) -> Any:
    """The value at that path of nested objects; None where there is none."""
    for key in path:
        facts = facts.get(key) if isinstance(facts, dict) else None
    return facts


def start(command: list[str], log: Path) -> tuple[str, float, float]:
    """Run a command to its end: its standard output, CPU seconds of all its processes, peak MB of the largest one."""
    with log.open("wb") as errors, tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode("utf-8", "replace")
    if process.returncode:
        tail = log.read_text(errors="replace")[-2000:] + text[-2000:]
        sys.exit(f"{shlex.join(command)}: exit code {process.returncode}\n{tail}")
    return text, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def once(program: Program, work: Path) -> None:
    """Run a program once and note what it says."""
    out = work / "cleanpipe-out"
    if program.ours:
        shutil.rmtree(out, ignore_errors=True)
    text, process_cpu, peak = start(program.command, work / f"{program.name}.log")
    program.process_cpu.append(process_cpu)
    if program.ours:
        run = json.loads((out / "run.json").read_text())
        seconds, largest = dig(run, CPU_SECONDS), dig(run, PEAK_BYTES)
        if seconds is None or largest is None:
            sys.exit(f"{out}/run.json lacks {'.'.join(CPU_SECONDS)} or {'.'.join(PEAK_BYTES)}")
        peak = largest / 2**20
        kept = dig(json.loads((out / "audit/audit.json").read_text()), KEPT)
    else:
        said = json.loads(text.strip().splitlines()[-1])
        seconds = said.get("total_s", said.get("cpu_s"))
        peak = said.get("peak_mb", said.get("rss", said.get("rss_self", peak)))
        kept = said.get("kept", dig(said, ("counts", "kept")))
    program.cpu.append(float(seconds))
    program.peak_mb.append(float(peak))
    if isinstance(kept, int):
        program.kept.add(kept)


def machine() -> list[str]:
    """Lines that say where and with what this ran."""
    cpu = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        "?",
    )
    memory = int(Path("/proc/meminfo").read_text().split("MemTotal:")[1].split()[0]) / 2**20
    versions = []
    for name in NAMED:
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            versions.append(f"{name} -")
    where = f"{cpu}, {os.cpu_count()} cores, {memory:.0f} GiB, load {os.getloadavg()[0]:.1f}"
    return [f"{where}, Python {platform.python_version()}", ", ".join(versions)]


def table(programs: list[Program]) -> list[str]:
    """A Markdown table of medians; the ratio says how many times our CPU seconds a program takes."""
    ours = statistics.median(next(p for p in programs if p.ours).cpu)  # as the recipe stands
    lines = [
        "| program | CPU s of the work, median | each round | x ours | whole process, CPU s | peak MB | kept |",
        "|---|---|---|---|---|---|---|",
    ]
    for p in programs:
        median, rounds = statistics.median(p.cpu), " ".join(f"{v:.2f}" for v in p.cpu)
        kept = " ".join(f"{n:,}" for n in sorted(p.kept)) or "-"
        cells = [p.name, f"{median:.2f}", rounds, f"{median / ours:.2f}", f"{statistics.median(p.process_cpu):.2f}"]
        lines.append(f"| {' | '.join([*cells, f'{max(p.peak_mb):.0f}', kept])} |")
    return lines


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("corpus", nargs="?", type=Path, help="a .warc.gz; default: editions of the sample archives")
    arguments.add_argument("--megabytes", type=float, default=20, help="HTML in the corpus that is made (20)")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--threshold", type=float, default=0.65, help="English threshold, the same for all (0.65)")
    arguments.add_argument("--recipe", default="web")
    arguments.add_argument(
        "--also",
        action="append",
        default=[],
        metavar="NAME:KEY=VALUE",
        help="cleanpipe once more, with --set KEY=VALUE",
    )
    arguments.add_argument("--cleanpipe", type=Path, default=Path(sys.executable).parent / "cleanpipe")
    arguments.add_argument(
        "--rival", action="append", default=[], metavar="NAME=COMMAND", help="repeatable; default: plain.py"
    )
    arguments.add_argument("--work", type=Path, help="folder for corpus, outputs and logs (default: a temporary one)")
    arguments.add_argument("--json", type=Path, help="write the figures there too")
    options = arguments.parse_args()

    with tempfile.TemporaryDirectory(prefix="cleanpipe-bench-") as temporary:
        work = (options.work or Path(temporary)).resolve()
        work.mkdir(parents=True, exist_ok=True)
        archive = (options.corpus or corpus.build(SAMPLES, work / "editions.warc.gz", options.megabytes)).resolve()
        words = {
            "corpus": str(archive),
            "threshold": str(options.threshold),
            "work": str(work),
            "recipe": options.recipe,
        }
        words |= {"cleanpipe": str(options.cleanpipe), "python": sys.executable, "here": str(HERE)}
        variants = dict(also.split(":", 1) for also in options.also)
        commands = {"cleanpipe": OURS, **{name: f"{OURS} --set {setting}" for name, setting in variants.items()}}
        commands |= dict(rival.split("=", 1) for rival in options.rival or [PLAIN])
        programs = [
            Program(n, [w.format(**words) for w in shlex.split(c)], n == "cleanpipe" or n in variants)
            for n, c in commands.items()
        ]

        print(*machine(), sep="\n")
        print(f"corpus {archive.name}: {archive.stat().st_size / 1e6:.1f} MB; English threshold {options.threshold}")
        for number in range(options.rounds):
            turn = number % len(programs)
            for program in programs[turn:] + programs[:turn]:
                once(program, work)
                print(
                    f"round {number + 1} of {options.rounds}: {program.name} {program.cpu[-1]:.2f} s",
                    file=sys.stderr,
                    flush=True,
                )
        print("", *table(programs), sep="\n")
        if options.json:
            facts = {
                p.name: {"cpu_s": p.cpu, "process_cpu_s": p.process_cpu, "peak_mb": p.peak_mb, "kept": sorted(p.kept)}
                for p in programs
            }
            options.json.write_text(
                json.dumps({"machine": machine(), "corpus": archive.name, "programs": facts}, indent=1) + "\n"
            )


if __name__ == "__main__":
    main()
