"""Makes room on a folder: asks the datasets that may go to go, and says what was dropped and why."""

import asyncio

from stoker_api.meta import format_bytes
from stoker_api.names import Reason
from stoker_sidecar.fetcher.core.room import Asker, Idle, victims
from stoker_sidecar.fetcher.space.budget import SpaceBudget
from stoker_sidecar.fetcher.space.cache_disk import CacheDisk
from stoker_sidecar.fetcher.telemetry import Notices


class Evictor:
    """Settles between the datasets of a node who has room; of each it knows the budget alone."""

    def __init__(self, notices: Notices) -> None:
        self._notices = notices
        self._budgets: dict[str, SpaceBudget] = {}
        self._evicting = asyncio.Lock()  # one asker at a time, so that two do not both count on the same room

    def add(self, budget: SpaceBudget) -> None:
        """Take up a dataset."""
        self._budgets[budget.config.uid] = budget

    def remove(self, uid: str) -> None:
        """Forget a dataset."""
        self._budgets.pop(uid, None)

    def promised(self, asker: SpaceBudget, disk: CacheDisk) -> int:
        """Return the bytes that other datasets than the asker are still going to fetch onto a folder."""
        return sum(budget.outstanding(disk) for budget in self._budgets.values() if budget is not asker)

    async def make_room(self, asker: SpaceBudget, disk: CacheDisk, need: int) -> None:
        """Drop idle versions on a folder so that ``need`` more bytes of the asker fit; enough, or none."""
        async with self._evicting:
            wanted = Asker(asker.config.uid, asker.config.priority, bool(asker.held))
            idle = [version for budget in self._budgets.values() for version in budget.idle_on(disk)]
            for victim in victims(need, wanted, idle):
                dropped = self._budgets.get(victim.uid)
                if dropped is None:
                    continue
                why = _sentence(dropped, asker, victim)
                if await dropped.ask_to_drop(victim.digest, why):
                    disk.forget()
                    self._notices.tell(victim.uid, Reason.EVICTED, why)


def _sentence(dropped: SpaceBudget, asker: SpaceBudget, victim: Idle) -> str:
    of = "" if victim.current else f"version {victim.digest[:12]} of "
    cause = "which pods of this node use" if asker.held else f"which has priority {asker.config.priority}"
    back = "; it is fetched again when a pod uses it here, or when it fits beside the others" if victim.current else ""
    return (
        f"{of}{dropped.config.namespace}/{dropped.config.name} ({format_bytes(victim.size)}) "
        f"was dropped from this node to make room for {asker.config.namespace}/{asker.config.name}, {cause}{back}"
    )
