"""A bounded set of open files, least recently used first out; one that is being read is never closed under its reader."""

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager


class _Descriptor:
    __slots__ = ("fd", "kept", "readers")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.readers = 0
        self.kept = True


class Descriptors:
    """At most ``capacity`` descriptors, plus those in use. For one event loop; not for threads."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._open: OrderedDict[Hashable, _Descriptor] = OrderedDict()

    @contextmanager
    def borrow(self, key: Hashable, opener: Callable[[], int]) -> Iterator[int]:
        """The descriptor kept under ``key``; ``opener`` makes it when there is none, and its errors pass through."""
        descriptor = self._open.get(key)
        if descriptor is None:
            descriptor = self._open[key] = _Descriptor(opener())
        self._open.move_to_end(key)
        descriptor.readers += 1
        try:
            self._shrink()
            yield descriptor.fd
        finally:
            descriptor.readers -= 1
            if not descriptor.kept:
                self._close_idle(descriptor)

    def forget(self, key: Hashable) -> None:
        """Close what is kept under ``key``, if anything, when its readers are done."""
        descriptor = self._open.pop(key, None)
        if descriptor is not None:
            descriptor.kept = False
            self._close_idle(descriptor)

    def close(self) -> None:
        """Close all; those in use when their readers are done."""
        while self._open:
            self._drop_oldest()

    def _shrink(self) -> None:
        while len(self._open) > self._capacity:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        _, descriptor = self._open.popitem(last=False)
        descriptor.kept = False
        self._close_idle(descriptor)

    @staticmethod
    def _close_idle(descriptor: _Descriptor) -> None:
        if descriptor.readers == 0:
            os.close(descriptor.fd)
