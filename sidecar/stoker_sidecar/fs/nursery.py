"""A process that has imported all that a FUSE server needs, and forks one whenever the keeper asks: milliseconds, not 0.3 s."""

import argparse
import gc
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from stoker_sidecar.fs import server
from stoker_sidecar.keep import packets
from stoker_sidecar.keep.lifeline import Lifeline
from stoker_sidecar.keep.spawn import die_with_parent, with_numbers


def _become_server(orders: socket.socket, order: packets.Packet, fds: list[int]) -> int:
    """In the new process. Returns the exit code."""
    die_with_parent()
    Path("/proc/self/comm").write_text("stoker-fs")  # else it could not be told from the nursery
    packets.send(orders, {"pid": os.getpid()})
    orders.close()
    return server.main(with_numbers(order["arguments"], dict(zip(order["flags"], fds, strict=True))))


def _fork(orders: socket.socket, order: packets.Packet, fds: list[int]) -> None:
    """Start a server as a grandchild. Its parent ends at once, so that it becomes a child of the keeper, who waits for it."""
    may_go, is_adopted = os.pipe()
    parent = os.fork()
    if parent == 0:
        if os.fork() == 0:
            os.close(is_adopted)
            os.read(may_go, 1)
            os.close(may_go)
            os._exit(_become_server(orders, order, fds))
        os._exit(0)
    os.waitpid(parent, 0)
    os.close(may_go)
    os.close(is_adopted)  # no writer is left, so the server's read returns


def main(argv: Sequence[str] | None = None) -> int:
    """Until the keeper closes its end of the orders. Returns the exit code. Has one thread, as forking demands."""
    parser = argparse.ArgumentParser(prog="stoker_sidecar.fs.nursery", description=__doc__)
    parser.add_argument("--orders-fd", type=int, required=True, help="SOCK_SEQPACKET socket of the keeper's orders")
    parser.add_argument("--lifeline-fd", type=int, required=True, help="the line to the keeper")
    options = parser.parse_args(argv)
    orders = socket.socket(fileno=options.orders_fd)
    gc.freeze()  # what is collected no more is not written to either: its pages stay shared with all servers
    Lifeline(options.lifeline_fd).beat()
    while True:
        try:
            order, fds = packets.receive(orders)
        except EOFError:
            return 0
        _fork(orders, order, fds)
        packets.close_all(fds)


if __name__ == "__main__":
    sys.exit(main())
