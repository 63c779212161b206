"""How many chunks of a large file warming asks for by one request. Pure."""

# Longer requests gained nothing at 20 ms: a request is then a fiftieth of the time of its bytes.
MOST = 6


def run_length(left: int, streams: int) -> int:
    """Return the chunks of the next run, where so many pieces are left to be started and so many runs go on at a time.

    Short ones when little is left (guided self-scheduling): all end at about the same time, and a file alone comes by
    as many requests side by side as may be.
    """
    return max(1, min(MOST, left // max(1, streams)))
