"""A Dataset on all nodes that changes every second: its own namespace pays for the resulting writes."""

import itertools
import threading
from collections.abc import Iterator

import pytest

from e2e.support.attacked import ended, restarts
from e2e.support.tenant import Canary, Tenant
from e2e.support.world import World

_ROUNDS = 2  # rounds of the canary
_PAUSE = 0.5  # seconds between two changes


@pytest.fixture
def toggled(tenant: Tenant) -> Iterator[list[int]]:
    """Change the priority of a Dataset on all nodes repeatedly. Yields the priorities so far."""
    spec = {"source": {"uri": "s3://no-such-bucket/"}, "cache": {"replicas": "all"}}
    tenant.create(tenant.dataset("toggled", **spec))
    stopping, written = threading.Event(), list[int]()

    def toggle() -> None:
        for priority in itertools.cycle((1, 0)):
            tenant.kubectl("patch", "dataset", "toggled", "-n", tenant.namespace, "--type=merge", "-p", patch(priority))
            written.append(priority)
            if stopping.wait(_PAUSE):
                return

    thread = threading.Thread(target=toggle, name="toggling")
    thread.start()
    yield written
    stopping.set()
    thread.join()


def patch(priority: int) -> str:
    return f'{{"spec": {{"warm": {{"priority": {priority}}}}}}}'


def test_a_dataset_that_changes_all_the_time_delays_nobody(world: World, canary: Canary, toggled: list[int]) -> None:
    before = restarts(world), ended(world)
    for _ in range(_ROUNDS):
        canary.check()
    assert (restarts(world), ended(world)) == before
    assert len(toggled) >= 10
