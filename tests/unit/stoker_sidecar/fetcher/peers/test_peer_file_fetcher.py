"""Requests to peers: which peer, how often, for how long, and when the source is used instead."""

import pytest

from stoker_sidecar.fetcher.download.core.peer_scores import MOST_FAILURES, MOST_WRONG, PeerScores
from stoker_sidecar.fetcher.ondisk.parts import CHUNK
from stoker_sidecar.fetcher.ondisk.piece_maps import PieceMap
from stoker_sidecar.fetcher.peers.node_division import Division
from stoker_sidecar.fetcher.peers.peer_client import Came, Having
from stoker_sidecar.fetcher.peers.peer_file_fetcher import PeerFileFetcher
from stoker_sidecar.fetcher.peers.peer_requests import PeerRequest
from tests.support.divided_version import DividedVersion, PlayedPeers
from tests.support.waiting import eventually

LARGE = bytes(2 * CHUNK) + b"end"
CONTENT = {f"small/{number:02}": bytes([number]) * 1000 for number in range(20)} | {"large": LARGE}
ALL = Having(b"\1" * 100, 10**9)
A, B = "a:1", "b:1"


class Asking:
    """A node with the peers ``a:1`` and ``b:1``, which have all files by default."""

    def __init__(
        self, version: DividedVersion, *, links: tuple[str, ...] = (), distances: tuple[int, ...] = ()
    ) -> None:
        self.version = version
        self.client = PlayedPeers(version.gives)
        peers = tuple(one for one in (A, B) if one not in links)
        division = Division(version.digest, peers, 0, links, distances=distances)
        self.having = version.others(division, self.client)
        self.having.by_peer |= {A: ALL, B: ALL}
        self.copies: PeerFileFetcher = version.copies(self.having)

    @property
    def givers(self) -> PeerScores:
        return self.version.fetching.context.givers

    def wish(self, path: str = "small/00", chunk: int | None = None) -> PeerRequest:
        return PeerRequest(self.version.entry(path), chunk)

    def giver(self, path: str = "small/00", chunk: int | None = None, most_pieces: int = 0) -> str | None:
        return self.copies.giver(self.wish(path, chunk), most_pieces)

    async def ask(self, came: Came | Exception | bytes | None = None, giver: str = A, path: str = "small/00") -> None:
        """Request a file and wait for the result. ``came``: the result of the peer. None: the right bytes."""
        self.client.gives = self.version.gives if came is None else lambda peer, ask: came
        self.client.given.set()
        self.copies.ask(self.wish(path), giver)
        await eventually(lambda: len(self.copies) == 0)

    def begin(self, count: int, giver: str, first: int = 0) -> None:
        """Request this number of files. None of them arrives."""
        for number in range(first, first + count):
            self.copies.ask(self.wish(f"small/{number:02}"), giver)

    def begin_pieces(self, count: int, giver: str) -> None:
        for chunk in range(count):
            self.copies.ask(self.wish("large", chunk), giver)


@pytest.fixture
def asking(version: DividedVersion) -> Asking:
    return Asking(version)


