"""The volumes that the kubelet asked for and that are not mounted yet: how a node asks the operator for a dataset."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from stoker_sidecar.volumes.core.publish import PublishRequest

# The kubelet asks again after at most 2 min 2 s (its volume back-off), plus the wait of a call; twice that, and the pod is gone.
FORGET_SECONDS = 300.0


@dataclass(eq=False)
class Wish:
    """One request that waits; compared by identity, since an unpublish and a new publish make another one."""

    request: PublishRequest
    callers: int = 0
    last_seen: float = 0.0


class Wishes:
    """Pending requests by target. A wish lives while a call waits for it, and then until the kubelet should have asked again."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._wishes: dict[Path, Wish] = {}

    def enter(self, request: PublishRequest) -> Wish:
        """A call begins to wait; calls for one target share a wish."""
        wish = self._wishes.setdefault(request.target, Wish(request))
        wish.callers += 1
        return wish

    def leave(self, wish: Wish) -> None:
        """A call ended, with or without a mount."""
        wish.callers -= 1
        wish.last_seen = self._clock()

    def is_current(self, wish: Wish) -> bool:
        """False when the wish was fulfilled or withdrawn meanwhile."""
        return self._wishes.get(wish.request.target) is wish

    def drop(self, target: Path) -> bool:
        """Fulfilled, refused or withdrawn; whether there was one."""
        return self._wishes.pop(target, None) is not None

    def current(self) -> tuple[PublishRequest, ...]:
        """The requests that wait; those that the kubelet gave up are forgotten."""
        oldest = self._clock() - FORGET_SECONDS
        self._wishes = {key: wish for key, wish in self._wishes.items() if wish.callers or wish.last_seen > oldest}
        return tuple(wish.request for wish in self._wishes.values())
