"""The one error tree of the benchmarks."""


class BenchError(Exception):
    """A measurement could not be made; the message says which and why. No figure is better than a wrong one."""


class UsageError(BenchError):
    """The caller asked for something that makes no sense; the message says what to do instead."""
