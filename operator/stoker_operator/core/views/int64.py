"""Whole numbers for the API server. It stores 64 bits and rejects objects with larger numbers."""

MOST = 2**63 - 1


def clamp(number: int) -> int:
    """Return the number, or the largest that the API server accepts. A quota of 10000P limits nothing either way."""
    return min(number, MOST)
