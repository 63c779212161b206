"""JSON lines between the sidecar's processes: one value per line, ended by a newline. Standard library only.

Asyncio streams split lines (``readline`` with a limit); `LineBuffer` does it for everything else.
"""

import json
from typing import Any


def encode(value: Any) -> bytes:
    """Encode ``value`` as one line of JSON, with its newline."""
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def decode_object(line: bytes) -> dict[str, Any]:
    """Decode the JSON object of one line. Raises ValueError with a sentence."""
    try:
        value = json.loads(line)
    except ValueError as error:
        raise ValueError(f"a line is not JSON: {line[:200]!r}") from error
    if not isinstance(value, dict):
        raise ValueError(f"a line is not a JSON object: {line[:200]!r}")
    return value


class LineBuffer:
    """Splits the bytes of a stream into lines as they arrive, and keeps the start of an unfinished line."""

    def __init__(self) -> None:
        self._rest = b""

    @property
    def waiting(self) -> int:
        """Bytes of the unfinished line. Check them after each ``feed`` if lines are bounded."""
        return len(self._rest)

    def feed(self, data: bytes | bytearray) -> list[bytes]:
        """Add the next bytes. Return the lines that they complete, without newlines."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        return lines
