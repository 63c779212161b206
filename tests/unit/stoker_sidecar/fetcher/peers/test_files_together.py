"""Small files that go in one request to a peer, and the handling of incomplete answers."""

import pytest

from stoker_sidecar.fetcher.download.core.peer_scores import MOST_FAILURES
from stoker_sidecar.fetcher.peers.node_division import Division
from stoker_sidecar.fetcher.peers.peer_client import Ask, Came, Having
from stoker_sidecar.fetcher.peers.peer_file_fetcher import PeerFileFetcher
from stoker_sidecar.fetcher.peers.peer_requests import PeerRequest
from tests.support.divided_version import DividedVersion, PlayedPeers
from tests.support.waiting import eventually

CONTENT = {f"small/{number:02}": bytes([number]) * 1000 for number in range(12)}
CONTENT |= {f"half/{number}": bytes([number]) * 600_000 for number in range(3)} | {"empty": b""}
PATHS = sorted(path for path in CONTENT if path.startswith("small"))
A, B = "a:1", "b:1"


class Together:
    """A node with the peers ``a:1`` and ``b:1``.

    ``a:1`` has all files and sends up to ``most`` per request. ``b:1`` has none.
    """

    def __init__(self, version: DividedVersion, most: int = 4) -> None:
        self.version = version
        self.client = PlayedPeers(version.gives)
        having = version.others(Division(version.digest, (A, B), 0), self.client)
        having.by_peer |= {A: Having(b"\1" * 100, 10**9, together=most), B: Having(b"", 1)}
        self.having = having
        self.copies: PeerFileFetcher = version.copies(having)

    def wishes(self, *paths: str) -> list[PeerRequest]:
        return [PeerRequest(self.version.entry(path)) for path in paths]

    def along(self, *paths: str) -> list[str]:
        """Return the paths in the same request as the first one."""
        first, *rest = self.wishes(*paths)
        return [
            self.version.fetching.version.manifest.path_of(one.entry) for one in self.copies.with_others(first, A, rest)
        ]

    async def ask(self, *paths: str) -> None:
        self.client.given.set()
        self.copies.ask_together(self.wishes(*paths), A)
        await eventually(lambda: len(self.copies) == 0)

    @property
    def here(self) -> set[str]:
        return set(self.version.node.tree(self.version.digest))

    def fails_after(self, failures: int) -> bool:
        """Return True if the node pauses after this number of further failures."""
        for _ in range(failures):
            self.version.fetching.context.givers.failed(A)
        return not self.version.fetching.context.givers.may_ask(A)


@pytest.fixture
def together(version: DividedVersion) -> Together:
    return Together(version)


class TestWhichGoAlong:
    async def test_as_many_as_the_node_gives(self, together: Together) -> None:
        assert together.along(*PATHS) == PATHS[:4]

    async def test_none_with_a_node_of_an_earlier_release(self, version: DividedVersion) -> None:
        assert Together(version, most=0).along(*PATHS) == []

    async def test_no_more_bytes_than_one_answer_has(self, together: Together) -> None:
        assert together.along("half/0", "half/1", PATHS[0]) == ["half/0", PATHS[0]]

    async def test_nothing_that_the_node_has_not(self, together: Together) -> None:
        together.having.by_peer[A] = Having(together.version.files(PATHS[1:3]), 1, together=4)
        assert together.along(PATHS[1], PATHS[0], PATHS[2]) == PATHS[1:3]

    async def test_an_empty_file_comes_alone(self, together: Together) -> None:
        assert together.along("empty", *PATHS) == []

    async def test_what_failed_before_comes_alone(self, together: Together) -> None:
        together.client.gives = lambda peer, ask: Came.NOTHING
        await together.ask(PATHS[0])
        together.version.now += 10.0
        assert together.along(*PATHS[:3]) == []
        assert together.along(*PATHS[1:], PATHS[0]) == PATHS[1:5]

    async def test_who_failed_lately_is_asked_for_one_at_a_time(self, together: Together) -> None:
        together.version.fetching.context.givers.failed(A, late=True)
        assert together.along(*PATHS) == []


class TestWhatComes:
    async def test_all_by_one_request(self, together: Together) -> None:
        await together.ask(*PATHS[:4])
        assert together.client.together == [PATHS[:4]]
        assert together.version.node.tree(together.version.digest) == {path: CONTENT[path] for path in PATHS[:4]}
        assert together.version.ended == [True] * 4

    async def test_they_count_as_one_request(self, together: Together) -> None:
        together.copies.ask_together(together.wishes(*PATHS[:4]), A)
        assert (len(together.copies), together.copies.taking()) == (4, 1)

    async def test_one_that_is_wrong_is_kept_out_and_the_others_are_kept(self, together: Together) -> None:
        gives = together.version.gives
        together.version.fetching.version.trust = together.version.fetching.version.trust.judge("0" * 32, "0" * 32)[1]
        together.client.gives = lambda peer, ask: b"x" * ask.length if ask.path == PATHS[1] else gives(peer, ask)
        await together.ask(*PATHS[:3])
        assert together.here == {PATHS[0], PATHS[2]}

    async def test_one_that_is_not_there_is_asked_of_it_later_and_the_others_come(self, together: Together) -> None:
        gives = together.version.gives
        together.client.gives = lambda peer, ask: Came.ABSENT if ask.path == PATHS[1] else gives(peer, ask)
        await together.ask(*PATHS[:3])
        assert together.here == {PATHS[0], PATHS[2]}
        assert together.copies.giver(together.wishes(PATHS[1])[0], 0) == ""

    async def test_an_answer_that_breaks_off_is_one_failure(self, together: Together) -> None:
        together.client.gives = lambda peer, ask: Came.NOTHING
        await together.ask(*PATHS[:4])
        assert together.version.ended == [False] * 4
        assert not together.fails_after(MOST_FAILURES - 2)
        assert together.fails_after(1)

    async def test_what_came_before_it_broke_off_is_kept(self, together: Together) -> None:
        def breaks_off(peer: str, ask: Ask) -> bytes | Came:
            return together.version.gives(peer, ask) if ask.path == PATHS[0] else Came.NOTHING

        together.client.gives = breaks_off
        await together.ask(*PATHS[:3])
        assert together.here == {PATHS[0]}

    async def test_a_busy_node_is_no_failure(self, together: Together) -> None:
        together.client.gives = lambda peer, ask: Came.BUSY
        await together.ask(*PATHS[:3])
        assert together.along(*PATHS[:3]) == PATHS[:3]
        assert not together.fails_after(MOST_FAILURES - 1)


class TestOverdue:
    async def test_what_was_to_come_behind_it_is_left_too_and_it_counts_once(self, together: Together) -> None:
        together.copies.ask_together(together.wishes(*PATHS[:4]), A)
        together.version.now += 60.0
        together.copies.leave_overdue()
        await eventually(lambda: len(together.copies) == 0)
        assert together.version.ended == [False] * 4
        assert not together.fails_after(MOST_FAILURES - 3), "late counts twice"
        assert together.fails_after(1)

    async def test_nobody_goes_on_asking(self, together: Together) -> None:
        together.copies.ask_together(together.wishes(*PATHS[:2]), A)
        await eventually(lambda: bool(together.client.asked))
        together.version.now += 60.0
        together.copies.leave_overdue()
        await eventually(lambda: len(together.copies) == 0)
        together.client.given.set()
        await eventually(lambda: together.version.fetching.context.settings.given._value == 32)
        assert together.here == set()
