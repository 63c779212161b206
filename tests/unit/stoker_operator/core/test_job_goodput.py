"""The goodput of a TrainingJob, collected from the nodes of its pods before they are gone."""

from dataclasses import replace
from typing import Any

from stoker_api.datasets.release import ReleaseRecord
from stoker_api.goodput import EndedPod, Goodput
from stoker_api.jobs.trainingjob import MOST_JOB_NODES, TrainingJob, TrainingJobStatus
from stoker_api.names import Reason
from stoker_api.node_caches.nodecache import NodeCache
from stoker_api.times import format_time, parse_time
from stoker_operator.core.fitting.warmth import WarmthIndex
from stoker_operator.core.jobs.job_facts import gather, holds
from stoker_operator.core.jobs.job_goodput import GRACE, goodput_due_in
from stoker_operator.core.jobs.job_status import roll_up_job
from stoker_operator.core.jobs.job_transitions import job_announcements
from stoker_operator.core.views.cluster import ClusterView, Owner, PodView
from tests.support.present import present
from tests.unit.stoker_operator.training import ended, job_of, released, training_job

END = parse_time("2026-11-21T10:00:00Z")
COMPLETE = {"conditions": [ended("Complete")], "succeeded": 2}
OWNER = Owner("Job", "ddp", "job-uid")


def pod(index: int, node: str = "a", **fields: Any) -> PodView:
    """Make a worker that was gated for 42 s and is on its node."""
    record = ReleaseRecord(
        reason="Released", message="", held_since=format_time(958), released_at=format_time(1000), mode=""
    )
    uid = f"{index:08x}-0000"
    known: dict[str, Any] = {"uid": uid, "owner": OWNER, "released": record.model_dump_json(by_alias=True)}
    return replace(released(index, node), **(known | fields))


def row(index: int, **fields: Any) -> EndedPod:
    known: dict[str, Any] = {"data_bytes": 100, "warm_bytes": 100, "watched_seconds": 100.0, "stalled_seconds": 1.2}
    return EndedPod(pod=f"vision/ddp-{index}", uid=f"{index:08x}-0000", **(known | fields))


def nodes(**told: tuple[EndedPod, ...]) -> dict[str, NodeCache]:
    return {
        name: NodeCache.model_validate({"metadata": {"name": name}, "status": {"ended": [one.wire() for one in rows]}})
        for name, rows in told.items()
    }


class GatheringOperator:
    """Runs the operator's passes over one TrainingJob. A restart loses only data outside of the status."""

    def __init__(self, **spec: Any) -> None:
        self.training: TrainingJob = training_job(**spec)
        self.told: list[str] = []

    def look(
        self, now: float, *pods: PodView, caches: dict[str, NodeCache] | None = None, **job: Any
    ) -> Goodput | None:
        raw = job_of(self.training, **job)
        view = ClusterView(jobs={"vision/ddp": raw}, node_caches=caches or {})
        status = roll_up_job(self.training, gather(self.training, view, pods, WarmthIndex({}), None), now)
        self.told += [
            one.message for one in job_announcements(self.training.status, status) if one.reason == Reason.GOODPUT
        ]
        # As returned by the API server.
        kept = TrainingJobStatus.model_validate(status.wire())
        self.training = self.training.model_copy(update={"status": kept})
        return kept.goodput


DONE = (pod(0, phase="Succeeded"), pod(1, "b", phase="Succeeded"))
BOTH = nodes(a=(row(0),), b=(row(1),))


def test_what_nodes_tell_of_its_pods_is_summed_up_and_announced_once() -> None:
    operator = GatheringOperator()
    known = present(operator.look(END + 1, *DONE, caches=BOTH, **COMPLETE))
    assert (known.complete, known.pods, known.missed, known.warm_share) == (True, 2, 0, 1.0)
    operator.look(END + 2, *DONE, caches=BOTH, **COMPLETE)
    assert operator.told == ["held 42s, 100 % warm at start, stalled 1.2 % of the time, savings not measured"]


def test_a_pod_that_was_deleted_before_its_node_told_is_not_lost() -> None:
    operator = GatheringOperator()
    operator.look(1000, pod(0, deleting=True), pod(1, "b"), active=2)
    operator.look(1001, pod(1, "b"), active=1)  # the pod object is gone, and its node is unknown
    known = present(operator.look(1002, pod(1, "b"), caches=nodes(a=(row(0),)), active=1))
    assert (known.pods, known.awaited, known.complete) == (1, (), False)


def test_what_was_counted_stays_when_nodes_have_forgotten_it() -> None:
    operator = GatheringOperator()
    operator.look(1000, pod(0, phase="Failed"), caches=nodes(a=(row(0),)), active=1)
    known = present(operator.look(END + 1, pod(1, "b", phase="Succeeded"), caches=nodes(a=(), b=(row(1),)), **COMPLETE))
    assert (known.pods, known.data_bytes, known.complete) == (2, 200, True)


def test_nodes_that_say_nothing_are_waited_for_and_then_told_of() -> None:
    operator = GatheringOperator()
    early = present(operator.look(END + 1, *DONE, caches=nodes(a=(row(0),)), **COMPLETE))
    assert not early.complete
    assert goodput_due_in(early, END, END + 1) == GRACE - 1
    late = present(operator.look(END + GRACE, *DONE, caches=nodes(a=(row(0),)), **COMPLETE))
    assert (late.complete, late.pods, late.missed) == (True, 1, 1)
    assert operator.told[0].endswith("(of 1 of 2 pods)")


def test_another_node_says_nothing_of_it() -> None:
    known = present(GatheringOperator().look(END + 1, *DONE, caches=nodes(c=(row(0), row(1))), **COMPLETE))
    assert known.pods == 0


def test_pods_of_an_earlier_job_of_its_name_are_not_its_own() -> None:
    old = pod(0, owner=Owner("Job", "ddp", "an-older-uid"))
    assert GatheringOperator().look(1000, old, caches=nodes(a=(row(0),)), active=1) is None


def test_a_job_without_data_has_no_goodput() -> None:
    assert GatheringOperator(datasets=[]).look(END + 1, *DONE, caches=BOTH, **COMPLETE) is None


def test_a_job_that_begins_has_none_yet() -> None:
    waiting = replace(pod(0), node="", released="")
    assert GatheringOperator().look(1000, waiting, active=1) is None


def test_who_came_to_its_node_without_a_gate_was_held_for_no_time() -> None:
    assert list(holds([pod(0, released="")])) == [0.0]


def test_times_that_cannot_be_are_not_measured() -> None:
    backwards = ReleaseRecord(reason="", message="", held_since=format_time(10), released_at=format_time(5), mode="")
    assert list(holds([pod(0, released=backwards.model_dump_json(by_alias=True)), pod(0, released="{")])) == []


def test_of_very_many_nodes_the_coldest_are_named_and_all_are_counted() -> None:
    pods = [released(number, f"n{number:04}", share=number / 1000) for number in range(1000)]
    job = training_job(workers=1000)
    view = ClusterView(jobs={"vision/ddp": job_of(job, active=1000)})
    status = roll_up_job(job, gather(job, view, pods, WarmthIndex({}), None), 1000)
    assert [one.name for one in status.nodes] == [f"n{number:04}" for number in range(MOST_JOB_NODES)]
    assert status.node_count == 1000
