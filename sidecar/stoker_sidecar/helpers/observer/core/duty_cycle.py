"""The observer's CPU budgets, which refill with time, and the pace of its looks. Pure."""

from dataclasses import dataclass

# Seconds between two looks into the kernel's queues: rarely, because each costs a wake-up, but before they overflow.
SHORTEST_TICK, LONGEST_TICK = 0.005, 0.1
# Events that make a look worthwhile; and events whose processing takes longer than the shortest tick.
_AIM = 512
MANY_EVENTS = 2 * _AIM
# Seconds of the budget that may be saved: a burst of that length is observed completely.
_SAVED = 5.0
# Earned share of the rate. Savings and a look beyond them (2 s' worth) then fit into the rate over a minute.
_EARNED = 1.0 - (_SAVED + 2.0) / 60.0
# Seconds that an event costs the process that opens the file, where the kernel creates it. Measured: 1.4 to 2.8 us of
# CPU, more for a longer queue. In whole marked periods, with all side effects, up to 5 us of a reader's time.
EVENT_SECONDS = 5e-6
# Share of the rate that events may cost readers. At the default of 1 % it covers 700 opens a second permanently, and
# 4,000 at once. Slower trainings are observed completely, if the observer's CPU budget allows.
OF_READERS = 0.4


@dataclass
class CpuBudget:
    """A budget of CPU time: ``rate`` seconds per second over any minute, of which 5 s' worth can be saved.

    A rest pays back overspending, so that the mean over time holds. ``debt`` is the cost of the current marks, and the
    next rest pays for it. If it ended the current looks, a version with marks that cost more than the savings would
    never be observed. ``rested_at`` is the end of a rest, fixed once. Wake-ups during a rest spend some of the budget,
    and a rest until the budget is refilled would never end.
    """

    rate: float
    now: float
    used: float = 0.0
    balance: float = 0.0
    debt: float = 0.0
    rested_at: float = 0.0

    def __post_init__(self) -> None:
        """Start with half of the maximum savings."""
        self.balance = self._most / 2

    @property
    def _most(self) -> float:
        return self.rate * _SAVED

    @property
    def spent(self) -> bool:
        """True if it is used up: time to rest."""
        return self.balance <= 0.0

    def account(self, now: float, used: float) -> None:
        """Record the time and the total CPU seconds used."""
        earned = (now - self.now) * self.rate * _EARNED
        self.balance = min(self._most, self.balance + earned) - (used - self.used)
        self.now, self.used = now, used

    def charge(self, seconds: float) -> None:
        """Record CPU time that another process used for this one; the next rest pays for it."""
        self.debt += seconds

    def settle(self) -> None:
        """Start a rest until half of the maximum savings is available again, and pay the debt."""
        self.balance, self.debt = self.balance - self.debt, 0.0
        self.rested_at = self.now + max(0.0, (self._most / 2 - self.balance) / (self.rate * _EARNED))

    def rest(self) -> float:
        """Return the seconds left to rest; 0: none. A debt, or a budget spent by then, starts another rest."""
        if self.debt or (self.spent and self.now >= self.rested_at):
            self.settle()
        return max(0.0, self.rested_at - self.now)


class DutyCycle:
    """Decides when marks are on: while neither the observer's budget nor its readers' is used up.

    ``rate`` is the CPU seconds per second that observer and agent may use. Events may cost readers 0.4 of that, of one
    core: several readers on several cores lose a smaller share. ``used`` is the total CPU seconds used.
    """

    def __init__(self, rate: float, now: float, used: float) -> None:
        self._own = CpuBudget(rate, now, used)
        self._readers = CpuBudget(rate * OF_READERS, now)
        self._taken = 0.0

    @property
    def spent(self) -> bool:
        """True if one of the budgets is used up: time to rest."""
        return self._own.spent or self._readers.spent

    def account(self, now: float, used: float) -> None:
        """Record the time and the total CPU seconds used."""
        self._own.account(now, used)
        self._readers.account(now, self._taken)

    def charge(self, seconds: float) -> None:
        """Record CPU time that the agent used for marks; the next rest pays for it."""
        self._own.charge(seconds)

    def made(self, events: int) -> None:
        """Record events that the kernel created while marks were on, processed or not."""
        self._taken += events * EVENT_SECONDS

    def settle(self) -> None:
        """Start a rest."""
        self._own.settle()
        self._readers.settle()

    def rest(self) -> float:
        """Return the seconds left to rest; 0: none."""
        return max(self._own.rest(), self._readers.rest())


def next_tick(tick: float, events: int) -> float:
    """Return the seconds until the next look, after a look ``tick`` seconds after its last with ``events`` events."""
    wanted = tick * _AIM / max(events, 1)
    return min(max(wanted, SHORTEST_TICK), 2 * tick, LONGEST_TICK)
