"""The error classes of the e2e cluster harness."""

from pathlib import Path


class HarnessError(Exception):
    """Base of all errors of the harness."""


class CommandFailedError(HarnessError):
    """A program of the harness exited with a non-zero code."""

    def __init__(self, argv: list[str], code: int, output: str) -> None:
        self.argv = argv
        self.code = code
        self.output = output
        super().__init__(f"`{' '.join(argv)}` ended with code {code}. It said:\n{output.strip()}")


class NotReadyError(HarnessError):
    """A component did not become ready in time, or exited."""

    def __init__(self, what: str, log: Path | None = None, tail: str = "") -> None:
        hint = f" The end of {log}:\n{tail}" if log else ""
        super().__init__(f"{what}.{hint}")


class NoSlotError(HarnessError):
    """Every address range that the harness may use is taken."""


class UsageError(HarnessError):
    """The arguments are invalid. The message says what to do instead."""
