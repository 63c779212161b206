"""Hosts with one line each, on this machine: network namespaces on one bridge, with a rate limit from tc."""

import os
import shutil
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Self

from bench.errors import BenchError

# Reserved for tests of networks (RFC 2544): it is not routed.
NETWORK = "198.18.0.0/24"
_PREFIX, _LENGTH = "198.18.0.", 24
_MOST_HOSTS = 250
# A switch port: the largest burst, more than a TCP segment, and the longest time that packets wait.
_BURST, _WAIT = "128kb", "100ms"
_PROGRAMS = ("ip", "tc", "nsenter")


@dataclass(frozen=True)
class Host:
    """A network namespace. Its ``address`` is reachable from the other hosts and from this process.

    ``port`` is the bridge's end of its line.
    """

    namespace: str
    address: str
    port: str

    @property
    def command(self) -> list[str]:
        """The command prefix that runs a command there. Mounts and processes are those of the machine."""
        return ["nsenter", f"--net=/run/netns/{self.namespace}", "--"]


class Network:
    """A bridge of hosts, as a context manager that removes everything at its end.

    ``address`` is that of this process, which has no rate limit. Raises BenchError if this machine or user cannot have
    one.
    """

    def __init__(self) -> None:
        self._name = f"skb{os.getpid() % 10**6}"  # interface names have at most 15 characters
        self._stack = ExitStack()
        self._hosts: list[Host] = []
        self.address = f"{_PREFIX}1"

    def __enter__(self) -> Self:
        if missing := [program for program in _PROGRAMS if shutil.which(program) is None]:
            raise BenchError(f"{' and '.join(missing)} are not installed: they come with iproute2 and util-linux")
        with ExitStack() as stack:
            _run("ip", "link", "add", self._name, "type", "bridge")
            stack.callback(_run, "ip", "link", "del", self._name)
            _run("ip", "address", "add", f"{self.address}/{_LENGTH}", "dev", self._name)
            _run("ip", "link", "set", self._name, "up")
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def host(self) -> Host:
        """Add a host. Its line has no rate limit until ``hold`` is called. Raises BenchError."""
        if len(self._hosts) >= _MOST_HOSTS:
            raise BenchError(f"a network has room for {_MOST_HOSTS} hosts")
        number = len(self._hosts) + 1
        namespace, outside = f"{self._name}-{number}", f"{self._name}n{number}"
        host = Host(namespace, f"{_PREFIX}{number + 1}", outside)
        _run("ip", "netns", "add", namespace)
        self._stack.callback(_run, "ip", "netns", "del", namespace)  # also removes both ends of its line
        _run("ip", "link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        _run("ip", "-n", namespace, "address", "add", f"{host.address}/{_LENGTH}", "dev", "eth0")
        for interface in ("lo", "eth0"):
            _run("ip", "-n", namespace, "link", "set", interface, "up")
        _run("ip", "link", "set", outside, "master", self._name, "up")
        self._hosts.append(host)
        return host

    def hold(self, megabits: int) -> None:
        """Limit every host's line to this rate in Mbit/s, in each direction. Raises BenchError."""
        for host in self._hosts:
            # Each end limits its own packets: towards the bridge, and towards the host.
            _run("tc", "-n", host.namespace, *_limit("eth0", megabits))
            _run("tc", *_limit(host.port, megabits))


def _limit(interface: str, megabits: int) -> list[str]:
    words = ["qdisc", "replace", "dev", interface, "root", "tbf", "rate", f"{megabits}mbit"]
    return [*words, "burst", _BURST, "latency", _WAIT]


def _run(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise BenchError(f"`{' '.join(command)}` failed ({done.stderr.strip()}): it takes root, and a kernel with it")
