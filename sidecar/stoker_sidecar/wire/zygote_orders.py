"""What a zygote does: it has imported all that a kind of process needs, and forks one for each order that it gets.

The orders come over a SOCK_SEQPACKET socket, from the keeper or, for workers, from the fetcher; the answer is the new
pid. A zygote has one thread and no state, so that either of two can do what is asked for, and fork the next zygote.
"""

import argparse
import gc
import os
import select
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from stoker_sidecar.linux import packets
from stoker_sidecar.linux.libc import end_with_parent, give_back_memory, name_process
from stoker_sidecar.linux.spawn import is_stopped, with_numbers
from stoker_sidecar.wire.heartbeat import Heartbeat

LOOK_SECONDS = 0.05  # between two looks whether a zygote that does not answer was stopped
_PID_BYTES = 4  # pids have 22 bits
_GO = b"1"
Become = Callable[[Sequence[str]], int]  # the main function of what is forked


@dataclass(frozen=True)
class ForkTask:
    """What a new process is to be: a program with ``arguments``, or the next ``zygote``."""

    arguments: Sequence[str]
    zygote: bool


def run_zygote(become: Become, name: str, argv: Sequence[str] | None) -> int:
    """Fork at each order, until the keeper closes its end of them; returns the exit code. Must have one thread.

    ``name``: of the processes that it forks, 15 characters at most; else they could not be told from the zygote.
    """
    while True:
        task = answer_orders(_orders(argv), name)
        if task is None:
            return 0
        if not task.zygote:
            os._exit(become(task.arguments))
        argv = task.arguments  # in a loop and not deeper in the stack, which would end after some hundred generations


def _orders(argv: Sequence[str] | None) -> socket.socket:
    """Tell the keeper that this zygote is ready; returns where its orders come from."""
    parser = argparse.ArgumentParser(description="A zygote: forks processes at the keeper's orders.")
    parser.add_argument("--orders-fd", type=int, required=True, help="SOCK_SEQPACKET socket of the keeper's orders")
    parser.add_argument("--heartbeat-fd", type=int, required=True, help="the line to the keeper")
    options = parser.parse_args(argv)
    give_back_memory()  # that imports took for a while
    gc.freeze()  # what is collected no more is not written to either: its pages stay shared with all that are forked
    Heartbeat(options.heartbeat_fd).send()
    return socket.socket(fileno=options.orders_fd)


def answer_orders(orders: socket.socket, name: str) -> ForkTask | None:
    """Fork a process for each order.

    Returns in each new process with its task; in the zygote, when the other end of the orders is closed, with None.
    """
    while True:
        try:
            packet, fds = packets.receive(orders)
        except EOFError:
            return None
        adopter = os.getppid()
        pid, line = _fork()
        if pid is None:
            _wait_to_begin(line, adopter)
            orders.close()
            return _task(packet, fds, name)
        packets.close_all(fds)
        # Said by the zygote: a new process may be killed or stopped before it has said anything.
        packets.send(orders, {"pid": pid})
        with line, suppress(BrokenPipeError):
            if pid:
                line.send(_GO)


def order(
    orders: socket.socket,
    pid: int,
    patience: float,
    arguments: Sequence[str],
    fds: Mapping[str, int],
    *,
    zygote: bool = False,
) -> int:
    """Have the zygote ``pid``, a child of this process, fork a process, or the next ``zygote``; returns the new pid.

    Waits for ``patience`` seconds at most, and for none that was stopped (SIGSTOP). Raises OSError.
    """
    task = {"arguments": list(arguments), "flags": list(fds), "zygote": zygote}
    try:
        packets.send(orders, task, list(fds.values()))
        _await_answer(orders, pid, patience)
        reply, _ = packets.receive(orders)
        if not (pid_of_new := int(reply["pid"])):
            raise ValueError("the new process was killed before its birth")
        return pid_of_new
    except (EOFError, ValueError, KeyError) as error:
        raise OSError(f"a zygote does not answer ({error})") from error


def _await_answer(orders: socket.socket, pid: int, patience: float) -> None:
    deadline = time.monotonic() + patience
    while not select.select([orders], [], [], LOOK_SECONDS)[0]:
        if is_stopped(pid):
            raise OSError(f"the zygote {pid} was stopped (SIGSTOP)")
        if time.monotonic() > deadline:
            raise TimeoutError(f"the zygote {pid} does not answer within {patience:.0f} s")


def _fork() -> tuple[int | None, socket.socket]:
    """Fork a grandchild, whose parent ends at once, so that its adopter waits for it.

    Returns its pid (0: its parent was killed first), None in itself; and a line between both.
    """
    ours, theirs = socket.socketpair()
    parent = os.fork()
    if parent == 0:
        pid = os.fork()
        if pid == 0:
            ours.close()
            return None, theirs
        theirs.send(pid.to_bytes(_PID_BYTES))
        os._exit(0)
    theirs.close()
    os.waitpid(parent, 0)
    ours.setblocking(False)  # it was sent by now, or never is
    try:
        pid = int.from_bytes(ours.recv(_PID_BYTES))
    except BlockingIOError:
        pid = 0
    return pid, ours


def _wait_to_begin(line: socket.socket, adopter: int) -> None:
    """Bind this new process to its parent's life. It ends where the zygote died before it had said who this is."""
    with line:
        is_known = line.recv(len(_GO)) == _GO
    end_with_parent()
    if not is_known or os.getppid() != adopter:
        os._exit(0)


def _task(packet: packets.Packet, fds: list[int], name: str) -> ForkTask:
    if not packet["zygote"]:
        name_process(name)
    return ForkTask(with_numbers(packet["arguments"], dict(zip(packet["flags"], fds, strict=True))), packet["zygote"])
