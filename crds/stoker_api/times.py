"""Times as Kubernetes writes them: RFC 3339 in UTC."""

from datetime import UTC, datetime
from typing import Literal


def format_time(seconds: float, precision: Literal["seconds", "milliseconds", "microseconds"] = "seconds") -> str:
    """Write seconds since the epoch, cut to ``precision``: ``1763716500.5`` -> ``2025-11-21T09:15:00Z``."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec=precision).replace("+00:00", "Z")


def parse_time(text: str | None) -> float:
    """Parse an RFC 3339 time into seconds since the epoch. Return 0.0 for an empty or invalid time."""
    try:
        return datetime.fromisoformat(text).timestamp() if text else 0.0
    except ValueError:
        return 0.0
