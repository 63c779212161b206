"""Errors of the CLI, with exit codes for scripts."""

FAILED = 1  # the Dataset failed, or a wait timed out
NOT_FOUND = 3  # click uses 2 for wrong arguments
UNREACHABLE = 4


class CliError(Exception):
    """A sentence for the user and an exit code."""

    def __init__(self, message: str, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class NodesRefusedError(CliError):
    """The user may not read NodeCaches."""
