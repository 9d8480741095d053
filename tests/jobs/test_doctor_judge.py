"""What the doctor says to the facts of a cluster. Facts are data; each case changes some of them."""

import copy

import pytest

from cleanpipe_jobs.doctor_cluster import Visit
from cleanpipe_jobs.doctor_judge import judge, listed, refused, spread

GB = 10**9
HEALTHY = {
    "host": "n",
    "python": "3.11.7",
    "ray": "2.60.0",
    "cleanpipe": {"version": "0.1.0", "code": "a" * 64},
    "auth": {"env": "disabled", "token": None, "mode": "disabled"},
    "env": {
        "RAY_grpc_client_keepalive_time_ms": "10000",
        "RAY_grpc_client_keepalive_timeout_ms": "10000",
        "RAY_task_oom_retries": "2",
    },
    "shm": {"path": "/dev/shm", "size": 8 * GB, "free": 8 * GB},
    "files": 65536,
    "temp": {"path": "/tmp", "size": 100 * GB, "free": 50 * GB},
    "cpus": 8,
    "clock": 1000.0,
    "storage": None,
}
PROBED = {"step": "", "error": "", "seconds": 0.5}
NAMES = {"here": None, "head": "10.0.0.1", "w1": "10.0.0.2", "w2": "10.0.0.3"}


def cluster(address="10.0.0.1:6379", storage=False, **changes):
    """A healthy cluster of three, with changes {"who.path.to.fact": value}; who: here, head, w1, w2, nodes, all."""
    looks = {name: copy.deepcopy(HEALTHY) for name in NAMES}
    nodes = {
        name: {
            "address": NAMES[name],
            "alive": True,
            "head": name == "head",
            "ray_cpus": 0.0 if name == "head" else 8.0,
            "store": 2.0 * GB,
            "look": looks[name],
            "now": 1000.0,
        }
        for name in ("head", "w1", "w2")
    }
    if storage:
        for node in nodes.values():
            node["look"]["storage"] = dict(PROBED)
    for where, value in changes.items():
        who, *path, last = where.split("/")
        chosen = {"nodes": ["head", "w1", "w2"], "all": list(NAMES)}.get(who, [who])
        for name in chosen:
            at = nodes[name] if path[:1] == ["node"] or (not path and last in ("alive", "error")) else looks[name]
            for step in path:
                if step != "node":
                    at = at[step]
            if value is KeyError:
                at.pop(last)
            else:
                at[last] = value
    for node in nodes.values():
        if "error" in node or not node["alive"]:
            node.pop("look")
    visit = Visit(address, looks["here"], connected="10.0.0.1:6379", driver=copy.deepcopy(HEALTHY), ended=True)
    visit.nodes, visit.beacon = list(nodes.values()), {"error": ""} if storage else {}
    return visit


def found(visit, storage=None):
    return {f.what: f for f in judge(visit, storage)}


S3 = {"root": "s3://bucket/run"}
SHARED = {"root": "/shared/run"}


def test_a_healthy_cluster_has_nothing_to_mend():
    for visit in (cluster(), cluster("http://10.0.0.1:8265")):
        assert [(f.what, f.state, f.mend) for f in judge(visit, None) if f.state != "ok" or f.mend] == []
    assert found(cluster(storage=True), S3)["storage s3://bucket/run"].state == "ok"
    assert "3 nodes alive, 16 processors" in found(cluster())["cluster"].found


