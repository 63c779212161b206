"""Contents and names of one version's files, kept in memory: locked if this process may, otherwise watched."""

import errno
import logging
import os
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass

from stoker_sidecar.linux.kernel_caches import cached_bytes
from stoker_sidecar.linux.memory_locks import LockedRange, hold_name
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.version.manifest import ROOT_INO, Entry, Manifest

_log = logging.getLogger(__name__)
# Errors of the kernel at a limit: of locked memory, of mappings, of descriptors.
_NOT_ALLOWED = (errno.EPERM, errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE)
# Of one advice: see page_cache.py.
_ADVICE = 128 * 2**10
# Bytes of one step. After it, other datasets have their turn and memory is checked again.
STEP_BYTES = 256 * 2**20
_STEP_NAMES = 50_000
# The kind of an inode in the tree.
FILE, FOLDER = 1, 2


@dataclass(frozen=True)
class PinBudget:
    """Limits of one version: bytes of contents, numbers of names, and of further mappings and descriptors."""

    contents: int
    names: int
    mappings: int
    descriptors: int


class PinnedTree:
    """The part of one version that is in memory. For one thread at a time, except for the figures.

    ``names`` and ``contents`` count cached items, ``locked`` the bytes that the kernel may not reclaim.
    """

    def __init__(self, paths: VersionPaths, inodes: int) -> None:
        self.paths = paths
        self.contents = self.locked = self.names = 0
        self._ranges: dict[int, LockedRange] = {}  # by inode of the version
        self._watched = bytearray(inodes)  # 1: contents that are read again when the kernel has taken them
        self._descriptors = array("i", bytes(4 * inodes))  # of names that are held; 0: it is not
        self._walked = bytearray(inodes)  # 1: names that are looked up again
        self._held = 0
        self._here = bytes(inodes)

    @property
    def mappings(self) -> int:
        """Mappings in use."""
        return len(self._ranges)

    @property
    def descriptors(self) -> int:
        """Descriptors in use."""
        return self._held

    def fit(self, here: bytes, order: Iterable[int], budget: PinBudget, go_on: Callable[[], bool]) -> bool:
        """Take a step towards a budget. Return True if more work is due at once. Blocks.

        ``here``: a byte an inode, FILE or FOLDER if it is in the tree. ``order``: of inodes whose contents are kept.
        Raises ManifestInvalid and CacheDiskFailed.
        """
        with closing(Manifest.open(self.paths.manifest)) as manifest:
            if here != self._here:
                self._forget_lost(manifest, here)
                self._here = here
            self._shrink(manifest, budget)
            more = self._take_names(manifest, budget, go_on)
            return self._take_contents(manifest, order, budget, go_on) or more

    def release(self) -> None:
        """Let the kernel have all of it back."""
        for one in self._ranges.values():
            one.release()
        self._ranges.clear()
        for ino in range(len(self._descriptors)):
            self._drop_name(ino)
        self._watched, self._walked = bytearray(len(self._watched)), bytearray(len(self._walked))
        self.contents = self.locked = self.names = 0

    def sweep(self, *, contents: bool, names: bool, go_on: Callable[[], bool]) -> int:
        """Read and look up watched contents and names again, and return the bytes that had been evicted. Blocks.

        Raises as ``fit``. A file that was replaced under its name is released, and taken again later.
        """
        with closing(Manifest.open(self.paths.manifest)) as manifest:
            self._forget_replaced(manifest)
            for ino in _marked(self._walked) if names else ():
                if not go_on():
                    return 0
                with suppress(OSError):
                    os.lstat(self._path(manifest, _entry(manifest, ino)))
            again = 0
            for ino in _marked(self._watched) if contents else ():
                if not go_on():
                    break
                entry = _entry(manifest, ino)
                with suppress(OSError):
                    again += _bring(self._path(manifest, entry), entry.size)
            return again

    def _take_contents(
        self, manifest: Manifest, order: Iterable[int], budget: PinBudget, go_on: Callable[[], bool]
    ) -> bool:
        left, step, mappings = budget.contents - self.contents, STEP_BYTES, budget.mappings
        for ino in order if left > 0 else ():
            one = self._ranges.get(ino)
            if self._here[ino] != FILE or self._watched[ino] or (one is not None and one.length == one.size):
                continue
            if not go_on():
                return False
            if step <= 0:
                return True
            if not (size := _entry(manifest, ino).size):
                continue
            path = self._path(manifest, _entry(manifest, ino))
            taken = self._lock(path, ino, size, min(left, step)) if one is not None or mappings > 0 else 0
            # One that could not be locked is the last that is tried in this step: each try maps it.
            mappings = mappings - (one is None) if ino in self._ranges else 0
            if ino not in self._ranges and size <= left:
                taken = self._watch(path, ino, size)
            left, step = left - taken, step - taken
            if left <= 0 or (taken and ino in self._ranges and self._ranges[ino].length < size):
                return left > 0  # a large one continues with the next step
        return False

    def _lock(self, path: str, ino: int, size: int, most: int) -> int:
        """Lock the beginning of a file, or more of it. Return the number of added bytes, or 0 if that is impossible."""
        try:
            if ino not in self._ranges:
                self._ranges[ino] = _mapped(path, size)
            one = self._ranges[ino]
            before = one.length
            one.resize(min(size, before + most))
        except OSError as error:
            if ino in self._ranges and not self._ranges[ino].length:
                self._unlock(ino)
            if error.errno not in _NOT_ALLOWED:  # missing or damaged: its reader notices
                _log.debug("%s is not locked in memory: %s", path, error)
            return 0
        self.contents, self.locked = self.contents + one.length - before, self.locked + one.length - before
        return one.length - before

    def _watch(self, path: str, ino: int, size: int) -> int:
        """Load a whole file into memory, and reload it when the kernel evicts it. Return its bytes, or 0."""
        try:
            _bring(path, size)
        except OSError as error:
            _log.debug("%s is not kept in memory: %s", path, error)
            return 0
        self._watched[ino] = 1
        self.contents += size
        return size

    def _take_names(self, manifest: Manifest, budget: PinBudget, go_on: Callable[[], bool]) -> bool:
        left, step, descriptors = budget.names - self.names, _STEP_NAMES, budget.descriptors
        ino = _next(ROOT_INO - 1, self._here, self._descriptors, self._walked) if left > 0 else 0
        while ino and left > 0 and step > 0:
            if not go_on():
                return False
            if self._take_name(manifest, _entry(manifest, ino), holdable=descriptors > 0):
                left -= 1
            descriptors = descriptors - 1 if self._descriptors[ino] else 0
            step -= 1
            ino = _next(ino, self._here, self._descriptors, self._walked)
        return bool(ino) and left > 0 and step <= 0

    def _take_name(self, manifest: Manifest, entry: Entry, *, holdable: bool) -> bool:
        """Hold a name. If this process is at its limit, look it up instead. Return True if the name exists."""
        path = self._path(manifest, entry)
        try:
            if holdable and (descriptor := _hold(path)):
                self._descriptors[entry.ino] = descriptor
                self._held += 1
            else:
                os.lstat(path)
                self._walked[entry.ino] = 1
        except OSError as error:
            _log.debug("the name of %s is not kept in memory: %s", path, error)
            return False
        self.names += 1
        return True

    def _shrink(self, manifest: Manifest, budget: PinBudget) -> None:
        """Release the excess over a budget: watched contents first, and the latest first."""
        ino = len(self._watched)
        while self.contents > budget.contents and (ino := self._watched.rfind(1, 0, ino)) >= 0:
            self._unwatch(manifest, ino)
        while (excess := self.contents - budget.contents) > 0 and self._ranges:
            last, one = next(reversed(self._ranges.items()))
            if one.length <= excess:
                self._unlock(last)
            else:
                one.resize(one.length - excess)
                self.contents, self.locked = self.contents - excess, self.locked - excess
        for ino in range(len(self._descriptors) - 1, -1, -1):
            if self.names <= budget.names:
                return
            self._drop_name(ino)

    def _forget_lost(self, manifest: Manifest, here: bytes) -> None:
        """Release files that left the tree. Their blocks stay allocated until then."""
        for ino in [ino for ino in self._ranges if here[ino] != FILE]:
            self._unlock(ino)
        for ino in [ino for ino in _marked(self._watched) if here[ino] != FILE]:
            self._unwatch(manifest, ino)
        for ino in range(len(here)) if self.names else ():
            if not here[ino]:
                self._drop_name(ino)

    def _forget_replaced(self, manifest: Manifest) -> None:
        for ino, one in list(self._ranges.items()):
            try:
                same = os.lstat(self._path(manifest, _entry(manifest, ino))).st_ino == one.inode
            except OSError:
                same = False
            if not same:
                self._unlock(ino)
        for ino, descriptor in enumerate(self._descriptors):
            if descriptor and os.fstat(descriptor).st_nlink == 0:
                self._drop_name(ino)

    def _unlock(self, ino: int) -> None:
        one = self._ranges.pop(ino)
        one.release()
        self.contents, self.locked = self.contents - one.length, self.locked - one.length

    def _unwatch(self, manifest: Manifest, ino: int) -> None:
        self._watched[ino] = 0
        self.contents -= _entry(manifest, ino).size

    def _drop_name(self, ino: int) -> None:
        if descriptor := self._descriptors[ino]:
            self._descriptors[ino] = 0
            self._held -= 1
            self.names -= 1
            os.close(descriptor)
        elif self._walked[ino]:
            self._walked[ino] = 0
            self.names -= 1

    def _path(self, manifest: Manifest, entry: Entry) -> str:
        return f"{self.paths.tree}/{manifest.path_of(entry)}" if entry.ino != ROOT_INO else str(self.paths.tree)


