"""A report of stoker-client that also records the reported wait times, for the other programs here."""

from typing import Any

from stoker_client import TrainingReport


class KeptWaits(TrainingReport):
    """Forwards all reports, and keeps ``waits``, in seconds."""

    def __init__(self, framework: str) -> None:
        super().__init__(framework=framework)
        self.waits: list[float] = []

    def say(self, **said: Any) -> None:
        self.waits += [said["wait_seconds"]] if "wait_seconds" in said else []
        super().say(**said)
