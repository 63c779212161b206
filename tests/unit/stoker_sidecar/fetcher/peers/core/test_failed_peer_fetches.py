"""A failed file of a peer comes from another peer that has it, or one node fetches it, in bounded time."""

from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.fetcher.peers.core.division import OWN, PeerSet
from stoker_sidecar.fetcher.peers.core.failed_peer_fetches import HEIR, TRIES, ComesFrom, FailedPeerFetches, GiftKey
from stoker_sidecar.fetcher.peers.core.source_share import ELSEWHERE, TURNS

KEY: GiftKey = (7, None)
PIECE: GiftKey = (7, 3)


def name(position: int) -> str:
    return f"node-{position}:1"


def sharers(position: int = 0, nodes: int = 4, dead: frozenset[int] = frozenset()) -> PeerSet:
    return PeerSet(position, nodes, frozenset(range(nodes)) - dead - {position})


def decide(
    gifts: FailedPeerFetches, turn: int, havers: list[int], position: int = 0, now: float = 0.0, key: GiftKey = KEY
) -> ComesFrom:
    return gifts.comes_from(key, turn, sharers(position), name, [name(at) for at in havers], now)


def given_up_by(*positions: int, key: GiftKey = KEY) -> FailedPeerFetches:
    gifts = FailedPeerFetches()
    for at in positions:
        gifts.failed(key, name(at), 0.0, tries=TRIES)
    return gifts


def test_who_did_not_give_it_is_asked_again_after_a_moment_and_then_no_more() -> None:
    gifts, now = FailedPeerFetches(), 0.0
    for pause in (0.25, 0.5, 1.0):
        gifts.failed(KEY, "a:1", now)
        assert not gifts.may_ask(KEY, "a:1", now + 0.9 * pause)
        now += pause
        assert gifts.may_ask(KEY, "a:1", now)
    gifts.failed(KEY, "a:1", now)
    assert not gifts.may_ask(KEY, "a:1", now + 1e6)
    assert gifts.may_ask(KEY, "b:1", now)


def test_who_has_it_not_although_it_said_so_is_given_time_to_fetch_it() -> None:
    gifts = FailedPeerFetches()
    gifts.failed(KEY, "a:1", 0.0, absent=True)
    assert [gifts.may_ask(KEY, "a:1", now) for now in (0.9, 1.0)] == [False, True]


def test_another_who_has_it_is_asked_before_the_source() -> None:
    assert decide(given_up_by(1), turn=1, havers=[1, 2]) is ComesFrom.OTHERS


def test_what_is_this_nodes_to_fetch_is_fetched_where_who_said_that_it_has_it_fails_once() -> None:
    gifts = FailedPeerFetches()
    gifts.failed(KEY, name(1), 0.0)
    assert decide(gifts, turn=0, havers=[1]) is ComesFrom.SOURCE
    assert decide(gifts, turn=0, havers=[1, 2]) is ComesFrom.OTHERS


def test_who_said_falsely_that_it_has_it_leaves_it_to_whose_turn_it_is() -> None:
    assert decide(given_up_by(1), turn=2, havers=[1], now=100.0) is ComesFrom.LATER


def test_one_of_the_others_fetches_what_a_node_fails_to_give() -> None:
    for turn in range(1, TURNS, 4):
        found = [decide(given_up_by(1), turn, havers=[1], position=at) for at in (0, 2, 3)]
        assert sorted(one.name for one in found) == ["LATER", "LATER", "SOURCE"]


def test_who_fetches_it_instead_is_waited_for_for_two_seconds() -> None:
    turn = next(turn for turn in range(1, TURNS, 4) if decide(given_up_by(1), turn, [1]) is ComesFrom.LATER)
    assert decide(given_up_by(1), turn, [1], now=0.9 * HEIR) is ComesFrom.LATER
    assert decide(given_up_by(1), turn, [1], now=HEIR) is ComesFrom.SOURCE


