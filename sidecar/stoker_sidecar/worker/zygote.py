"""The zygote of the workers: what the fetcher left behind before it had threads, to fork them in milliseconds."""

import logging
import os
import signal
import socket
from collections.abc import Sequence
from typing import NoReturn

from stoker_sidecar.linux import packets
from stoker_sidecar.linux.libc import adopt_orphans, end_with_parent, name_process
from stoker_sidecar.linux.spawn import is_stopped
from stoker_sidecar.wire.zygote_orders import answer_orders, order
from stoker_sidecar.worker import main as worker

_log = logging.getLogger("stoker.fetcher")
# Seconds for a fork, which takes 10 ms. When the disk is busy and the page cache empty it took 0.6, and to start anew
# takes longer.
_PATIENCE = 5.0


class WorkerZygote:
    """The workers' zygote, as the fetcher sees it. To be made while the fetcher has one thread.

    Its workers are children of the fetcher, and end with it.

    ``unwanted``: descriptors of the fetcher that neither the zygote nor its workers need.
    """

    def __init__(self, unwanted: Sequence[int]) -> None:
        adopt_orphans()
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._pid = os.fork()
        if self._pid == 0:
            self._orders.close()
            packets.close_all(unwanted)
            os._exit(_serve(theirs))
        theirs.close()

    def launch(self, arguments: Sequence[str], fd: int) -> int:
        """Start a worker with ``--fd``; returns its pid, or never when the zygote is gone or hangs: see ``lost``."""
        try:
            return order(self._orders, self._pid, _PATIENCE, arguments, {"--fd": fd})
        except OSError as error:  # its answer may still come, and would be taken for that to the next order
            _log.error("no worker can be forked: %s", error)
            self.lost()

    def fileno(self) -> int:
        """Return what is readable when the zygote is gone."""
        return self._orders.fileno()

    def end_if_stopped(self) -> None:
        """End the fetcher when someone has stopped the zygote (SIGSTOP), for the handler of SIGCHLD: see ``lost``."""
        if is_stopped(self._pid):
            self.lost()

    def lost(self) -> NoReturn:
        """End the fetcher, which would have no quick workers without it.

        The keeper starts the fetcher anew, which takes less than a worker's imports.
        """
        _log.error("the workers' zygote ended or hangs: the fetcher ends, to be started anew")
        os._exit(1)


def _serve(orders: socket.socket) -> int:
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the fetcher decides
    name_process("stoker-zygote")
    task = answer_orders(orders, "stoker-worker")
    return 0 if task is None else worker.main(task.arguments)
