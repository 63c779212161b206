"""Entry point of the observer: ``python -m stoker_sidecar.helpers.observer.main``, started by the keeper."""

import argparse
import logging
import select
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from stoker_api.log_lines import log_to_stderr
from stoker_sidecar.helpers.observer.observer import Observer
from stoker_sidecar.linux import packets
from stoker_sidecar.linux.sandbox.confinement import Confinement
from stoker_sidecar.linux.sandbox.landlock import TcpAccess
from stoker_sidecar.wire.access_protocol import OBSERVER, is_cpu_share
from stoker_sidecar.wire.heartbeat import HEARTBEAT_SECONDS, Heartbeat

_log = logging.getLogger("stoker.observer")


@dataclass(frozen=True)
class ObserverSettings:
    """The observer's command line from the keeper; see ``--help``."""

    socket: Path
    heartbeat_fd: int | None
    cpu: float
    readable: Sequence[str]
    log_level: str


def parse(argv: Sequence[str]) -> ObserverSettings:
    """Parse the command line. Exit with a sentence on an error."""
    parser = argparse.ArgumentParser(prog="stoker_sidecar.helpers.observer.main", description=__doc__)
    parser.add_argument("--socket", type=Path, required=True, help="the agent's socket for accesses")
    parser.add_argument("--heartbeat-fd", type=int, help="the line to the keeper")
    parser.add_argument("--cpu", type=_share, default=0.01, help="share of a core that it may use (default: 0.01)")
    parser.add_argument(
        "--readable",
        action="append",
        default=[],
        help="cache folder; again for more; given one, it is held to reading these, where the kernel has Landlock",
    )
    parser.add_argument("--log-level", default="info", choices=("debug", "info", "warning", "error"))
    return ObserverSettings(**vars(parser.parse_args(argv)))


def _share(text: str) -> float:
    if not is_cpu_share(text):
        raise argparse.ArgumentTypeError(f"{text!r} must be between 0.0001 and 1")
    return float(text)


class PacedHeartbeat:
    """The heartbeat of a process whose loop turns more often than needed."""

    def __init__(self, heartbeat: Heartbeat) -> None:
        self._heartbeat = heartbeat
        self._sent = float("-inf")

    def beat(self) -> None:
        """Send a heartbeat, unless one was sent a moment ago."""
        now = time.monotonic()
        if now - self._sent >= HEARTBEAT_SECONDS:
            self._sent = now
            self._heartbeat.send()


def converse(settings: ObserverSettings, confinement: Confinement, heartbeat: PacedHeartbeat) -> None:
    """Serve one agent until it is gone: then OSError or EOFError. Raises ValueError for an agent of another version."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(str(settings.socket))
    connection.setblocking(False)
    with closing(Observer(connection, settings.cpu, time.monotonic, time.process_time)) as observer:
        packets.send(connection, {"op": "hello", "from": OBSERVER})
        while True:
            wait = min(observer.step(), HEARTBEAT_SECONDS)
            ready = select.select([connection], [], [], wait)[0]
            heartbeat.beat()
            if ready:
                packet, fds = packets.receive(connection)
                if packet.get("op") == "watch" and confinement.is_outdated():
                    sys.exit("a cache folder was replaced by another: this observer ends, for one that may read it")
                observer.take(packet, fds)


def run(settings: ObserverSettings, confinement: Confinement, heartbeat: PacedHeartbeat) -> NoReturn:
    """Serve one agent after another."""
    while True:
        try:
            converse(settings, confinement, heartbeat)
        except (OSError, EOFError) as error:  # it restarts, or has not started yet
            _log.debug("no agent at %s: %s", settings.socket, error)
        heartbeat.beat()
        time.sleep(HEARTBEAT_SECONDS)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the observer; return the exit code."""
    settings = parse(sys.argv[1:] if argv is None else argv)
    log_to_stderr(settings.log_level)
    confinement = Confinement(readable=settings.readable)
    if settings.readable:
        confinement.begin(no_tcp=TcpAccess.BIND | TcpAccess.CONNECT)
    heartbeat = Heartbeat(settings.heartbeat_fd)
    heartbeat.wait_to_begin()
    try:
        run(settings, confinement, PacedHeartbeat(heartbeat))
    except ValueError as error:
        _log.error("%s", error)
        return 1


if __name__ == "__main__":
    sys.exit(main())
