"""The room that released pods take before they have a node: known from what this process released, and for a minute."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

# Seconds: the scheduler places a pod within one, where it can be placed. One that cannot must not keep others out.
BOOKED_SECONDS = 60.0


@dataclass(frozen=True)
class _Booking:
    nodes: tuple[str, ...]
    until: float


@dataclass
class ReleaseBook:
    """What this process released, by the pods' UIDs. ``now`` in seconds since the epoch.

    The annotation on a released pod says the same, but anyone may write that.
    """

    _bookings: dict[str, _Booking] = field(default_factory=dict)

    def note(self, uid: str, nodes: Sequence[str], now: float) -> None:
        """Remember that a pod is being let go to one of ``nodes``, best first."""
        self._bookings[uid] = _Booking(tuple(nodes), now + BOOKED_SECONDS)

    def forget(self, uid: str) -> None:
        """Forget a pod that has its node, or is gone: what it takes is known otherwise."""
        self._bookings.pop(uid, None)

    def current(self, now: float) -> Mapping[str, tuple[str, ...]]:
        """Return the nodes of each booking that counts, by the pods' UIDs; forget the others."""
        self._bookings = {uid: one for uid, one in self._bookings.items() if one.until > now}
        return {uid: one.nodes for uid, one in self._bookings.items()}
