"""What a zygote does: it has loaded the imports of a kind of process, and forks one for each order.

The orders come over a SOCK_SEQPACKET socket, from the keeper or, for workers, from the fetcher. The answer is the new
pid. A zygote has one thread and no state.
"""

import argparse
import gc
import os
import select
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from stoker_sidecar.linux import packets
from stoker_sidecar.linux.libc import end_with_parent, give_back_memory, name_process
from stoker_sidecar.linux.spawn import is_stopped, with_numbers
from stoker_sidecar.wire.heartbeat import Heartbeat

LOOK_SECONDS = 0.05  # between checks if a zygote that does not answer was stopped
_PID_BYTES = 4  # pids have 22 bits
_GO = b"1"
Become = Callable[[Sequence[str]], int]  # the main function of the forked process


def run_zygote(become: Become, name: str, argv: Sequence[str] | None) -> int:
    """Fork at each order, until the keeper closes its end. Return the exit code. Must have one thread.

    ``name`` is the name of forked processes, at most 15 characters, which distinguishes them from the zygote.
    """
    arguments = answer_orders(_orders(argv), name)
    if arguments is None:
        return 0
    os._exit(become(arguments))


def _orders(argv: Sequence[str] | None) -> socket.socket:
    """Report this zygote as ready. Return its order socket."""
    parser = argparse.ArgumentParser(description="A zygote: forks processes at the keeper's orders.")
    parser.add_argument("--orders-fd", type=int, required=True, help="SOCK_SEQPACKET socket of the keeper's orders")
    parser.add_argument("--heartbeat-fd", type=int, required=True, help="the line to the keeper")
    options = parser.parse_args(argv)
    give_back_memory()  # temporary memory of the imports
    gc.freeze()  # the collector no longer writes to these objects, so their pages stay shared with forked processes
    Heartbeat(options.heartbeat_fd).send()
    return socket.socket(fileno=options.orders_fd)


def answer_orders(orders: socket.socket, name: str) -> Sequence[str] | None:
    """Fork a process for each order.

    Return in each new process with its arguments, and in the zygote with None when the orders' other end is closed.
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
            name_process(name)
            return with_numbers(packet["arguments"], dict(zip(packet["flags"], fds, strict=True)))
        packets.close_all(fds)
        # Sent by the zygote, because a new process may be killed or stopped before it can send anything.
        packets.send(orders, {"pid": pid})
        with line, suppress(BrokenPipeError):
            if pid:
                line.send(_GO)


def order(orders: socket.socket, pid: int, patience: float, arguments: Sequence[str], fds: Mapping[str, int]) -> int:
    """Order the zygote ``pid``, a child of this process, to fork a process; return the new pid.

    Wait for ``patience`` seconds at most, and not for a stopped zygote (SIGSTOP). Raises OSError.
    """
    task = {"arguments": list(arguments), "flags": list(fds)}
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
    poll = select.poll()  # select() refuses descriptors above 1,023
    poll.register(orders, select.POLLIN)
    while not poll.poll(LOOK_SECONDS * 1000):
        if is_stopped(pid):
            raise OSError(f"the zygote {pid} was stopped (SIGSTOP)")
        if time.monotonic() > deadline:
            raise TimeoutError(f"the zygote {pid} does not answer within {patience:.0f} s")


def _fork() -> tuple[int | None, socket.socket]:
    """Fork a grandchild, whose parent ends at once, so that its adopter reaps it.

    Return its pid (0: its parent was killed first), or None in the grandchild; and a line between both.
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
    ours.setblocking(False)  # it has arrived by now, or never will
    try:
        pid = int.from_bytes(ours.recv(_PID_BYTES))
    except BlockingIOError:
        pid = 0
    return pid, ours


def _wait_to_begin(line: socket.socket, adopter: int) -> None:
    """Bind this new process to its parent's life. It ends if the zygote died before reporting its pid."""
    with line:
        is_known = line.recv(len(_GO)) == _GO
    end_with_parent()
    if not is_known or os.getppid() != adopter:
        os._exit(0)
