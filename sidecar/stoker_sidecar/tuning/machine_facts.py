"""What rules know of the machine, and which facts of it are too restless for them."""

from collections.abc import Callable

from stoker_sidecar.linux.hardware import Machine
from stoker_tuning.rules.facts import SystemFacts

# Share by which the cache's room must have changed, before rules see another one: others write to its disks too.
_STEADY = 0.1


class MachineFacts:
    """The facts of one machine. ``capacity``: bytes that the cache can hold now, 0 while that is not known."""

    def __init__(self, machine: Machine, capacity: Callable[[], int]) -> None:
        self.machine = machine
        self._capacity = capacity
        self._disk = 0

    def system(self) -> SystemFacts:
        """Return the facts; ``bandwidth`` is what the network can, which a measured rate takes the place of."""
        now = self._capacity()
        if abs(now - self._disk) > _STEADY * self._disk:
            self._disk = now
        machine = self.machine
        return SystemFacts(machine.memory, machine.gpus, machine.network, self._disk or None)
