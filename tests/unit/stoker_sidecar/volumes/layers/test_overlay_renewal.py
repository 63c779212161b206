"""An overlay drops its cached names so that arrived files are opened in the lower layer."""

from dataclasses import dataclass, field

import pytest

from stoker_sidecar.errors import MountError
from stoker_sidecar.volumes.core.publish import VersionKey
from stoker_sidecar.volumes.layers.overlay_renewal import LOOK_SECONDS, OverlayRenewal, is_due, warm_bytes
from stoker_sidecar.volumes.synchronization import Changes
from tests.fakes.volumes import DIGEST, UID, Clock, dataset_status

VERSION = (UID, DIGEST)
MB = 10**6


@dataclass
class Node:
    """Overlays in memory, with ``warm`` bytes in their lower layers."""

    warm: dict[VersionKey, int] = field(default_factory=lambda: {VERSION: 0})
    clock: Clock = field(default_factory=Clock)
    renewed: list[VersionKey] = field(default_factory=list)
    refuses: bool = False

    def __post_init__(self) -> None:
        self.renewal = OverlayRenewal(self.warm.keys, self.warm.__getitem__, self.renew, Changes(), self.clock)

    async def renew(self, version: VersionKey) -> None:
        self.renewed.append(version)
        if self.refuses:
            raise MountError(22, "mounting overlay: Invalid argument")

    async def look(self, seconds: float, **arrived: int) -> int:
        """Check after ``seconds`` in which bytes arrived. Return the number of renewals since the start."""
        self.clock.now += seconds
        self.warm[VERSION] += arrived.get("arrived", 0)
        await self.renewal.look()
        return len(self.renewed)


async def test_files_that_arrived_are_shown_as_soon_as_they_make_much_of_what_is_there() -> None:
    node = Node()
    assert await node.look(0) == 0
    assert await node.look(LOOK_SECONDS, arrived=50 * MB) == 0  # too soon
    assert await node.look(LOOK_SECONDS, arrived=50 * MB) == 1
    assert await node.look(10, arrived=20 * MB) == 1
    assert await node.look(10, arrived=30 * MB) == 2


async def test_the_rest_is_shown_when_nothing_arrives_any_more() -> None:
    node = Node(warm={VERSION: 100 * MB})
    assert await node.look(0) == 0
    assert await node.look(60, arrived=2 * MB) == 0
    assert await node.look(LOOK_SECONDS) == 1
    assert await node.look(600) == 1


async def test_a_little_is_shown_within_minutes() -> None:
    node = Node(warm={VERSION: 100 * MB})
    await node.look(0)
    assert await node.look(100, arrived=1000) == 0
    assert await node.look(100) == 0
    assert await node.look(100) == 1


async def test_a_version_that_fills_up_is_renewed_a_few_times_and_not_with_every_file() -> None:
    node = Node()
    for _ in range(1000):
        await node.look(LOOK_SECONDS, arrived=MB)
    assert 5 <= len(node.renewed) <= 20


async def test_what_lay_there_when_the_overlay_was_laid_is_no_reason() -> None:
    node = Node(warm={VERSION: 100 * MB})
    assert [await node.look(100) for _ in range(3)] == [0, 0, 0]


async def test_what_was_dropped_and_arrives_again_counts_as_arrived() -> None:
    node = Node(warm={VERSION: 100 * MB})
    await node.look(0)
    await node.look(20, arrived=-60 * MB)
    assert await node.look(20, arrived=60 * MB) == 1


@pytest.mark.expected_logs("keeps the names that it knows: .* Invalid argument")
async def test_a_kernel_that_refuses_is_asked_again_when_more_has_arrived() -> None:
    node = Node(refuses=True)
    await node.look(0)
    assert await node.look(20, arrived=MB) == 1
    assert await node.look(20) == 1
    assert await node.look(20, arrived=MB) == 2


async def test_an_overlay_that_is_laid_again_begins_anew() -> None:
    node = Node()
    await node.look(0)
    del node.warm[VERSION]
    await node.renewal.look()
    node.warm[VERSION] = 5 * MB
    assert await node.look(100) == 0


def test_nothing_is_due_when_nothing_arrived() -> None:
    assert not is_due(0, 0, 1000, quiet=True)


def test_the_bytes_of_a_version_are_read_from_its_own_row() -> None:
    older = {"version": "0" * 64, "warm_bytes": 7}
    status = dataset_status(version=DIGEST, warm_bytes=5, older=(older,))
    assert [warm_bytes(status, digest) for digest in (DIGEST, "0" * 64, "1" * 64)] == [5, 7, 0]
    assert warm_bytes(None, DIGEST) == 0