class TestGiver:
    async def test_who_does_not_have_it_is_not_asked(self, asking: Asking) -> None:
        asking.having.by_peer[A] = Having(b"", 1)
        assert asking.giver() == B
        asking.having.by_peer[B] = Having(b"", 1)
        assert asking.giver() == ""

    async def test_a_piece_is_asked_of_who_has_that_piece(self, asking: Asking) -> None:
        ino = asking.version.entry("large").ino
        asking.having.by_peer = {A: Having(b"", 1, {ino: PieceMap(f"{ino}.0", b"\1\0")}), B: Having(b"", 1)}
        assert [asking.giver("large", chunk) for chunk in (0, 1)] == [A, ""]
        assert asking.giver("large") == ""

    async def test_what_is_under_way_is_asked_of_nobody_else(self, asking: Asking) -> None:
        asking.begin(1, A)
        assert asking.giver() == ""

    async def test_what_is_here_is_asked_of_nobody(self, asking: Asking) -> None:
        await asking.ask()
        assert asking.giver() == ""

    async def test_who_is_near_comes_first(self, version: DividedVersion) -> None:
        assert Asking(version, distances=(2, 0)).giver() == B
        assert Asking(version, distances=(0, 2)).giver() == A

    async def test_the_own_group_comes_before_a_link(self, version: DividedVersion) -> None:
        assert Asking(version, links=(A,)).giver() == B

    async def test_who_gives_less_at_the_moment_comes_first(self, asking: Asking) -> None:
        asking.begin(1, A)
        assert asking.giver("small/01") == B

    async def test_each_gives_so_much_at_a_time_that_all_together_ask_little_of_it(self, asking: Asking) -> None:
        asking.begin(8, A)
        asking.begin(7, B, first=8)
        assert asking.giver("small/19") == B
        asking.begin(1, B, first=15)
        assert asking.giver("small/19") is None

    async def test_of_many_nodes_each_may_give_two_at_a_time(self, asking: Asking) -> None:
        asking.having.by_peer = {A: ALL} | {f"{number}:1": Having(b"", 1) for number in range(40)}
        asking.begin(1, A)
        assert asking.giver("small/19") == A
        asking.begin(1, A, first=1)
        assert asking.giver("small/19") is None

    async def test_of_pieces_one_gives_no_more_than_the_source_does(self, asking: Asking) -> None:
        asking.having.by_peer = {A: ALL}
        asking.begin_pieces(2, A)
        assert asking.giver("large", 2, most_pieces=2) is None
        assert asking.giver("large", 2, most_pieces=3) == A
        assert asking.giver("small/00", most_pieces=2) == A, "of files as many as ever"

    async def test_of_pieces_as_of_files_where_the_source_gives_none(self, asking: Asking) -> None:
        asking.having.by_peer = {A: ALL}
        asking.begin(15, A)
        assert asking.giver("large", 0, most_pieces=0) == A
        asking.begin(1, A, first=15)
        assert asking.giver("large", 0, most_pieces=0) is None

    async def test_who_gave_a_wrong_piece_is_asked_for_files_alone(self, asking: Asking) -> None:
        asking.givers.gave_wrong_piece(A)
        asking.begin(1, B, first=1)
        assert (asking.giver("large", 0), asking.giver()) == (B, A)


class TestAsk:
    async def test_what_comes_is_kept_and_counts_for_its_giver(self, asking: Asking) -> None:
        asking.givers.failed(A)
        await asking.ask()
        assert asking.version.node.tree(asking.version.digest) == {"small/00": CONTENT["small/00"]}
        assert asking.version.ended == [True]
        for _ in range(MOST_FAILURES - 1):
            asking.givers.failed(A)
        assert asking.givers.may_ask(A), "the failure before was forgiven"

    async def test_a_piece_is_asked_for_by_its_bytes_and_where_it_lies(self, asking: Asking) -> None:
        ino = asking.version.entry("large").ino
        asking.having.by_peer[A] = Having(b"", 1, {ino: PieceMap(f"{ino}.7", b"\1" * 3)})
        asking.client.given.set()
        for giver in (A, B):
            asking.copies.ask(asking.wish("large", 2 if giver == A else 1), giver)
        await eventually(lambda: asking.version.ended == [True, True])
        found = {peer: (ask.path, ask.offset, ask.length, ask.size, ask.part) for peer, ask in asking.client.asked}
        assert found == {
            A: ("large", 2 * CHUNK, 3, len(LARGE), f"{ino}.7"),
            B: ("large", CHUNK, CHUNK, len(LARGE), ""),
        }

    async def test_what_is_here_by_now_is_not_asked_for(self, asking: Asking) -> None:
        await asking.ask()
        asking.copies.ask(asking.wish(), B)
        assert len(asking.copies) == 0

    async def test_who_is_known_no_more_is_not_asked(self, asking: Asking) -> None:
        del asking.having.by_peer[A]
        asking.copies.ask(asking.wish(), A)
        assert len(asking.copies) == 0

    async def test_what_a_reader_takes_over_is_nobodys_failure(self, asking: Asking) -> None:
        asking.copies.ask(asking.wish("large", 0), A)
        await eventually(lambda: bool(asking.client.asked))
        await asking.version.node.read(asking.version.digest, asking.version.entry("large").ino, 0, 10)
        await eventually(lambda: asking.version.ended == [False])
        assert asking.giver("large", 0) == A


