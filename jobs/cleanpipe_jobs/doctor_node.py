"""What the doctor looks at on one machine of a cluster.

``look`` travels to the nodes by value, since cleanpipe may be missing there: it needs the standard library alone.
"""

from __future__ import annotations

from typing import Any


def look(token: str, storage: dict[str, Any] | None) -> dict[str, Any]:
    """Plain facts of this machine; what cannot be found out is None, with why in ``…_error``.

    Args:
        token: names this examination.
        storage: ``{"root", "options", "beacon"}`` to probe, ``beacon`` being a file there that another machine wrote.
    """
    import os
    import platform
    import resource
    import shutil
    import tempfile
    import time
    from importlib import import_module
    from pathlib import Path

    def disk(path: str) -> dict[str, Any] | None:
        try:
            usage = shutil.disk_usage(path)
        except OSError:
            return None
        return {"path": path, "size": usage.total, "free": usage.free}

    def auth() -> dict[str, Any]:
        place = os.environ.get("RAY_AUTH_TOKEN_PATH") or str(Path.home() / ".ray" / "auth_token")
        where = "RAY_AUTH_TOKEN" if os.environ.get("RAY_AUTH_TOKEN") else place if Path(place).is_file() else None
        found: dict[str, Any] = {"env": os.environ.get("RAY_AUTH_MODE"), "token": where, "mode": None}
        try:
            raylet = import_module("ray._raylet")
            token_mode = raylet.get_authentication_mode() == raylet.AuthenticationMode.TOKEN
            found["mode"] = "token" if token_mode else "disabled"
        except Exception as error:  # a Ray without it
            found["mode_error"] = type(error).__name__
        return found

    def cleanpipe() -> dict[str, Any]:
        try:
            from cleanpipe_jobs.about import code_digest, version

            return {"version": version(), "code": code_digest()}
        except Exception as error:  # not there, or broken: that is the finding
            return {"version": None, "code": None, "error": f"{type(error).__name__}: {error}"}

    def probe(root: str, options: dict[str, Any], beacon: str) -> dict[str, Any]:
        began, step = time.monotonic(), "opening"
        try:
            from cleanpipe.io.store import open_store
            from cleanpipe.options import StorageOptions

            store = open_store(root, StorageOptions(**options))
            step = "reading what another machine wrote"
            if store.read(beacon) != token.encode():
                raise ValueError("it is another file")
            name, data = f"{beacon}-{platform.node()}-{os.getpid()}", os.urandom(1 << 16)
            step = "writing"
            store.write(name, data)
            try:
                step = "reading"
                if store.read(name) != data:
                    raise ValueError("not what was written")
                step = "a conditional write"
                if store.write_new(name, b""):
                    raise ValueError("a file that exists was written over")
            finally:
                store.delete(name)
            step = "deleting"
            if store.size(name) != -1:
                raise ValueError("the file is still there")
        except Exception as error:  # ours and the store's: told, not raised
            what = str(error) or type(error).__name__
            return {"step": step, "error": what, "seconds": time.monotonic() - began}
        return {"step": "", "error": "", "seconds": time.monotonic() - began}

    def session() -> str:
        try:
            return str(import_module("ray._private.worker")._global_node.get_session_dir_path())
        except Exception:  # private, may go
            return tempfile.gettempdir()

    wanted = ("RAY_grpc_client_keepalive", "RAY_health_check", "RAY_task_oom_retries", "RAY_gcs_storage")
    try:
        import ray

        ray_version = str(ray.__version__)
    except ImportError:
        ray_version = ""
    return {
        "host": platform.node(),
        "python": platform.python_version(),
        "ray": ray_version,
        "cleanpipe": cleanpipe(),
        "auth": auth(),
        "env": {k: v for k, v in sorted(os.environ.items()) if k.startswith(wanted)},
        "shm": disk("/dev/shm"),  # noqa: S108  it is what Ray's object store lies in
        "files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "temp": disk(session()),
        "cpus": len(os.sched_getaffinity(0)),
        "clock": time.time(),
        "storage": probe(storage["root"], storage["options"], storage["beacon"]) if storage else None,
    }
