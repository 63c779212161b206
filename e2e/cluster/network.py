"""The bridge of a cluster, the cable of each node, and the routes to the pods."""

import json
import re
from ipaddress import IPv4Network, IPv6Network

from e2e.cluster.processes import run
from e2e.cluster.slots import Network, Slot


def machine_routes() -> list[Network]:
    """Return the machine's routed networks, without the default route."""
    four = json.loads(run("ip", "-json", "-4", "route", "show") or "[]")
    six = json.loads(run("ip", "-json", "-6", "route", "show") or "[]")
    return [
        *(IPv4Network(route["dst"]) for route in four if re.match(r"\d", route["dst"])),
        *(IPv6Network(route["dst"]) for route in six if ":" in route["dst"]),
    ]


def bridge_commands(slot: Slot) -> list[str]:
    """Return the `ip` commands that make the cluster's bridge."""
    return [
        f"link add {slot.bridge} type bridge",
        f"addr add {slot.host_address}/{slot.node_network.prefixlen} dev {slot.bridge}{_at_once(slot)}",
        f"link set {slot.bridge} up",
    ]


def cable_commands(slot: Slot, node: int, init: int) -> list[str]:
    """Return the `ip` commands, run on the machine, that connect node `node` (its first process is `init`)."""
    return [
        f"link add {slot.veth(node)} type veth peer name eth0 address {slot.hardware_address(node)} netns {init}",
        f"link set {slot.veth(node)} master {slot.bridge} up",
        f"route replace {slot.pod_network(node)} via {slot.node_address(node)} dev {slot.bridge}",
    ]


def inside_commands(slot: Slot, node: int, others: list[int]) -> list[str]:
    """Return the `ip` commands, run inside the node, for its address and its routes to pods on other nodes."""
    return [
        "link set lo up",
        f"addr add {slot.node_address(node)}/{slot.node_network.prefixlen} dev eth0{_at_once(slot)}",
        "link set eth0 up",
        f"route add default via {slot.host_address}",
        *(neighbour_command(slot, other) for other in others),
    ]


def forward_command(slot: Slot) -> str:
    """Return the shell command, run inside a node, that enables forwarding between its pods and the bridge."""
    return f"echo 1 > /proc/sys/net/{'ipv6/conf/all/forwarding' if slot.ipv6 else 'ipv4/ip_forward'}"


def _at_once(slot: Slot) -> str:
    """Return the option that makes an IPv6 address usable without duplicate detection, which takes seconds."""
    return " nodad" if slot.ipv6 else ""


def neighbour_command(slot: Slot, other: int) -> str:
    """Return the `ip` command, run inside a node, that routes to the pods of node `other`."""
    return f"route replace {slot.pod_network(other)} via {slot.node_address(other)}"


def apply(commands: list[str], *prefix: str) -> None:
    """Run `ip` commands in one batch, after `prefix` (such as nsenter). Raises CommandFailedError."""
    run(*prefix, "ip", "-batch", "-", stdin="\n".join(commands).encode())


def make_bridge(slot: Slot) -> None:
    """Make the bridge. The machine does not forward: nodes route to each other's pods, and pods have no route out."""
    apply(bridge_commands(slot))


def remove_bridge(slot: Slot) -> None:
    """Remove the bridge and its cables. Their routes disappear with them."""
    links = json.loads(run("ip", "-json", "link", "show") or "[]")
    for name in sorted({link["ifname"] for link in links}, key=len, reverse=True):
        if name == slot.bridge or re.fullmatch(rf"{slot.bridge}n\d+", name):
            run("ip", "link", "del", name, check=False)
