"""The end of a job: totals, balance, audit, what a reader needs, and the manifest, whose presence means finished."""

from __future__ import annotations

import io
import json
import os
import platform
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from cleanpipe.engine.base import Result
from cleanpipe.engine.machine import peak_memory, versions
from cleanpipe.io.remote import redacted
from cleanpipe.recipe import fingerprint
from cleanpipe.tally import Tally, add
from cleanpipe.tokens.audit.build import build_token_audit
from cleanpipe.tokens.audit.markdown import to_markdown
from cleanpipe.tokens.audit.page import to_html
from cleanpipe.tokens.audit.told import merge_samples
from cleanpipe.tokens.layout import TOKENIZER, width
from cleanpipe.tokens.making.folder import FOLDERS, RUN, Made
from cleanpipe.tokens.making.job import Job
from cleanpipe.tokens.making.trust import summed
from cleanpipe.tokens.store import write_store

_PROOF = ("asked", "used", "reason")


class Ending:
    """Publishes what is left to publish. encoded: shard of the run → its unit's result. hits: see ``driver``.
    facts: more that run.json says.
    """

    def __init__(
        self,
        job: Job,
        proof: Mapping[str, Any],
        encoded: Mapping[str, Result],
        published: dict[str, dict[str, Any]],
        hits: Mapping[str, list[int]],
        facts: Mapping[str, Any],
    ) -> None:
        self.facts = facts
        self.job, self.proof, self.encoded, self.published, self.hits = job, proof, encoded, published, hits

    def publish(self, rebuilt: tuple[int, int] | None) -> Made:
        """The folder is finished then."""
        job, store, named = self.job, self.job.store, self.published
        tally, ids, samples = self._totals()
        info = self._info()
        audit = build_token_audit(
            identity=self._identity(info),
            tally=tally,
            histogram=ids,
            tokenizer=job.settings.tokenizer,
            proof=self.proof,
            shards=[{**s, "bytes": named[f"tokens/{s['name']}.bin"]["bytes"]} for s in info["shards"]],
            run=job.source.audit,
            samples=samples,
            per_window=job.settings.per_window,
            limits=job.settings.limits,
        )
        job.hold.check()
        for name, data in job.settings.tokenizer.files().items():
            named[TOKENIZER + name] = store.write(TOKENIZER + name, data)
        named["audit/audit.json"] = store.write_json("audit/audit.json", audit)
        named["audit/audit.md"] = store.write_text("audit/audit.md", to_markdown(audit))
        named["audit/audit.html"] = store.write_text("audit/audit.html", to_html(audit))
        facts = self._facts(rebuilt)
        named[RUN] = store.write_json(RUN, facts)
        job.hold.check()
        self._remove_strays()
        written = write_store(store, info, named)
        store.delete_below("work/")
        return Made(store.root, False, written, audit, facts, rebuilt)

    def _totals(self) -> tuple[Tally, npt.NDArray[np.int64], list[dict[str, Any]]]:
        """Over all shards: what was counted, how often each id came, documents to show."""
        store, total = self.job.store, dict[str, Any]()
        ids = np.zeros(self.job.settings.tokenizer.vocabulary, np.int64)
        samples: list[dict[str, Any]] = []
        for result in self.encoded.values():
            name = f"audit/shards/{result['name']}"
            about = json.loads(store.read(f"{name}.json"))
            add(total, about["tally"])
            samples = [dict(s) for s in merge_samples([samples, about["samples"]])]
            ids += np.load(io.BytesIO(store.read(f"{name}.ids.npy")), allow_pickle=False)
        return total, ids, samples

    def _info(self) -> dict[str, Any]:
        """store.json."""
        settings, source = self.job.settings, self.job.source
        tokenizer = settings.tokenizer
        shards = [
            {
                "name": result["name"],
                "shard": shard,
                "shard_sha256": source.shards[shard]["sha256"],
                "tokens": result["counts"]["tokens"],
                "documents": result["counts"]["kept"],
                "windows": result["counts"]["windows"],
                "sha256": self.published[f"tokens/{result['name']}.bin"]["sha256"],
            }
            for shard, result in self.encoded.items()
        ]
        return {
            "name": tokenizer.name,
            "kind": tokenizer.kind,
            "dtype": "uint16" if np.dtype(width(tokenizer.vocabulary)).itemsize == 2 else "int32",
            "vocabulary": tokenizer.vocabulary,
            "bos": tokenizer.bos,
            "eos": tokenizer.eos,
            "unk": tokenizer.unk,
            "controls": dict(tokenizer.controls),
            "fingerprint": dict(tokenizer.fingerprint),
            "per_window": settings.per_window,
            "run": self._run(),
            **{n: sum(s[n] for s in shards) for n in ("tokens", "documents", "windows")},
            "shards": shards,
            "decisions": settings.decisions,
            "backend": {k: self.proof.get(k) for k in _PROOF},
        }

    def _run(self) -> dict[str, Any]:
        """What is the same of every row of spans/: by source its SHA-256, by stage a digest of its options."""
        source = self.job.source
        identity = source.facts["identity"]
        return {
            "config_hash": source.facts["config_hash"],
            "recipe": source.audit["identity"].get("recipe", ""),
            "code": identity["code"],
            "models": dict(sorted(identity.get("models", {}).items())),
            "stages": {name: fingerprint([name, *said]) for name, *said in identity["settings"].get("stages", ())},
            "inputs": {i["source"]: i.get("sha256") or "" for i in source.audit["identity"].get("inputs", ())},
        }

    def _identity(self, info: Mapping[str, Any]) -> dict[str, Any]:
        said = {d["line"]: d for d in self.job.settings.said}
        used = sorted({line for lines in self.hits.values() for line in lines})
        return {
            "run": {name: info["run"][name] for name in ("config_hash", "recipe", "code")},
            "code": self.job.settings.identity["code"],
            "per_window": info["per_window"],
            "decisions": {**info["decisions"], "left_out_by": [said[n] for n in used if n in said]},
        }

    def _facts(self, rebuilt: tuple[int, int] | None) -> dict[str, Any]:
        """run.json: what differs from one job to the next."""
        job, work = self.job, self.job.work
        driver = time.process_time() - job.cpu
        if job.engine.name == "serial":  # the tasks ran in this process
            driver -= work["task_seconds"]
        now = time.time()
        return {
            "config_hash": job.source.facts["config_hash"],
            "identity": job.settings.identity,
            "out": redacted(job.source.root),
            "backend": {**self.proof, "work": self._used()},
            "device": job.settings.device,
            "rebuilt": None if rebuilt is None else {"shards": rebuilt[0], "of": rebuilt[1]},
            "differing_shards": {s: told for found in self.facts["distrusted"].values() for s, told in found.items()},
            **self.facts,
            "rescued_texts": sum(int(r.get("rescued", 0)) for r in self.encoded.values()),
            "engine": job.engine.name,
            "host": platform.node(),
            "machine": platform.machine(),
            "processors": os.cpu_count(),
            "started": datetime.fromtimestamp(job.started, UTC).isoformat(timespec="seconds"),
            "ended": datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds"),
            "wall_seconds": round(now - job.started, 3),
            "units": {"total": len(self.encoded), "resumed": job.resumed, "taken": job.taken, "retries": job.tries},
            "work": {
                "cpu_seconds": round(work["task_seconds"] + driver, 3),
                "encode_seconds": round(work["encode_seconds"], 3),
                "encoded_bytes": int(work["encoded_bytes"]),
                "peak_memory_bytes": int(max(work["peak_memory_bytes"], peak_memory())),
            },
            "versions": {"python": platform.python_version(), **versions()},
        }

    def _used(self) -> dict[str, Any]:
        """By backend: shards that it made in this job, and what it says of itself (see ``Backend.facts``)."""
        by: dict[str, list[Result]] = {}
        for result in self.encoded.values():
            if result.get("backend"):
                by.setdefault(result["backend"], []).append(result)
        return {
            name: {
                "shards": len(made),
                "compared_documents": sum(int(r.get("compared", 0)) for r in made),
                **summed(r.get("used", {}) for r in made),
            }
            for name, made in sorted(by.items())
        }

    def _remove_strays(self) -> None:
        """Files of an earlier, unfinished try that nothing names any more."""
        store = self.job.store
        store.remove_leftovers()
        for folder in FOLDERS:
            store.delete_all([name for name, _ in store.names(folder) if name not in self.published])
