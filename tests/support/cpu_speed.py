"""The speed of this CPU now, beside that of the machine for which CPU budgets are stated."""

import time

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
