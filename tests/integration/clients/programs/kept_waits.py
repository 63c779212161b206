"""A report of stoker-client that also keeps the seconds that it is told were waited; for the programs beside it."""

from typing import Any

from stoker_client import TrainingReport


class KeptWaits(TrainingReport):
    """Says all that it is told, and keeps ``waits``, in seconds."""

    def __init__(self, framework: str) -> None:
        super().__init__(framework=framework)
        self.waits: list[float] = []

    def say(self, **said: Any) -> None:
        self.waits += [said["wait_seconds"]] if "wait_seconds" in said else []
        super().say(**said)
