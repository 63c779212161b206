"""How long a job waited for its data before it had pods: what a queue's check leaves on them, and how that is read."""

from stoker_api.times import format_time, parse_time

# Seconds after a job was let go within which its pods are made. A later one replaces another or joins it, and what was
# waited for then says nothing of its own wait.
_MADE_WITHIN = 600.0


def format_earlier_wait(since: float, until: float) -> str:
    """Write a wait in seconds since the epoch as the annotation has it: two RFC 3339 times with a slash between."""
    return f"{format_time(since)}/{format_time(until)}"


def length_of(text: str, began: float) -> float:
    """Return how many seconds a wait took that is written so; 0.0 where the text says nothing, or of another one.

    ``began``: the second of the epoch in which the wait began.
    """
    since, until = _times(text)
    return until - since if int(since) == int(began) else 0.0


def waited_from(text: str, created: float) -> float:
    """Return since when a pod made at ``created`` has been waited for, by its annotation; 0.0 where that says nothing.

    Anyone may have written it: whoever names an early time shortens the wait of their own pod, as ``maxWait`` does.
    """
    since, until = _times(text)
    return since if created <= until + _MADE_WITHIN else 0.0


def _times(text: str) -> tuple[float, float]:
    """Return when it began and ended; twice 0.0 where the text says nothing."""
    first, _, last = text.partition("/")
    since, until = parse_time(first), parse_time(last)
    return (since, until) if 0.0 < since <= until else (0.0, 0.0)
