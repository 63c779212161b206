"""A training pod reports with ten lines of Python, and users see it in `kubectl get tj`."""

from pathlib import Path

import pytest

from e2e.stories.test_training_job import training_job, workers
from e2e.support.bucket import files
from e2e.support.built import IMAGE, ROOT
from e2e.support.manifests import Object
from e2e.support.world import Home, World
from examples.demo.figures import report_of

# Two epochs of steps of half a second, with 50 ms of waits for data each.
_LOOP = """
import time
for step in range(600):
    report(phase="Training", epoch=1 + step // 20, epochs=30, step=step, items=32,
           loss=1 / (1 + step), wait_seconds=0.05, compute_seconds=0.45)
    time.sleep(0.5)
"""

# Four epochs of ten steps, the first of which waits as on cold data. It prints its wait time, and exits.
_RUN = """
import time
waits = 0.0
for step in range(40):
    wait, began = (0.9 if step < 10 else 0.02), time.monotonic()
    time.sleep(wait)
    waited = time.monotonic() - began
    time.sleep(0.7)
    whole = time.monotonic() - began
    waits += waited
    report(phase="Training", epoch=step // 10, epochs=4, step=step, items=32,
           loss=1 / (1 + step), wait_seconds=waited, compute_seconds=whole - waited)
    total = whole if step == 0 else total + whole
report(saved="/out/last.pt", kind="Checkpoint")
print('{"share": %f}' % (waits / total), flush=True)
"""


def reporting_job(home: Home, name: str, loop: str) -> Object:
    program = Path(ROOT, "examples", "report.py").read_text() + loop
    # Any image with Python works, such as Stoker's own. Any user works, because only the pod reaches the socket.
    user = {"runAsUser": 12345, "runAsGroup": 12345, "allowPrivilegeEscalation": False}
    container = {"image": IMAGE, "command": ["python3", "-c", program], "securityContext": user}
    return training_job(home.namespace, name, container)


@pytest.fixture(scope="module")
def home(world: World, shared_home: Home) -> Home:
    """Run jobs side by side: one reports on and on, one ends, and one may not report."""
    bucket = shared_home.bucket()
    bucket.put(files(5, 1000))
    shared_home.dataset("train", bucket)
    quiet = reporting_job(shared_home, "quiet", _LOOP)
    quiet["spec"]["template"]["metadata"] = {"annotations": {"stoker.dev/report": "false"}}
    world.apply(reporting_job(shared_home, "run", _LOOP), reporting_job(shared_home, "ends", _RUN), quiet)
    return shared_home


def test_epoch_phase_and_stall_of_a_pod_that_reports_are_shown(world: World, home: Home) -> None:
    seen = world.wait("trainingjob", "run", home.namespace, lambda it: stall(it) and epoch(it) > 1)
    assert seen["status"]["training"]["phase"] == "Training"
    assert abs(int(stall(seen).rstrip("%")) - 10) <= 2
    shown = world.kubectl("get", "tj", "run", "-n", home.namespace).splitlines()
    assert {"TRAINING", "EPOCH", "STALL"} <= set(shown[0].split())
    assert {"Training", stall(seen)} <= set(shown[1].split())
    assert "the phase Training" in world.wait_event("run", home.namespace, "the phase Training")
    assert f"{home.namespace}/run-" in world.stoker("nodes", "-o", "json")


def test_a_job_that_ended_keeps_what_it_reported(world: World, home: Home) -> None:
    ended = world.wait("trainingjob", "ends", home.namespace, is_complete)
    (pod,) = workers(world, home, "ends")
    truth = report_of(world.kubectl("logs", pod["metadata"]["name"], "-n", home.namespace))["share"]
    known, said = ended["status"]["goodput"], ended["status"]["training"]
    assert abs(known["stalledSeconds"] / known["watchedSeconds"] - truth) <= 0.02, (known, truth)
    assert (said["phase"], said["currentEpoch"], said["loss"], said["step"]) == ("Done", "4/4", "0.025", 39)
    assert said["checkpoint"] == "saved /out/last.pt (Checkpoint)"
    shown = world.kubectl("get", "tj", "ends", "-n", home.namespace).splitlines()[1].split()
    assert {"Succeeded", "1/1", "Done", "4/4"} <= set(shown)
    assert [event for event in world.events("ends", home.namespace) if "after Training" in event] == []


def test_a_job_whose_pods_may_not_report_runs_without(world: World, home: Home) -> None:
    world.wait("trainingjob", "quiet", home.namespace, lambda it: it.get("status", {}).get("phase") == "Running")
    (pod,) = workers(world, home, "quiet")
    assert [one["name"] for one in pod["spec"]["volumes"] if one["name"] == "stoker-report"] == []


def is_complete(job: Object) -> bool:
    return bool(job.get("status", {}).get("goodput", {}).get("complete"))


def stall(job: Object) -> str:
    return str(job.get("status", {}).get("training", {}).get("stall", ""))


def epoch(job: Object) -> int:
    return int(str(job["status"]["training"].get("epoch") or "0").partition("/")[0])
