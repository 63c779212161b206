"""The status of a finished TrainingJob is final."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_api.goodput import EndedPod, LastReport
from stoker_api.jobs.trainingjob import TrainingJob, TrainingJobStatus
from stoker_api.names import ConditionType
from stoker_api.node_caches.node_workload import NodeWorkload
from stoker_api.node_caches.nodecache import NodeCache
from stoker_api.times import parse_time
from stoker_operator.core.fitting.warmth import WarmthIndex
from stoker_operator.core.jobs.job_facts import gather
from stoker_operator.core.jobs.job_goodput import GRACE
from stoker_operator.core.jobs.job_status import refused_status, roll_up_job, unwritten_status
from stoker_operator.core.jobs.job_transitions import job_announcements
from stoker_operator.core.views.cluster import ClusterView, Owner, PodView
from tests.support.cases import cases
from tests.unit.stoker_operator.builders import condition
from tests.unit.stoker_operator.clusters import dataset, holding
from tests.unit.stoker_operator.training import ended, job_of, released, training_job

END = parse_time("2026-11-21T10:00:00Z")
DONE: dict[str, Any] = {"conditions": [ended("Complete")], "succeeded": 2}
FAILED: dict[str, Any] = {"conditions": [ended("Failed", reason="BackoffLimitExceeded")], "failed": 4}
SAMPLING = {"sampler": "torch-distributed", "seed": 42, "epochs": 4, "batch": 32}


def pod(index: int, **fields: Any) -> PodView:
    known: dict[str, Any] = {"uid": f"{index:08x}-0000", "owner": Owner("Job", "ddp", "job-uid")}
    return replace(released(index, f"node-{index}"), **(known | fields))


def row(index: int, **fields: Any) -> NodeWorkload:
    known = {
        "phase": "Training",
        "epoch": 3,
        "epochs": 4,
        "loss": "0.31",
        "stall_percent": 30,
        "stall_source": "report",
    }
    return NodeWorkload.model_validate({"pod": f"vision/ddp-{index}", "uid": f"{index:08x}-0000"} | known | fields)


def by_reads(index: int, **fields: Any) -> NodeWorkload:
    """Make the row of a worker whose report is gone."""
    told = {"source": "fanotify", "observed_by": "fanotify", "confidence": 0.6, "epoch_error": 0.1}
    nothing = {"epochs": None, "loss": "", "stall_percent": None, "stall_source": None}
    return row(index, **{"phase": "Initialization", "epoch": None} | nothing | told | fields)


class WatchedJob:
    """Runs the operator's passes over one TrainingJob. Each status returns from the API server as JSON."""

    def __init__(self, **spec: Any) -> None:
        self.training: TrainingJob = training_job(**spec)
        self.told: list[str] = []

    def look(
        self,
        now: float,
        *rows: NodeWorkload,
        pods: tuple[PodView, ...] = (pod(0), pod(1)),
        accounts: tuple[EndedPod, ...] = (),
        warm: float = 1.0,
        **job: Any,
    ) -> TrainingJobStatus:
        caches = {name: _cache(name, rows, accounts) for name in ("node-0", "node-1")}
        view = ClusterView(
            jobs={"vision/ddp": job_of(self.training, **job)},
            datasets={"vision/imagenet": dataset()},
            node_caches=caches,
        )
        index = WarmthIndex({name: holding(name, warm) for name in caches})
        status = roll_up_job(self.training, gather(self.training, view, pods, index, None), now)
        self.told += [one.message for one in job_announcements(self.training.status, status)]
        kept = TrainingJobStatus.model_validate(status.wire())
        self.training = self.training.model_copy(update={"status": kept})
        return kept


def _cache(node: str, rows: tuple[NodeWorkload, ...], accounts: tuple[EndedPod, ...]) -> NodeCache:
    number = node.removeprefix("node-")
    own = [one.wire() for one in rows if one.pod.endswith(number)]
    over = [one.wire() for one in accounts if one.pod.endswith(number)]
    return NodeCache.model_validate({"metadata": {"name": node}, "status": {"workloads": own, "ended": over}})


def account(index: int, **last: Any) -> EndedPod:
    final = LastReport(**{"phase": "Training", "epoch": 3, "epochs": 4, "loss": "0.21"} | last)
    return EndedPod(pod=f"vision/ddp-{index}", uid=f"{index:08x}-0000", mounted_seconds=40.0, last=final)


OVER = (pod(0, phase="Succeeded"), pod(1, phase="Succeeded"))


def finished(job: WatchedJob, **end: Any) -> TrainingJobStatus:
    """Run the job until it ends. Its rows lose their reports, and its nodes send their accounts a moment later."""
    job.look(END - 30, row(0), row(1), active=2, ready=2)
    job.look(END - 1, by_reads(0), by_reads(1), pods=OVER, active=2)
    job.look(END + 1, by_reads(0), pods=OVER, **(end or DONE))
    return job.look(END + 4, pods=OVER, accounts=(account(0), account(1)), **(end or DONE))


def test_a_job_that_succeeded_shows_its_last_figures_and_that_it_is_done() -> None:
    job = WatchedJob()
    status = finished(job)
    assert status.training is not None
    assert (status.training.phase, status.training.current_epoch, status.training.loss, status.training.stall) == (
        "Done",
        "4/4",
        "0.21",
        "30%",
    )
    assert [one for one in job.told if "Initialization" in one or "Done" in one] == []


