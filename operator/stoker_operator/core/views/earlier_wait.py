"""How long a job waited for its data before it had pods: the format that a queue's check writes on its pods."""

from stoker_api.times import format_time, parse_time

# Seconds after a job leaves the queue within which its pods are created. A later pod replaces or joins another, so the
# job's wait does not apply to it.
_MADE_WITHIN = 600.0


def format_earlier_wait(since: float, until: float) -> str:
    """Format a wait for the annotation: two RFC 3339 times with a slash between.

    Arguments are seconds since the epoch.
    """
    return f"{format_time(since)}/{format_time(until)}"


def length_of(text: str, began: float) -> float:
    """Return the seconds of a formatted wait. Return 0.0 for invalid text or for a different wait.

    ``began``: start of the wait in seconds since the epoch.
    """
    since, until = _times(text)
    return until - since if int(since) == int(began) else 0.0


def waited_from(text: str, created: float) -> float:
    """Return the start of the wait for a pod ``created`` at that time, or 0.0 for invalid text.

    Anyone may write the text. An early time shortens only the wait of the author's own pod, as ``maxWait`` does.
    """
    since, until = _times(text)
    return since if created <= until + _MADE_WITHIN else 0.0


def _times(text: str) -> tuple[float, float]:
    """Return start and end, or 0.0 twice for invalid text."""
    first, _, last = text.partition("/")
    since, until = parse_time(first), parse_time(last)
    return (since, until) if 0.0 < since <= until else (0.0, 0.0)