KEEP = "env/RAY_grpc_client_keepalive_time_ms"
CASES = [  # change, what, state, found has, mend has
    ({"w1/ray": "2.59.0"}, "ray", "wrong", "2.59.0 on 10.0.0.2", "ray[default]==2.60.0"),
    ({"here/ray": "2.59.0"}, "ray", "wrong", "2.59.0 here", "ray[default]==2.60.0"),
    ({"w1/python": "3.12.1"}, "python", "wrong", "3.12.1 on 10.0.0.2", "one minor version"),
    ({"w1/python": "3.11.9"}, "python", "ok", "3.11.9 on 10.0.0.2", ""),
    ({"w2/cleanpipe/code": "b" * 64}, "cleanpipe", "wrong", "code bbbbbbbb) on 10.0.0.3", "same wheel or image"),
    (
        {"w1/cleanpipe": {"version": None, "code": None, "error": "ModuleNotFoundError: No module named 'cleanpipe'"}},
        "cleanpipe", "wrong", "not on 10.0.0.2", "py_modules",
    ),
    ({"here/auth/mode": "token", "here/auth/token": "x"}, "auth mode", "wrong", "token here", "RAY_AUTH_MODE"),
    ({"all/auth/env": None}, "auth mode", "note", "RAY_AUTH_MODE is not set", "RAY_AUTH_MODE"),
    ({"here/auth/env": None}, "auth mode", "note", "not set here", "RAY_AUTH_MODE"),
    (
        {"all/auth/env": None, "head/auth/token": "/root/.ray/auth_token"},
        "auth token", "wrong", "lies on 10.0.0.1 where RAY_AUTH_MODE is not set", "RAY_AUTH_MODE",
    ),
    ({"head/auth/token": "/root/.ray/auth_token"}, "auth token", "ok", "there on 10.0.0.1", ""),
    (
        {"all/auth/mode": "token", "all/auth/env": "token", "nodes/auth/token": "x"},
        "auth token", "wrong", "missing on here", "auth_token",
    ),
    ({"w2/" + KEEP: KeyError}, "keep-alive", "wrong", "unset/10000 on 10.0.0.3", "KEEP on head, workers and client"),
    ({"nodes/env": {}}, "keep-alive", "wrong", "unset/unset on 10.0.0.1", "KEEP"),
    ({"all/" + KEEP: "300000"}, "keep-alive", "note", "more than a minute", "KEEP"),
    ({"w1/env/RAY_task_oom_retries": "-1"}, "oom retries", "note", "without end on 10.0.0.2", "RAY_task_oom_retries=2"),
    ({"here/env/RAY_task_oom_retries": KeyError}, "oom retries", "ok", "1 here", ""),
    ({"w1/shm/size": 64 * 10**6}, "/dev/shm", "note", "64 MB on 10.0.0.2", "--shm-size"),
    ({"w1/files": 1024}, "open files", "wrong", "1,024 on 10.0.0.2", "ulimit -n 65536"),
    ({"w1/files": 20000}, "open files", "note", "20,000 on 10.0.0.2", "ulimit -n 65536"),
    ({"here/files": 1024}, "open files", "ok", "65,536", ""),
    ({"w1/files": -1}, "open files", "ok", "", ""),  # without a limit
    ({"w1/temp/free": 2 * GB}, "temp disk", "wrong", "over 95 % full on 10.0.0.2", "--temp-dir"),
    ({"w1/temp/free": 9 * GB}, "temp disk", "note", "9.0 GB free at least, little on 10.0.0.2", "--temp-dir"),
    ({"w1/temp/free": 30 * GB}, "temp disk", "ok", "30.0 GB free at least", ""),
    ({"w1/clock": 1400.0}, "clocks", "wrong", "+400 s", "NTP"),
    ({"w1/clock": 990.0}, "clocks", "ok", "within 10 s", ""),
    ({"head/node/ray_cpus": 4.0}, "head", "note", "10.0.0.1 takes tasks", "--num-cpus 0"),
    ({"w1/alive": False}, "nodes", "note", "dead: 10.0.0.2", ""),
    ({"w1/error": "gave no answer in 60 s"}, "node 10.0.0.2", "wrong", "gave no answer", "ray status"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "what", "state", "has", "mend"), CASES, ids=lambda v: str(v)[:40])
def test_each_fault_has_its_name_and_its_mend(changes, what, state, has, mend):
    visit = cluster(**changes)
    finding = found(visit)[what]
    assert (finding.state, has in finding.found) == (state, True), finding
    assert mend.replace("KEEP", "RAY_grpc_client_keepalive_time_ms=10000").partition(" on head")[0] in finding.mend
    assert bool(finding.mend) == (state != "ok")
    others = [f.what for f in judge(visit, None) if f.state == "wrong" and f.what != what]
    assert others == [], "one fault is told once"


