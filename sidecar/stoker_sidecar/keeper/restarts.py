"""When a child that ended is started again, and when one that is silent counts as hung. Pure."""

from dataclasses import dataclass, replace

_FIRST_DELAY = 0.1


@dataclass(frozen=True)
class Policy:
    """A child that lived ``stable_after`` seconds has no history: its end is taken as the first, and answered at once.

    ``at_once``: so many ends in a row are answered without a delay.
    ``silence``: seconds without a beat after which a child that has beaten is killed; ``first_beat``: seconds that it has
    for its first one. None: for ever.
    """

    stable_after: float
    longest_delay: float
    at_once: int = 1
    from_ready: bool = False  # life begins when the child says that it is ready, not when it is started
    silence: int | None = None
    first_beat: int | None = None


# The agent: a minute-long outage of the API server must not make it spin. It may be busy for seconds (a garbage
# collection), and the kubelet's own probe waits for 60 s before it ends the whole container.
PATIENT = Policy(stable_after=10.0, longest_delay=10.0, at_once=3, silence=30)
# The fetcher: readers of missing bytes wait. It may be busy with a listing of millions. 10 forks of it and its workers are
# half a second of CPU.
PROMPT = Policy(stable_after=0.2, longest_delay=5.0, at_once=10, from_ready=True, silence=30)
# FUSE servers: readers wait in the kernel meanwhile. One that was killed comes back at once however often it happens; one
# that dies of its first request, which the kernel hands to its successor as well, does not take the CPU: 20 forks are half
# a second of it. No step of theirs
# takes longer than a read of the disk, and to be killed costs nothing: the kernel asks the successor again.
QUICK = Policy(stable_after=0.05, longest_delay=5.0, at_once=20, from_ready=True, silence=5, first_beat=20)


@dataclass(frozen=True)
class History:
    """``restarts`` ever, ``in_a_row`` without a stable run between them."""

    restarts: int = 0
    in_a_row: int = 0


def after_end(history: History, lived: float, policy: Policy) -> tuple[History, float]:
    """The new history of a child that lived ``lived`` seconds, and the seconds to wait before it is started again.

    The first ends are answered at once, then after 0.1 s, doubling up to the policy's longest delay.
    """
    if lived >= policy.stable_after:
        history = replace(history, in_a_row=0)
    slow = history.in_a_row - policy.at_once
    delay = 0.0 if slow < 0 else min(policy.longest_delay, _FIRST_DELAY * 2.0**slow)
    return History(history.restarts + 1, history.in_a_row + 1), delay


@dataclass(frozen=True)
class Silence:
    """How long a child has been silent, in ticks of the keeper, one a second.

    Ticks and no clock: while the keeper itself is stopped, with the whole container or the machine, nothing is counted.
    """

    ticks: int = 0
    has_beaten: bool = False

    def heard(self) -> "Silence":
        """After a beat."""
        return Silence(0, has_beaten=True)

    def tick(self) -> "Silence":
        """One second later."""
        return replace(self, ticks=self.ticks + 1)

    def is_hung(self, policy: Policy) -> bool:
        """Whether the policy's patience is at its end."""
        limit = policy.silence if self.has_beaten else policy.first_beat
        return limit is not None and self.ticks > limit
