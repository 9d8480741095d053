"""``cleanpipe audit``: documents and bytes a CPU second, peak memory, and what its own parts cost beside the stages.

    python benchmarks/corpus_audit.py [--corpus FILE.jsonl] [--documents 20000] [--rounds 3]

Without --corpus it makes one: English of the tests' prose, 1.2 kB a document, with the tests' planted faults. Each
round is a process of its own with one worker; medians are shown, and CPU seconds, for the machine may be busy.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from cleanpipe.corpus.damage import examine
from cleanpipe.corpus.recurring import Lines
from cleanpipe.text.mojibake import find_mojibake
from cleanpipe.text.normalise import normalise


def make(path: Path, documents: int) -> None:
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
    from planted import planted

    with path.open("w", encoding="utf-8") as file:
        for document in planted(documents)[0]:
            file.write(json.dumps(document, ensure_ascii=False) + "\n")


def one_round(corpus: Path, out: Path) -> tuple[float, float, int, int]:
    """CPU seconds, wall seconds, peak bytes and documents of one audit."""
    code = "import sys; from cleanpipe_jobs.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "audit", str(corpus), "--out", str(out), "--workers", "1", "--json"]
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    documents = json.loads(done.stdout)["documents"]["documents"]["value"]
    return cpu, time.monotonic() - began, after.ru_maxrss << 10, documents


def parts(texts: list[str], folder: Path, rounds: int) -> None:
    size = sum(len(t.encode("utf-8", "surrogatepass")) for t in texts)
    clean = [normalise(t) for t in texts]

    def timed(name: str, work: object) -> None:
        middle = statistics.median(_cpu(work) for _ in range(rounds))
        print(f"  {name:<34}{1e6 * middle / len(texts):>10.1f} µs a document {size / middle / 1e6:>10.1f} MB/s")

    lines = Lines(0, folder)
    timed("repairs (as a run does)", lambda: [normalise(t) for t in texts])
    timed("mojibake", lambda: [find_mojibake(t) for t in texts])
    timed("all damage, mojibake too", lambda: [examine(t, c, 0) for t, c in zip(texts, clean, strict=True)])
    timed("lines that recur", lambda: [lines.add(i, t) for i, t in enumerate(clean)])
    for name, sample in SAMPLES.items():
        text = [sample * (20_000 // len(sample))] * 20
        middle = statistics.median(_cpu(lambda text=text: [find_mojibake(t) for t in text]) for _ in range(rounds))
        print(f"  mojibake in clean {name:<16}{sum(len(t.encode()) for t in text) / middle / 1e6:>26.1f} MB/s")


def _cpu(work: object) -> float:
    began = time.process_time()
    work()  # type: ignore[operator]
    return time.process_time() - began


SAMPLES = {
    "English": "The pilot’s “own” chart — it wasn’t old… ",
    "French": "Le garçon naïf a mangé où l’été était à côté : déjà vu, Noël. ",
    "Russian": "Лоцман поднимается на борт и знает глубину каждого прохода. ",
    "Vietnamese": "Người hoa tiêu lên tàu và biết độ sâu của mọi luồng lạch. ",
    "Chinese": "引航员登上每一艘船，熟知每条航道的深度。",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    of = ", ".join(f"{n} {version(n)}" for n in ("cleanpipe", "pyarrow", "numpy", "fasttext-predict"))
    print(
        f"{platform.machine()}, {os.cpu_count()} processors, {memory / 2**30:.0f} GiB, load {os.getloadavg()[0]:.1f}, ",
        end="",
    )
    print(f"Python {platform.python_version()}, {of}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        corpus = args.corpus or folder / "c.jsonl"
        if args.corpus is None:
            make(corpus, args.documents)
        rounds = [one_round(corpus, folder / f"out{i}") for i in range(args.rounds)]
        cpu, wall, peak = (statistics.median(r[i] for r in rounds) for i in (0, 1, 2))
        walls = [r[1] for r in rounds]
        documents, size = rounds[0][3], corpus.stat().st_size
        print(f"{documents:,} documents, {size / 1e6:.1f} MB; {args.rounds} rounds, medians")
        print(f"  {documents / cpu:,.0f} documents and {size / cpu / 1e6:.2f} MB a CPU second ({cpu:.1f} s in all)")
        print(
            f"  {wall:.1f} s on the clock ({min(walls):.1f} to {max(walls):.1f}), peak {peak / 1e6:,.0f} MB of memory"
        )
        with corpus.open(encoding="utf-8") as file:
            texts = [json.loads(line)["text"] for line, _ in zip(file, range(2000), strict=False)]
        parts(texts, folder, args.rounds)


if __name__ == "__main__":
    main()
