"""Splits a stream of bytes into lines of any length, as a watch needs it."""

from collections.abc import Iterator


class LineSplitter:
    """Splits a stream into lines: feed chunks, get the whole lines; the rest waits for the next chunk.

    Objects may be longer than any read buffer.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Take bytes, and return the lines that are whole, without their end, empty ones left out."""
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            joined = b"".join([*self._rest, line])
            self._rest.clear()
            if joined.strip():
                yield joined
        if rest:
            self._rest.append(rest)
