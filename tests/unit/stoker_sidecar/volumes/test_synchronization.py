"""One lock per key."""

import asyncio

from stoker_sidecar.volumes.synchronization import KeyedLocks
from tests.support.waiting import SECONDS


async def test_the_same_key_is_held_by_one_at_a_time() -> None:
    locks, inside, most = KeyedLocks(), 0, 0

    async def work() -> None:
        nonlocal inside, most
        async with locks.hold("a"):
            inside += 1
            most = max(most, inside)
            await asyncio.get_running_loop().run_in_executor(None, lambda: None)
            inside -= 1

    await asyncio.gather(*(work() for _ in range(5)))
    assert most == 1


async def test_different_keys_do_not_wait_on_each_other() -> None:
    locks = KeyedLocks()
    async with asyncio.timeout(SECONDS), locks.hold("a"), locks.hold("b"):
        assert len(locks) == 2


async def test_locks_are_forgotten_after_use() -> None:
    locks = KeyedLocks()
    async with locks.hold("a"):
        pass
    assert len(locks) == 0
