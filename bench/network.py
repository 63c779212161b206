"""Hosts with a line each, on this machine: network namespaces on one bridge, each behind a rate that tc holds it to."""

import os
import shutil
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from bench.errors import BenchError

# For tests of networks between machines (RFC 2544): nobody routes it.
NETWORK = "198.18.0.0/24"
_PREFIX, _LENGTH = "198.18.0.", 24
_MOST_HOSTS = 250
# A switch's port: what it passes on at once, more than a segment of TCP, and for how long it lets packets wait.
_BURST, _WAIT = "128kb", "100ms"
_PROGRAMS = ("ip", "tc", "nsenter")


@dataclass(frozen=True)
class Host:
    """A network namespace. ``address``: where the others, and this process, reach what listens in it.

    ``port``: the bridge's end of its line.
    """

    namespace: str
    address: str
    port: str

    @property
    def command(self) -> list[str]:
        """Words before a command that is to run there. It sees the same mounts and processes as everybody."""
        return ["nsenter", f"--net=/run/netns/{self.namespace}", "--"]


class Network:
    """A bridge of hosts, as a context manager; nothing of it stays. ``address``: of this process, which has no limit.

    Raises BenchError where this machine or this user cannot have one.
    """

    def __init__(self) -> None:
        self._name = f"skb{os.getpid() % 10**6}"  # names of interfaces end at 15 characters
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def host(self) -> Host:
        """Add a host, whose line is as fast as this machine until ``hold`` is called. Raises BenchError."""
        if len(self._hosts) >= _MOST_HOSTS:
            raise BenchError(f"a network has room for {_MOST_HOSTS} hosts")
        number = len(self._hosts) + 1
        namespace, outside = f"{self._name}-{number}", f"{self._name}n{number}"
        host = Host(namespace, f"{_PREFIX}{number + 1}", outside)
        _run("ip", "netns", "add", namespace)
        self._stack.callback(_run, "ip", "netns", "del", namespace)  # and both ends of its line with it
        _run("ip", "link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        _run("ip", "-n", namespace, "address", "add", f"{host.address}/{_LENGTH}", "dev", "eth0")
        for interface in ("lo", "eth0"):
            _run("ip", "-n", namespace, "link", "set", interface, "up")
        _run("ip", "link", "set", outside, "master", self._name, "up")
        self._hosts.append(host)
        return host

    def hold(self, megabits: int) -> None:
        """Let every host's line carry so many Mbit/s in each direction from now on. Raises BenchError."""
        for host in self._hosts:
            # Each end holds back what it sends: towards the others, and towards the host.
            _run("tc", "-n", host.namespace, *_limit("eth0", megabits))
            _run("tc", *_limit(host.port, megabits))


def _limit(interface: str, megabits: int) -> list[str]:
    words = ["qdisc", "replace", "dev", interface, "root", "tbf", "rate", f"{megabits}mbit"]
    return [*words, "burst", _BURST, "latency", _WAIT]


def _run(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise BenchError(f"`{' '.join(command)}` failed ({done.stderr.strip()}): it takes root, and a kernel with it")
