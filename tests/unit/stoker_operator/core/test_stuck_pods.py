"""Released pods that the scheduler cannot place."""

from typing import Any

import pytest

from stoker_operator.core.fitting.affinity import require_nodes
from stoker_operator.core.gating.notices import STUCK_SECONDS, find_stuck
from stoker_operator.core.views.cluster import PodView
from tests.unit.stoker_operator.clusters import held, node

SINCE = 2000.0
LATER = SINCE + STUCK_SECONDS


def refused(**fields: Any) -> PodView:
    said: dict[str, Any] = {
        "unschedulable": "0/3 nodes are available",
        "unschedulable_since": SINCE,
        "released": "{}",
        "gates": (),
    }
    return held(**(said | fields))


def test_a_released_pod_that_no_node_takes_is_found_after_a_minute_with_the_schedulers_words() -> None:
    assert find_stuck([refused()], LATER - 20) == ((), 20.0)
    (stuck,), again = find_stuck([refused()], LATER)
    assert (again, "0/3 nodes are available" in stuck.sentence) == (None, True)


def test_one_that_is_pinned_is_told_what_to_do() -> None:
    (stuck,), _ = find_stuck([refused(affinity=require_nodes({}, [node("a")]))], LATER)
    assert "delete the pod" in stuck.sentence


@pytest.mark.parametrize(
    "fields",
    [{"node": "a"}, {"gates": held().gates}, {"deleting": True}, {"released": ""}, {"unschedulable": ""}],
    ids=["bound", "held", "going", "never held", "not refused"],
)
def test_other_pods_are_not_stuck(fields: dict[str, Any]) -> None:
    assert find_stuck([refused(**fields)], LATER) == ((), None)
