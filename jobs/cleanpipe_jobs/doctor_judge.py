"""What the facts of a cluster mean: each finding with the line that mends it. Pure: facts in, findings out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from cleanpipe.engine.ray_connect import DEFAULTS  # what a run sets in its driver where it is not set
from cleanpipe_jobs.doctor import Finding
from cleanpipe_jobs.output import scrubbed

if TYPE_CHECKING:
    from cleanpipe_jobs.doctor_cluster import Visit

HERE = "here"
AUTH = (
    "export RAY_AUTH_MODE=token (or disabled), the same value on head, workers and client, before `ray start`; "
    "for token: the same ~/.ray/auth_token on all (ray get-auth-token --generate)"
)
KEEP_ALIVE = ("RAY_grpc_client_keepalive_time_ms", "RAY_grpc_client_keepalive_timeout_ms")
ALIVE = "export " + " ".join(f"{name}=10000" for name in KEEP_ALIVE)
OOM = "RAY_task_oom_retries"
MOST_MS = 60_000  # a keep-alive above this stalls a job for minutes when a link goes silent
SHM, FILES, SKEW = 1 << 30, 65_536, 60.0
_Facts = Mapping[str, Mapping[str, Any]]


def refused(address: str, failed: Mapping[str, str], here: Mapping[str, Any]) -> list[Finding]:
    """What it means that the cluster was not entered, or that the visit broke off."""
    kind, error = failed["kind"], scrubbed(failed["error"])
    low = error.lower()
    found = f"{kind}: {error[:300]}"
    mode = here["auth"]["env"]
    if "authentication" in low or "unauthenticated" in low or "401" in low or kind == "AuthenticationError":
        return [
            Finding("auth", "wrong", f"refused by {address} (RAY_AUTH_MODE here: {mode or 'not set'}): {found}", AUTH)
        ]
    if "version mismatch" in low or "versions" in low:
        mend = (
            "the same Ray and the same minor Python on both sides: pip install 'ray[default]==VERSION OF THE CLUSTER'"
        )
        return [Finding("ray", "wrong", found, mend)]
    if missing(failed):
        return [Finding("cleanpipe", "wrong", f"not on the head of {address}: {error[:300]}", _SHIP)]
    if address == "auto" and ("could not find any running" in low or kind == "ConnectionError"):
        mend = "start one (ray start --head) or name it: --address HOST:6379, or http://HOST:8265 from outside"
        return [Finding("address", "wrong", "no Ray cluster is found from here", mend)]
    if "timeout" in kind.lower() and mode != "token":
        mend = f"see the head's logs; if it was started with tokens: {AUTH}"
        return [Finding("address", "wrong", f"{address} was reached but not joined: {error}", mend)]
    return [Finding("address", "wrong", f"{address} was reached but not joined: {found}", "see the head's logs")]


_SHIP = (
    "put the wheel into the image, or ray job submit --runtime-env-json "
    """'{"py_modules": ["cleanpipe", "stages/cleanpipe_stages", "jobs/cleanpipe_jobs"]}'"""
)


def missing(failed: Mapping[str, str]) -> bool:
    """Whether it failed for want of our code there."""
    error = failed.get("error", "").lower()
    return "no module named" in error and "cleanpipe" in error


def judge(visit: Visit, storage: Mapping[str, Any] | None) -> list[Finding]:
    """All findings about a cluster that was entered."""
    alive = [n for n in visit.nodes if n["alive"]]
    looks: dict[str, Mapping[str, Any]] = {n["address"]: n["look"] for n in alive if "look" in n}
    out = [*_reached(visit, alive)]
    if not looks:
        return out
    outside = visit.address.startswith(("http://", "https://"))  # the driver is a job of the cluster then
    driver = {"the job": visit.driver or visit.here} if outside else {HERE: visit.here}
    client, inside = {HERE: visit.here, **looks}, {**driver, **looks}
    out += [_versions(client, outside=outside), _pythons(inside)]
    out.append(_carried(inside) if visit.carried else _code(inside, visit.here if outside else None))
    out += [*_auth(client), _keep_alive(driver, looks), _oom(driver, looks)]
    out += [_shm(looks, alive), _files(looks), _temp(looks), _clocks(alive)]
    if storage:
        out.append(_storage(storage["root"], visit, looks))
    return out


def _reached(visit: Visit, alive: list[dict[str, Any]]) -> Iterable[Finding]:
    dead = [n["address"] for n in visit.nodes if not n["alive"]]
    cpus = sum(n["ray_cpus"] for n in alive)
    heads = [n for n in alive if n["head"]]
    nodes = f"{len(alive)} node{'s' * (len(alive) != 1)} alive"
    found = f"{visit.connected or visit.address}: {nodes}, {cpus:g} processors"
    yield Finding("cluster", "ok" if alive else "wrong", found)
    if dead:
        mend = "nothing, if they were meant to go; else see their raylet.out: a supervisor must start them again"
        yield Finding("nodes", "note", f"dead: {listed(dead)}", mend)
    for node in alive:
        if "error" in node:
            mend = "is the node overloaded or cut off? `ray status`, and its raylet.out"
            if "No module named" in node["error"] or "ModuleNotFound" in node["error"]:
                mend = _SHIP
            yield Finding(f"node {node['address']}", "wrong", scrubbed(node["error"]), mend)
    if len(alive) > 1 and any(n["ray_cpus"] for n in heads):
        found = (
            f"{heads[0]['address']} takes tasks ({heads[0]['ray_cpus']:g} processors): one that eats memory ends all"
        )
        yield Finding("head", "note", found, "ray start --head --num-cpus 0")
    if visit.failed or not visit.ended:
        yield Finding("visit", "wrong", f"broke off: {scrubbed(visit.failed.get('error', 'no end'))}", "ask again")


def _versions(sides: _Facts, *, outside: bool) -> Finding:
    values = {k: f["ray"] or "none" for k, f in sides.items()}
    differ = len(set(values.values())) > 1
    only_here = outside and len({v for k, v in values.items() if k != HERE}) == 1  # it talks HTTP: that mostly works
    mend = f"pip install 'ray[default]=={_common(values)}' where it differs" if differ else ""
    return Finding("ray", ("note" if only_here else "wrong") if differ else "ok", spread(values), mend)


def _pythons(sides: _Facts) -> Finding:
    values = {k: f["python"] for k, f in sides.items()}
    minors = {v.rpartition(".")[0] for v in values.values()}
    mend = "one minor version everywhere: Ray refuses others" if len(minors) > 1 else ""
    return Finding("python", "wrong" if mend else "ok", spread(values), mend)


def _code(sides: _Facts, client: Mapping[str, Any] | None) -> Finding:
    missing = {k: f["cleanpipe"]["error"] for k, f in sides.items() if f["cleanpipe"]["code"] is None}
    if missing:
        name, why = next(iter(missing.items()))
        return Finding("cleanpipe", "wrong", f"not on {listed(missing)} ({name}: {why})", _SHIP)
    codes = {k: _named(f["cleanpipe"]) for k, f in sides.items()}
    found = {f["cleanpipe"]["code"] for f in sides.values()}
    if len(found) > 1:
        mend = "the same wheel or image everywhere: results of different code are refused"
        return Finding("cleanpipe", "wrong", spread(codes), mend)
    if client is not None and client["cleanpipe"]["code"] not in found:
        return Finding("cleanpipe", "note", f"{spread(codes)}; another code lies here: a job runs the cluster's", _SHIP)
    return Finding("cleanpipe", "ok", spread(codes))


def _named(code: Mapping[str, str]) -> str:
    short = code["code"][:8]
    return code["version"] if short in code["version"] else f"{code['version']} (code {short})"


def _carried(sides: _Facts) -> Finding:
    found = _code(sides, None)
    if found.state != "ok":
        return found
    return Finding("cleanpipe", "note", f"not in the image; {found.found} travelled with this job, and works", _SHIP)


def _auth(sides: _Facts) -> Iterable[Finding]:
    said = {k: f["auth"]["env"] or "not set" for k, f in sides.items()}
    modes = {k: f["auth"]["mode"] or f["auth"]["env"] or "unknown" for k, f in sides.items()}
    if len(set(modes.values())) > 1:
        yield Finding("auth mode", "wrong", f"{spread(modes)}; RAY_AUTH_MODE: {spread(said)}", AUTH)
    elif "not set" in said.values():
        found = (
            f"{spread(modes)}, but RAY_AUTH_MODE is {spread(said)}: Ray's default changes with its version and with "
        )
        yield Finding("auth mode", "note", found + "~/.ray/auth_token", AUTH)
    else:
        yield Finding("auth mode", "ok", spread(modes))
    tokens = {k: "there" if f["auth"]["token"] else "none" for k, f in sides.items()}
    wanted = [k for k, mode in modes.items() if mode == "token" and tokens[k] == "none"]
    trap = [k for k in sides if said[k] == "not set" and modes[k] != "token" and tokens[k] == "there"]
    if wanted:
        yield Finding("auth token", "wrong", f"missing on {listed(wanted)}", "copy the head's ~/.ray/auth_token there")
    elif trap:
        found = (
            f"lies on {listed(trap)} where RAY_AUTH_MODE is not set: the next `ray start` will demand it of everybody"
        )
        yield Finding("auth token", "wrong", found, AUTH)
    else:
        yield Finding("auth token", "ok", spread(tokens))


def _keep_alive(driver: _Facts, looks: _Facts) -> Finding:
    what = "keep-alive"
    values = {k: "/".join(f["env"].get(name, "unset") for name in KEEP_ALIVE) for k, f in looks.items()}
    values |= {k: "/".join(f["env"].get(name, "unset") for name in KEEP_ALIVE) for k, f in driver.items()}
    shown = f"{spread(values)} ms (time/timeout)"
    if len(set(values.values())) > 1:
        return Finding(what, "wrong", f"{shown}: not the same everywhere", f"{ALIVE} on head, workers and client")
    numbers = [v for v in next(iter(values.values())).split("/") if v.isdigit()]
    if len(numbers) < 2 or any(int(v) > MOST_MS for v in numbers):
        stall = "a silent link stalls a job for about 7 minutes" if len(numbers) < 2 else "more than a minute to notice"
        return Finding(what, "note", f"{shown}: {stall}", f"{ALIVE} before every `ray start`, and here")
    return Finding(what, "ok", shown)


def _oom(driver: _Facts, looks: _Facts) -> Finding:
    values = {k: f["env"].get(OOM, "not set") for k, f in looks.items()}
    values |= {k: f["env"].get(OOM, DEFAULTS[OOM]) for k, f in driver.items()}
    endless = [k for k, v in values.items() if v in ("not set", "-1")]
    found = spread(values) + (f": tried again without end on {listed(endless)}" if endless else "")
    mend = f"export {OOM}=2 on head, workers and client" if endless else ""
    return Finding("oom retries", "note" if endless else "ok", found, mend)


def _shm(looks: _Facts, alive: list[dict[str, Any]]) -> Finding:
    store = {n["address"]: n["store"] for n in alive}
    values = {k: f["shm"]["size"] if f["shm"] else 0 for k, f in looks.items()}
    small = [k for k, v in values.items() if v < min(SHM, store.get(k) or SHM)]
    mend = "docker run --shm-size=2g; on Kubernetes an emptyDir with medium: Memory at /dev/shm" if small else ""
    shown = spread({k: _size(v) for k, v in values.items()})
    note = f": Ray falls back to the disk on {listed(small)}" if small else ""
    return Finding("/dev/shm", "note" if small else "ok", shown + note, mend)  # noqa: S108  its name


def _files(sides: _Facts) -> Finding:
    values = {k: int(f["files"]) for k, f in sides.items()}
    low = {k: v for k, v in values.items() if 0 <= v < FILES}
    state = "ok" if not low else "wrong" if min(low.values()) < 4096 else "note"
    mend = "ulimit -n 65536 before `ray start` (docker run --ulimit nofile=65536:65536)" if low else ""
    return Finding("open files", state, spread({k: f"{v:,}" for k, v in values.items()}), mend)


def _temp(sides: _Facts) -> Finding:
    disks = {k: f["temp"] for k, f in sides.items() if f["temp"]}
    full = [k for k, d in disks.items() if d["free"] < 0.05 * d["size"]]
    near = [k for k, d in disks.items() if d["free"] < 10 << 30 and k not in full]
    state = "wrong" if full else "note" if near else "ok"
    shown = f"{_size(min(d['free'] for d in disks.values()))} free at least" if disks else "unknown"
    shown += f", little on {listed(near)}" if near else ""
    note = f": over 95 % full on {listed(full)}, where Ray stops writing" if full else ""
    mend = "free some, or ray start --temp-dir on a larger disk; --set storage.scratch=DIR" if full or near else ""
    return Finding("temp disk", state, shown + note, mend)


def _clocks(alive: list[dict[str, Any]]) -> Finding:
    skews = {n["address"]: n["look"]["clock"] - n["now"] for n in alive if "look" in n}
    off = {k: s for k, s in skews.items() if abs(s) > SKEW}
    worst = max(skews.values(), key=abs)
    found = f"within {max(1.0, abs(worst)):.0f} s" if not off else spread({k: f"{s:+.0f} s" for k, s in off.items()})
    return Finding(
        "clocks", "wrong" if off else "ok", found, "start an NTP client there: signatures expire" if off else ""
    )


def _storage(root: str, visit: Visit, looks: _Facts) -> Finding:
    what = f"storage {root}"
    if visit.beacon.get("error"):
        return Finding(what, "wrong", f"from the driver: {scrubbed(visit.beacon['error'])}", _reach(root))
    bad = {k: f["storage"] for k, f in looks.items() if f["storage"]["error"]}
    if bad:
        name, probe = next(iter(bad.items()))
        unseen = probe["step"].startswith("reading what") and "://" not in root
        mend = "name storage that all nodes see: a shared mount or s3://bucket/prefix" if unseen else _reach(root)
        why = f"{probe['step']}: {scrubbed(probe['error'])}"
        return Finding(what, "wrong", f"fails on {listed(bad)} ({name}, {why})", mend)
    slowest = max(looks.values(), key=lambda f: f["storage"]["seconds"])["storage"]["seconds"]
    found = f"written, read, written once only and deleted from all {len(looks)}, {slowest:.1f} s at most"
    left = f"; {visit.left} could not be removed" if visit.left else ""
    return Finding(what, "note" if left else "ok", found + left, f"cleanpipe clean {root}" if left else "")


def _reach(root: str) -> str:
    if root.startswith("s3://"):
        return (
            "credentials in every node's environment (AWS_ACCESS_KEY_ID, a profile, a role); for another server "
            "--set storage.endpoint=URL; the right to put, get and delete below the prefix"
        )
    return "make the folder writable for the user that Ray runs as, on all nodes"


def _size(size: float) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.0f} MB"


def _common(values: Mapping[str, str]) -> str:
    """What most have; of the nodes if none prevails."""
    counts: dict[str, int] = {}
    for value in values.values():
        counts[value] = counts.get(value, 0) + 1
    return max(counts, key=lambda v: (counts[v], v != values.get(HERE)))


def listed(names: Iterable[str], most: int = 4) -> str:
    """``a, b and 7 more``."""
    all_names = list(names)
    more = len(all_names) - most
    return ", ".join(all_names[:most]) + (f" and {more} more" if more > 0 else "")


def spread(values: Mapping[str, str], most: int = 4) -> str:
    """``V``, where all have it; else ``V on a, b; W on c``, what most have first, and how many others there are."""
    by: dict[str, list[str]] = {}
    for name, value in values.items():
        by.setdefault(value, []).append(name)
    if len(by) == 1:
        return next(iter(by))
    ordered = sorted(by.items(), key=lambda item: (-len(item[1]), item[0]))
    shown = [f"{value} {'' if names == [HERE] else 'on '}{listed(names)}" for value, names in ordered[:most]]
    return "; ".join(shown + ([f"{len(ordered) - most} other values"] if len(ordered) > most else []))
