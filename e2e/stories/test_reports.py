"""A training pod says what it does, by ten lines of Python, and people see it in `kubectl get tj`."""

from pathlib import Path

from e2e.stories.test_training_job import training_job, workers
from e2e.support.bucket import files
from e2e.support.built import IMAGE, ROOT
from e2e.support.manifests import Object
from e2e.support.world import Home, World

# Two epochs of steps of half a second, of which 50 ms are waits for data.
_LOOP = """
import time
for step in range(600):
    report(phase="Training", epoch=1 + step // 20, epochs=30, step=step, items=32,
           loss=1 / (1 + step), wait_seconds=0.05, compute_seconds=0.45)
    time.sleep(0.5)
"""


def reporting_job(home: Home) -> Object:
    program = Path(ROOT, "examples", "report.py").read_text() + _LOOP
    # Any image with Python: Stoker's own is there. Any user: only the pod reaches the socket.
    user = {"runAsUser": 12345, "runAsGroup": 12345, "allowPrivilegeEscalation": False}
    container = {"image": IMAGE, "command": ["python3", "-c", program], "securityContext": user}
    return training_job(home.namespace, "run", container)


def test_epoch_phase_and_stall_of_a_pod_that_reports_are_shown(world: World, home: Home) -> None:
    bucket = home.bucket()
    bucket.put(files(5, 1000))
    home.dataset("train", bucket)
    world.apply(reporting_job(home))
    seen = world.wait("trainingjob", "run", home.namespace, lambda it: stall(it) and epoch(it) > 1)
    assert seen["status"]["training"]["phase"] == "Training"
    assert abs(int(stall(seen).rstrip("%")) - 10) <= 2
    shown = world.kubectl("get", "tj", "run", "-n", home.namespace).splitlines()
    assert {"TRAINING", "EPOCH", "STALL"} <= set(shown[0].split())
    assert {"Training", stall(seen)} <= set(shown[1].split())
    assert "the phase Training" in world.wait_event("run", home.namespace, "the phase Training")
    assert f"{home.namespace}/run-" in world.stoker("nodes", "-o", "json")


def test_a_job_whose_pods_may_not_report_runs_without(world: World, home: Home) -> None:
    bucket = home.bucket()
    bucket.put(files(5, 1000))
    home.dataset("train", bucket)
    job = reporting_job(home)
    job["spec"]["template"]["metadata"] = {"annotations": {"stoker.dev/report": "false"}}
    world.apply(job)
    world.wait("trainingjob", "run", home.namespace, lambda it: it.get("status", {}).get("phase") == "Running")
    (pod,) = workers(world, home, "run")
    assert [one["name"] for one in pod["spec"]["volumes"] if one["name"] == "stoker-report"] == []


def stall(job: Object) -> str:
    return str(job.get("status", {}).get("training", {}).get("stall", ""))


def epoch(job: Object) -> int:
    return int(str(job["status"]["training"].get("epoch") or "0").partition("/")[0])
