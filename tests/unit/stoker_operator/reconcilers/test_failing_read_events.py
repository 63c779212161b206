"""A pod gets one event about failing reads, and another if they fail again much later."""

from typing import Any

from stoker_api.names import Reason
from stoker_api.node_caches.node_dataset_status import FailingReads, NodeError, NodePhase
from stoker_api.node_caches.nodecache import NodeCache
from stoker_operator.core.incremental.decision import IncrementalDecision
from stoker_operator.reconcilers.datasets import LEAST_SECONDS, FailingReadEvents
from tests.unit.stoker_operator.builders import (
    NOW,
    V1,
    decided,
    given,
    listed,
    make_cache,
    make_dataset,
    make_node,
    make_user,
    make_view,
    mount,
    report,
)
from tests.unit.stoker_operator.operator_world import OperatorWorld

DATASET = listed(make_dataset(warm={"policy": "Manual"}))
READS = FailingReads(reason=Reason.INVALID_CREDENTIALS, path="a.jpg", message="refused", version=V1)


class Cluster(OperatorWorld):
    """A node with one pod, the operator's events, and a clock."""

    def __init__(self) -> None:
        super().__init__()
        self.telling = FailingReadEvents(self.events, self.clock)

    def look(self, reads: FailingReads | None) -> None:
        """Run a pass with this report of the node."""
        self.telling.tell(decided(DATASET, make_node("a"), reporting(reads), make_user(DATASET, "a")))


def reporting(reads: FailingReads | None) -> NodeCache:
    error = None if reads is None else NodeError(reason=reads.reason, message="refused")
    row: dict[str, Any] = {"phase": NodePhase.IDLE, "failing_reads": reads, "error": error}
    entry = (given(DATASET, eager=False), report(DATASET, 0, **row))
    return make_cache("a", entry, mounts=(mount(DATASET),))


def test_repeated_reports_cause_one_event() -> None:
    cluster = Cluster()
    for number in range(5):
        cluster.look(READS.model_copy(update={"message": f"refused {number}"}))
    (told,) = cluster.events.recorded
    assert (told.ref.kind, told.ref.namespace, told.ref.name, told.ref.uid) == (
        "Pod",
        "vision",
        "trainer",
        "uid-trainer",
    )
    assert (told.type, told.reason) == ("Warning", Reason.INVALID_CREDENTIALS)


def test_a_report_that_the_operator_sees_before_the_pod_causes_an_event() -> None:
    cluster, kept = Cluster(), IncrementalDecision()
    parts = (DATASET, make_node("a"), reporting(READS))
    for pods in ((), (), (make_user(DATASET, "a"),)):
        cluster.telling.tell(kept.decide(make_view(*parts, *pods), {}, NOW))
    assert cluster.events.reasons == [Reason.INVALID_CREDENTIALS]


def test_another_reason_causes_another_event() -> None:
    cluster = Cluster()
    cluster.look(READS)
    cluster.look(READS.model_copy(update={"reason": str(Reason.ENDPOINT_UNREACHABLE)}))
    assert cluster.events.reasons == [Reason.INVALID_CREDENTIALS, Reason.ENDPOINT_UNREACHABLE]


def test_a_flapping_report_causes_one_event() -> None:
    cluster = Cluster()
    for _ in range(5):
        cluster.look(READS)
        cluster.look(None)
        cluster.now += 1.0
    assert len(cluster.events.seen) == 1


def test_a_failure_much_later_causes_another_event() -> None:
    cluster = Cluster()
    cluster.look(READS)
    cluster.look(None)
    cluster.now += LEAST_SECONDS
    cluster.look(READS)
    assert len(cluster.events.seen) == 2
