"""What a nursery does: it has imported all that a kind of process needs, and forks one for each order of the keeper."""

import argparse
import gc
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from stoker_sidecar.keep import packets
from stoker_sidecar.keep.lifeline import Lifeline
from stoker_sidecar.keep.spawn import die_with_parent, with_numbers

Become = Callable[[Sequence[str]], int]  # the main function of what is forked


def run_nursery(become: Become, name: str, argv: Sequence[str] | None) -> int:
    """Until the keeper closes its end of the orders. Returns the exit code. Must have one thread, as forking demands.

    ``name``: of the processes that it forks, 15 characters at most; else they could not be told from the nursery.
    """
    parser = argparse.ArgumentParser(description="A nursery: forks processes at the keeper's orders.")
    parser.add_argument("--orders-fd", type=int, required=True, help="SOCK_SEQPACKET socket of the keeper's orders")
    parser.add_argument("--lifeline-fd", type=int, required=True, help="the line to the keeper")
    options = parser.parse_args(argv)
    orders = socket.socket(fileno=options.orders_fd)
    gc.freeze()  # what is collected no more is not written to either: its pages stay shared with all that are forked
    Lifeline(options.lifeline_fd).beat()
    answer_orders(orders, become, name)
    return 0


def answer_orders(orders: socket.socket, become: Become, name: str) -> None:
    """Fork a process for each order, until whoever gives them is gone."""
    while True:
        try:
            packet, fds = packets.receive(orders)
        except EOFError:
            return
        _fork(orders, packet, fds, become, name)
        packets.close_all(fds)


def order(orders: socket.socket, arguments: Sequence[str], fds: Mapping[str, int]) -> int:
    """Have a process forked; its pid. Waits. Raises OSError (also when it takes too long), EOFError, ValueError, KeyError."""
    packets.send(orders, {"arguments": list(arguments), "flags": list(fds)}, list(fds.values()))
    reply, _ = packets.receive(orders)
    return int(reply["pid"])


def _fork(orders: socket.socket, packet: packets.Packet, fds: list[int], become: Become, name: str) -> None:
    """Start it as a grandchild. Its parent ends at once, so that it becomes a child of whoever adopts orphans and waits for it."""
    may_go, is_adopted = os.pipe()
    parent = os.fork()
    if parent == 0:
        if os.fork() == 0:
            os.close(is_adopted)
            os.read(may_go, 1)
            os.close(may_go)
            os._exit(_begin(orders, packet, fds, become, name))
        os._exit(0)
    os.waitpid(parent, 0)
    os.close(may_go)
    os.close(is_adopted)  # no writer is left, so the read of the new process returns


def _begin(orders: socket.socket, packet: packets.Packet, fds: list[int], become: Become, name: str) -> int:
    """In the new process. Returns the exit code."""
    die_with_parent()
    Path("/proc/self/comm").write_text(name)
    packets.send(orders, {"pid": os.getpid()})
    orders.close()
    return become(with_numbers(packet["arguments"], dict(zip(packet["flags"], fds, strict=True))))
