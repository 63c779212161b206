"""Messages between keepers, the keeper that comes first, and the answers of a waiting one to the kubelet."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.errors import TakeoverFailed
from stoker_sidecar.keeper.lifecycle import probe_reply
from stoker_sidecar.keeper.takeover import messages
from tests.support.cases import cases

_NAMES = st.lists(st.text(min_size=1, max_size=5), unique=True, max_size=50)  # the number of names that are remembered
ROW = messages.MountRow("u", "d", "/m", "/v", "/p", ready=True)


def test_a_mount_arrives_as_it_was_sent() -> None:
    assert messages.parse_mount(messages.mount(ROW)) == ROW


def test_greeting_and_offer_arrive_as_they_were_sent() -> None:
    assert messages.parse_hello(messages.hello(messages.Hello("pod-a"))) == messages.Hello("pod-a")
    assert messages.parse_offer(messages.offer(messages.Offer(3))) == messages.Offer(3)


@cases("packet", {}, {"kind": "offer"}, {"kind": "hello", "mounts": 1}, {"kind": "offer", "mounts": "1"})
def test_another_packet_than_the_one_that_is_due_is_refused_with_what_it_was(packet: messages.Packet) -> None:
    with pytest.raises(TakeoverFailed, match="where 'offer'"):
        messages.parse_offer(packet)


@given(_NAMES)
def test_who_comes_later_is_newer(names: list[str]) -> None:
    order: list[str] = []
    for name in names:
        order = messages.registered(order, name)
    assert all(messages.is_newer(order, later, earlier) for earlier, later in pairwise(names))


@given(_NAMES)
def test_who_starts_again_keeps_its_place(names: list[str]) -> None:
    for name in names:
        assert messages.registered(names, name) == names


def test_what_is_not_remembered_came_first() -> None:
    assert messages.is_newer(["a"], "a", "forgotten")
    assert not messages.is_newer(["a"], "forgotten", "a")


def test_a_keeper_that_waits_is_alive_and_not_ready() -> None:
    assert probe_reply(b"GET /healthz HTTP/1.1\r\n").startswith(b"HTTP/1.1 200 ")
    assert probe_reply(b"GET /readyz HTTP/1.1\r\n").startswith(b"HTTP/1.1 503 ")
