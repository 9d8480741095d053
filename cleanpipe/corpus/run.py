"""The audit of a corpus, from its paths to its folder: two passes over units, a meeting between them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from cleanpipe.corpus import meeting, recurring
from cleanpipe.corpus.build import Facts, build_audit
from cleanpipe.corpus.damage import told, written
from cleanpipe.corpus.files import Columns, CorpusFile, Found, Unit, cut, find_files, only_local
from cleanpipe.corpus.reading import count_rows, inspect
from cleanpipe.corpus.rows import DAMAGED
from cleanpipe.corpus.sampling import Samples, merge_samples, row_orders
from cleanpipe.corpus.scan import Setup, scan_unit
from cleanpipe.corpus.settle import CLUSTER_SAMPLES, Ending, settle_unit
from cleanpipe.corpus.textstages import models_of, text_stages
from cleanpipe.corpus.tokens import load_tokenizer
from cleanpipe.corpus.work import run_tasks
from cleanpipe.errors import CleanpipeError, ConfigError, ShardError, StopError
from cleanpipe.io.arrow import RowFile
from cleanpipe.observer import Observer
from cleanpipe.recipe import Recipe, fingerprint, load_recipe
from cleanpipe.registry import code_version
from cleanpipe.tally import Tally, add

SHOWN_PROBLEMS = 100  # of each kind


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a person asks for. alarm: share of a host of ``alarm_rows`` documents or more that is lost; sample:
    documents, 0 for all.
    """

    recipe: str = "web"
    sets: tuple[str, ...] = ()
    columns: Columns = field(default_factory=lambda: Columns(""))
    by_line: bool = False
    sample: int = 0
    seed: int = 0
    samples: int = 10
    alarm: float = 0.5
    alarm_rows: int = 20
    tokenizer: str = ""
    workers: int = 0


def audit_corpus(
    paths: Sequence[str], out: str | Path, options: Options | None = None, observer: Observer | None = None
) -> dict[str, Any]:
    """Audit the corpus into the folder ``out``: audit.json, ledger/part-*.parquet. Returns the audit.

    Raises:
        ConfigError: a path, column, recipe or option is wrong, or ``out`` holds something else.
        StopError: the disk is full.
    """
    options, observer = options or Options(), observer or Observer()
    for path in (*paths, str(out)):
        only_local(path)
    recipe = load_recipe(options.recipe, options.sets)
    if options.tokenizer:
        load_tokenizer(options.tokenizer)
    folder = Path(out)
    _check(folder)
    found = find_files(paths)
    plan = _plan(found.files, options, observer)  # until here nothing is made
    made = not folder.exists()
    _folder(folder)
    try:
        with _work(folder) as work:
            return _Run(found, plan, folder, work, recipe, options, observer).run()
    except BaseException as error:
        _unmake(folder, made=made)
        if isinstance(error, OSError):
            raise StopError(f"{error.strerror or error}; free some space and start the same line again") from error
        raise


def _check(out: Path) -> None:
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not _ours(out))):
        raise ConfigError(f"{out} exists and is no audit of a corpus: name another folder with --out")


def _unmake(folder: Path, *, made: bool) -> None:
    """Half an audit is none."""
    if not (folder / "audit.json").exists():
        shutil.rmtree(folder / "ledger", ignore_errors=True)
    if made:
        with contextlib.suppress(OSError):  # it holds something after all
            folder.rmdir()


def _folder(out: Path) -> Path:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{out} cannot be made: {error.strerror}") from error
    for old in ("audit.json", "audit.html", "ledger"):
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(out / old) if (out / old).is_dir() else (out / old).unlink()
    return out


def _ours(out: Path) -> bool:
    names = {p.name for p in out.iterdir()}
    return names <= {"audit.json", "audit.html", "ledger"} or any(n.startswith(".work-") for n in names)


@contextlib.contextmanager
def _work(folder: Path) -> Iterator[Path]:
    for old in folder.glob(".work-*"):
        shutil.rmtree(old, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=".work-", dir=folder) as name:
        yield Path(name)


@dataclass(frozen=True)
class _Plan:
    """What is read, by which columns; and why some files are not."""

    units: list[Unit]
    columns: dict[str, Columns]
    failed: dict[str, str]


