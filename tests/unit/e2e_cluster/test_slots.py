"""Slots give each cluster unique addresses and names."""

from ipaddress import IPv4Network, IPv6Network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2e.cluster.errors import NoSlotError, UsageError
from e2e.cluster.slots import MAX_NODES, SLOT_COUNT, Network, Slot, SlotRegistry, checked_name, choose, overlap

slots = st.builds(Slot, st.integers(0, SLOT_COUNT - 1), st.booleans())
numbers = st.integers(1, MAX_NODES)


@given(slots, slots)
def test_two_slots_share_no_address(one: Slot, other: Slot) -> None:
    assert overlap(one.network, other.network) == (one == other)


@given(slots, numbers)
def test_nodes_pods_and_services_of_a_slot_never_overlap(slot: Slot, number: int) -> None:
    parts = [slot.node_network, slot.pod_network(number), slot.service_network]
    assert not any(overlap(a, b) for a in parts for b in parts if a is not b)
    assert all(overlap(part, slot.network) and part.prefixlen > slot.network.prefixlen for part in parts)


@given(slots, numbers, numbers)
def test_each_node_has_its_own_address_and_cable(slot: Slot, one: int, other: int) -> None:
    same = one == other
    assert (slot.node_address(one) == slot.node_address(other)) == same
    assert (slot.pod_network(one) == slot.pod_network(other)) == same
    assert (slot.veth(one) == slot.veth(other)) == same


@given(slots, numbers)
def test_no_node_takes_the_machines_own_address(slot: Slot, number: int) -> None:
    assert slot.node_address(number) != slot.host_address


@given(slots, numbers)
def test_interface_names_fit_into_the_kernels_fifteen_characters(slot: Slot, number: int) -> None:
    assert len(slot.veth(number)) <= 15


@pytest.mark.parametrize("number", [0, MAX_NODES + 1])
def test_a_node_number_without_addresses_is_refused(number: int) -> None:
    with pytest.raises(UsageError, match=f"node {number} has no addresses"):
        Slot(0).node_address(number)


@pytest.mark.parametrize("ipv6", [False, True])
def test_a_slot_that_overlaps_a_route_of_the_machine_is_not_chosen(ipv6: bool) -> None:
    routes: list[Network] = [IPv4Network("10.160.4.0/22"), IPv6Network("fd00:e2e:0:7::/64")]
    assert choose([], routes, ipv6=ipv6) == Slot(1, ipv6)


def test_a_url_has_an_ipv6_address_in_brackets() -> None:
    assert (Slot(1).host, Slot(1, ipv6=True).host) == ("10.161.0.1", "[fd00:e2e:1::1]")


def test_a_cluster_keeps_its_kind_of_addresses(tmp_path: Path) -> None:
    SlotRegistry(tmp_path).acquire("six", [], ipv6=True)
    assert SlotRegistry(tmp_path).find("six") == Slot(0, ipv6=True)


def test_a_taken_slot_is_not_chosen() -> None:
    assert choose([0, 1], []) == Slot(2)


def test_when_every_range_is_routed_the_error_says_how_to_free_one() -> None:
    with pytest.raises(NoSlotError, match="down --all"):
        choose([], [IPv4Network("10.0.0.0/8")])


def test_a_cluster_keeps_its_slot_until_it_releases_it(tmp_path: Path) -> None:
    registry = SlotRegistry(tmp_path)
    first, second = registry.acquire("demo", []), registry.acquire("test", [])
    assert (registry.acquire("demo", []), registry.find("test")) == (first, second)
    registry.release("demo")
    assert registry.find("demo") is None
    assert registry.acquire("other", []) == first


@pytest.mark.parametrize("name", ["", "Demo", "1demo", "demo-", "a/b", "a.b", "x" * 21])
def test_a_name_that_cannot_name_a_folder_and_a_group_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="cluster's name"):
        checked_name(name)