def test_a_job_that_failed_shows_the_last_phase_that_was_known() -> None:
    status = finished(WatchedJob(), **FAILED)
    assert status.training is not None
    assert (status.training.phase, status.training.loss) == ("Training", "0.21")


_WORDS = st.sampled_from(["", "Initialization", "Training", "Validation", "SaveCheckpoint"])
_ROWS = st.lists(
    st.builds(
        lambda index, report, fields: (row if report else by_reads)(index, **fields),
        st.integers(0, 1),
        st.booleans(),
        st.fixed_dictionaries(
            {
                "phase": _WORDS,
                "epoch": st.none() | st.integers(0, 9),
                "loss": st.sampled_from(["", "9.9"]),
                "order": st.sampled_from(["", "Known", "Wrong", "Unknown"]),
            }
        ),
    ),
    max_size=4,
)
_ACCOUNTS = st.lists(st.builds(lambda index, loss: account(index, loss=loss), st.integers(0, 1), _WORDS), max_size=2)


@settings(max_examples=30)
@given(st.sampled_from([DONE, FAILED]), st.lists(st.tuples(_ROWS, _ACCOUNTS, st.floats(0, 1)), max_size=5), st.data())
def test_after_the_end_of_a_job_no_input_changes_its_status(
    end: dict[str, Any], looks: list[tuple[list[NodeWorkload], list[EndedPod], float]], data: st.DataObject
) -> None:
    job = WatchedJob(sampling=SAMPLING)
    job.look(END - 30, row(0, order="Known", order_agreement=100), row(1), active=2, ready=2)
    status = finished(job, **end)
    pods = data.draw(st.sampled_from([OVER, OVER[:1], (), (pod(0), pod(1), pod(2))]))
    for number, (rows, accounts, warm) in enumerate(looks):
        now = END + 5 + 3600 * number
        assert job.look(now, *rows, pods=pods, accounts=tuple(accounts), warm=warm, **end).wire() == status.wire()


def test_an_account_counts_though_its_pod_is_deleted() -> None:
    job = WatchedJob()
    job.look(END - 30, row(0), row(1), active=2, ready=2)
    job.look(END + 1, pods=OVER, **DONE)
    status = job.look(END + 4, pods=(), accounts=(account(0), account(1)), **DONE)
    assert status.training is not None
    assert status.goodput is not None
    assert (status.training.loss, status.goodput.pods, status.goodput.complete) == ("0.21", 2, True)


def test_nodes_that_give_no_account_change_nothing_after_a_minute() -> None:
    job = WatchedJob()
    job.look(END - 30, row(0), row(1), active=2, ready=2)
    job.look(END + 1, pods=OVER, **DONE)
    settled = job.look(END + GRACE, pods=OVER, **DONE)
    later = job.look(END + 3600, row(0, loss="9.9"), pods=OVER, accounts=(account(0, loss="9.9"),), **DONE)
    assert later.wire() == settled.wire()


def order(status: TrainingJobStatus) -> tuple[str, str]:
    found = condition(status, ConditionType.ORDER)
    return found.reason, found.message


@cases(
    "fields, reason",
    ({"order": "Known", "order_agreement": 100}, "OrderKnown"),
    ({"order": "Wrong", "order_message": "read 1 was 0070.jpg, where 0115.jpg was about due"}, "OrderWrong"),
)
def test_the_order_stays_as_it_was_last_seen(fields: dict[str, Any], reason: str) -> None:
    job = WatchedJob(sampling=SAMPLING)
    before = order(job.look(END - 30, row(0, **fields), row(1), active=2, ready=2))
    assert before[0] == reason
    unknown = by_reads(0, order="Unknown", order_message="3 reads were seen, which is too few to tell")
    assert order(job.look(END - 2, unknown, active=2, ready=2)) == before
    assert order(job.look(END - 1, by_reads(0), by_reads(1), pods=OVER, active=2)) == before
    assert order(job.look(END + 1, pods=OVER, **DONE)) == before


def test_a_worker_in_the_wrong_order_counts_after_it_ended() -> None:
    job = WatchedJob(sampling=SAMPLING)
    before = order(job.look(END - 30, row(0, order="Wrong", order_message="read 1 was x"), row(1), active=2, ready=2))
    ending = (pod(0, phase="Succeeded"), pod(1))
    assert order(job.look(END - 9, row(1, order="Known", order_agreement=100), pods=ending, active=1)) == before


def test_a_lost_order_is_reported() -> None:
    job = WatchedJob(sampling=SAMPLING)
    job.look(END - 30, row(0, order="Known", order_agreement=100), active=2, ready=2)
    sought = row(0, order="Unknown", order_message="readers are looked for: 2 epochs were held against what they read")
    assert order(job.look(END - 20, sought, active=2, ready=2))[0] == "OrderUnknown"


@pytest.mark.parametrize("trouble", [refused_status, unwritten_status])
def test_a_spec_or_a_write_that_was_refused_after_the_end_is_forgotten(trouble: Any) -> None:
    job = WatchedJob()
    status = finished(job)
    args = ("InvalidSpec", "no image") if trouble is refused_status else ("no right to write",)
    troubled = trouble(status, 1, *args, END + 100)
    job.training = job.training.model_copy(update={"status": troubled})
    again = job.look(END + 200, pods=OVER, **DONE)
    assert {one.type: (one.status, one.message) for one in again.conditions} == {
        one.type: (one.status, one.message) for one in status.conditions
    }