class TestFailure:
    async def test_who_is_busy_is_left_in_peace_for_a_second(self, asking: Asking) -> None:
        await asking.ask(Came.BUSY)
        asking.client.given.clear()
        asking.begin(1, B, first=1)
        asking.version.now += 0.9
        assert asking.giver() == B
        asking.version.now += 0.2
        assert asking.giver() == A

    async def test_who_is_busy_is_asked_where_nobody_else_has_it(self, asking: Asking) -> None:
        asking.having.by_peer = {A: ALL}
        for _ in range(5):
            await asking.ask(Came.BUSY)
        assert asking.giver() == A
        assert asking.givers.may_ask(A)

    async def test_a_file_that_does_not_come_is_asked_of_one_node_once_more_and_later(self, asking: Asking) -> None:
        asking.having.by_peer = {A: ALL}
        await asking.ask(Came.NOTHING)
        assert asking.giver() == ""
        asking.version.now += 1.0
        assert asking.giver() == A
        await asking.ask(Came.NOTHING)
        asking.version.now += 1000.0
        assert asking.giver() == ""
        assert asking.version.ended == [False] * 2

    async def test_what_one_failed_to_give_may_come_from_another(self, asking: Asking) -> None:
        for _ in range(3):
            await asking.ask(Came.NOTHING)
        assert asking.giver() == B
        assert asking.giver("small/01") is not None

    async def test_files_that_somebody_failed_to_give_are_told_until_they_are_here(self, asking: Asking) -> None:
        await asking.ask(Came.WRONG)
        assert asking.copies.failed_files() == [asking.version.entry("small/00").ino]
        await asking.ask(giver=B)
        assert asking.copies.failed_files() == []

    async def test_who_gave_wrong_bytes_is_not_asked_for_them_again(self, asking: Asking) -> None:
        asking.having.by_peer = {A: ALL}
        await asking.ask(Came.WRONG)
        assert asking.giver() == ""
        assert asking.giver("small/01") == A

    async def test_wrong_bytes_are_held_against_who_gave_them(self, asking: Asking) -> None:
        for number in range(MOST_WRONG):
            await asking.ask(Came.WRONG, path=f"small/{number:02}")
        assert (asking.givers.may_ask(A), asking.givers.may_ask(B)) == (False, True)

    @pytest.mark.parametrize("came", [Came.USELESS, OSError(5, "the disk")])
    async def test_what_was_of_no_use_here_is_not_held_against_its_giver(
        self, asking: Asking, came: Came | Exception
    ) -> None:
        asking.having.by_peer = {A: ALL}
        for number in range(MOST_FAILURES):
            await asking.ask(came, path=f"small/{number:02}")
        assert asking.givers.may_ask(A)
        assert asking.giver() == "", "and it is not asked for the same again"

    async def test_what_failed_to_come_is(self, asking: Asking) -> None:
        for number in range(MOST_FAILURES):
            await asking.ask(Came.NOTHING, path=f"small/{number:02}")
        assert not asking.givers.may_ask(A)


class TestOverdue:
    async def test_it_is_coming_until_it_is_overdue(self, asking: Asking) -> None:
        asking.begin(1, A)
        begun, key = asking.version.now, asking.wish().key
        assert not asking.copies.is_coming(asking.wish("small/01").key)
        asking.version.now += 4.0
        assert asking.copies.is_coming(key)
        asking.version.now = begun + 4.0 + 1000 / 2e6
        assert not asking.copies.is_coming(key)

    async def test_a_piece_is_waited_for_by_its_size(self, asking: Asking) -> None:
        asking.copies.ask(asking.wish("large", 0), A)
        asking.version.now += 4.0 + CHUNK / 2e6 - 0.01
        assert asking.copies.is_coming(asking.wish("large", 0).key)
        asking.version.now += 0.02
        assert not asking.copies.is_coming(asking.wish("large", 0).key)

    async def test_what_is_not_overdue_is_left_alone(self, asking: Asking) -> None:
        asking.begin(1, A)
        asking.copies.leave_overdue()
        asking.client.given.set()
        await eventually(lambda: asking.version.ended == [True])

    async def test_who_failed_to_give_in_time_is_not_asked_for_it_again(self, asking: Asking) -> None:
        asking.having.by_peer = {A: ALL}
        asking.begin(1, A)
        asking.version.now += 5.0
        asking.copies.leave_overdue()
        await eventually(lambda: asking.version.ended == [False])
        assert (asking.giver(), len(asking.copies)) == ("", 0)

    async def test_not_even_to_answer_counts_twice_against_a_node_and_once_each_time(self, asking: Asking) -> None:
        asking.begin(MOST_FAILURES // 2 - 1, A)
        asking.version.now += 5.0
        asking.copies.leave_overdue()
        asking.copies.leave_overdue()
        assert asking.givers.may_ask(A)
        await eventually(lambda: len(asking.copies) == 0)
        asking.begin(1, A, first=19)
        asking.version.now += 5.0
        asking.copies.leave_overdue()
        assert not asking.givers.may_ask(A)
        await eventually(lambda: len(asking.copies) == 0)
