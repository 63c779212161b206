"""The speed of this CPU now, beside that of the machine for which CPU budgets are stated, and waits for a CPU."""

import time
from pathlib import Path

STARVED = 0.6  # share of the time: beyond it, a busy machine explains a late answer

_REFERENCE_SECONDS = 0.0165  # the loop below on the reference machine with nothing else running


def slowdown() -> float:
    """Return how many times slower than the reference machine this CPU is now, at least 1.

    Shared caches, other virtual machines and low clock rates slow down all code alike. A CPU budget that is multiplied
    by this number still finds an algorithm that costs more.
    """
    began = time.thread_time()
    total = 0
    for number in range(300_000):
        total += number & 7
    return max(1.0, (time.thread_time() - began) / _REFERENCE_SECONDS)


def waited_for_cpus() -> float:
    """Return the seconds since boot in which some task waited for a CPU (PSI). 0.0 if the kernel does not report it."""
    try:
        text = Path("/proc/pressure/cpu").read_text()
    except OSError:
        return 0.0
    return int(text.partition("total=")[2].split()[0]) / 1e6
