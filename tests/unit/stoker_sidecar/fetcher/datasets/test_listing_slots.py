"""Concurrent listings: few per namespace, regardless of other namespaces."""

import asyncio

from stoker_sidecar.fetcher.datasets.node_context import ListingSlots
from tests.support.waiting import eventually


class Listings:
    """Listings that end on request."""

    def __init__(self) -> None:
        self.slots = ListingSlots(at_once=2)
        self.running: list[str] = []
        self.end = asyncio.Event()

    def begin(self, namespace: str) -> asyncio.Task[None]:
        async def step() -> None:
            self.running.append(namespace)
            await self.end.wait()
            self.running.remove(namespace)

        return asyncio.create_task(self.slots.run(namespace, step))


async def test_a_crowd_of_one_namespace_takes_turns_and_nobody_else_waits() -> None:
    listings = Listings()
    tasks = [listings.begin("crowd") for _ in range(5)]
    tasks.append(listings.begin("canary"))
    await eventually(lambda: "canary" in listings.running)
    assert listings.running.count("crowd") == 2
    listings.end.set()
    await asyncio.gather(*tasks)


async def test_a_listing_that_is_given_up_leaves_its_turn_to_the_next() -> None:
    listings = Listings()
    tasks = [listings.begin("crowd") for _ in range(3)]
    await eventually(lambda: listings.running.count("crowd") == 2)
    tasks[0].cancel()
    await asyncio.wait([tasks[0]])
    listings.end.set()
    await asyncio.gather(*tasks[1:])
