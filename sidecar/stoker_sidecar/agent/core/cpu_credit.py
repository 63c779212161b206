"""How long work that may cost so much of a core has to rest, by what it cost. Pure."""

from dataclasses import dataclass


@dataclass
class CpuCredit:
    """Seconds of a core that may be spent: ``rate`` of each second, of which ``most`` seconds can be saved."""

    rate: float
    most: float
    left: float = 0.0

    def rest(self, passed: float, spent: float) -> float:
        """Take note that so many seconds passed, and what was spent of a core in them; return how long to rest now."""
        self.left = min(self.most, self.left + passed * self.rate) - spent
        return max(0.0, -self.left / self.rate)
