"""System calls of sleeping threads, from the lines of /proc/PID/syscall."""

import os
import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.agent.observation.loaders.thread_calls import (
    OTHER,
    RUNS,
    CallSeen,
    ThreadCall,
    WatchedThread,
    look_once,
    parse_call,
    threads_of,
)
from tests.support.cases import cases
from tests.support.waiting import wait_until

_END = "0x7ffe646f1528 0x7f2c5d0c8a7f"  # stack pointer and program counter


@cases(
    "line, machine, seen",
    ("running\n", "x86_64", RUNS),
    (f"-1 {_END}\n", "x86_64", CallSeen(ThreadCall.FAULT)),
    (f"0 0x9 0x7f 0x4 0x0 0x0 0x0 {_END}\n", "x86_64", CallSeen(ThreadCall.READ, 9)),
    (f"63 0x9 0x7f 0x4 0x0 0x0 0x0 {_END}\n", "aarch64", CallSeen(ThreadCall.READ, 9)),
    (f"7 0x10 0x1 0x1388 0x8 0x0 0x0 {_END}\n", "x86_64", CallSeen(ThreadCall.POLL, 16, 1, 5.0, bounded=True)),
    (f"7 0x10 0x2 0xffffffff 0x8 0x0 0x0 {_END}\n", "x86_64", CallSeen(ThreadCall.POLL, 16, 2)),
    (f"7 0x10 0x2 0xffffffffffffffff 0x8 0x0 0x0 {_END}\n", "x86_64", CallSeen(ThreadCall.POLL, 16, 2)),
    (f"73 0x10 0x1 0x7fff0000 0x0 0x0 0x0 {_END}\n", "aarch64", CallSeen(ThreadCall.POLL, 16, 1, bounded=True)),
    (f"73 0x10 0x1 0x0 0x0 0x0 0x0 {_END}\n", "aarch64", CallSeen(ThreadCall.POLL, 16, 1)),
    (f"202 0x20 0x89 0x0 0x7ffe 0x0 0x0 {_END}\n", "x86_64", CallSeen(ThreadCall.LOCK, 32, bounded=True)),
    (f"202 0x20 0x189 0x0 0x0 0x0 0x0 {_END}\n", "x86_64", CallSeen(ThreadCall.LOCK, 32)),
    (f"257 0xffffff9c 0x20 0x0 0x0 0x0 0x0 {_END}\n", "x86_64", CallSeen(ThreadCall.OPEN, 0xFFFFFF9C)),
    (f"230 0x1 0x1 0x7ffe 0x0 0x0 0x0 {_END}\n", "x86_64", OTHER),
    (f"7 0x10 0x1 0x1388 0x8 0x0 0x0 {_END}\n", "s390x", OTHER),
)
def test_a_line_says_what_its_thread_sleeps_in(line: str, machine: str, seen: CallSeen) -> None:
    assert parse_call(line.encode(), machine) == seen


@pytest.mark.parametrize("line", ["", "\n", "7", "7 0x1 0x1", "x y z", "0x7 " * 8, "1 2 3 4 5 6 7 8 nine"])
def test_what_is_no_such_line_is_nothing_in_particular(line: str) -> None:
    assert parse_call(line.encode(), "x86_64") == OTHER


@given(st.one_of(st.binary(max_size=256), st.lists(st.integers(), max_size=10).map(lambda n: str(n)[1:-1].encode())))
def test_any_bytes_are_read_without_an_error(data: bytes) -> None:
    assert isinstance(parse_call(data, "x86_64").call, ThreadCall)


def test_a_thread_that_reads_from_a_pipe_is_seen_to() -> None:
    reads, writes = os.pipe()
    thread = threading.Thread(target=os.read, args=(reads, 1), daemon=True)
    thread.start()
    watched = WatchedThread(os.getpid(), thread.native_id or 0)
    try:
        wait_until(lambda: watched.look() == CallSeen(ThreadCall.READ, reads))
    finally:
        os.close(writes)
        thread.join()
    wait_until(lambda: thread.native_id not in threads_of(os.getpid(), 1000))
    with pytest.raises(OSError, match="No such process"):
        watched.look()
    watched.close()
    os.close(reads)


def test_a_program_that_computes_runs() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as program:
        try:
            wait_until(lambda: look_once(program.pid, program.pid) == RUNS)
        finally:
            program.kill()


def test_the_main_thread_is_the_first_one() -> None:
    assert threads_of(os.getpid(), 1000)[0] == os.getpid()
