"""Acting by key: turns, time limits, back-off, and when another pass is called for."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from stoker_kube.errors import Forbidden, Unavailable
from stoker_kube.events import EventRecorder, ObjectRef
from stoker_operator.reconcilers.keyed_work import AT_ONCE_EACH, LAST, LAST_TEMPORARY, LENT, SECONDS, KeyedWork
from stoker_operator.reconcilers.turns import Act, KeyedAction
from stoker_operator.write_budget import WriteBudget, WritePriority, acting_for
from tests.support.virtual_time import run_virtual

REFUSED = Forbidden(403, "Forbidden", "no")
DOWN = Unavailable(503, "Down", "down")
REF = ObjectRef("v1", "Pod", "odd", "team", "uid")


class Recorded(EventRecorder):
    """Keeps events instead of writing them."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def event(self, ref: ObjectRef, type: str, reason: str, message: str) -> None:
        self.seen.append(message)


class World:
    """Work in virtual time, with what was done and how often a pass was called for."""

    def __init__(self, rate: float | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        self.events = Recorded()
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
        """Make an action that writes once, and says ``word``."""

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


def virtual(main: Callable[[World], Awaitable[None]], rate: float | None = None) -> None:
    async def start() -> None:
        await main(World(rate))

    run_virtual(start())


@pytest.mark.expected_logs("odd failed, trying again")
def test_what_failed_waits_and_what_did_not_goes_on() -> None:
    async def main(world: World) -> None:
        assert await world.settle(world.action("odd", REFUSED), world.action("good")) == 2.0
        await world.settle(world.action("odd"), world.action("good"))
        assert world.done == ["odd", "good", "good"]
        await asyncio.sleep(2.0)
        await world.settle(world.action("odd"), world.action("good"))
        assert world.done[-2:] == ["odd", "good"]
        assert world.work.due() is None

    virtual(main)


@pytest.mark.parametrize(("error", "longest"), [(REFUSED, LAST), (DOWN, LAST_TEMPORARY), (ValueError("odd"), LAST)])
@pytest.mark.expected_logs("trying again")
def test_the_wait_doubles_up_to_a_bound(error: Exception, longest: float) -> None:
    async def main(world: World) -> None:
        waits = []
        for _ in range(12):
            due = await world.settle(world.action("odd", error))
            assert due is not None
            waits.append(due)
            await asyncio.sleep(due)
        assert (waits[0], waits[1], waits[-1]) == (2.0, 4.0, longest)

    virtual(main)


@pytest.mark.expected_logs("trying again")
def test_another_wish_is_not_kept_waiting_by_the_failure_of_the_last() -> None:
    async def main(world: World) -> None:
        await world.settle(world.action("odd", REFUSED, mark=1))
        await world.settle(world.action("odd", mark=1))
        await world.settle(world.action("odd", mark=2))
        assert world.done == ["odd", "odd"]

    virtual(main)


@pytest.mark.expected_logs("did not answer within 10 s")
def test_what_hangs_is_given_up_and_takes_no_slot_from_others_any_more() -> None:
    async def main(world: World) -> None:
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

    virtual(main)


def test_a_key_is_acted_for_once_at_a_time_and_a_wish_in_between_calls_for_a_pass() -> None:
    async def main(world: World) -> None:
        async def slow() -> None:
            world.done.append("slow")
            await asyncio.sleep(1.0)

        world.work.take([world.of("slow", slow)])
        await asyncio.sleep(0.5)
        await world.settle(world.of("slow", slow))
        assert (world.done, world.wakes) == (["slow"], 1)

    virtual(main)


@pytest.mark.expected_logs("trying again")
def test_a_failure_is_told_once_and_each_calls_for_a_pass() -> None:
    async def main(world: World) -> None:
        for _ in range(3):
            due = await world.settle(world.action("odd", REFUSED))
            assert (world.work.trouble("odd"), world.work.waiting()) == ("no", frozenset({"odd"}))
            await asyncio.sleep(due or 0.0)
        assert (world.events.seen, world.wakes) == (["odd: no"], 3)
        world.work.take([], keep=["odd"])
        assert world.work.trouble("odd") == "no"
        await world.settle()
        assert world.work.trouble("odd") == ""

    virtual(main)


def test_a_turn_may_ask_for_the_next_one() -> None:
    async def main(world: World) -> None:
        async def act() -> float:
            return 5.0

        assert await world.settle(world.of("one", act)) == 5.0
        assert world.wakes == 1

    virtual(main)


def test_what_waits_for_a_slot_and_is_wished_no_more_is_not_done() -> None:
    async def main(world: World) -> None:
        busy = [world.action(f"team-{number}", hangs=True) for number in range(AT_ONCE_EACH + LENT)]
        world.work.take([*busy, world.action("team-late")])
        await asyncio.sleep(0)
        world.work.take(busy)
        await world.work.close()
        assert "team-late" not in world.done

    virtual(main)


def test_what_begins_between_two_steps_of_a_pass_is_not_begun_twice() -> None:
    async def main(world: World) -> None:
        slots = AT_ONCE_EACH + LENT
        busy = [world.of(f"team-{number}", partial(asyncio.sleep, 1.0)) for number in range(slots)]
        late = world.action("team-late", hangs=True)
        world.work.take([*busy, late])
        for _ in world.work.take_in_steps([late, *many(world, 200)]):
            await asyncio.sleep(0.5)
        await asyncio.sleep(0.1)
        assert (world.done.count("team-late"), len(world.done)) == (1, 201)
        await world.work.close()

    virtual(main)


def test_what_ends_between_two_steps_of_a_pass_calls_for_another_pass_and_is_not_done_again() -> None:
    async def main(world: World) -> None:
        async def act() -> None:
            await asyncio.sleep(1.0)
            world.done.append("made")

        made = world.of("made", act)
        world.work.take([made])
        for _ in world.work.take_in_steps([made, *many(world, 20)]):
            await asyncio.sleep(0.7)
        assert world.wakes == 1
        await world.work.settled()
        assert world.done.count("made") == 1
        await world.settle(made)
        assert world.done.count("made") == 2

    virtual(main)


@pytest.mark.expected_logs("odd failed, trying again")
def test_what_fails_between_two_steps_of_a_pass_waits() -> None:
    async def main(world: World) -> None:
        async def fail() -> None:
            await asyncio.sleep(1.0)
            world.done.append("odd")
            raise REFUSED

        odd = world.of("odd", fail)
        world.work.take([odd])
        for _ in world.work.take_in_steps([odd, *many(world, 20)]):
            await asyncio.sleep(0.7)
        await world.work.settled()
        assert (world.done.count("odd"), len(world.done), world.work.trouble("odd")) == (1, 21, "no")

    virtual(main)


def test_at_the_end_what_is_under_way_is_cut_off() -> None:
    async def main(world: World) -> None:
        world.work.take([world.action("one", hangs=True)])
        await world.work.close()  # before it began
        world.work.take([world.action("two", hangs=True)])
        await asyncio.sleep(0)
        await world.work.close()
        assert (world.done, world.loop.time()) == (["two"], 0.0)

    virtual(main)


def test_writes_go_at_the_rate_of_the_budget() -> None:
    async def main(world: World) -> None:
        world.work.take([world.writing(f"n{number}-plan") for number in range(300)])
        await asyncio.sleep(20.0)
        assert len(world.done) == pytest.approx(200, rel=0.1)
        await world.work.close()

    virtual(main, rate=10.0)


def test_a_key_that_waits_for_the_budget_is_written_once_as_it_was_wished_for_last() -> None:
    async def main(world: World) -> None:
        assert world.budget is not None
        for _ in range(20):
            with acting_for(WritePriority.PLAN):
                world.budget.spend()
        for word in ("old", "newer", "newest"):
            world.work.take([world.writing("n1", f" {word}")])
            await asyncio.sleep(0.01)
        await world.work.settled()
        assert world.done == ["n1 newest"]

    virtual(main, rate=10.0)


def test_what_is_not_of_the_budget_goes_at_once_however_much_waits() -> None:
    async def main(world: World) -> None:
        plans = [world.writing(f"n{number}-plan") for number in range(300)]
        pods = [world.writing(f"team-{number}", priority=None) for number in range(100)]
        world.work.take([*plans, *pods])
        await asyncio.sleep(0.1)
        assert sum(key.startswith("team") for key in world.done) == 100
        await world.work.close()

    virtual(main, rate=10.0)


def test_the_end_does_not_wait_for_the_budget() -> None:
    async def main(world: World) -> None:
        world.work.take([world.writing(f"n{number}") for number in range(300)])
        await asyncio.sleep(0.1)
        began = world.loop.time()
        await world.work.close()
        assert world.loop.time() == began

    virtual(main, rate=1.0)
