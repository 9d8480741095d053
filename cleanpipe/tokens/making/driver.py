"""The order of a job: prove the backend, encode every shard, join the spans, tell. It holds no text and no ids."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Any

from cleanpipe.engine.base import Result, Task
from cleanpipe.engine.commit import unit_key
from cleanpipe.engine.journal import Journal
from cleanpipe.errors import ConfigError, ShardError, StopError
from cleanpipe.tokens.layout import shard_name
from cleanpipe.tokens.making.ending import Ending
from cleanpipe.tokens.making.folder import FOLDERS, Made
from cleanpipe.tokens.making.job import Job
from cleanpipe.tokens.making.trust import Trust
from cleanpipe.tokens.making.work import ENCODE, MAP, PROVE, SPANS

MAP_PARTS = 64  # parts of the run's ledger that one task looks through
LOOK, LOOK_FAR = 2.0, 10.0  # seconds between two looks at a run that goes on, by where it lies


class Driver:
    """One job in progress. rebuild: see ``folder.Claim``."""

    def __init__(self, job: Job, *, rebuild: bool, sleep: Callable[[float], None] = time.sleep) -> None:
        self.job, self.rebuild, self._sleep = job, rebuild, sleep
        self.proof: dict[str, Any] = {}
        self._proven = ""  # the shard that gave the texts for it
        self.hits: dict[str, list[int]] = {}  # shard → decisions that leave documents of it out
        self.parts: dict[str, list[str]] = {}  # shard → parts of the run's ledger
        self.published: dict[str, dict[str, Any]] = {}
        self._refused: dict[str, str] = {}  # shard → digest at which it could not be read
        self._sure: set[str] = set()  # keys of units whose files are there
        self.journal, self.spans = Journal(job.store, "encode"), Journal(job.store, "spans")
        self.trust = Trust(job.store)

    def run(self) -> Made:
        """All of it; see the module."""
        source = self.job.source
        self._start()
        if source.shards:
            self._prove()
        while not source.finished:
            self._encode(list(source.shards))
            self._wait()
        if self._proven != min(source.shards, default=""):
            self._prove()
        self._map()
        self._forget_others()
        self._take_over()
        self._encode(list(source.shards))
        encoded = {name: self.journal[self._encode_key(name)] for name in source.shards}
        for result in encoded.values():
            self.published |= result["published"]
        self._join(encoded)
        total = len(source.shards)
        made = sum(bool(result["files"]) for result in encoded.values())
        rebuilt = (made, total) if self.rebuild else None
        facts = {"distrusted": self.trust.found}
        return Ending(self.job, self.proof, encoded, self.published, self.hits, facts).publish(rebuilt)

    # --- the begin

    def _start(self) -> None:
        source, job = self.job.source, self.job
        if self.trust.fresh:  # an earlier start may have been stopped before it had forgotten all
            self.trust.forget(self.journal, self.spans)
        size = sum(int(f["bytes"]) for f in source.shards.values())
        done = sum(self._encode_key(n) in self.journal for n in source.shards)
        left = sum(int(f["bytes"]) for n, f in source.shards.items() if self._encode_key(n) not in self.journal)
        job.resumed = done
        _check_disk(job, left)
        job.observer.started(len(source.shards) - done, left if source.finished else size, done, 0)

    def _prove(self) -> None:
        """The backend that this job uses: proven in a worker, where it will be used, on texts of the first shard."""
        job, settings, source = self.job, self.job.settings, self.job.source
        first, before = min(source.shards, default=""), self.proof.get("used")
        for shard in (first, ""):  # without any where a shard is not as it will be
            args = {
                "run": source.root,
                "shard": shard,
                "facts": dict(source.shards[shard]) if shard else {},
                "digest": settings.digest,
                "backend": settings.backend,
                "device": settings.device,
                "splitters": settings.splitters,
            }
            gpus = gpus_of(settings.backend, settings.device)
            task = Task(PROVE, unit_key("prove", args), "the backend", 0, args, gpus)
            ((_, result),) = job.run("prove", iter([task]), 1)
            if not isinstance(result, ShardError):
                self.proof, self._proven = self.trust.judged(result["proof"]), shard
                break
            if source.finished or not shard:
                raise self._lost(shard, result)
        if before not in (None, self.proof["used"]):  # what the other one did is not believed any more
            for key in list(self.journal):
                self.journal.forget(key)
            self._sure.clear()
        used, asked = str(self.proof.get("used", settings.backend)), settings.backend
        if self.proof.get("reason") and used != asked:
            job.observer.warn(f"backend {asked}: {self.proof['reason']}: {used} is used")

    def _lost(self, shard: str, error: ShardError) -> ConfigError | StopError:
        if "cleanpipe verify" in error.message:
            return ConfigError(f"{self.job.source.root}/{error.source} {error.message}")
        return StopError(f"could not be tokenized ({error.message}); start the same line again", source=shard)

    # --- a run that is not finished

    def _wait(self) -> None:
        """Until there is something new."""
        job = self.job
        job.observer.phase("wait", 0)
        while True:
            self._sleep(LOOK if job.source.store.local else LOOK_FAR)
            job.still_ours()
            before = dict(job.source.shards)
            if not self._looked():
                continue
            if job.source.finished or job.source.shards != before:
                return

    def _looked(self) -> bool:
        """Look again; false where there is no run for the moment."""
        source = self.job.source
        if not source.is_there:
            return False
        source.look(follow=True)
        if source.identity() != self.job.settings.identity["run"]:
            raise ConfigError(f"{source.root} holds another run now: name another folder for its tokens")
        return True

    # --- where documents lie

    def _map(self) -> None:
        job, source = self.job, self.job.source
        parts = [(name, dict(facts)) for name, facts in source.ledger.items()]
        said = list(job.settings.said)
        journal, keys = Journal(job.store, "map"), list[str]()

        def tasks() -> Iterator[Task]:
            for at in range(0, len(parts), MAP_PARTS):
                some = parts[at : at + MAP_PARTS]
                key = unit_key("map", [[n, f["sha256"]] for n, f in some], said)
                keys.append(key)
                if key not in journal:
                    yield Task(MAP, key, some[0][0], len(some), {"run": source.root, "parts": some, "said": said})

        for task, result in job.run("map", tasks(), -(-len(parts) // MAP_PARTS)):
            if isinstance(result, ShardError):
                raise self._lost(task.label, result)
            journal.add(task.key, result)
        hits: dict[str, set[int]] = {}
        for key in keys:
            for shard, names in journal[key]["shards"].items():
                self.parts.setdefault(shard, []).extend(names)
            for shard, lines in journal[key]["hits"].items():
                hits.setdefault(shard, set()).update(lines)
        self.hits = {shard: sorted(lines) for shard, lines in sorted(hits.items())}

    # --- shards to tokens

    def _said(self, shard: str) -> list[dict[str, Any]]:
        lines = set(self.hits.get(shard, ()))
        return [d for d in self.job.settings.said if d["line"] in lines]

    def _encode_key(self, shard: str) -> str:
        settings, facts = self.job.settings, self.job.source.shards[shard]
        identity = settings.identity
        what = [identity["tokenizer"]["digest"], settings.per_window, identity["code"]]
        return unit_key("encode", shard, facts["sha256"], facts["bytes"], what, self._said(shard))

    @staticmethod
    def _name(shard: str) -> str:
        """``data-00000-of-00003.arrow`` → ``tokens-00000-of-00003``."""
        index, _, count = shard.removeprefix("data-").removesuffix(".arrow").partition("-of-")
        return shard_name(int(index), int(count))

    def _encode(self, shards: list[str]) -> None:
        """Those that are not done, largest first; of a run that goes on also what it publishes meanwhile."""
        job, source, settings = self.job, self.job.source, self.job.settings
        left = self._left(self.journal, {s: self._encode_key(s) for s in shards})
        if not source.finished:
            left = [s for s in left if self._refused.get(s) != source.shards[s]["sha256"]]
        if not left:
            return
        if not self.proof:
            self._prove()
        left.sort(key=lambda s: (-int(source.shards[s]["bytes"]), s))
        used = str(self.proof.get("used", settings.backend))
        gpus = gpus_of(used, settings.device)

        def tasks() -> Iterator[Task]:
            for shard in left:
                if self.trust.refuses(used):
                    return
                facts = source.shards[shard]
                args = {
                    "run": source.root,
                    "shard": shard,
                    "facts": {"bytes": facts["bytes"], "sha256": facts["sha256"]},
                    "name": self._name(shard),
                    "digest": settings.digest,
                    "backend": used,
                    "device": settings.device,
                    "splitters": settings.splitters,
                    "per_window": settings.per_window,
                    "said": self._said(shard),
                }
                for record in (".json", ".spans.json"):  # they would speak of files that are about to go
                    job.store.delete(f"audit/shards/{args['name']}{record}")
                yield Task(ENCODE, self._encode_key(shard), shard, int(facts["bytes"]), args, gpus)

        for task, result in job.run("encode", tasks(), len(left)):
            if isinstance(result, ShardError):
                if source.finished:
                    raise self._lost(task.label, result)
                self._refused[task.label] = task.args["facts"]["sha256"]
                continue
            self.journal.add(task.key, result)
            self._sure.add(task.key)
            if result.get("unable"):
                job.observer.warn(f"{task.label}: {used} could not be used ({result['unable']}): hf encoded this shard")
            if result.get("differs") and self.trust.note(used, task.label, result["differs"]):
                job.observer.warn(
                    f"{task.label}: {used} differs from the reference ({result['differs']}): it is not used any more, "
                    "and hf makes again whatever it made"
                )
        if self.trust.refuses(used):
            self._again_by_reference(shards)

    def _again_by_reference(self, shards: list[str]) -> None:
        """What a backend made that was found wrong."""
        self.proof = self.trust.judged(self.proof)
        units = self.trust.forget(self.journal, self.spans)
        self._sure.clear()
        if units:
            self.job.observer.warn(f"{units:,} shard{'s are' if units != 1 else ' is'} encoded again by hf")
        self._encode(shards)

    def _left(self, journal: Journal, keys: Mapping[str, str]) -> list[str]:
        """Shards whose unit is not done, or whose files are not there. One that was found so is not looked at again."""
        doubtful = [key for key in keys.values() if key in journal and key not in self._sure]
        there = self._there() if doubtful else {}
        self._sure |= {key for key in doubtful if self._is_done(journal, key, there)}
        return [shard for shard, key in keys.items() if key not in self._sure]

    def _is_done(self, journal: Journal, key: str, there: Mapping[str, int]) -> bool:
        if key not in journal:
            return False
        if all(there.get(n) == f["bytes"] for n, f in journal[key]["published"].items()):
            return True
        journal.forget(key)
        return False

    def _forget_others(self) -> None:
        """Units of an earlier start whose files other decisions have put others in the place of, or will."""
        wanted = {self._encode_key(s) for s in self.job.source.shards}
        for key in [k for k in self.journal if k not in wanted]:
            self.journal.forget(key)

    def _take_over(self) -> None:
        """Units of a finished store that would be made as they are; none where nobody knows who made them rightly."""
        if self.trust.fresh:
            return
        there = self._there()
        for shard in self.job.source.shards:
            key = self._encode_key(shard)
            if self._is_done(self.journal, key, there):
                continue
            name = self._name(shard)
            encoded = self._record(f"audit/shards/{name}.json", key, there)
            joined = self._record(f"audit/shards/{name}.spans.json", self._spans_key(shard), there)
            if encoded is None or joined is None:
                continue
            for journal, result in ((self.journal, encoded), (self.spans, joined)):
                unit = result.pop("key")
                journal.add(unit, journal.units.commit(unit, result))
            self.job.taken += 1

    def _there(self) -> dict[str, int]:
        return {n: s for folder in FOLDERS for n, s in self.job.store.names(folder)}

    def _record(self, name: str, key: str, there: Mapping[str, int]) -> Result | None:
        """A unit's result from what it published of itself, if that is this unit and its files are there."""
        if name not in there:
            return None
        data = self.job.store.read(name)
        try:
            about = json.loads(data)
            published = {str(n): dict(f) for n, f in about["published"].items()}
            sound = about["key"] == key and all(there.get(n) == f["bytes"] for n, f in published.items())
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
        if not sound:
            return None
        published[name] = {"bytes": len(data), "sha256": sha256(data).hexdigest()}
        more = {n: about[n] for n in ("counts", "name") if n in about}
        return {"key": key, "files": {}, "published": published, **more}

    # --- spans

    def _spans_key(self, shard: str) -> str:
        parts = [[n, self.job.source.ledger[n]["sha256"]] for n in self.parts.get(shard, ())]
        return unit_key("spans", self._encode_key(shard), parts)

    def _join(self, encoded: Mapping[str, Result]) -> None:
        job, source = self.job, self.job.source
        journal, keys = self.spans, {shard: self._spans_key(shard) for shard in source.shards}
        wanted = set(keys.values())
        for key in [k for k in journal if k not in wanted]:
            journal.forget(key)
        left = self._left(journal, keys)

        def tasks() -> Iterator[Task]:
            for shard in left:
                name = self._name(shard)
                args = {
                    "run": source.root,
                    "shard": shard,
                    "name": name,
                    "index": int(name.split("-")[1]),
                    **encoded[shard]["files"],
                    "parts": [[n, dict(source.ledger[n])] for n in self.parts.get(shard, ())],
                }
                yield Task(SPANS, keys[shard], shard, int(source.shards[shard]["bytes"]), args)

        for task, result in job.run("join", tasks(), len(left)):
            if isinstance(result, ShardError):
                raise self._lost(task.label, result)
            journal.add(task.key, result)
            self._sure.add(task.key)
        for key in keys.values():
            self.published |= journal[key]["published"]


def gpus_of(backend: str, device: str) -> float:
    """GPUs that a task holds."""
    return 1.0 if backend == "torch" and device.startswith("cuda") else 0.0


def _check_disk(job: Job, size: int) -> None:
    """Is there room? Tokens, their indexes, spans and ledger take about half of what the shards do.

    Raises:
        StopError: there surely is not.
    """
    if not job.store.local:
        return
    need, free = size // 2, job.store.free()
    room = f"{free / 1e9:,.1f} GB free, and the tokens may need {need / 1e9:,.1f} GB"
    if free < need // 10:
        raise StopError(room, source=job.store.root)
    if free < need:
        job.observer.warn(f"{room}; a full disk loses nothing")
