"""How much the observer may look: budgets of CPU that fill with time, and the pace of its looks. Pure."""

from dataclasses import dataclass

# Seconds between two looks into the kernel's queues: rarely, since each costs a wake-up; often enough for their room.
SHORTEST_TICK, LONGEST_TICK = 0.005, 0.1
# Events of a look that are worth it; and so many that looking at them takes longer than the shortest tick.
_AIM = 512
MANY_EVENTS = 2 * _AIM
# Seconds' worth of the budget that may be saved: a burst of that length is seen whole.
_SAVED = 5.0
# What is earned of the rate. What was saved, and a look beyond it (2 s' worth), are then within the rate over a minute.
_EARNED = 1.0 - (_SAVED + 2.0) / 60.0
# Seconds that an event takes of who opens the file: the kernel makes it there. 1.4 to 2.8 us of CPU were measured (the
# longer the queue, the more); in whole spells of marks, with all that comes with them, up to 5 us of a reader's time.
EVENT_SECONDS = 5e-6
# Of the rate, what events may take of readers. At the default of 1 % that is enough for 700 opens a second that go on
# for ever, and for 4,000 at once: of slower trainings all is seen, as far as the observer's own CPU allows.
OF_READERS = 0.4


@dataclass
class CpuBudget:
    """A budget of CPU time: ``rate`` seconds of it a second over any minute, of which 5 s' worth can be saved.

    What was spent beyond it is paid back by rest, so that the mean over time is kept whatever comes. ``debt``: what is
    owed for marks that are on. It is paid by the rest after them: if it ended the looks that the marks were put on for,
    a version whose marks cost more than was saved would never be looked at. ``rested_at``: when a rest is over. That is
    said once: who is woken during it spends some of what is earned, and would rest for ever if it had to be there.
    """

    rate: float
    now: float
    used: float = 0.0
    balance: float = 0.0
    debt: float = 0.0
    rested_at: float = 0.0

    def __post_init__(self) -> None:
        """Begin with half of what can be saved."""
        self.balance = self._most / 2

    @property
    def _most(self) -> float:
        return self.rate * _SAVED

    @property
    def spent(self) -> bool:
        """Whether it is used up: time to rest."""
        return self.balance <= 0.0

    def account(self, now: float, used: float) -> None:
        """Note the time and the CPU seconds used ever."""
        earned = (now - self.now) * self.rate * _EARNED
        self.balance = min(self._most, self.balance + earned) - (used - self.used)
        self.now, self.used = now, used

    def charge(self, seconds: float) -> None:
        """Note CPU time that another process used for this one; it is owed until the next rest."""
        self.debt += seconds

    def settle(self) -> None:
        """Begin to rest, until half of what can be saved is there again: pay what is owed."""
        self.balance, self.debt = self.balance - self.debt, 0.0
        self.rested_at = self.now + max(0.0, (self._most / 2 - self.balance) / (self.rate * _EARNED))

    def rest(self) -> float:
        """Return the seconds that are left to rest; 0: none. What is owed, or all spent by then, makes for another."""
        if self.debt or (self.spent and self.now >= self.rested_at):
            self.settle()
        return max(0.0, self.rested_at - self.now)


class DutyCycle:
    """When marks are on and when they are off: while neither the observer's own CPU nor its readers' is used up.

    ``rate``: seconds of CPU a second that observer and agent may use. Readers may lose 0.4 of that to events: of one
    core, so of several readers on several cores a smaller share. ``used``: CPU seconds used ever.
    """

    def __init__(self, rate: float, now: float, used: float) -> None:
        self._own = CpuBudget(rate, now, used)
        self._readers = CpuBudget(rate * OF_READERS, now)
        self._taken = 0.0

    @property
    def spent(self) -> bool:
        """Whether one of them is used up: time to rest."""
        return self._own.spent or self._readers.spent

    def account(self, now: float, used: float) -> None:
        """Note the time and the CPU seconds used ever."""
        self._own.account(now, used)
        self._readers.account(now, self._taken)

    def charge(self, seconds: float) -> None:
        """Note CPU time that the agent used for marks; it is owed until the next rest."""
        self._own.charge(seconds)

    def made(self, events: int) -> None:
        """Note events that the kernel made while marks were on, looked at or not."""
        self._taken += events * EVENT_SECONDS

    def settle(self) -> None:
        """Begin to rest."""
        self._own.settle()
        self._readers.settle()

    def rest(self) -> float:
        """Return the seconds that are left to rest; 0: none."""
        return max(self._own.rest(), self._readers.rest())


def next_tick(tick: float, events: int) -> float:
    """Return the seconds until the next look, after one that came ``tick`` seconds after its last and found so many."""
    wanted = tick * _AIM / max(events, 1)
    return min(max(wanted, SHORTEST_TICK), 2 * tick, LONGEST_TICK)
