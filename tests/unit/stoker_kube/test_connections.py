"""Limits of the connections of a server."""

from hypothesis import given
from hypothesis import strategies as st

from stoker_kube.serving.connections import Connection, ConnectionLimits, Connections

LIMITS = ConnectionLimits(strangers=6, strangers_per_address=2, trusted=4, trusted_per_address=2)
STEPS = st.lists(st.tuples(st.sampled_from(["open", "trust", "close"]), st.integers(0, 9)), max_size=80)


def connection(address: str) -> Connection:
    return Connection(address, lambda: None)


def opened(connections: Connections, *addresses: str) -> tuple[list[Connection], list[Connection]]:
    """Open connections in this order. Return all, and the displaced ones."""
    made = [connection(address) for address in addresses]
    return made, [victim for one in made if (victim := connections.admit(one)) is not None]


@given(STEPS)
def test_no_sequence_of_connections_exceeds_a_limit(steps: list[tuple[str, int]]) -> None:
    connections = Connections(LIMITS)
    held: list[Connection] = []
    for step, number in steps:
        if step == "open":
            held.append(connection(f"10.0.0.{number % 5}"))
            if (victim := connections.admit(held[-1])) is not None:
                held.remove(victim)
        elif held and step == "trust":
            connections.trust(held[number % len(held)])
        elif held:
            connections.remove(held.pop(number % len(held)))
        trusted = [one.address for one in held if one.trusted]
        assert len(connections) == len(held)
        assert len(trusted) <= LIMITS.trusted
        assert len(held) - len(trusted) <= LIMITS.strangers
        assert all(trusted.count(address) <= LIMITS.trusted_per_address for address in trusted)


def test_an_address_with_too_many_loses_its_oldest() -> None:
    made, closed = opened(Connections(LIMITS), "10.0.0.1", "10.0.0.1", "10.0.0.1")
    assert closed == made[:1]


def test_a_full_port_closes_the_oldest_of_the_address_that_has_most() -> None:
    made, closed = opened(Connections(LIMITS), *(f"10.0.0.{n}" for n in (1, 2, 3, 3, 4, 5)), "10.0.0.9")
    assert closed == [made[2]]


def test_a_new_connection_is_served_although_each_of_many_addresses_has_one() -> None:
    made, closed = opened(Connections(LIMITS), *(f"10.0.0.{n}" for n in range(7)))
    assert closed == made[:1]


def test_untrusted_connections_do_not_use_the_trusted_pool() -> None:
    connections = Connections(LIMITS)
    peer = connection("10.0.0.1")
    connections.admit(peer)
    connections.trust(peer)
    opened(connections, *(f"10.0.1.{n}" for n in range(100)))
    assert peer.trusted
    assert len(connections) == LIMITS.strangers + 1


def test_strangers_cannot_displace_the_next_connection_of_a_known_address() -> None:
    connections = Connections(LIMITS)
    first, second = connection("10.0.0.1"), connection("10.0.0.1")
    connections.admit(first)
    connections.trust(first)
    connections.admit(second)
    _, closed = opened(connections, *(f"10.0.1.{n}" for n in range(100)))
    assert second not in closed
    assert connections.trust(second)


def test_trusted_connections_that_are_too_many_stay_strangers() -> None:
    connections = Connections(LIMITS)
    made, _ = opened(connections, "10.0.0.1", "10.0.0.1")
    assert [connections.trust(one) for one in made] == [True, True]
    third = connection("10.0.0.1")
    connections.admit(third)
    assert not connections.trust(third)
