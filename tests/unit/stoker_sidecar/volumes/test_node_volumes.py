"""When running pods are checked again for a better mount."""

import os
from dataclasses import dataclass, field
from errno import EIO

import pytest

from stoker_sidecar.volumes.node_volumes import TRY_AGAIN_SECONDS, Reconciler
from stoker_sidecar.volumes.synchronization import Changes
from tests.fakes.volumes import Clock


@dataclass
class FakeVolumes:
    """Volumes in memory. ``stubborn`` versions do not get their intended mount.

    The disk of ``failing`` versions raises an error.
    """

    mounted: frozenset[tuple[str, str]] = frozenset({("u", "a"), ("u", "b")})
    stubborn: set[tuple[str, str]] = field(default_factory=set)
    failing: set[tuple[str, str]] = field(default_factory=set)
    asked: list[tuple[str, str]] = field(default_factory=list)
    collected: int = 0

    def versions(self) -> frozenset[tuple[str, str]]:
        return self.mounted

    async def reconcile(self, uid: str, digest: str) -> bool:
        self.asked.append((uid, digest))
        if (uid, digest) in self.failing:
            raise OSError(EIO, os.strerror(EIO))
        return (uid, digest) not in self.stubborn

    async def collect_layers(self) -> None:
        self.collected += 1


async def test_every_mounted_version_is_looked_at_in_each_round() -> None:
    volumes = FakeVolumes()
    await Reconciler(Changes(), volumes, Clock()).reconcile_all()
    assert (sorted(volumes.asked), volumes.collected) == ([("u", "a"), ("u", "b")], 1)


@pytest.mark.expected_logs("stay as they are for now: .* Input/output error")
async def test_the_error_of_one_version_s_disk_stops_no_other() -> None:
    volumes = FakeVolumes(failing={("u", "a"), ("u", "b")})
    await Reconciler(Changes(), volumes, Clock()).reconcile_all()
    assert (sorted(volumes.asked), volumes.collected) == ([("u", "a"), ("u", "b")], 1)


async def test_what_the_system_refused_is_tried_again_after_a_while_and_not_on_every_change() -> None:
    volumes, clock = FakeVolumes(stubborn={("u", "a")}), Clock()
    reconciler = Reconciler(Changes(), volumes, clock)
    for seconds in (0.0, 1.0, TRY_AGAIN_SECONDS):
        clock.now += seconds
        await reconciler.reconcile_all()
    assert volumes.asked.count(("u", "a")) == 2


async def test_a_version_that_is_unmounted_and_mounted_again_starts_anew() -> None:
    volumes = FakeVolumes(frozenset({("u", "a")}), stubborn={("u", "a")})
    reconciler = Reconciler(Changes(), volumes, Clock())
    for mounted in (volumes.mounted, frozenset(), volumes.mounted):
        volumes.mounted = mounted
        await reconciler.reconcile_all()
    assert volumes.asked == [("u", "a"), ("u", "a")]
