"""Stopped processes (SIGSTOP): their keeper kills them at once, without waiting for them."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from stoker_sidecar.keeper.children import Child, Reaper
from stoker_sidecar.keeper.watchdog import PATIENT, PROMPT, QUICK, RestartPolicy
from stoker_sidecar.keeper.zygotes import ZYGOTE
from stoker_sidecar.linux.spawn import Start
from stoker_sidecar.wire.zygote_orders import order
from tests.support.agentless_node import FETCHER, AgentlessNode
from tests.support.csi_driver import node_folder
from tests.support.keeper import Keeper
from tests.support.processes import adopting_orphans
from tests.support.waiting import eventually, wait_until

_SECONDS = 60.0  # on a busy machine
_AN_HOUR = 3600.0
_SLEEPER = Start([sys.executable, "-c", "import time; time.sleep(3600)"])


@pytest.mark.expected_logs("")
@pytest.mark.parametrize("policy", [PATIENT, PROMPT, QUICK, ZYGOTE])
async def test_a_child_of_any_kind_is_killed_when_it_is_stopped_and_started_again(policy: RestartPolicy) -> None:
    reaper = Reaper()
    reaper.install()
    child = Child("child", reaper, lambda: _SLEEPER, policy)
    child.begin()
    try:
        await eventually(lambda: child.pid is not None, _SECONDS)
        stopped = child.pid
        assert stopped is not None
        os.kill(stopped, signal.SIGSTOP)
        await eventually(lambda: child.pid not in (None, stopped), _SECONDS)
        assert child.last_code == -signal.SIGKILL
    finally:
        await child.stop(grace=0)


def test_a_zygote_that_was_stopped_is_not_waited_for() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs, subprocess.Popen(_SLEEPER.command) as zygote:
        try:
            os.kill(zygote.pid, signal.SIGSTOP)
            with pytest.raises(OSError, match="was stopped"):
                order(ours, zygote.pid, _AN_HOUR, [], {})
        finally:
            zygote.kill()


# The second fork in a row makes the new process. It gets the signal before it runs a line.
_DEADLY = """
import os, signal, sys
from stoker_sidecar.wire.zygote_orders import answer_orders
forks = []
def born():
    forks.append(os.getpid())
    if len(forks) == 2:
        os.kill(os.getpid(), int(sys.argv[2]))
os.register_at_fork(after_in_child=born)
answer_orders(__import__("socket").socket(fileno=int(sys.argv[1])), "stoker-forked")
"""


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_a_process_that_is_stopped_or_killed_when_it_is_born_is_known_at_once(number: signal.Signals) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-c", _DEADLY, str(theirs.fileno()), str(int(number))]
    with adopting_orphans(), ours, theirs, subprocess.Popen(command, pass_fds=[theirs.fileno()]) as zygote:
        try:
            pid = order(ours, zygote.pid, _SECONDS, [], {})
            _, status = os.waitpid(pid, os.WUNTRACED)
            assert (os.WSTOPSIG(status) if os.WIFSTOPPED(status) else os.WTERMSIG(status)) == number
            if os.WIFSTOPPED(status):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        finally:
            zygote.kill()


@pytest.mark.root
@pytest.mark.expected_logs("")
def test_a_fetcher_whose_workers_zygote_is_stopped_is_replaced() -> None:
    with node_folder() as folder, Keeper(folder, fetcher=FETCHER) as keeper:
        node = AgentlessNode(keeper)
        node.remove("none")  # it answers
        fetcher = _fetcher(keeper)
        (zygote,) = (pid for pid in _children(fetcher) if Path(f"/proc/{pid}/comm").read_text() == "stoker-zygote\n")
        os.kill(zygote, signal.SIGSTOP)
        wait_until(lambda: _fetcher(keeper) not in (0, fetcher), _SECONDS)


def _fetcher(keeper: Keeper) -> int:
    return next(row["pid"] or 0 for row in keeper.call(op="list")["children"] if row["name"] == "fetcher")


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
