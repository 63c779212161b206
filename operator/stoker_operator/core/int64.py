"""Whole numbers on their way to the API server, which keeps 64 bits of them and refuses an object with more."""

MOST = 2**63 - 1


def clamp(number: int) -> int:
    """Return the number, or the largest that the API server takes: a quota of 10000P limits nothing either way."""
    return min(number, MOST)
