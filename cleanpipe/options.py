"""The tables of a recipe that speak of no stage: how records are read, shards written, what the audit shows; and, apart
from these, how the machines that run it treat the run: those decide no byte and are no part of its identity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cleanpipe.errors import ConfigError
from cleanpipe.registry import nearest
from cleanpipe.stage import option

READERS = ("fast", "member", "warcio")


def _bounds(options: Any, where: str, **limits: tuple[int, int | None]) -> None:
    for name, (least, most) in limits.items():
        value = getattr(options, name)
        if value < least or (most is not None and value > most):
            upper = f" to {most:,}" if most is not None else " or more"
            raise ConfigError(f"{where}.{name} = {value:,}: must be {least:,}{upper}")


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How records are read. Sizes decide fates here, never clocks."""

    reader: str = option(
        "fast", "archive reader: fast (FastWARC, re-read by our own on any doubt), member (our own), warcio"
    )
    max_body: int = option(64 << 20, "largest decoded body, bytes; a larger one is quarantined as too_large")
    expansion: int = option(1000, "largest ratio of decoded to stored bytes (judged above 1 MiB)")
    batch_rows: int = option(1000, "rows of a batch through the stages")
    batch_bytes: int = option(12 << 20, "bytes of bodies in a batch")
    unit_bytes: int = option(
        64 << 20, "a gzip archive is read in units that own the members beginning in so many of its bytes"
    )

    def check(self) -> None:
        """Raises ConfigError for options that cannot work."""
        if self.reader not in READERS:
            raise ConfigError(f"read.reader = {self.reader!r}{nearest(self.reader, READERS)}")
        _bounds(self, "read", max_body=(1, 600 << 20), expansion=(2, None), batch_rows=(1, 100_000))
        _bounds(self, "read", batch_bytes=(1, 1 << 30), unit_bytes=(1 << 12, None))


@dataclass(frozen=True, kw_only=True)
class ShardOptions:
    """How the cleaned windows are written."""

    max_bytes: int = option(1_000_000_000, "largest shard file, bytes as it lies on disk")
    batch_rows: int = option(1000, "rows of an Arrow record batch, counted from the file's start")

    def check(self) -> None:
        """Raises ConfigError for options that cannot work."""
        _bounds(self, "shards", max_bytes=(10_000, 1_000_000_000), batch_rows=(1, 1_000_000))


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """What the audit shows beside the counts."""

    seed: int = option(0, "seed of the samples: the k documents of smallest hash(seed, doc_id)")
    samples: int = option(10, "samples for the kept and for each reason")
    alarm: float = option(0.9, "a host, language or type that lost more than this share raises an alarm")
    alarm_rows: int = option(20, "... if it had at least so many documents")

    def check(self) -> None:
        """Raises ConfigError for options that cannot work."""
        _bounds(self, "audit", samples=(0, 10_000), alarm_rows=(1, None), seed=(0, (1 << 64) - 1))
        if not 0 < self.alarm < 1:
            raise ConfigError(f"audit.alarm = {self.alarm}: a share between 0 and 1")


@dataclass(frozen=True, kw_only=True)
class StorageOptions:
    """How object stores are reached. Credentials are never options: they come from the environment, a profile or the
    machine's role, as for every S3 client.
    """

    endpoint: str = option("", "URL of an S3-compatible server; empty: AWS, or AWS_ENDPOINT_URL")
    region: str = option("", "region; empty: the environment's, else us-east-1")
    profile: str = option("", "profile of the AWS configuration files")
    anonymous: bool = option(False, "sign no request: public buckets such as s3://commoncrawl")
    attempts: int = option(10, "tries of a request before storage counts as lost, with growing waits between")
    timeout: float = option(30.0, "seconds without a byte after which a request is tried again")
    scratch: str = option("", "local folder for files on their way to or from an object store; empty: the system's")

    def check(self) -> None:
        """Raises ConfigError for options that cannot work."""
        _bounds(self, "storage", attempts=(1, 1000))
        if not self.timeout > 0:
            raise ConfigError(f"storage.timeout = {self.timeout}: must be above 0")
        if self.endpoint and not self.endpoint.startswith(("http://", "https://")):
            raise ConfigError(f"storage.endpoint = {self.endpoint!r}: a URL, http:// or https://")
        if "@" in self.endpoint:
            raise ConfigError("storage.endpoint holds a password: credentials belong into the environment or a profile")


@dataclass(frozen=True, kw_only=True)
class GuardOptions:
    """When a worker is ended because of one document. They stand ten times and more above what a document of the
    largest size costs: sizes and steps decide fates, these only keep a run alive.
    """

    memory: int = option(4 << 30, "bytes of memory that a worker process holds by itself; mapped files are not counted")
    cpu_seconds: float = option(300.0, "CPU seconds on one batch, or on one document treated alone")
    stall_seconds: float = option(900.0, "seconds in which a worker neither computes nor reports")
    unit_seconds: float = option(7200.0, "on a cluster: seconds for one unit, its wait for a slot included")

    def check(self) -> None:
        """Raises ConfigError for options that cannot work."""
        _bounds(self, "guards", memory=(64 << 20, None))
        for name in ("cpu_seconds", "stall_seconds", "unit_seconds"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"guards.{name} = {getattr(self, name)}: must be above 0")


SECTIONS: Mapping[str, Any] = {
    "read": ReadOptions,
    "shards": ShardOptions,
    "audit": AuditOptions,
    "storage": StorageOptions,
    "guards": GuardOptions,
}
MACHINE = frozenset({"storage", "guards"})  # no part of a run's identity
