"""What kopf tells of Datasets and TrainingJobs, put in order, and compared with the API server's list.

kopf hands on each event of its watch. What it cannot say: when its first list is whole, and which objects were deleted
while it was cut off for so long that it had to list again (it then tells of those that are there, and of no deletion).
Both come out of a list of our own: everything in it has been told of, or is about to be; everything older that is not
in it is gone.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from stoker_kube.api import Kube, Object
from stoker_kube.errors import KubeError
from stoker_kube.informer import key_of
from stoker_kube.resources import Kind
from stoker_operator.mirror.identity import Seen, seen_of, version_of
from stoker_operator.work_turns import WORK

log = logging.getLogger(__name__)

DELETED = "DELETED"
REMEMBERED = (
    10_000  # UIDs of deleted objects: kopf tells of each object in its own task, so the last word may not come last
)
AGREEMENT = 300.0  # seconds between two comparisons with the list: how long a missed deletion may stay unknown
FIRST_AGREEMENT = 0.5  # seconds between two while the first is awaited
_AT_ONCE = 20  # objects of a list, which are read as they are looked at: of 50 us each
PATIENCE = 10.0  # seconds in which kopf must tell of what the list has, before it counts as deaf


class Intake:
    """The objects of one kind, by key, as kopf tells of them.

    ``store(key, object)`` is called for each state that is newer than the last one, and with None when the object is
    gone.
    """

    def __init__(self, kind: Kind, store: Callable[[str, Object | None], None]) -> None:
        self.kind: Final = kind
        self._store: Final = store
        self._seen: Final[dict[str, Seen]] = {}
        self._gone: Final[dict[str, None]] = {}
        self._by_list: Final[set[str]] = set()  # keys of which kopf tells not even after a new start
        self._whole: Final = asyncio.Event()

    @property
    def whole(self) -> bool:
        """Tell whether everything that existed at the start has been told of.

        Before that, what is missing looks deleted.
        """
        return self._whole.is_set()

    async def wait_whole(self) -> None:
        """Wait until everything that existed at the start has been told of."""
        await self._whole.wait()

    def take(self, event: str | None, item: Object) -> None:
        """Take one event of kopf's: DELETED, or any other for a state. What was overtaken is left out."""
        key, seen = key_of(item), seen_of(item)
        known = self._seen.get(key)
        if event == DELETED:
            self._bury(seen.uid)
            if known is not None and known.uid == seen.uid:
                self._forget(key)
        elif seen.uid not in self._gone and (known is None or known.version < seen.version):
            self._seen[key] = seen
            self._store(key, item)

    async def agree(self, kube: Kube) -> frozenset[tuple[str, int]]:
        """Compare with the API server's list: forget what is not in it, and give back what kopf has not told of yet.

        Those are keys with resourceVersions. Raises KubeError.
        """
        listed: dict[str, Seen] = {}
        version = 0
        async for page in kube.pages(self.kind):
            version = version_of(page.resource_version)
            for start in range(0, len(page.items), _AT_ONCE):
                async with WORK.one():
                    listed |= self._looked_at(page.items[start : start + _AT_ONCE])
        for key, seen in list(self._seen.items()):
            now = listed.get(key)
            if seen.version <= version and (now is None or now.uid != seen.uid):
                log.info("%s %s was deleted while nobody told of it", self.kind.kind, key)
                self._bury(seen.uid)
                self._forget(key)
        behind = frozenset((key, seen.version) for key, seen in listed.items() if self._is_behind(key, seen))
        if not behind:
            self._whole.set()
        return behind

    def _looked_at(self, items: Sequence[Object]) -> dict[str, Seen]:
        for item in items:
            if key_of(item) in self._by_list:
                self.take(None, item)
        return {key_of(item): seen_of(item) for item in items}

    async def keep(self, kube: Kube, restart: Callable[[], None]) -> None:
        """Agree again and again, until cancelled; ``restart`` kopf when it has gone deaf.

        An object of which it tells not even then is taken from the list: one that kopf cannot take must not stop all
        others, and what were left out would look deleted.
        """
        loop = asyncio.get_running_loop()
        waited_for: dict[tuple[str, int], float] = {}  # since when, by the loop's clock
        asked: set[tuple[str, int]] = set()  # for which kopf was started again
        while True:
            try:
                behind = await self.agree(kube)
                waited_for = {one: waited_for.get(one, loop.time()) for one in behind}
            except KubeError as error:
                log.warning("%s could not be listed, trying again: %s", self.kind.plural, error)
            late = {one for one, since in waited_for.items() if loop.time() - since > PATIENCE}
            self._take_from_list(late & asked)
            if late - asked:
                log.warning("kopf does not tell of %s: starting it again", _some(late))
                restart()
                asked |= late
                waited_for = {}
            await asyncio.sleep(FIRST_AGREEMENT if waited_for or not self.whole else AGREEMENT)

    def _take_from_list(self, late: set[tuple[str, int]]) -> None:
        if late:
            log.error("kopf does not tell of %s, even after a new start: taken from the list", _some(late))
            self._by_list.update(key for key, _ in late)

    def _is_behind(self, key: str, listed: Seen) -> bool:
        known = self._seen.get(key)
        return listed.uid not in self._gone and (known is None or known.version < listed.version)

    def _bury(self, uid: str) -> None:
        self._gone[uid] = None
        while len(self._gone) > REMEMBERED:
            del self._gone[next(iter(self._gone))]

    def _forget(self, key: str) -> None:
        del self._seen[key]
        self._by_list.discard(key)
        self._store(key, None)


def _some(objects: Iterable[tuple[str, int]]) -> str:
    return ", ".join(sorted(key for key, _ in objects)[:3])
