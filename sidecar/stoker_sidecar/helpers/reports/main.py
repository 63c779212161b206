"""Entry point of the report listener: ``python -m stoker_sidecar.helpers.reports.main``, started by the keeper."""

import argparse
import asyncio
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from stoker_api.log_lines import log_to_stderr
from stoker_sidecar.helpers.reports.listener import ReportListener
from stoker_sidecar.linux.sandbox.confinement import Confinement
from stoker_sidecar.linux.sandbox.landlock import TcpAccess
from stoker_sidecar.wire.heartbeat import Heartbeat

_log = logging.getLogger("stoker.reports")


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Receives training reports of pods; started by the keeper.")
    parser.add_argument("--socket", type=Path, required=True, help="where the agent connects")
    parser.add_argument("--root", type=Path, required=True, help="folder of the pods' folders")
    parser.add_argument("--confine", choices=("Auto", "Off"), default="Auto")
    parser.add_argument("--log-level", default="info")
    parser.add_argument("--heartbeat-fd", type=int)
    return parser.parse_args(argv)


async def _run(socket: Path, root: Path, heartbeat: Heartbeat) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    listener = ReportListener(root)
    server = await listener.serve(socket)
    sending = asyncio.create_task(heartbeat.send_forever(asyncio.sleep))
    await stopping.wait()
    sending.cancel()
    server.close()
    listener.close()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the report listener; return the exit code."""
    options = _parse(sys.argv[1:] if argv is None else argv)
    log_to_stderr(options.log_level)
    heartbeat = Heartbeat(options.heartbeat_fd)
    heartbeat.wait_to_begin()
    try:
        if options.confine == "Auto":
            confinement = Confinement(writable=[str(options.root), str(options.socket.parent)])
            confinement.begin(no_tcp=TcpAccess.BIND | TcpAccess.CONNECT)
        asyncio.run(_run(options.socket, options.root, heartbeat))
    except OSError as error:
        _log.error("the report listener cannot start: %s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
