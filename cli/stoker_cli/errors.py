"""What the CLI refuses, each with the exit code that scripts can tell apart."""

FAILED = 1  # the dataset failed, or a wait ran out of time
NOT_FOUND = 3  # 2 is click's own, for wrong arguments
UNREACHABLE = 4


class CliError(Exception):
    """A sentence for the user and an exit code."""

    def __init__(self, message: str, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code
