"""Entering a Ray cluster, or starting one on this machine: an answer within seconds where Ray would take minutes."""

from __future__ import annotations

import os
import signal
import socket
import threading
from contextlib import suppress
from typing import Any

from cleanpipe.errors import ConfigError

DEFAULTS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",  # never left to Ray's changing default
    "RAY_task_oom_retries": "1",  # endless by default
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # no keep-alive: nodes at Ray's own take the pings of a driver with a shorter one for an attack and end its tasks
    # after 40 s or so; it is set on all of them (docker/) or on none, and a job inherits its node's
}
PROBE = 5.0  # seconds in which a head answers, or is not there
_SETTINGS = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"  # how a gRPC client begins


def connect(workers: int) -> tuple[Any, bool]:
    """The module ``ray``, connected: to the cluster of RAY_ADDRESS, else to a Ray of our own with ``workers`` CPUs.

    Returns:
        The module, and whether it was connected here (it may have been before).

    Raises:
        ConfigError: Ray is not installed, or the cluster cannot be entered; within some ten seconds.
    """
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError as error:
        raise ConfigError("the ray engine needs Ray: pip install 'ray[default]'") from error
    if ray.is_initialized():
        return ray, False
    options: dict[str, Any] = {"log_to_driver": False, "configure_logging": True, "logging_level": "error"}
    address = os.environ.get("RAY_ADDRESS", "")
    if address in ("", "local"):
        own = {"num_cpus": max(1, workers), "include_dashboard": False, "object_store_memory": 80 << 20}
        options |= {"address": "local", **own}
    else:
        _probe(address)
    before = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(**options)
    except Exception as error:
        raise ConfigError(_refusal(address, error)) from error
    finally:
        if threading.current_thread() is threading.main_thread() and callable(before):
            signal.signal(signal.SIGTERM, before)  # Ray's own exits without a word
    return ray, True


def _refusal(address: str, error: Exception) -> str:
    first = (str(error).strip() or type(error).__name__).splitlines()[0]
    if "ersion mismatch" in str(error):
        versions = " ".join(str(error).split())[:300]
        return f"Ray here and Ray at {address} differ: use one image for head, workers and driver ({versions})"
    # a head answered the probe: what then keeps Ray from connecting is its authentication as a rule, unsaid
    if "uthenticat" in f"{type(error).__name__} {error}" or (address and isinstance(error, ConnectionError)):
        mode = os.environ.get("RAY_AUTH_MODE", "not set")
        return (
            f"what answers at {address} is no Ray head, or one that does not let this driver in: here RAY_AUTH_MODE is "
            f"{mode}; it must be one value, token (with one token) or disabled, on head, workers and driver ({first})"
        )
    return f"Ray {f'at {address}' if address else 'on this machine'} cannot be used: {first}"


def _probe(address: str) -> None:
    """See whether a head answers at ``address``: Ray itself would try for two minutes, and then end the process.

    Raises:
        ConfigError: none does, or the address is of another kind.
    """
    if address.startswith(("http://", "https://")):
        raise ConfigError(
            f"RAY_ADDRESS={address} is for `ray job submit`; a run outside of a job needs HOST:6379, or none"
        )
    if address.startswith("ray://"):
        raise ConfigError(f"RAY_ADDRESS={address}: Ray Client loses its run with its connection; use `ray job submit`")
    target = _auto() if address == "auto" else address
    host, _, port = (target or "").rpartition(":")
    if not host or not port.isdecimal():
        if address == "auto":
            raise ConfigError("RAY_ADDRESS=auto: no Ray was started on this machine (ray start --head)")
        if "://" in address:  # a scheme that another package brings
            return
        raise ConfigError(f"RAY_ADDRESS={address}: must be HOST:PORT, as `ray start --head` prints it")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), PROBE) as sock:
            if os.environ.get("RAY_USE_TLS", "0") in ("1", "true", "True"):
                return
            sock.settimeout(PROBE)
            sock.sendall(_SETTINGS)
            answer = sock.recv(9, socket.MSG_WAITALL)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"no Ray head answers at {target} ({why}): is it up, and RAY_ADDRESS right?") from error
    if len(answer) < 9 or answer[3] != 4:  # no SETTINGS frame
        raise ConfigError(f"what answers at {target} is no Ray head: RAY_ADDRESS is HOST:PORT of the head, often :6379")


def _auto() -> str | None:
    with suppress(Exception):
        from ray._private import services

        found: str | None = services.canonicalize_bootstrap_address("auto")
        return found
    return None
