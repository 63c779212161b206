"""Simulated peers, for which a request for several small files equals requests for each file."""

from collections.abc import Callable, Sequence

from stoker_sidecar.fetcher.peers.peer_client import Ask, Came, Give


class GivesTogether:
    """A peer that implements only ``bring``. ``together`` has the files of each request for several."""

    def __init__(self) -> None:
        self.together: list[list[str]] = []

    async def bring(self, peer: str, ask: Ask, write: Callable[[bytes], None]) -> Came:
        return Came.NOTHING

    async def bring_files(self, peer: str, asks: Sequence[Ask], give: Give) -> Came:
        self.together.append([ask.path for ask in asks])
        for place, ask in enumerate(asks):
            came: list[bytes] = []
            found = await self.bring(peer, ask, came.append)
            if found not in (Came.WHOLE, Came.ABSENT):
                return found
            give(place, b"".join(came) if found is Came.WHOLE else None)
        return Came.NOTHING
