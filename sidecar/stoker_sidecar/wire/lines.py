"""JSON lines between the sidecar's processes: one value a line, which a newline ends. Standard library only.

Streams of asyncio split lines themselves (``readline`` with a limit); `LineBuffer` does it for everything else.
"""

import json
from typing import Any


def encode(value: Any) -> bytes:
    """Write ``value`` as one line of JSON, with its newline."""
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def decode_object(line: bytes) -> dict[str, Any]:
    """Read the JSON object of one line. Raises ValueError with a sentence."""
    try:
        value = json.loads(line)
    except ValueError as error:
        raise ValueError(f"a line is not JSON: {line[:200]!r}") from error
    if not isinstance(value, dict):
        raise ValueError(f"a line is not a JSON object: {line[:200]!r}")
    return value


class LineBuffer:
    """Splits the bytes of a stream into lines as they arrive; keeps the beginning of the line that has not ended."""

    def __init__(self) -> None:
        self._rest = b""

    @property
    def waiting(self) -> int:
        """Bytes of the line that has not ended: the length to look at after each ``feed`` where lines are bounded."""
        return len(self._rest)

    def feed(self, data: bytes | bytearray) -> list[bytes]:
        """Take the next bytes; returns the lines that they end, each without its newline."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        return lines
