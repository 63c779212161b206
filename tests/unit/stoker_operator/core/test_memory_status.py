"""The memory that nodes use for a Dataset becomes one condition."""

from stoker_api.datasets.cache_memory import PinnedMemory
from stoker_api.names import Reason
from stoker_operator.core.status.warm_conditions import memory_verdict
from tests.support.cases import cases

WHOLE = PinnedMemory(wanted_bytes=2**30, bytes=2**30, wanted_names=1200, names=1200)


@cases(
    "rows, status, reason, said",
    ({}, False, Reason.MEMORY_NOT_USED, "while a pod mounts it"),
    ({"a": PinnedMemory()}, False, Reason.MEMORY_NOT_USED, "while a pod mounts it"),
    (
        {"a": WHOLE},
        True,
        Reason.MEMORY_PINNED,
        "1.0 GiB of 1.0 GiB and 1,200 of 1,200 names in the memory of",
    ),
    ({"a": WHOLE, "b": PinnedMemory(wanted_bytes=5, bytes=3)}, False, Reason.WARMING, "of 2 nodes"),
    ({"a": WHOLE, "b": PinnedMemory(message="no room")}, False, Reason.MEMORY_SHORT, "b: no room"),
    (
        {name: PinnedMemory(message="no room") for name in "abcdef"},
        False,
        Reason.MEMORY_SHORT,
        "a: no room; b: no room; c: no room; and 3 more nodes",
    ),
)
def test_the_verdict_is_about_all_nodes(rows: dict[str, PinnedMemory], status: bool, reason: Reason, said: str) -> None:
    found = memory_verdict(rows)
    assert found[:2] == (status, reason)
    assert said in found[2]
