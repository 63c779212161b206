"""A pod gets one event about failing reads, and another if they fail again much later."""

from typing import Any

from stoker_api.names import Reason
from stoker_api.node_caches.node_dataset_status import FailingReads, NodeError, NodePhase
from stoker_operator.reconcilers.datasets import LEAST_SECONDS, FailingReadEvents
from tests.unit.stoker_operator.builders import (
    V1,
    decided,
    given,
    listed,
    make_cache,
    make_dataset,
    make_node,
    make_user,
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
        error = None if reads is None else NodeError(reason=reads.reason, message="refused")
        row: dict[str, Any] = {"phase": NodePhase.IDLE, "failing_reads": reads, "error": error}
        entry = (given(DATASET, eager=False), report(DATASET, 0, **row))
        cache = make_cache("a", entry, mounts=(mount(DATASET),))
        self.telling.tell(decided(DATASET, make_node("a"), cache, make_user(DATASET, "a")))


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
