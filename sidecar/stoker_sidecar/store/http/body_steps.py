"""Collects a large body in one buffer and passes it on in steps of 64 to 256 KiB."""

from stoker_sidecar.store.base import SMALL, WriteChunk

# Least bytes per step, so that a slow connection does not cost a write for each packet.
_LEAST = 64 * 1024


class BodySteps:
    """A body of ``length`` bytes; ``write`` receives each step.

    The buffer is small, so that a step is still in the core's cache when it is written. A step ends after the first
    SMALL bytes, because a reader may wait for these.
    """

    def __init__(self, length: int, write: WriteChunk) -> None:
        self.received = 0
        self._length = length
        self._write = write
        self._buffer = memoryview(bytearray(min(SMALL, length)))
        self._held = 0

    @property
    def complete(self) -> bool:
        """Whether the whole body was passed on."""
        return self.received == self._length

    def add(self, data: bytes) -> None:
        """Pass on bytes from outside the buffer. Call it only before the first ``space``."""
        self.received += len(data)
        self._write(data)

    def space(self) -> memoryview:
        """Return the buffer for the next bytes of the body; never empty before the end."""
        end = self._length if self.received >= SMALL else min(SMALL, self._length)
        return self._buffer[self._held : self._held + end - self.received]

    def filled(self, count: int) -> None:
        """Note that ``space`` received ``count`` bytes. Raises the errors of ``write``."""
        self._held += count
        self.received += count
        if self._held >= _LEAST or self.received in (SMALL, self._length):
            held, self._held = self._held, 0
            self._write(self._buffer[:held])
