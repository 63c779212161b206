"""What keepers say to each other, who comes first, and what a waiting one tells the kubelet."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.errors import HandoverFailed
from stoker_sidecar.keeper.probes import reply_to
from stoker_sidecar.keeper.takeover import messages as wire

_NAMES = st.lists(st.text(min_size=1, max_size=5), unique=True, max_size=60)
ROW = wire.MountRow("u", "d", "/m", "/v", "/p", ready=True)


def test_a_mount_arrives_as_it_was_sent() -> None:
    assert wire.parse_mount(wire.mount(ROW)) == ROW


def test_greeting_and_offer_arrive_as_they_were_sent() -> None:
    assert wire.parse_hello(wire.hello(wire.Hello("pod-a"))) == wire.Hello("pod-a")
    assert wire.parse_offer(wire.offer(wire.Offer(3))) == wire.Offer(3)


@pytest.mark.parametrize(
    "packet", [{}, {"kind": "offer"}, {"kind": "hello", "mounts": 1}, {"kind": "offer", "mounts": "1"}]
)
def test_another_packet_than_the_one_that_is_due_is_refused_with_what_it_was(packet: wire.Packet) -> None:
    with pytest.raises(HandoverFailed, match="where 'offer'"):
        wire.parse_offer(packet)


@given(_NAMES)
def test_who_comes_later_is_younger(names: list[str]) -> None:
    order: list[str] = []
    for name in names:
        order = wire.entered(order, name)
    assert all(wire.is_younger(order, later, earlier) for earlier, later in pairwise(names))


@given(_NAMES)
def test_who_starts_again_keeps_its_place(names: list[str]) -> None:
    for name in names:
        assert wire.entered(names, name) == names


def test_what_is_not_remembered_came_first() -> None:
    assert wire.is_younger(["a"], "a", "forgotten")
    assert not wire.is_younger(["a"], "forgotten", "a")


def test_a_keeper_that_waits_is_alive_and_not_ready() -> None:
    assert reply_to(b"GET /healthz HTTP/1.1\r\n").startswith(b"HTTP/1.1 200 ")
    assert reply_to(b"GET /readyz HTTP/1.1\r\n").startswith(b"HTTP/1.1 503 ")