def _mapped(path: str, size: int) -> LockedRange:
    """Map a file to be locked. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return LockedRange.map(descriptor, size)
    finally:
        os.close(descriptor)


def _hold(path: str) -> int:
    """Hold a name; 0 if this process is at its limit. Raises OSError for any different error."""
    try:
        return hold_name(path)
    except OSError as error:
        if error.errno in _NOT_ALLOWED:
            return 0
        raise


def _bring(path: str, size: int) -> int:
    """Make the kernel read the missing part of a file. Return its bytes. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        gone = size - (cached_bytes(descriptor) or 0)
        if gone <= 0:
            return 0
        for offset in range(0, size, _ADVICE):
            os.posix_fadvise(descriptor, offset, min(_ADVICE, size - offset), os.POSIX_FADV_WILLNEED)
        os.pread(descriptor, 1, size - 1)
        return gone
    finally:
        os.close(descriptor)


def _entry(manifest: Manifest, ino: int) -> Entry:
    entry = manifest.entry(ino)
    if entry is None:
        raise LookupError(f"the manifest has no inode {ino}")
    return entry


def _marked(marks: bytes | bytearray) -> Iterator[int]:
    ino = marks.find(1)
    while ino >= 0:
        yield ino
        ino = marks.find(1, ino + 1)


def _next(ino: int, here: bytes, descriptors: "array[int]", walked: bytearray) -> int:
    """Return the next inode that is here and whose name is unpinned; 0 if there are no more."""
    for one in range(ino + 1, len(here)):
        if here[one] and not descriptors[one] and not walked[one]:
            return one
    return 0
