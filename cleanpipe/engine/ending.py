"""The end of a run: audit, facts, strays removed, and the manifest whose presence means finished."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from cleanpipe.audit.build import PAGE, build_audit, stage_files
from cleanpipe.audit.markdown import to_markdown
from cleanpipe.card import card_files
from cleanpipe.engine.chain import joined_digest
from cleanpipe.engine.folder import MANIFEST, Finished
from cleanpipe.engine.going import Going
from cleanpipe.engine.machine import peak_memory, versions
from cleanpipe.engine.opened import opening_seconds
from cleanpipe.engine.passes import Pass
from cleanpipe.identity import config_hash
from cleanpipe.io.arrow import dataset_files
from cleanpipe.io.remote import redacted
from cleanpipe.quarantine import LIMITS
from cleanpipe.recipe import fingerprint
from cleanpipe.report.audit_page import to_html
from cleanpipe.tally import Tally, add


@dataclass(slots=True)
class Published:
    """What the ledger tasks found, added up. again: rows that may end otherwise when tried again. limits: documents
    that a guard set aside.
    """

    tally: Tally = field(default_factory=dict)
    samples: dict[str, list[Any]] = field(default_factory=dict)
    quarantined: int = 0
    again: int = 0
    limits: list[dict[str, Any]] = field(default_factory=list)


class Ending:
    """Publishes what is left to publish."""

    def __init__(
        self,
        going: Going,
        passes: Sequence[Pass],
        meetings: dict[str, dict[str, Any]],
        published: dict[str, dict[str, Any]],
    ) -> None:
        self.going, self.passes, self.meetings, self.published = going, passes, meetings, published
        self.inputs = [self._input(i) for i in range(len(going.plan.inputs))]

    def _input(self, index: int) -> dict[str, Any]:
        """What was read of one input, its units put together."""
        going, records = self.going, dict[str, int]()
        facts = [self.passes[0][unit]["facts"] for unit in going.plan.of_input(index)]
        own = [f for f in facts if f["first"] >= 0] or facts[:1]
        for f in own:
            add(records, f["records"])
        whole = all(f["sha256"] for f in own)
        return {
            "source": going.plan.inputs[index].source,
            "size": sum(f["file_bytes"] for f in own),
            "sha256": joined_digest([f["sha256"] for f in own]) if whole else "",
            "records": dict(sorted(records.items())),
            "reader": ", ".join(sorted({f["reader"] for f in own})),
            "reread": "; ".join(sorted({f["reread"] for f in own if f["reread"]})),
            "units": len(facts),
        }

    def publish(self, shards: Sequence[str], ledger: Published) -> Finished:
        """Audit, run.json, and last the manifest; the folder is finished then."""
        going, store, recipe, identity = self.going, self.going.store, self.going.context.recipe, self.going.identity
        inputs = [{k: i[k] for k in ("source", "size", "sha256")} for i in self.inputs]
        digest = config_hash(identity, inputs)
        tally: Tally = {}
        for done in self.passes:
            add(tally, done.tally())
        files = [{"file": n, **self.published[f"data/{n}"], "limit": recipe.shards.max_bytes} for n in shards]
        audit = build_audit(
            identity={
                "config_hash": digest[:8],
                "recipe": recipe.name,
                "code": identity["code"],
                **({"kept_code": identity["kept_code"]} if "kept_code" in identity else {}),
                "models": identity["models"],
                "inputs": inputs,
            },
            recipe=recipe,
            stages=[s for p in going.have.passes for s in p.stages],
            tally=tally,
            ledger=ledger.tally,
            samples=ledger.samples,
            by_source={i["source"]: i["records"] for i in self.inputs},
            meetings=self.meetings,
            shards=files,
        )
        going.hold.check()
        named = self.published
        for name, text in dataset_files(going.have.shard, shards, digest).items():
            named[f"data/{name}"] = store.write_text(f"data/{name}", text)
        steps = [s for p in going.have.passes for s in p.stages]
        for name, text in card_files(audit, recipe, steps, going.have.shard, ledger.tally.get("captured", {})).items():
            named[f"data/{name}"] = store.write_text(f"data/{name}", text)
        if ledger.limits:
            documents = sorted(ledger.limits, key=lambda d: (d["source"], d["record_offset"], d["doc_id"]))
            named[LIMITS] = store.write_json(LIMITS, {"format": 1, "documents": documents})
        named["audit/audit.json"] = store.write_json("audit/audit.json", audit)
        named["audit/audit.md"] = store.write_text("audit/audit.md", to_markdown(audit))
        for name, part in stage_files(audit).items():
            named[f"audit/{name}.json"] = store.write_json(f"audit/{name}.json", part)
        named["recipe.toml"] = store.write_text("recipe.toml", recipe.to_toml(machine=False))
        named["config_hash.txt"] = store.write_text("config_hash.txt", digest[:8] + "\n")
        run = self._facts(digest, ledger)
        going.hold.check()
        named["run.json"] = store.write_json("run.json", run)
        named[f"audit/{PAGE}"] = store.write_text(f"audit/{PAGE}", to_html(audit, run))
        going.hold.check()
        self._remove_strays()
        manifest = {"format": 1, "config_hash": digest[:8], "files": dict(sorted(named.items()))}
        store.write_json(MANIFEST, {**manifest, "digest": fingerprint(manifest)})
        if not run["kept_work"]:
            store.delete_below("work/")
        return Finished(store.root, False, audit, run, going.failed)

    def _facts(self, digest: str, ledger: Published) -> dict[str, Any]:
        """run.json: what differs from one run to the next, and so stands nowhere else."""
        going, work = self.going, self.going.work
        driver = time.process_time() - going.cpu
        opening = opening_seconds() - going.opening
        if going.engine.name == "serial":  # the tasks ran in this process
            driver -= work["task_seconds"]
        now = time.time()
        return {
            "config_hash": digest[:8],
            "run_id": going.context.run_id,
            "identity": going.identity,
            "inputs": [
                {**{k: v for k, v in found.items() if k != "records"}, "uri": redacted(given.uri)}
                for found, given in zip(self.inputs, going.plan.inputs, strict=True)
            ],
            "failed": going.failed,
            "quarantined": ledger.quarantined,
            "again": ledger.again,
            "engine": going.engine.name,
            "host": platform.node(),
            "machine": platform.machine(),
            "processors": os.cpu_count(),
            "started": datetime.fromtimestamp(going.started, UTC).isoformat(timespec="seconds"),
            "ended": datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds"),
            "wall_seconds": round(now - going.started, 3),
            "units": {
                "total": len(going.plan),
                "resumed": going.resumed,
                "reused": going.reused,
                "retries": going.tries,
            },
            "work": {
                "cpu_seconds": round(work["task_seconds"] + driver - opening, 3),
                "opening_seconds": round(max(opening, work["opening_seconds"]), 3),
                "stage_seconds": {n: round(s, 3) for n, s in sorted(going.cost.items())},
                "peak_memory_bytes": int(max(work["peak_memory_bytes"], peak_memory())),
            },
            "versions": {"python": platform.python_version(), **versions()},
            # the same line tries failed inputs again, and `cleanpipe quarantine --rerun` documents set aside
            "kept_work": going.keep_work or bool(going.failed) or ledger.again > 0,
        }

    def _remove_strays(self) -> None:
        """Files of an earlier, unfinished try that the plan no longer names."""
        store = self.going.store
        store.remove_leftovers()  # drafts of workers that were killed, uploads of nodes that were lost
        for folder in ("data/", "ledger/", "index/", "quarantine/", "audit/"):
            store.delete_all([name for name, _ in store.names(folder) if name not in self.published])
