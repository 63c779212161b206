"""The base of worlds for tests of reconcilers: an API server, its mirror, recorded events, and a clock."""

from typing import NamedTuple

from stoker_kube.events import EventRecorder, ObjectRef
from stoker_operator.mirror.state import ClusterState
from stoker_operator.writes.writer import Writer
from tests.fakes.kube import FakeKube
from tests.unit.stoker_operator.builders import NOW


class RecordedEvent(NamedTuple):
    """One recorded event."""

    ref: ObjectRef
    type: str
    reason: str
    message: str


class RecordedEvents(EventRecorder):
    """Keeps events instead of writing them."""

    def __init__(self) -> None:
        self.recorded: list[RecordedEvent] = []

    def event(self, ref: ObjectRef, type: str, reason: str, message: str) -> None:
        self.recorded.append(RecordedEvent(ref, type, str(reason), message))

    @property
    def seen(self) -> list[tuple[str, str]]:
        """The types and reasons, in order."""
        return [(one.type, one.reason) for one in self.recorded]

    @property
    def by_name(self) -> list[tuple[str, str, str]]:
        """The names of the objects, the types and the reasons, in order."""
        return [(one.ref.name, one.type, one.reason) for one in self.recorded]

    @property
    def reasons(self) -> list[str]:
        """The reasons, in order."""
        return [one.reason for one in self.recorded]


class OperatorWorld:
    """An API server, its mirror, recorded events, and a clock in seconds since the epoch."""

    def __init__(self, kube: FakeKube | None = None, now: float = NOW) -> None:
        self.kube = kube or FakeKube()
        self.writer = Writer(self.kube)
        self.state = ClusterState("stoker")
        self.events = RecordedEvents()
        self.now = now

    def clock(self) -> float:
        return self.now
