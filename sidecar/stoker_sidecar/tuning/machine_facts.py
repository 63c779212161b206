"""Facts of the machine for rules. Facts that change often are smoothed."""

from collections.abc import Callable

from stoker_sidecar.linux.hardware import Machine
from stoker_tuning.rules.facts import SystemFacts

# Least change of the cache's capacity, as a share, that rules see. Other programs write to its disks too.
_STEADY = 0.1


class MachineFacts:
    """The facts of one machine. ``capacity``: bytes that the cache can hold now; 0 if unknown."""

    def __init__(self, machine: Machine, capacity: Callable[[], int]) -> None:
        self.machine = machine
        self._capacity = capacity
        self._disk = 0

    def system(self) -> SystemFacts:
        """Return the facts. ``bandwidth`` is the network's maximum; callers replace it by a measured rate."""
        now = self._capacity()
        if abs(now - self._disk) > _STEADY * self._disk:
            self._disk = now
        machine = self.machine
        return SystemFacts(machine.memory, machine.gpus, machine.network, self._disk or None)