def probe(step, error):
    return {"step": step, "error": error, "seconds": 1.0}


STORAGE = [
    (
        {"w1/storage": probe("writing", "403 https://u:pw@h/")},
        S3,
        "10.0.0.2, writing: 403 https://h/",
        "AWS_ACCESS_KEY_ID",
    ),
    ({"w2/storage": probe("reading what another machine wrote", "x")}, SHARED, "fails on 10.0.0.3", "shared mount"),
    ({"w2/storage": probe("writing", "Permission denied")}, SHARED, "Permission denied", "writable"),
]


@pytest.mark.parametrize(("changes", "storage", "has", "mend"), STORAGE)
def test_storage_that_a_node_cannot_use(changes, storage, has, mend):
    finding = found(cluster(storage=True, **changes), storage)[f"storage {storage['root']}"]
    assert finding.state == "wrong"
    assert has in finding.found
    assert mend in finding.mend


def test_storage_that_the_driver_cannot_use():
    visit = cluster()
    visit.beacon = {"error": "storage lost: 503"}
    assert "from the driver: storage lost: 503" in found(visit, S3)["storage s3://bucket/run"].found


def test_from_outside_the_client_is_no_node():
    changes = {"here/python": "3.13.0", "here/" + KEEP: "300000", "here/files": 256, "here/cleanpipe/code": "c" * 64}
    outside = found(cluster("http://10.0.0.1:8265", **changes))
    assert {n: outside[n].state for n in ("python", "keep-alive", "open files", "cleanpipe", "oom retries")} == {
        "python": "ok", "keep-alive": "ok", "open files": "ok", "cleanpipe": "note", "oom retries": "ok",
    }  # fmt: skip
    inside = found(cluster(**changes))
    assert [inside[n].state for n in ("python", "keep-alive", "cleanpipe")] == ["wrong"] * 3
    assert found(cluster("http://10.0.0.1:8265", **{"here/ray": "2.59.0"}))["ray"].state == "note"


def test_code_that_travels_with_the_job_is_a_note():
    visit = cluster("http://10.0.0.1:8265")
    visit.carried = True
    finding = found(visit)["cleanpipe"]
    assert (finding.state, "travelled with this job" in finding.found, "py_modules" in finding.mend) == (
        "note",
        True,
        True,
    )


def test_a_visit_that_breaks_off_is_told():
    visit = cluster()
    visit.ended = False
    assert found(visit)["visit"].state == "wrong"


@pytest.mark.parametrize(
    ("address", "kind", "error", "what", "has", "mend"),
    [
        ("h:1", "AuthenticationError", "Token authentication is enabled but", "auth", "here: not set", "RAY_AUTH_MODE"),
        ("h:1", "RuntimeError", "Version mismatch: The cluster has Ray 2.59", "ray", "2.59", "ray[default]=="),
        ("h:1", "ConnectionError", "Failed to connect to Ray cluster", "address", "reached but not joined", "logs"),
        ("auto", "ConnectionError", "Could not find any running Ray", "address", "no Ray cluster", "ray start"),
        ("http://h:1", "Job", "No module named 'cleanpipe_jobs'", "cleanpipe", "not on the head", "py_modules"),
        ("h:1", "TimeoutError", "no answer in 60 s", "address", "not joined", "logs"),
    ],
)
def test_a_cluster_that_cannot_be_entered(address, kind, error, what, has, mend):
    here = copy.deepcopy(HEALTHY)
    here["auth"]["env"] = None
    (finding,) = refused(address, {"kind": kind, "error": error}, here)
    assert (finding.what, finding.state) == (what, "wrong")
    assert has in finding.found
    assert mend in finding.mend


def test_words_for_many_nodes():
    assert listed([]) == ""
    assert listed("abcd") == "a, b, c, d"
    assert listed("abcdefg") == "a, b, c, d and 3 more"
    assert spread({"a": "1", "b": "1"}) == "1"
    assert spread({"here": "2", "a": "1", "b": "1"}) == "1 on a, b; 2 here"
    assert spread({str(i): str(i) for i in range(9)}) == "0 on 0; 1 on 1; 2 on 2; 3 on 3; 5 other values"
