"""The commands that connect nodes to the network."""

import pytest

from e2e.cluster.network import bridge_commands, cable_commands, inside_commands
from e2e.cluster.slots import Slot

SLOT = Slot(1)


def test_the_machine_reaches_a_nodes_pods_through_that_node() -> None:
    assert "route replace 10.161.2.0/24 via 10.161.0.12 dev se2e1" in cable_commands(SLOT, 2, init=77)


def test_the_cable_ends_in_the_namespace_of_the_nodes_first_process() -> None:
    cable = cable_commands(SLOT, 2, init=77)[0]
    assert cable.startswith("link add se2e1n2 type veth peer name eth0 ")
    assert cable.endswith(" netns 77")


def test_a_node_that_takes_the_number_of_one_gone_keeps_its_hardware_address() -> None:
    assert SLOT.hardware_address(2) in cable_commands(SLOT, 2, init=1)[0]
    assert SLOT.hardware_address(2) in cable_commands(SLOT, 2, init=99)[0]


def test_a_node_reaches_other_nodes_pods_without_the_machine() -> None:
    assert "route replace 10.161.3.0/24 via 10.161.0.13" in inside_commands(SLOT, 2, [1, 3])


@pytest.mark.parametrize(
    ("slot", "command"),
    [
        (SLOT, "addr add 10.161.0.1/24 dev se2e1"),
        (Slot(1, ipv6=True), "addr add fd00:e2e:1::1/64 dev se2e1 nodad"),  # duplicate address detection takes seconds
    ],
    ids=["IPv4", "IPv6"],
)
def test_the_machines_address_lies_on_the_bridge(slot: Slot, command: str) -> None:
    assert command in bridge_commands(slot)
