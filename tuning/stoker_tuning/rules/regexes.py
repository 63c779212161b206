"""Regular expressions of rules, matched by RE2: linear time, bounded memory."""

from typing import Any

from stoker_tuning.rules.globs import MOST_PATTERN, PatternError

# Bytes of one expression: its program, and the states that texts reach.
MOST_MEMORY = 256 * 1024
_MOST_TEXT = 4_096  # characters; no path on Linux is longer


class Regex:
    """A regular expression. Raises PatternError with a sentence.

    ``size``: instructions of its program, which bound the steps per byte of a text.
    """

    def __init__(self, text: str) -> None:
        if not text or len(text) > MOST_PATTERN:
            raise PatternError(f"it has {len(text)} characters: write 1 to {MOST_PATTERN}")
        self._compiled = _compiled(text)
        self.size = int(self._compiled.programsize)

    def holds(self, text: str) -> bool:
        """Return True if a part of the text matches. A text longer than any path does not match."""
        return len(text) <= _MOST_TEXT and self._compiled.search(text.encode(errors="replace")) is not None


def _compiled(text: str) -> Any:  # RE2 ships no types
    import re2

    options = re2.Options()
    options.max_mem, options.log_errors, options.never_capture = MOST_MEMORY, False, True
    try:
        return re2.compile(text, options)
    except UnicodeEncodeError:
        raise PatternError("it is not valid Unicode: write other characters") from None
    except re2.error as error:
        reason = error.args[0].decode(errors="replace")
        if reason.startswith("pattern too large"):
            raise PatternError(f"it needs more than {MOST_MEMORY // 1024} KiB: write smaller repetitions") from error
        raise PatternError(f"{reason}: see RE2's syntax") from error
