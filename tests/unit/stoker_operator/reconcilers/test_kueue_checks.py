"""The pass over Workloads with a Stoker check, against the in-memory API server."""

from datetime import UTC, datetime
from typing import Any

import pytest

from stoker_api import names
from stoker_kube.api import Object
from stoker_kube.errors import Conflict
from stoker_kube.resources import ADMISSION_CHECKS, WORKLOADS
from stoker_operator.core.kueue.kueue_objects import CHECK_MANAGER, parse_admission_check, parse_workload
from stoker_operator.reconcilers.kueue_checks import LOOK_EVERY, MESSAGE_EVERY, KueueChecks
from tests.fakes.kube import FakeKube
from tests.unit.stoker_operator.builders import NOW, SIZE, listed, make_dataset, make_holder, make_node, sidecar_pod
from tests.unit.stoker_operator.kueue import CHECK, ROOM, make_check, make_workload, pod_set
from tests.unit.stoker_operator.operator_world import OperatorWorld

RESERVED = {"QuotaReserved": "True"}


class World(OperatorWorld):
    """An API server, its mirror, one node, and a clock."""

    def __init__(self) -> None:
        super().__init__(FakeKube(lambda: datetime.fromtimestamp(NOW, UTC)))
        self.reconciler = KueueChecks(self.writer, self.state, self.events, self.clock)
        self.dataset = listed(make_dataset("imagenet"))
        self.state.datasets.put("vision/imagenet", self.dataset)
        self.state.nodes.put("node-1", make_node("node-1", allocatable=ROOM))
        self.state.pods.put("stoker/s-node-1", sidecar_pod("node-1"))

    async def add_check(self, **annotations: str) -> None:
        made = await self.kube.create(ADMISSION_CHECKS, make_check(**annotations))
        self.state.admission_checks.put(CHECK, parse_admission_check(made))

    async def add(self, raw: Object) -> None:
        """Make a Workload with its status, as Kueue does."""
        await self.kube.create(WORKLOADS, raw)
        meta = {"namespace": "vision", "name": raw["metadata"]["name"]}
        made = await self.kube.apply(
            WORKLOADS, {"metadata": meta, "status": raw["status"]}, field_manager="kueue", subresource="status"
        )
        view = parse_workload(made)
        self.state.queued_workloads.put(view.key, view)

    def warm(self, amount: int, **row: Any) -> None:
        cache = make_holder("node-1", self.dataset, amount, **row)
        self.state.node_caches.put("node-1", cache)

    async def run(self) -> float | None:
        due = await self.reconciler.reconcile()
        await self.reconciler.work.settled()
        return due

    async def check(self, name: str = "job-train") -> Any:
        status = (await self.kube.get(WORKLOADS, name, "vision"))["status"]
        return status["admissionChecks"][0]

    def writes(self) -> int:
        return self.kube.requests.count(("patch", WORKLOADS.plural))


@pytest.fixture
async def world() -> World:
    """Make an operator with a Stoker check."""
    made = World()
    await made.add_check()
    return made


async def test_our_check_becomes_active(world: World) -> None:
    await world.run()
    made = await world.kube.get(ADMISSION_CHECKS, CHECK)
    assert [(one["type"], one["status"]) for one in made["status"]["conditions"]] == [("Active", "True")]


async def test_without_a_check_of_ours_nothing_is_looked_at() -> None:
    world = World()
    await world.add(make_workload(conditions=RESERVED))
    before = len(world.kube.requests)
    assert await world.run() is None
    assert len(world.kube.requests) == before


async def test_a_workload_whose_data_is_warm_becomes_ready(world: World) -> None:
    world.warm(SIZE)
    await world.add(make_workload(conditions=RESERVED))
    await world.run()
    assert (await world.check())["state"] == "Ready"


async def test_a_workload_whose_data_is_cold_is_to_be_tried_again_and_its_data_is_wanted(world: World) -> None:
    world.warm(10)
    await world.add(make_workload(conditions=RESERVED))
    assert await world.run() == LOOK_EVERY
    assert (await world.check())["state"] == "Retry"
    assert world.state.wanted == {"vision/imagenet": frozenset({"node-1"})}


async def test_what_held_pods_want_stays_wanted_beside_it(world: World) -> None:
    world.warm(10)
    world.state.set_wanted({"vision/imagenet": frozenset({"node-9"}), "vision/coco": frozenset({"node-8"})})
    await world.add(make_workload(conditions=RESERVED))
    await world.run()
    assert world.state.wanted == {
        "vision/imagenet": frozenset({"node-1", "node-9"}),
        "vision/coco": frozenset({"node-8"}),
    }


async def test_messages_about_progress_are_written_at_a_calm_pace(world: World) -> None:
    world.warm(10)
    await world.add(make_workload())
    await world.run()
    written = world.writes()
    world.warm(500)
    await world.run()
    assert world.writes() == written
    world.now += MESSAGE_EVERY
    await world.run()
    assert world.writes() == written + 1
    assert "500 B left" in (await world.check())["message"]


async def test_what_changed_meanwhile_is_left_to_the_watch(world: World) -> None:
    world.warm(SIZE)
    await world.add(make_workload(conditions=RESERVED))
    world.kube.fail_next("patch", WORKLOADS, Conflict(409, "Conflict", "it was changed"))
    await world.run()
    assert (await world.check())["state"] == "Pending"
    await world.run()
    assert (await world.check())["state"] == "Ready"


async def test_one_workload_that_is_wrong_delays_no_other(world: World) -> None:
    world.warm(SIZE)
    await world.add(make_workload(pod_set(datasets="imagenet:data"), name="wrong", conditions=RESERVED))
    broken = pod_set()
    broken["template"]["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": 7}}
    await world.add(make_workload(broken, name="broken", conditions=RESERVED))
    await world.add(make_workload(name="right", conditions=RESERVED))
    await world.run()
    assert [(await world.check(name))["state"] for name in ("wrong", "broken", "right")] == [
        "Rejected",
        "Retry",
        "Ready",
    ]


async def test_it_writes_in_a_name_of_its_own() -> None:
    assert CHECK_MANAGER.startswith("stoker-operator-")
    assert names.KUEUE_CONTROLLER == "stoker.dev/data-warm"
