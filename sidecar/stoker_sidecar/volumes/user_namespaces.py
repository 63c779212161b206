"""Pods with a user namespace (hostUsers: false), whose container runtime maps the users of each mount."""

import asyncio
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from stoker_sidecar.volumes.core.publish import PublishRequest

# The kubelet writes the file when it creates the pod's sandbox, after it has mounted all volumes of the pod. The last
# one may wait for its data.
WATCH_SECONDS = 3600.0
_LOOK_SECONDS = 1.0
_FILE = "userns"


class UserNamespaces:
    """The pods of this node that have a user namespace.

    An inline volume of the webhook says so. For a claim, only the folder of the pod shows it: the kubelet keeps the
    mapping there in a file. The first container of such a pod may be refused, and the kubelet tries it again. ``pods``
    is the kubelet's folder of pods; None without a kubelet. ``clock`` counts seconds.
    """

    def __init__(self, pods: Path | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._pods = pods
        self._clock = clock
        self._known: set[str] = set()
        self._since: dict[str, float] = {}

    def has(self, request: PublishRequest) -> bool:
        """Return True if the pod is known to have a user namespace."""
        return request.user_namespace or request.pod_uid in self._known

    def look(self, requests: Iterable[PublishRequest]) -> bool:
        """Look at the folders of recently mounted pods. Return True if more pods are known now. Blocks shortly."""
        uids = {request.pod_uid for request in requests if request.pod_uid}
        now = self._clock()
        self._since = {uid: self._since.get(uid, now) for uid in uids}
        self._known &= uids
        waiting = {uid for uid, since in self._since.items() if now - since <= WATCH_SECONDS} - self._known
        found = {uid for uid in waiting if self._is_mapped(uid)}
        self._known |= found
        return bool(found)

    async def run(self, requests: Callable[[], Iterable[PublishRequest]], on_change: Callable[[], None]) -> None:
        """Look each second, until cancelled. ``requests`` returns those of the mounted volumes."""
        if self._pods is None:
            return
        while True:
            if self.look(requests()):
                on_change()
            await asyncio.sleep(_LOOK_SECONDS)

    def _is_mapped(self, uid: str) -> bool:
        return self._pods is not None and (self._pods / uid / _FILE).exists()
