"""When a child that ended is started again. Pure: times in seconds of any one clock."""

from dataclasses import dataclass, replace

_FIRST_DELAY = 0.1


@dataclass(frozen=True)
class Policy:
    """A child that lived ``stable_after`` seconds has no history: its end is taken as the first, and answered at once."""

    stable_after: float
    longest_delay: float
    from_ready: bool = False  # life begins when the child says that it is ready, not when it is started


# Agent and fetcher: a minute-long outage of the API server must not make them spin.
PATIENT = Policy(stable_after=30.0, longest_delay=10.0)
# FUSE servers: readers wait in the kernel meanwhile. One that was killed comes back at once however often it happens; one
# that dies of its first request, which the kernel hands to its successor as well, does not take the CPU.
QUICK = Policy(stable_after=0.2, longest_delay=5.0, from_ready=True)


@dataclass(frozen=True)
class History:
    """``restarts`` ever, ``in_a_row`` without a stable run between them."""

    restarts: int = 0
    in_a_row: int = 0


def after_end(history: History, lived: float, policy: Policy) -> tuple[History, float]:
    """The new history of a child that lived ``lived`` seconds, and the seconds to wait before it is started again.

    The first end is answered at once, then after 0.1 s, doubling up to the policy's longest delay.
    """
    if lived >= policy.stable_after:
        history = replace(history, in_a_row=0)
    delay = 0.0 if history.in_a_row == 0 else min(policy.longest_delay, _FIRST_DELAY * 2.0 ** (history.in_a_row - 1))
    return History(history.restarts + 1, history.in_a_row + 1), delay