def _plan(files: Sequence[CorpusFile], options: Options, observer: Observer) -> _Plan:
    """Look at every file. Raises ConfigError where none can be read."""
    known, columns = [], {}
    failed: dict[str, str] = {}
    unclear: ConfigError | None = None
    for file in files:
        if file.fault:
            failed[file.source] = file.fault
            continue
        if not file.size:
            failed[file.source] = "an empty file"
            continue
        try:
            columns[file.source], pieces = inspect(file, options.columns)
        except ShardError as error:
            failed[file.source] = error.message
            continue
        except ConfigError as error:
            unclear = unclear or error
            failed[file.source] = error.message.removeprefix(f"{file.source}: ").removeprefix(f"{file.source} ")
            continue
        known.append((file, columns[file.source], pieces))
    if not known:
        if unclear is not None:
            raise unclear
        (first, why), more = next(iter(failed.items())), len(failed) - 1
        others = f" (and {more:,} more)" if more else ""
        raise ConfigError(f"no file can be read: {told(first)}: {told(why)}{others}")
    for source, why in failed.items():
        observer.warn(f"{told(source)}: {told(why)}: set aside")
    return _Plan(cut(known, by_line=options.by_line), columns, failed)


class _Run:
    def __init__(
        self, found: Found, plan: _Plan, folder: Path, work: Path, recipe: Recipe, options: Options, observer: Observer
    ) -> None:
        self._found, self._plan, self._folder, self._work = found, plan, folder, work
        self._recipe, self._options, self._observer = recipe, options, observer
        self._workers = options.workers or len(os.sched_getaffinity(0))
        self._stages = text_stages(recipe)
        self._failed = dict(plan.failed)
        self._tally: Tally = {}
        self._counts: dict[int, tuple[int, ...]] = {}  # rows of each unit's segments, where they were counted
        self._samples: Samples = {}
        self._problems: list[tuple[str, str, int, str]] = []  # kind, source, row from 1 (0: of none), message
        self._setup = Setup(recipe, str(work), options.samples, options.seed, options.by_line, options.tokenizer, None)

    def run(self) -> dict[str, Any]:
        """See ``audit_corpus``."""
        options = self._options
        found, units, columns = self._found, self._plan.units, self._plan.columns
        self._observer.started(len(units), sum(u.size for u in units), 0, 0)
        rows = None
        if options.sample:
            rows, threshold = self._choose(units)
            self._setup = replace(self._setup, threshold=threshold)
        scanned = self._scan(units)
        units = [u for u in units if u.number in scanned]
        documents = sum(r["documents"] for r in scanned.values())
        self._observer.phase("meet", 1)
        met = meeting.Met()
        numbers = [u.number for u in units]
        if self._stages.exchange is not None:
            met = meeting.meet(self._stages.exchange, self._work, numbers)
        lines = recurring.recurring(self._work, documents)
        self._settle(units, scanned, met)
        facts = Facts(
            recipe=self._recipe, stages=self._stages, tally=self._tally, samples=self._samples, met=met,
            lines=lines, top_lines=self._texts(lines.top), problems=self._told(), failed=self._failed,
            files=found.files, passed_over=found.passed_over, columns=columns, options=options, rows=rows,
            identity=self._identity(),
        )  # fmt: skip
        audit = build_audit(facts)
        text = json.dumps(audit, indent=1, ensure_ascii=False, sort_keys=False)
        (self._folder / "audit.json").write_bytes((text + "\n").encode("utf-8", "backslashreplace"))  # as JSON has it
        return audit

    def _choose(self, units: Sequence[Unit]) -> tuple[int, int | None]:
        """Rows of the corpus, and the largest order of those that are judged."""
        self._observer.phase("counting rows", len(units))
        options, total = self._options, 0
        least = np.zeros(0, np.uint64)
        for unit, result in run_tasks(_count, [(u, self._setup) for u in units], self._workers):
            if isinstance(result, BaseException):
                continue
            self._counts[unit.number] = tuple(rows for _, _, rows in result["segments"])
            for source, first, rows in result["segments"]:
                total += rows
                least = np.concatenate([least, row_orders(source, first, rows, options.seed)])
                if len(least) > options.sample:
                    least = np.partition(least, options.sample - 1)[: options.sample]
        return total, int(least.max()) if total > options.sample else None

    def _scan(self, units: Sequence[Unit]) -> dict[int, dict[str, Any]]:
        self._observer.phase("read", len(units))
        out = {}
        tasks = [(u, replace(self._setup, counts=self._counts.get(u.number, ()))) for u in units]
        for unit, result in run_tasks(scan_unit, tasks, self._workers):
            if isinstance(result, BaseException):
                if isinstance(result, ConfigError | OSError):
                    raise result
                why = result.message if isinstance(result, CleanpipeError) else f"{type(result).__name__}: {result}"
                self._failed[unit.label] = why
                for part in self._work.glob(f"lines-{unit.number:06d}-*"):
                    part.unlink()
                self._observer.warn(f"{told(unit.label)}: {told(why)}: set aside")
                add(self._tally, {"problems": {DAMAGED: 1}})
                self._problems.append((DAMAGED, unit.label, 0, why[:200]))
                continue
            out[unit.number] = result
            self._observer.progress(unit.label, unit.size)
            self._observer.finished(unit.label, result["documents"], result["documents"])
            add(self._tally, result["tally"])
        return out

    def _settle(self, units: Sequence[Unit], scanned: Mapping[int, dict[str, Any]], met: meeting.Met) -> None:
        self._observer.phase("publish", len(units))
        bases: dict[int, list[int]] = {}
        rows_of: dict[str, int] = {}
        for unit in units:
            sources = [s.file.source for s in unit.segments]
            bases[unit.number] = []
            for source, read in zip(sources, scanned[unit.number]["read"], strict=True):
                bases[unit.number].append(rows_of.get(source, 0))
                rows_of[source] = rows_of.get(source, 0) + read
            of_unit = scanned[unit.number]
            for kind, segment, row, message in of_unit["problems"]:
                self._problems.append((kind, sources[segment], bases[unit.number][segment] + row + 1, message))
            for group in of_unit["samples"].values():
                for sample in group:
                    at = sample.pop("segment")
                    sample["source"], sample["row"] = sources[at], bases[unit.number][at] + sample["row"] + 1
                    del sample["unit"]
            self._merge(of_unit["samples"])
        for kind, source, _, message in sorted(self._problems):
            if kind == DAMAGED and not rows_of.get(source, 1):  # it gave nothing but damage
                self._failed.setdefault(source, message)
        add(self._tally, {"rows_read": sum(rows_of.values())})
        ledger = self._folder / "ledger"
        ledger.mkdir()
        clusters = tuple(cluster for cluster, _ in met.biggest)
        tasks = [(u, Ending(self._setup, str(ledger), bases[u.number], clusters)) for u in units]
        for unit, result in run_tasks(settle_unit, tasks, self._workers):
            if isinstance(result, BaseException):
                raise result
            add(self._tally, result["tally"])
            self._merge(result["samples"])
            self._observer.finished(unit.label, result["tally"]["documents"], result["tally"]["kept"])

    def _merge(self, samples: Mapping[str, Any]) -> None:
        shown = [g for g in samples if g.startswith(("cluster/", "keeper/"))]
        few = {g: samples[g] for g in shown}
        rest = {g: s for g, s in samples.items() if g not in few}
        merged = merge_samples({g: self._samples.get(g, []) for g in few}, few, CLUSTER_SAMPLES)
        merged |= merge_samples({g: self._samples.get(g, []) for g in rest}, rest, self._options.samples)
        self._samples |= merged

    def _texts(self, top: Any) -> list[str]:
        """The lines that recur most, read from the first document that holds each."""
        out = []
        for row in top:
            unit, place = int(row["place"]) >> 32, int(row["place"]) & 0xFFFFFFFF
            file = RowFile(self._work / f"rows-{unit:06d}.arrow")
            text = file.take("text", np.array([place], np.int64))[0].as_py()
            wanted = int(row["hash"]).to_bytes(8, "little")
            stripped = (line.strip(" \t") for line in text.split("\n"))
            out.append(next((x for x in stripped if recurring.line_hash(x) == wanted), ""))
        return out

    def _told(self) -> dict[str, list[dict[str, Any]]]:
        out: dict[str, list[dict[str, Any]]] = {}
        for kind, source, row, message in sorted(self._problems):
            held = out.setdefault(kind, [])
            if len(held) < SHOWN_PROBLEMS:
                held.append({"source": source, "row": row or None, "message": told(message)})
        return out

    def _identity(self) -> dict[str, Any]:
        options = self._options
        asked = {
            "sample": options.sample, "seed": options.seed, "by_line": options.by_line, "alarm": options.alarm,
            "alarm_rows": options.alarm_rows, "tokenizer": written(Path(options.tokenizer).name),
            "columns": [written(name) for name in (options.columns.text, options.columns.url, options.columns.id)],
        }  # fmt: skip
        models, code = models_of(self._stages), code_version(s.ref for s in self._recipe.settings)
        return {
            "recipe": self._recipe.name,
            "config_hash": fingerprint([self._recipe.canonical(), asked, models, code]),
            "code": code,
            "models": models,
            "options": asked,
        }


def _count(unit: Unit, setup: Setup) -> dict[str, Any]:
    return {"segments": [[s.file.source, s.first, count_rows(s, by_line=setup.by_line)] for s in unit.segments]}
