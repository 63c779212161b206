"""Actions by key: turns, time limits, back-off, and requests for another pass."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from stoker_kube.errors import Forbidden, Unavailable
from stoker_kube.events import ObjectRef
from stoker_operator.reconcilers.loops.keyed_work import AT_ONCE_EACH, LAST, LAST_TEMPORARY, LENT, SECONDS, KeyedWork
from stoker_operator.reconcilers.loops.turns import Act, KeyedAction
from stoker_operator.writes.write_budget import WriteBudget, WritePriority, acting_for
from tests.support.json_log import json_log
from tests.support.present import present
from tests.support.virtual_time import run_virtual
from tests.unit.stoker_operator.operator_world import RecordedEvents

REFUSED = Forbidden(403, "Forbidden", "no")
DOWN = Unavailable(503, "Down", "down")
REF = ObjectRef("v1", "Pod", "odd", "team", "uid")


class World:
    """Work in virtual time, with the finished actions and the number of wake-ups."""

    def __init__(self, rate: float | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        self.events = RecordedEvents()
        self.budget = None if rate is None else WriteBudget(rate, self.loop.time, burst_seconds=5.0)
        self.work = KeyedWork("test", self.loop.time, self.events, rand=lambda: 1.0, budget=self.budget)
        self.work.listen(self._wake)
        self.wakes = 0
        self.done: list[str] = []

    def _wake(self) -> None:
        self.wakes += 1

    def action(self, key: str, error: Exception | None = None, hangs: bool = False, mark: object = None) -> KeyedAction:
        async def act() -> None:
            self.done.append(key)
            if hangs:
                await asyncio.Event().wait()
            if error is not None:
                raise error

        return self.of(key, act, mark)

    def of(self, key: str, act: Act, mark: object = None) -> KeyedAction:
        return KeyedAction(key, "step", key.partition("-")[0], act, mark, REF)

    def writing(self, key: str, word: str = "", priority: WritePriority | None = WritePriority.PLAN) -> KeyedAction:
        """Make an action that spends one write and records ``word``."""

        async def act() -> None:
            assert self.budget is not None
            self.budget.spend()
            self.done.append(f"{key}{word}")

        return KeyedAction(key, "step", key.partition("-")[0], act, priority=priority)

    async def settle(self, *actions: KeyedAction) -> float | None:
        self.work.take(actions)
        await self.work.settled()
        return self.work.due()


def many(world: World, count: int) -> list[KeyedAction]:
    return [world.action(f"n{number}-plan") for number in range(count)]


def virtual(rate: float | None = None) -> Callable[[Callable[[World], Awaitable[None]]], Callable[[], None]]:
    """Run a test in virtual time, with a budget of ``rate`` writes per second."""

    def as_test(test: Callable[[World], Awaitable[None]]) -> Callable[[], None]:
        async def start() -> None:
            await test(World(rate))

        def runs() -> None:
            run_virtual(start())

        return runs

    return as_test


@pytest.mark.expected_logs("odd failed, trying again")
@virtual()
async def test_a_failed_action_waits_and_good_ones_go_on(world: World) -> None:
    assert await world.settle(world.action("odd", REFUSED), world.action("good")) == 2.0
    await world.settle(world.action("odd"), world.action("good"))
    assert world.done == ["odd", "good", "good"]
    await asyncio.sleep(2.0)
    await world.settle(world.action("odd"), world.action("good"))
    assert world.done[-2:] == ["odd", "good"]
    assert world.work.due() is None


@pytest.mark.parametrize(("error", "longest"), [(REFUSED, LAST), (DOWN, LAST_TEMPORARY), (ValueError("odd"), LAST)])
@pytest.mark.expected_logs("trying again")
def test_the_wait_doubles_up_to_a_bound(error: Exception, longest: float) -> None:
    async def main() -> None:
        world, waits = World(), []
        for _ in range(12):
            due = present(await world.settle(world.action("odd", error)))
            waits.append(due)
            await asyncio.sleep(due)
        assert (waits[0], waits[1], waits[-1]) == (2.0, 4.0, longest)

    run_virtual(main())


@pytest.mark.expected_logs("trying again")
@virtual()
async def test_a_changed_action_does_not_wait_for_the_failed_one(world: World) -> None:
    await world.settle(world.action("odd", REFUSED, mark=1))
    await world.settle(world.action("odd", mark=1))
    await world.settle(world.action("odd", mark=2))
    assert world.done == ["odd", "odd"]


@pytest.mark.expected_logs("did not answer within 10 s")
@virtual()
async def test_hanging_actions_time_out_and_release_their_slots(world: World) -> None:
    hanging = [world.action(f"team-{number}", hangs=True) for number in range(2 * (AT_ONCE_EACH + LENT))]
    for _ in range(4):
        world.work.take([*hanging, world.action("other")])
        await asyncio.sleep(0)
        assert "other" in world.done
        world.done.clear()
        await asyncio.sleep(SECONDS)
    world.done.clear()
    world.work.take([*hanging, world.action("team-good")])
    await asyncio.sleep(0)
    assert "team-good" in world.done
    await world.work.close()


@virtual()
async def test_a_key_has_one_action_at_a_time_and_a_request_in_between_starts_a_pass(world: World) -> None:
    async def slow() -> None:
        world.done.append("slow")
        await asyncio.sleep(1.0)

    world.work.take([world.of("slow", slow)])
    await asyncio.sleep(0.5)
    await world.settle(world.of("slow", slow))
    assert (world.done, world.wakes) == (["slow"], 1)


@pytest.mark.expected_logs("trying again")
@virtual()
async def test_repeated_failures_cause_one_event_and_a_pass_each(world: World) -> None:
    for _ in range(3):
        due = await world.settle(world.action("odd", REFUSED))
        assert (world.work.trouble("odd"), world.work.waiting()) == ("no", frozenset({"odd"}))
        await asyncio.sleep(due or 0.0)
    assert ([one.message for one in world.events.recorded], world.wakes) == (["odd: no"], 3)
    world.work.take([], keep=["odd"])
    assert world.work.trouble("odd") == "no"
    await world.settle()
    assert world.work.trouble("odd") == ""


@virtual()
async def test_an_action_may_request_its_next_turn(world: World) -> None:
    async def act() -> float:
        return 5.0

    assert await world.settle(world.of("one", act)) == 5.0
    assert world.wakes == 1


@virtual()
async def test_a_withdrawn_action_never_starts(world: World) -> None:
    busy = [world.action(f"team-{number}", hangs=True) for number in range(AT_ONCE_EACH + LENT)]
    world.work.take([*busy, world.action("team-late")])
    await asyncio.sleep(0)
    world.work.take(busy)
    await world.work.close()
    assert "team-late" not in world.done


@virtual()
async def test_close_cancels_running_actions(world: World) -> None:
    world.work.take([world.action("one", hangs=True)])
    await world.work.close()  # before the work starts
    world.work.take([world.action("two", hangs=True)])
    await asyncio.sleep(0)
    await world.work.close()
    assert (world.done, world.loop.time()) == (["two"], 0.0)


@virtual(rate=10.0)
async def test_writes_go_at_the_rate_of_the_budget(world: World) -> None:
    world.work.take([world.writing(f"n{number}-plan") for number in range(300)])
    await asyncio.sleep(20.0)
    assert len(world.done) == pytest.approx(200, rel=0.1)
    await world.work.close()


@virtual(rate=10.0)
async def test_a_key_waiting_for_the_budget_is_written_once_with_its_last_action(world: World) -> None:
    assert world.budget is not None
    for _ in range(20):
        with acting_for(WritePriority.PLAN):
            world.budget.spend()
    for word in ("old", "newer", "newest"):
        world.work.take([world.writing("n1", f" {word}")])
        await asyncio.sleep(0.01)
    await world.work.settled()
    assert world.done == ["n1 newest"]


@virtual(rate=10.0)
async def test_actions_outside_the_budget_start_at_once(world: World) -> None:
    plans = [world.writing(f"n{number}-plan") for number in range(300)]
    pods = [world.writing(f"team-{number}", priority=None) for number in range(100)]
    world.work.take([*plans, *pods])
    await asyncio.sleep(0.1)
    assert sum(key.startswith("team") for key in world.done) == 100
    await world.work.close()


@virtual(rate=1.0)
async def test_close_does_not_wait_for_the_budget(world: World) -> None:
    world.work.take([world.writing(f"n{number}") for number in range(300)])
    await asyncio.sleep(0.1)
    began = world.loop.time()
    await world.work.close()
    assert world.loop.time() == began


@pytest.mark.expected_logs("odd failed")
def test_json_lines_about_an_action_name_its_pod() -> None:
    async def scene() -> None:
        world = World()
        with json_log("stoker_operator") as lines:
            await world.settle(world.action("odd", REFUSED))
        assert [(line["uid"], line["namespace"], line["pod"]) for line in lines] == [("uid", "team", "odd")]

    run_virtual(scene())