def test_what_two_fail_to_give_falls_to_the_third() -> None:
    for turn in range(1, TURNS, 4):
        found = [decide(given_up_by(1, 2), turn, havers=[1, 2], position=at) for at in (0, 3)]
        assert sorted(one.name for one in found) == ["LATER", "SOURCE"]


def test_what_no_link_gives_is_fetched_by_one_of_the_group_at_first() -> None:
    gifts = FailedPeerFetches()
    for chunk in range(8):
        gifts.failed((7, chunk), "link:1", 0.0, tries=TRIES)
        found = [gifts.comes_from((7, chunk), ELSEWHERE, sharers(at), name, ["link:1"], 0.0) for at in range(4)]
        assert sorted(one.name for one in found) == ["LATER"] * 3 + ["SOURCE"]


def test_who_gave_what_is_doubted_gives_it_once_more_and_then_one_of_the_others_fetches_it() -> None:
    gifts = FailedPeerFetches()
    gifts.doubted(PIECE, name(1), 0.0)
    assert decide(gifts, turn=1, havers=[1], key=PIECE) is ComesFrom.OTHERS
    gifts.failed(PIECE, name(1), 0.0)
    gifts.doubted(PIECE, name(1), 0.0)  # this state is checked again and again
    found = [decide(gifts, turn=1, havers=[1], position=at, key=PIECE) for at in (0, 2, 3)]
    assert sorted(one.name for one in found) == ["LATER", "LATER", "SOURCE"]


def test_what_is_doubted_and_nobody_has_at_first_hand_is_fetched_here_after_two_seconds() -> None:
    gifts = FailedPeerFetches()
    gifts.doubted(PIECE, name(2), 0.0)
    found = [decide(gifts, turn=1, havers=[], now=now, key=PIECE) for now in (0.0, HEIR)]
    assert found == [ComesFrom.LATER, ComesFrom.SOURCE]


def test_what_each_node_fetches_by_itself_is() -> None:
    assert decide(given_up_by(1), OWN, havers=[2]) is ComesFrom.SOURCE


def test_what_is_here_is_forgotten() -> None:
    gifts = given_up_by(1)
    gifts.failed(PIECE, name(1), 0.0)
    assert (gifts.files(), KEY in gifts, PIECE in gifts) == ([7], True, True)
    gifts.keep(lambda ino: False)
    assert (gifts.files(), KEY in gifts, PIECE in gifts) == ([], False, False)


@given(
    turn=st.integers(0, TURNS - 1),
    nodes=st.integers(2, 16),
    dead=st.frozensets(st.integers(0, 15)),
    failing=st.frozensets(st.integers(0, 15)),
)
def test_of_nodes_that_saw_the_same_fail_one_fetches_it(
    turn: int, nodes: int, dead: frozenset[int], failing: frozenset[int]
) -> None:
    honest = sorted(frozenset(range(nodes)) - dead - failing)
    seen = [sharers(at, nodes, dead) for at in honest]
    gifts = given_up_by(*failing)
    found = [gifts.comes_from(KEY, turn, one, name, [name(at) for at in failing], 0.0) for one in seen]
    if found and failing - dead and seen[0].owner(turn) in failing:
        assert found.count(ComesFrom.SOURCE) == 1
    assert found.count(ComesFrom.SOURCE) <= 1


@given(
    turn=st.integers(0, ELSEWHERE),
    failing=st.frozensets(st.integers(1, 3), min_size=1),
    had=st.frozensets(st.integers(1, 3)),
)
def test_it_comes_from_somewhere_in_two_seconds_if_whose_turn_it_is_failed(
    turn: int, failing: frozenset[int], had: frozenset[int]
) -> None:
    owner = sharers().owner(turn) if turn < TURNS else None
    found = decide(given_up_by(*failing), turn, sorted(had), now=HEIR)
    if owner is None or owner in failing | {0} or had - failing:
        assert found is (ComesFrom.OTHERS if had - failing else ComesFrom.SOURCE)
    else:
        assert found is ComesFrom.LATER
