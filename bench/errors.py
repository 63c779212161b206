"""The error classes of the benchmarks."""


class BenchError(Exception):
    """A measurement failed. The message says which one and why. A missing figure is better than a wrong one."""


class UsageError(BenchError):
    """The arguments are invalid. The message says what to do instead."""
