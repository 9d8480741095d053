"""What a look of ``cleanpipe watch`` costs at a run of many units: the first look, one after a few more units, and the
one that finds the reading at its end, where the keys of all units are derived.

    python benchmarks/watch_looks.py 10000 100000 1000000

The run folder is made up: units' manifests as runs write them (one real manifest, repeated), in books of a thousand.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from cleanpipe.engine.journal import book_of, json_line
from cleanpipe.engine.passes import Pass
from cleanpipe.io.store import LocalStore, spelled
from cleanpipe.observer import Observer
from cleanpipe.options import StorageOptions
from cleanpipe.queries.standing import Watched
from cleanpipe.queries.unfinished import Unfinished
from cleanpipe.run import run
from cleanpipe.tally import Tally, add

BOOK, LOOSE, ROUNDS = 1000, 500, 3
LOOKS = ("first", "nothing_new", "five_new", "four_new", "all_read", "after_that")


class Stop(Observer):
    """Ends the driver when all is read."""

    def phase(self, name: str, tasks: int) -> None:  # noqa: ARG002
        """At the meeting."""
        if name == "meet":
            raise KeyboardInterrupt


def example(folder: Path) -> tuple[dict, dict]:
    """The plan and one manifest of a real run."""
    with suppress(KeyboardInterrupt):
        run("sample", [], folder, engine="serial", observer=Stop())
    plan = json.loads((folder / "work/plan.json").read_text())
    manifests = [json.loads(p.read_text()) for p in (folder / "work/done/pass0").glob("*.json")]
    return plan, max(manifests, key=lambda m: m["entered"])


class Keys(Pass):
    """The first pass, of which nothing is read: what its units, one an input, are called."""

    def __init__(self, state: Unfinished) -> None:
        super().__init__(state.going, 0)
        plan = state.going.plan
        self.keys = [self._key(unit, plan[unit].span, "") for unit in range(len(plan))]


def keys_of(store: LocalStore) -> list[str]:
    """As the driver derives them."""
    return Keys(Unfinished.of(store, StorageOptions())).keys


def book(store: LocalStore, keys: list[str], manifest: dict, at: int) -> None:
    """A thousand units."""
    total: Tally = {}
    for _ in keys:
        add(total, manifest["tally"])
    line = {k: v for k, v in manifest.items() if k != "tally"}
    lines = [json_line({**line, "unit": at + i}) for i in range(len(keys))]
    book, beside = book_of(keys, total, [manifest["tally"]] * len(keys), lines)
    store.write(f"work/done/pass0/book-{at:012x}.zst", book)
    store.write(f"work/done/pass0/tally-{at:012x}.zst", beside)


def measure(units: int, plan: dict, manifest: dict, folder: Path) -> None:
    """Looks at a run of so many inputs of one unit each."""
    store = LocalStore(str(folder))
    size = int(manifest["facts"]["file_bytes"])
    plan = {**plan, "inputs": [{"source": f"{n:08d}.warc.gz", "size": size, "stamp": str(n)} for n in range(units)]}
    store.write("work/plan.json", spelled(plan))
    began = time.perf_counter()
    keys = keys_of(store)
    derived = time.perf_counter() - began
    booked = max(0, units - LOOSE - 20) // BOOK * BOOK
    for at in range(0, booked, BOOK):
        book(store, keys[at : at + BOOK], manifest, at)
    loose = keys[booked:]
    for n, key in enumerate(loose[:-10]):
        store.write(f"work/done/pass0/{key}.json", spelled({**manifest, "unit": booked + n}))
    rounds = [looks(store, units, keys, loose[-10:], manifest) for _ in range(ROUNDS)]
    figures = {name: round(statistics.median(times[i] for times in rounds), 4) for i, name in enumerate(LOOKS)}
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps({"units": units, "medians_s": figures, "keys_s": round(derived, 3), "peak_memory_MiB": memory}))


def looks(store: LocalStore, units: int, keys: list[str], last: list[str], manifest: dict) -> list[float]:
    """Seconds of one watcher's looks, the last ten units coming in between."""
    store.delete_all(f"work/done/pass0/{key}.json" for key in last)
    watched, times = Watched(store, StorageOptions()), []
    for more in ([], [], last[:5], last[5:9], last[9:], []):
        for key in more:
            store.write(f"work/done/pass0/{key}.json", spelled({**manifest, "unit": keys.index(key)}))
        began = time.perf_counter()
        standing = watched.look()
        times.append(time.perf_counter() - began)
    assert (standing.phase, standing.documents) == ("meeting", units * manifest["tally"]["read"]["docs_in"])
    return times


def main() -> None:
    """One line for each number of units, in a process of its own."""
    numbers = [int(n) for n in sys.argv[1:]] or [10_000]
    if len(numbers) > 1:
        for units in numbers:
            subprocess.run([sys.executable, __file__, str(units)], check=True)
        return
    facts = {
        "machine": platform.machine(), "system": platform.platform(), "processors": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1), "python": platform.python_version(), "pyarrow": version("pyarrow"),
        "rounds": ROUNDS,
    }  # fmt: skip
    print(json.dumps(facts), flush=True)
    place = Path(tempfile.mkdtemp(prefix="watch-looks-"))
    try:
        plan, manifest = example(place / "example")
        print(f"a manifest has {len(json.dumps(manifest)):,} characters", flush=True)
        measure(numbers[0], plan, manifest, place / "run")
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
