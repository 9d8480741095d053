"""One crawl, its undisturbed serial run, one cluster and one S3 for all drills; skipped where the machine cannot."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from drillcrawl import build
from drillproof import serial_run
from drills import BUCKET, OPTIONS, Drills
from netcluster import NetCluster, why_not
from s3_server import KEYS, S3Server


@pytest.fixture(scope="session")
def drills(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drills]:
    """Everything that a drill needs; the table of times is written at the end."""
    if reason := why_not():
        pytest.skip(f"no cluster here: {reason}")
    folder = tmp_path_factory.mktemp("drills")
    crawl = build(folder / "crawl", 4, 700)
    reference = serial_run(crawl, folder / "serial", OPTIONS)
    endpoint = "http://10.99.0.4:5000"  # the address of the first host after head, w1 and w2
    with NetCluster(2, hosts=["s3"], environment={**KEYS, "AWS_ENDPOINT_URL": endpoint}) as cluster:
        server = cluster.within("s3", lambda: S3Server(5000, cluster.addresses["s3"]).__enter__())
        assert server.url == endpoint
        made = Drills(cluster, server, folder, reference)
        cluster.within("s3", lambda: server.bucket(BUCKET))
        made.upload(crawl, "crawl")
        yield made
        made.report()
        server.__exit__(None, None, None)
