"""Faults on a real cluster of three nodes and an S3: after each the run ends as if nothing had happened."""

from __future__ import annotations

import signal
import time

import pytest
from drills import BUCKET, CLIENT, Drills, kill
from netcluster import HEAD

pytestmark = pytest.mark.cluster

SOON = 8  # finished units at which most faults come
CHILD = "cleanpipe.engine"  # in the command line of the process that a task guards


def test_nothing_happens(drills: Drills) -> None:
    drill = drills.drill("calm")
    drill.submit()
    drill.finish()
    verified = drills.cluster.run(CLIENT, "cleanpipe", "verify", drill.out)
    assert verified.returncode == 0, verified.stdout


def test_a_worker_process_is_killed(drills: Drills) -> None:
    drill = drills.drill("worker-killed")
    drill.submit()
    drill.wait_units(SOON)
    drill.strike()
    kill(drill.find("w1", "ray::_unit"))
    drill.finish()
    assert drill.retries >= 1


def test_the_child_of_a_worker_is_killed(drills: Drills) -> None:
    drill = drills.drill("child-killed")
    drill.submit()
    drill.wait_units(SOON)
    drill.strike()
    for node in ("w1", "w2", "w1"):
        kill(drill.find(node, CHILD))
        time.sleep(1)
    drill.finish()
    assert drill.retries >= 1


def test_the_driver_is_killed(drills: Drills) -> None:
    drill = drills.drill("driver-killed")
    drill.submit()
    drill.wait_units(SOON)
    drill.strike()
    kill(drill.driver())
    drill.finish(again=True)


def test_the_job_is_stopped(drills: Drills) -> None:
    drill = drills.drill("job-stopped")
    job = drill.submit()
    drill.wait_units(SOON)
    drill.strike()
    drill.stop()
    drill.finish(again=True)
    assert "SIGTERM" in job.text, job.text  # it ended by itself before the SIGKILL


def test_a_storm_of_503(drills: Drills) -> None:
    drill = drills.drill("storm-of-503")
    drill.submit()
    drill.wait_units(SOON)
    drill.strike()
    end = time.monotonic() + 12
    while time.monotonic() < end:
        drills.s3.app.rules = []
        drills.s3.fail(".*", f"/{BUCKET}", "503", times=5)  # the next five, and what comes until the next turn passes
        time.sleep(0.2)
    drills.s3.app.rules = []
    refused = [r.status for r in drills.s3.log()].count("503")
    assert refused >= 10
    drill.finish()


def test_a_node_is_killed(drills: Drills) -> None:
    drill = drills.drill("node-killed")
    drill.submit()
    drill.wait_units(SOON)
    drill.strike()
    drills.cluster.kill_node("w1")
    drill.finish()


def test_every_worker_node_is_killed_while_shards_are_uploaded(drills: Drills) -> None:
    """The upload is held by a server that answers late, so that the kill comes in its midst; other nodes come later."""
    drill = drills.drill("nodes-killed-in-upload")
    drills.s3.fail("PUT", rf"^/{BUCKET}/{drill.name}/data/.*", "stall 2", times=4)
    drill.submit()
    drill.wait(lambda: drills.s3.log("PUT", rf"^/{BUCKET}/{drill.name}/data/"), "the first shard's upload")
    drill.strike()
    for node in ("w1", "w2"):
        drills.cluster.kill_node(node)
    drills.cluster.mend()
    drill.finish()


def test_the_driver_is_killed_while_shards_are_uploaded(drills: Drills) -> None:
    drill = drills.drill("driver-killed-in-upload")
    drills.s3.fail("PUT", rf"^/{BUCKET}/{drill.name}/data/.*", "stall 2", times=4)
    drill.submit()
    drill.wait(lambda: drills.s3.log("PUT", rf"^/{BUCKET}/{drill.name}/data/"), "the first shard's upload")
    drill.strike()
    kill(drill.driver())
    drill.finish(again=True)


def test_a_raylet_freezes(drills: Drills) -> None:
    drill = drills.drill("raylet-frozen")
    drill.submit()
    drill.wait_units(SOON)
    drill.strike()
    raylet = next(p for p in drill.processes("w1") if p.words[0].endswith("/raylet"))
    raylet.send(signal.SIGSTOP)
    drill.finish()


def test_a_node_freezes_and_comes_back_after_the_end(drills: Drills) -> None:
    """Its workers hold half a unit in their hands, and finish it when the run is long over."""
    drill = drills.drill("node-frozen")
    drill.submit()
    drill.wait_units(SOON)
    drill.strike()
    drills.cluster.signal(["w1"], signal.SIGSTOP)
    drill.finish()
    drills.s3.forget()
    drills.cluster.signal(["w1"], signal.SIGCONT)
    time.sleep(10)
    drill.prove()
    cleaned = drills.cluster.run(CLIENT, "cleanpipe", "clean", drill.out)
    assert cleaned.returncode == 0, cleaned.stdout
    assert not drills.names(f"{drill.name}/work"), "what the late workers wrote is still there"


def test_a_link_is_cut_for_six_seconds(drills: Drills) -> None:
    drill = drills.drill("link-cut-6-s")
    drill.submit()
    drill.wait_units(SOON)
    drill.strike()
    drills.cluster.cut("w1")
    time.sleep(6)
    drills.cluster.join("w1")
    drill.finish()


def test_a_link_is_cut_until_after_the_end(drills: Drills) -> None:
    drill = drills.drill("link-cut")
    drill.submit()
    drill.wait_units(SOON)
    drill.strike()
    drills.cluster.cut("w1")
    drill.finish()
    drills.cluster.join("w1")  # what its workers still hold may arrive now
    time.sleep(10)
    drill.prove()


def test_the_head_is_killed(drills: Drills) -> None:
    drill = drills.drill("head-killed")
    drill.submit()
    drill.wait_units(SOON)
    drill.strike()
    drills.cluster.kill_node(HEAD)
    drill.finish(again=True)


def test_two_drivers_at_once(drills: Drills) -> None:
    """The second is refused, and says why; the first is not disturbed."""
    drill = drills.drill("two-drivers")
    first = drill.submit()
    drill.wait_units(SOON)
    drill.strike()
    second = drill.submit()
    assert second.command.wait(90) != 0
    assert "another run is at work" in second.text, second.text
    drill.jobs = [first]
    drill.finish()


def test_a_driver_is_frozen_replaced_and_comes_back(drills: Drills) -> None:
    """The second takes the run over when the first showed no life for as long as a lease is good; when the first goes
    on, it finds the run in other hands and ends.
    """
    drill = drills.drill("driver-frozen")
    first = drill.submit()
    drill.wait_units(SOON)
    drill.strike()
    frozen = drill.driver()
    frozen.send(signal.SIGSTOP)
    second = drill.submit()
    drill.wait(lambda: "were done before" in second.text, "the second to take the run over")
    frozen.send(signal.SIGCONT)  # as long as it lives Ray keeps for it the processors that its tasks had
    drill.finish(how="the same line again")
    assert first.command.wait(60) != 0
    assert "no longer held by this process" in first.text, first.text
    drill.prove()
