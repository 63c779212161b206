"""Ports for servers that need a fixed one."""

import socket
from itertools import islice
from random import SystemRandom

# Below the ports that the kernel gives to outgoing connections and to servers that bind port 0.
_PORTS = range(10_000, 30_000)
_reservations: list[socket.socket] = []


def free_ports(count: int) -> list[int]:
    """Return different loopback ports that are free. No other test process gets one until this process ends."""
    tried = iter(SystemRandom().sample(_PORTS, len(_PORTS)))
    return list(islice((port for port in tried if _is_free(port) and _reserve(port)), count))


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _reserve(port: int) -> bool:
    """Reserve a port by the name of an abstract socket, which the kernel removes at the end of the process."""
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0stoker-test-port-{port}")
    except OSError:
        name.close()
        return False
    _reservations.append(name)
    return True
