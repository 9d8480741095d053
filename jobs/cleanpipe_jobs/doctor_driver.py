"""The doctor's visit to a Ray cluster: a program of its own, which may hang or die without taking the doctor along.

Started as ``python -m cleanpipe_jobs.doctor_driver JSON`` here, or as a job in the cluster. It prints one line a fact
(``cleanpipe-doctor: JSON``), for Ray prints between them.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from cleanpipe.engine.ray_connect import DEFAULTS
from cleanpipe_jobs import doctor_node

MARK = "cleanpipe-doctor: "


def tell(**facts: Any) -> None:
    """One line of the answer."""
    print(f"\n{MARK}{json.dumps(facts)}", flush=True)


def visit(address: str, token: str, patience: float, storage: dict[str, Any] | None) -> None:
    """Connect, put a beacon into the storage, send a task to each node, tell what comes back."""
    here = doctor_node.look(token, None)
    for name, value in DEFAULTS.items():  # as a run enters it
        os.environ.setdefault(name, value)
    ray: Any = import_module("ray")
    pin = import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
    ray.init(address=address, log_to_driver=False, logging_level="error", configure_logging=True)
    tell(connected=ray.get_runtime_context().gcs_address)
    if storage:
        storage = {**storage, "beacon": f"cleanpipe-doctor-{token}"}
    beacon = _beacon(storage, token)
    try:
        tell(driver=here, beacon=beacon)
        ray.cloudpickle.register_pickle_by_value(doctor_node)
        task = ray.remote(num_cpus=0, max_retries=0)(doctor_node.look)
        asked: dict[Any, dict[str, Any]] = {}
        nodes = ray.nodes()
        hosts = Counter(node["NodeManagerAddress"] for node in nodes)
        for node in nodes:
            address, port = node["NodeManagerAddress"], node["NodeManagerPort"]
            facts = {
                "address": address if hosts[address] == 1 else f"{address}:{port}",  # several on one machine
                "alive": bool(node["Alive"]),
                "head": "node:__internal_head__" in node["Resources"],
                "ray_cpus": node["Resources"].get("CPU", 0.0),
                "store": node["Resources"].get("object_store_memory", 0.0),
            }
            if not facts["alive"]:
                tell(node=facts)
                continue
            pinned = task.options(scheduling_strategy=pin(node["NodeID"], soft=False))
            asked[pinned.remote(token, None if beacon.get("error") else storage)] = facts
        _gather(ray, asked, patience)
    finally:
        _put_out(storage, beacon)
    tell(end=True)


def _gather(ray: Any, asked: dict[Any, dict[str, Any]], patience: float) -> None:
    stop = time.monotonic() + patience
    while asked:
        ready, _ = ray.wait(list(asked), num_returns=1, timeout=max(0.0, stop - time.monotonic()))
        if not ready:
            break
        facts = asked.pop(ready[0])
        try:
            tell(node={**facts, "look": ray.get(ready[0]), "now": time.time()})
        except Exception as error:  # whatever the cluster made of it
            tell(node={**facts, "error": " ".join(f"{type(error).__name__}: {error}".split())[:500]})
    for ref, facts in asked.items():
        ray.cancel(ref, force=True)
        tell(node={**facts, "error": f"gave no answer in {patience:.0f} s"})


def _beacon(storage: dict[str, Any] | None, token: str) -> dict[str, Any]:
    """A file that every node must see."""
    if not storage:
        return {}
    made = "://" not in storage["root"] and not Path(storage["root"]).exists()
    try:
        _store(storage).write(storage["beacon"], token.encode())
    except Exception as error:  # told
        return {"error": str(error) or type(error).__name__}
    return {"error": "", "made": made}


def _put_out(storage: dict[str, Any] | None, beacon: dict[str, Any]) -> None:
    if storage and not beacon.get("error"):
        try:
            _store(storage).delete(storage["beacon"])
        except Exception as error:  # told
            tell(left=storage["beacon"], error=str(error))
        if beacon.get("made"):
            with suppress(OSError):
                Path(storage["root"]).rmdir()


def _store(storage: dict[str, Any]) -> Any:
    from cleanpipe.io.store import open_store
    from cleanpipe.options import StorageOptions

    return open_store(storage["root"], StorageOptions(**storage["options"]))


def main(argv: list[str]) -> int:
    """One visit; a failure is told like any other fact."""
    asked = json.loads(argv[0])
    try:
        visit(asked["address"], asked["token"], asked["patience"], asked["storage"])
    except BaseException as error:  # told
        tell(failed={"kind": type(error).__name__, "error": " ".join(str(error).split())[:1000]})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
