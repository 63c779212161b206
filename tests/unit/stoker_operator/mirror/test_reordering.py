"""A model of the mirror: in any order of watch events and answers, it ends in the state of the API server."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_operator.core.views.cluster import PodView
from stoker_operator.mirror.state import MirrorTable

KEY = "team/pod"


@dataclass
class Server:
    """An API server with one pod: its events in order, and its answers to the operator's writes."""

    told: list[PodView | None] = field(default_factory=list)
    answers: list[PodView] = field(default_factory=list)
    now: PodView | None = None
    lives: int = 0

    def create(self) -> None:
        """Make the pod if it does not exist."""
        if self.now is None:
            self.lives += 1
            self._store(f"uid-{self.lives}")

    def change(self, *, by_us: bool) -> None:
        """Change the pod if it exists."""
        if self.now is not None:
            self._store(self.now.uid)
            if by_us:
                self.answers.append(self.now)

    def delete(self) -> None:
        """Delete the pod if it exists."""
        if self.now is not None:
            self.now = None
            self.told.append(None)

    def _store(self, uid: str) -> None:
        version = len(self.told) + 1
        self.now = PodView("team", "pod", uid=uid, waiting=str(version), version=version)
        self.told.append(self.now)


@st.composite
def histories(draw: st.DrawFn) -> Server:
    server = Server()
    for step in draw(st.lists(st.sampled_from(["create", "change", "ours", "ours", "delete"]), max_size=12)):
        if step in ("change", "ours"):
            server.change(by_us=step == "ours")
        else:
            getattr(server, step)()
    return server


def informed(table: MirrorTable[PodView], told: PodView | None, known: dict[str, PodView]) -> None:
    """Send the table an event like an informer, which has its own memory."""
    old = known.pop(KEY, None)
    if told is not None:
        known[KEY] = told
    table.feed(KEY, old, told)


@settings(max_examples=60)
@given(histories(), st.data())
def test_the_mirror_ends_with_the_state_of_the_server(server: Server, data: st.DataObject) -> None:
    table: MirrorTable[PodView] = MirrorTable()
    known: dict[str, PodView] = {}
    told, answers = list(server.told), list(server.answers)
    ever: set[str] = set()  # UIDs seen by the watch. The operator writes known objects only
    while told or answers:
        possible = [answer for answer in answers if answer.uid in ever]
        if told and (not possible or data.draw(st.booleans())):
            event = told.pop(0)
            ever |= {event.uid} if event is not None else set()
            informed(table, event, known)
        else:
            answer = possible[data.draw(st.integers(0, len(possible) - 1))]
            answers.remove(answer)
            table.put(KEY, answer)
    assert rows(table) == ({} if server.now is None else {KEY: server.now.waiting})


def rows(table: MirrorTable[PodView]) -> Mapping[str, str]:
    return {key: view.waiting for key, view in table.snapshot().items()}


def test_a_pod_that_was_not_found_is_forgotten_and_another_of_its_name_is_not() -> None:
    table: MirrorTable[PodView] = MirrorTable()
    old, new = PodView("team", "pod", uid="old", version=3), PodView("team", "pod", uid="new", version=9)
    table.put(KEY, old)
    table.forget(KEY, "old")
    table.put(KEY, old)
    assert len(table) == 0
    table.put(KEY, new)
    table.forget(KEY, "old")
    assert table.snapshot()[KEY] is new
