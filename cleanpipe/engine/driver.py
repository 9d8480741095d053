"""The order of a run: first pass, meeting, later passes, plan, shards, ledger, audit, manifest. It holds no text."""

from __future__ import annotations

import os
import platform
import shutil
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cleanpipe.audit.build import build_audit, stage_files
from cleanpipe.audit.facts import merge_samples
from cleanpipe.audit.markdown import to_markdown
from cleanpipe.engine.base import Context, Engine, Result, Task
from cleanpipe.engine.commit import Units, unit_key
from cleanpipe.engine.folder import MANIFEST, Finished, clear
from cleanpipe.engine.machine import check_disk, peak_memory, versions
from cleanpipe.engine.opened import Opened, opened, opening_seconds
from cleanpipe.engine.rows import row_cost
from cleanpipe.engine.work import failed_unit
from cleanpipe.errors import ShardError, StopError
from cleanpipe.io.arrow import RowFile, Segment, TableWriter, dataset_files, plan_shards, shard_name
from cleanpipe.io.store import publish_json, publish_text
from cleanpipe.observer import Observer
from cleanpipe.recipe import fingerprint
from cleanpipe.tally import Tally, add


class Driver:
    """One run in progress."""

    def __init__(
        self,
        context: Context,
        identity: Mapping[str, Any],
        engine: Engine,
        observer: Observer,
        reuse: Path | None,
        keep_work: bool,
    ) -> None:
        self.context, self.identity, self.engine, self.observer = context, identity, engine, observer
        self.reuse, self.keep_work = reuse, keep_work
        self.out = Path(context.out)
        self.have: Opened = opened(context.recipe)
        pa.array([""])  # the first one imports pandas where that is installed: no part of the work
        self.started, self.cpu, self.opening = time.time(), time.process_time(), opening_seconds()
        self.failed: dict[str, str] = {}
        self.cost: dict[str, float] = {}
        self.work: dict[str, float] = {"task_seconds": 0.0, "opening_seconds": 0.0, "peak_memory_bytes": 0.0}
        self.resumed = self.reused = 0
        self.published: dict[str, dict[str, Any]] = {}
        check_disk(self.out, context.inputs, observer)
        self.meetings: dict[str, dict[str, Any]] = {}

    def run(self) -> Finished:
        """All of it; see the module."""
        last = len(self.have.passes) - 1
        keys: list[list[str]] = [[self._pass_key(0, unit, "") for unit in range(len(self.context.inputs))]]
        done: list[list[dict[str, Any]]] = [self._pass(0, keys[0], [{} for _ in keys[0]])]
        for index in range(1, last + 1):
            answers = self._meet(index, keys[-1], done[-1])
            rows = [
                f"pass{index - 1}/{k}/{m['files']['rows']['name']}" for k, m in zip(keys[-1], done[-1], strict=True)
            ]
            keys.append([self._pass_key(index, unit, k + answers[unit]) for unit, k in enumerate(keys[-1])])
            args = [{"rows": r, "answers": a} for r, a in zip(rows, answers, strict=True)]
            done.append(self._pass(index, keys[-1], args))
        shards = self._shards(keys[last], done[last])
        ledger, samples, quarantined = self._ledger(keys, done, shards)
        return self._publish(done, shards, ledger, samples, quarantined)

    # passes

    def _pass_key(self, index: int, unit: int, before: str) -> str:
        """Everything that decides what a pass makes of a unit."""
        source = self.identity["inputs"][unit]
        settings = self.identity["settings"]
        stages = {s.name for p in self.have.passes[: index + 1] for s in p.stages}
        rules = {s.ref.name for s in self.context.recipe.settings if s.build().text_rule() is not None}
        chosen = [s for s in settings["stages"] if (s[0] in stages and s[1]) or s[0] in rules]
        models = {n: d for n, d in self.identity["models"].items() if index > 0 or n.split(".")[0] in stages}
        return unit_key(f"pass{index}", source, settings["read"], chosen, models, self.identity["code"], before)

    def _pass(self, index: int, keys: list[str], args: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        units = Units(self.context.work, f"pass{index}")
        done: dict[int, dict[str, Any]] = {}
        tasks: list[Task] = []
        for unit, key in enumerate(keys):
            ready = units.done(key)
            if (
                ready is None
                and self.reuse is not None
                and units.take_over(Units(self.reuse / "work", units.folder.name), key)
            ):
                ready = units.done(key)
                self.reused += 1
            if ready is not None:
                done[unit] = ready
                continue
            source = self.context.inputs[unit]
            tasks.append(Task("pass", key, source.source, source.size, {**args[unit], "pass": index, "unit": unit}))
        if index == 0:
            self.resumed = len(done) - self.reused
            left = [self.context.inputs[int(t.args["unit"])].size for t in tasks]
            self.observer.started(len(tasks), sum(left), self.resumed, self.reused)
        for task, result in self._run("read" if index == 0 else "window", tasks):
            unit = int(task.args["unit"])
            if isinstance(result, ShardError):
                if index > 0:
                    raise StopError(
                        f"the unit failed after it was read ({result}); start the same line again", source=task.label
                    )
                self.failed[task.label] = result.message
                self.observer.warn(f"{task.label}: {result.message}: set aside, the run goes on")
                keys[unit] = unit_key("failed", keys[unit], result.message)  # what follows from it has other keys too
                result = failed_unit(self.context, unit, keys[unit], result.message)
            done[unit] = result
            if index == 0 and result["facts"].get("aside"):
                self.observer.warn(f"{task.label}: {result['facts']['aside']}")
            self.observer.finished(task.label, int(result["entered"]), int(result["rows"]))
        for result in done.values():
            add(self.cost, result.get("stage_seconds", {}))
        return [done[unit] for unit in range(len(keys))]

    def _run(self, phase: str, tasks: Sequence[Task]) -> Any:
        self.observer.phase(phase, len(tasks))
        for task, result in self.engine.run(tasks, lambda t, n: self.observer.progress(t.label, n)):
            if not isinstance(result, ShardError):
                self.work["task_seconds"] += result.get("cpu_seconds", 0.0)
                self.work["opening_seconds"] += result.get("opening_seconds", 0.0)
                self.work["peak_memory_bytes"] = max(self.work["peak_memory_bytes"], result.get("peak_memory_bytes", 0))
            yield task, result

    def _meet(self, index: int, keys: Sequence[str], done: Sequence[dict[str, Any]]) -> list[str]:
        """Answers of the exchange before pass ``index``: one file a unit, below work/."""
        exchange = self.have.passes[index].exchange
        assert exchange is not None
        units = Units(self.context.work, f"meet{index}")
        stages = {s.name for s in self.have.passes[index].stages}
        options = [s for s in self.identity["settings"]["stages"] if s[0] in stages]
        key = unit_key("meet", list(keys), options, self.identity["code"])
        manifest = units.done(key)
        self.observer.phase("meet", 1)
        if manifest is None:
            began = time.process_time()
            home = units.home(key)
            parts = [
                RowFile(self.context.work / f"pass{index - 1}" / k / m["files"]["rows"]["name"])
                for k, m in zip(keys, done, strict=True)
            ]
            meeting = exchange.meet(parts)
            files = {}
            for unit, table in enumerate(meeting.tables):
                writer = TableWriter(home / f"{unit:05d}-answers.arrow", pa.schema(list(exchange.writes.items())))
                writer.write(table)
                files[str(unit)] = writer.close()
            manifest = {"files": files, "facts": dict(meeting.facts), "name": exchange.name}
            units.commit(key, manifest)
            self.cost[exchange.name] = time.process_time() - began
        self.meetings[exchange.name] = manifest["facts"]
        return [f"meet{index}/{key}/{manifest['files'][str(u)]['name']}" for u in range(len(keys))]

    # shards and ledger

    def _shards(self, keys: Sequence[str], done: Sequence[dict[str, Any]]) -> list[tuple[str, list[Segment]]]:
        last = len(self.have.passes) - 1
        units, options = Units(self.context.work, f"pass{last}"), self.context.recipe.shards
        sizes = []
        for key, manifest in zip(keys, done, strict=True):
            file = RowFile(units.path(key, manifest, "sizes"))
            sizes.append((_numbers(file, "rows"), _numbers(file, "bytes")))
        plan = plan_shards(sizes, row_cost(self.have.shard), options.max_bytes, options.batch_rows)
        names = [shard_name(i, len(plan)) for i in range(len(plan))]
        (self.out / "data").mkdir(exist_ok=True)
        tasks = []
        for name, segments in zip(names, plan, strict=True):
            where = [
                [f"pass{last}/{keys[s.unit]}/{done[s.unit]['files']['rows']['name']}", s.first_row, s.last_row]
                for s in segments
            ]
            key = unit_key(
                "shard", name, [[keys[s.unit], s.first_row, s.last_row] for s in segments], options.batch_rows
            )
            tasks.append(
                Task(
                    "shard",
                    key,
                    name,
                    sum(s.last_row - s.first_row for s in segments),
                    {"name": name, "batch_rows": options.batch_rows, "segments": where},
                )
            )
        self._publishing("publish", tasks)
        return list(zip(names, plan, strict=True))

    def _ledger(
        self,
        keys: Sequence[Sequence[str]],
        done: Sequence[Sequence[dict[str, Any]]],
        shards: Sequence[tuple[str, list[Segment]]],
    ) -> tuple[Tally, dict[str, list[Any]], int]:
        (self.out / "ledger").mkdir(exist_ok=True)
        (self.out / "quarantine").mkdir(exist_ok=True)
        ends: list[list[list[Any]]] = [[] for _ in self.context.inputs]
        for name, segments in shards:
            for s in segments:
                ends[s.unit].append([s.last, name])
        tasks = []
        for unit, source in enumerate(self.context.inputs):
            files = {
                role: [f"pass{p}/{keys[p][unit]}/{m[unit]['files'][role]['name']}" for p, m in enumerate(done)]
                for role in ("fates", "quarantine")
            }
            args = {"unit": unit, "part": unit, "shards": ends[unit], **files}
            options = self.identity["settings"]["audit"]
            key = unit_key("ledger", unit, [k[unit] for k in keys], ends[unit], options)
            tasks.append(Task("ledger", key, source.source, source.size, args))
        tally: Tally = {}
        samples: dict[str, list[Any]] = {}
        quarantined = 0
        for result in self._publishing("publish", tasks):
            add(tally, result["tally"])
            samples = merge_samples(samples, result["samples"], self.context.recipe.audit.samples)
            quarantined += int(result["quarantined"])
        return tally, samples, quarantined

    def _publishing(self, phase: str, tasks: Sequence[Task]) -> list[Result]:
        """Tasks that publish into the run folder; those done before, and still there, are not done again."""
        results: dict[str, Result] = {}
        left = []
        for task in tasks:
            ready = Units(self.context.work, task.kind).done(task.key)
            if ready is not None and all(_size(self.out / n) == f["bytes"] for n, f in ready["published"].items()):
                results[task.key] = ready
            else:
                left.append(task)
        for task, result in self._run(phase, left):
            if isinstance(result, ShardError):
                raise StopError(
                    f"could not be published ({result.message}); start the same line again", source=task.label
                )
            results[task.key] = result
        for result in results.values():
            self.published |= result["published"]
        return [results[t.key] for t in tasks]

    # the end

    def _publish(
        self,
        done: Sequence[Sequence[dict[str, Any]]],
        shards: Sequence[tuple[str, list[Segment]]],
        ledger: Tally,
        samples: dict[str, list[Any]],
        quarantined: int,
    ) -> Finished:
        recipe, out = self.context.recipe, self.out
        facts = [m["facts"] for m in done[0]]
        inputs = [
            {"source": i.source, "size": f["file_bytes"], "sha256": f["sha256"]}
            for i, f in zip(self.context.inputs, facts, strict=True)
        ]
        config_hash = fingerprint({**{k: self.identity[k] for k in ("settings", "models", "code")}, "inputs": inputs})
        tally: Tally = {}
        for manifests in done:
            for manifest in manifests:
                add(tally, manifest["tally"])
        files = [{"file": n, **self.published[f"data/{n}"], "limit": recipe.shards.max_bytes} for n, _ in shards]
        audit = build_audit(
            identity={
                "config_hash": config_hash[:8],
                "recipe": recipe.name,
                "code": self.identity["code"],
                "models": self.identity["models"],
                "inputs": inputs,
            },
            recipe=recipe,
            stages=[s for p in self.have.passes for s in p.stages],
            tally=tally,
            ledger=ledger,
            samples=samples,
            by_source={i.source: f["records"] for i, f in zip(self.context.inputs, facts, strict=True)},
            meetings=self.meetings,
            shards=files,
        )
        for folder in ("audit", "data", "ledger", "quarantine"):
            (out / folder).mkdir(exist_ok=True)
        for name, text in dataset_files(self.have.shard, [n for n, _ in shards], config_hash).items():
            self.published[f"data/{name}"] = publish_text(out / "data" / name, text)
        self.published["audit/audit.json"] = publish_json(out / "audit" / "audit.json", audit)
        self.published["audit/audit.md"] = publish_text(out / "audit" / "audit.md", to_markdown(audit))
        for name, part in stage_files(audit).items():
            self.published[f"audit/{name}.json"] = publish_json(out / "audit" / f"{name}.json", part)
        self.published["recipe.toml"] = publish_text(out / "recipe.toml", recipe.to_toml())
        self.published["config_hash.txt"] = publish_text(out / "config_hash.txt", config_hash[:8] + "\n")
        run = self._facts(config_hash, facts, quarantined)
        self.published["run.json"] = publish_json(out / "run.json", run)
        self._remove_strays()
        manifest = {"format": 1, "config_hash": config_hash[:8], "files": dict(sorted(self.published.items()))}
        publish_json(out / MANIFEST, {**manifest, "digest": fingerprint(manifest)})
        clear(self.context.work, keep=self.keep_work or bool(self.failed))
        return Finished(out, False, audit, run, self.failed)

    def _facts(self, config_hash: str, facts: Sequence[Mapping[str, Any]], quarantined: int) -> dict[str, Any]:
        """run.json: what differs from one run to the next, and so stands nowhere else."""
        driver = time.process_time() - self.cpu
        opening = opening_seconds() - self.opening
        if self.engine.name == "serial":  # the tasks ran in this process
            driver -= self.work["task_seconds"]
        now = time.time()
        inputs = [
            {
                "source": i.source,
                "uri": i.uri,
                "size": i.size,
                "sha256": f["sha256"],
                "reader": f["reader"],
                "reread": f["reread"],
            }
            for i, f in zip(self.context.inputs, facts, strict=True)
        ]
        return {
            "config_hash": config_hash[:8],
            "identity": self.identity,
            "inputs": inputs,
            "failed": self.failed,
            "quarantined": quarantined,
            "engine": self.engine.name,
            "host": platform.node(),
            "machine": platform.machine(),
            "processors": os.cpu_count(),
            "started": datetime.fromtimestamp(self.started, UTC).isoformat(timespec="seconds"),
            "ended": datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds"),
            "wall_seconds": round(now - self.started, 3),
            "units": {"total": len(inputs), "resumed": self.resumed, "reused": self.reused},
            "work": {
                "cpu_seconds": round(self.work["task_seconds"] + driver - opening, 3),
                "opening_seconds": round(max(opening, self.work["opening_seconds"]), 3),
                "stage_seconds": {n: round(s, 3) for n, s in sorted(self.cost.items())},
                "peak_memory_bytes": int(max(self.work["peak_memory_bytes"], peak_memory())),
            },
            "versions": {"python": platform.python_version(), **versions()},
            "kept_work": self.keep_work or bool(self.failed),  # the same line tries failed inputs again
        }

    def _remove_strays(self) -> None:
        """Files of an earlier, unfinished try that the plan no longer names."""
        for folder in ("data", "ledger", "quarantine", "audit"):
            for path in (self.out / folder).iterdir():
                if f"{folder}/{path.name}" not in self.published:
                    path.unlink() if path.is_file() else shutil.rmtree(path)


def _numbers(file: RowFile, name: str) -> Any:
    return np.asarray(file.column(name).to_numpy(), dtype=np.int64)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1
