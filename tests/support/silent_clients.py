"""Opens connections to ports, sends nothing or half a request, and reconnects when one is closed. Run as a program.

python silent_clients.py [--send TEXT] COUNT SOURCE HOST:PORT...  keeps COUNT connections in all, from the address
SOURCE or any (-). It prints "all dialed" after the first round.
"""

import argparse
import resource
import select
import socket
from contextlib import suppress


def dial(source: str, address: str, text: str) -> socket.socket:
    """Return a connection in progress, on which ``text`` is sent."""
    host, _, port = address.rpartition(":")
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # its port stays free for servers of other tests
    if source != "-":
        client.bind((source, 0))
    client.setblocking(False)
    client.connect_ex((host, int(port)))
    with suppress(OSError):  # a full backlog
        client.send(text.encode())
    return client


def keep(count: int, source: str, addresses: list[str], text: str = "") -> None:
    """Hold the connections until killed."""
    poll = select.epoll()
    clients: dict[int, tuple[socket.socket, str]] = {}

    def add(address: str) -> None:
        client = dial(source, address, text)
        clients[client.fileno()] = client, address
        poll.register(client, select.EPOLLIN | select.EPOLLRDHUP)

    for number in range(count):
        add(addresses[number % len(addresses)])
    print("all dialed", flush=True)
    while True:
        for descriptor, _ in poll.poll():
            client, address = clients.pop(descriptor)
            poll.unregister(descriptor)
            client.close()
            add(address)


if __name__ == "__main__":
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    parser = argparse.ArgumentParser()
    parser.add_argument("--send", default="")
    parser.add_argument("count", type=int)
    parser.add_argument("source")
    parser.add_argument("addresses", nargs="+")
    given = parser.parse_args()
    keep(given.count, given.source, given.addresses, given.send)
