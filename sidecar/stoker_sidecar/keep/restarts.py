"""When a child that ended is started again. Pure: times in seconds of any one clock."""

from dataclasses import dataclass, replace

_FIRST_DELAY = 0.1
_LONGEST_DELAY = 10.0
_STABLE_AFTER = 30.0  # a child that lived this long has no history: its next end is taken as the first


@dataclass(frozen=True)
class History:
    """``restarts`` ever, ``in_a_row`` without a stable run between them."""

    restarts: int = 0
    in_a_row: int = 0


def after_end(history: History, lived: float) -> tuple[History, float]:
    """The new history of a child that lived ``lived`` seconds, and the seconds to wait before it is started again.

    The first end of a stable child is answered at once (readers wait in the kernel meanwhile); then 0.1 s, doubling to 10 s.
    """
    if lived >= _STABLE_AFTER:
        history = replace(history, in_a_row=0)
    delay = 0.0 if history.in_a_row == 0 else min(_LONGEST_DELAY, _FIRST_DELAY * 2.0 ** (history.in_a_row - 1))
    return History(history.restarts + 1, history.in_a_row + 1), delay
