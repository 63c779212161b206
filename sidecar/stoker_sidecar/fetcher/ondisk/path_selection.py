"""Selects the files of a version by a list of paths and patterns, in order: the meaning of `warm.paths`.

The inodes of a folder's content follow the folder's inode, so that a folder is a range of numbers.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from stoker_api.datasets.warm_paths import MOST_WARM_PATTERNS, is_pattern, path_segments
from stoker_sidecar.errors import PathsTakeTooLong
from stoker_sidecar.version.manifest import (
    ROOT_INO,
    Entry,
    Manifest,
    folder_inos,
    names_between,
    names_in,
    sizes_between,
)
from stoker_sidecar.version.objects import compile_pattern

_LITERAL = MOST_WARM_PATTERNS + 1  # the number of all paths without wildcards, each a single range
_MARKED = bytes(int(number > 0) for number in range(256))
_ONE_STAR = 2  # parts of a name around one star
_MOST_UNMATCHED = 100  # paths without a match that are reported by name
_FOLDERS = 10_000  # that are remembered while paths are searched

_TOO_LONG = (
    "takes too long to search: write folders or files in place of patterns, or patterns that begin with a folder"
)
NameTest = Callable[[str], bool]


class SelectionStep(NamedTuple):
    """The files of one path: the inodes from ``first`` to ``last`` with its number; 0: earlier paths have them all."""

    number: int
    first: int
    last: int


@dataclass(frozen=True)
class PathSelection:
    """The files of a version that are to be warmed.

    ``numbers``: a byte an inode, 0 if it is not chosen. ``ranges``: the meaning of the numbers, in order: the three
    numbers of each SelectionStep. ``unmatched_count``: paths without a match; ``unmatched``: the first of them.
    ``digest``: of the paths.
    """

    digest: str
    numbers: bytes
    ranges: "array[int]"
    files: int
    total_bytes: int
    unmatched: tuple[str, ...]
    unmatched_count: int

    @property
    def marks(self) -> bytes:
        """Return a byte an inode: 1 for each file that is chosen."""
        return self.numbers.translate(_MARKED)

    def chooses(self, ino: int) -> bool:
        """Return True if a file is chosen."""
        return self.numbers[ino] > 0

    def in_order(self, wanted: bytes) -> Iterator[int]:
        """Yield the inodes of chosen files in order, if they have a 1 in ``wanted``, a byte an inode."""
        mask = int.from_bytes(wanted.translate(_ALL_BITS)) & int.from_bytes(self.numbers)
        left = mask.to_bytes(len(self.numbers))
        numbers = iter(self.ranges)
        for number, first, last in zip(numbers, numbers, numbers, strict=True):
            ino = left.find(number, first, last + 1)
            while ino >= 0:
                yield ino
                ino = left.find(number, ino + 1, last + 1)


_ALL_BITS = bytes(255 * int(number > 0) for number in range(256))


def select_listed(
    manifest: Manifest, paths: Iterable[str], digest: str, too_long: Callable[[], bool] = lambda: False
) -> PathSelection:
    """Select files by paths, which are read lazily. Each is the path of a file or folder, or else a pattern.

    A folder stands for all files below it. A file with several matches has the place of the first. An invalid pattern
    matches nothing. ``digest``: of the paths. ``too_long`` is called from time to time. Blocks for long.

    Raises PathsTakeTooLong and CacheDiskFailed.
    """
    return _Selecting(manifest, too_long).select(paths, digest)


def selected_bytes(manifest: Manifest, marks: bytes) -> int:
    """Return the sum of sizes of marked files (a 1 in ``marks``, a byte an inode). Blocks. Raises CacheDiskFailed."""
    first, last, total = marks.find(1), marks.rfind(1), 0
    if first < 0:
        return 0
    for page in sizes_between(manifest, first, last):
        part = marks[first : first + len(page)]
        total += sum(size for (size,), marked in zip(page, part, strict=True) if marked)
        first += len(page)
    return total


class _Selecting:
    """The state of one selection."""

    def __init__(self, manifest: Manifest, too_long: Callable[[], bool]) -> None:
        self._manifest = manifest
        self._too_long = too_long
        self._numbers = bytearray(manifest.last_ino + 1)
        self._folders = bytearray(manifest.last_ino + 1)
        for ino in folder_inos(manifest):
            self._folders[ino] = 1
        self._folder = lru_cache(_FOLDERS)(manifest.find)  # long lists name many files of few folders
        self._patterns = 0

    def select(self, paths: Iterable[str], digest: str) -> PathSelection:
        ranges = array("q")
        unmatched: list[str] = []
        missed = 0
        for path in paths:
            self._go_on()
            step = self._step(path)
            if step is not None:
                ranges.extend(step if step.number else ())
                continue
            missed += 1
            if missed <= _MOST_UNMATCHED:
                unmatched.append(path)
        files = int.from_bytes(self._numbers) & ~int.from_bytes(self._folders.translate(_ALL_BITS))
        numbers = files.to_bytes(len(self._numbers))
        size = selected_bytes(self._manifest, numbers.translate(_MARKED))
        count = len(numbers) - numbers.count(0)
        return PathSelection(digest, numbers, ranges, count, size, tuple(unmatched), missed)

    def _step(self, path: str) -> SelectionStep | None:
        named = self._find(path)
        if named is None and is_pattern(path):
            self._patterns += 1
            return self._pattern(path, min(self._patterns, MOST_WARM_PATTERNS))
        return self._whole(named, _LITERAL) if named is not None else None

    def _find(self, path: str) -> Entry | None:
        *folders, name = path_segments(path)
        folder = self._folder("/".join(folders))
        return self._manifest.lookup(folder.ino, name.encode()) if folder is not None else None

    def _whole(self, entry: Entry, number: int) -> SelectionStep:
        last = self._manifest.last_below(entry.ino) if entry.is_dir else entry.ino
        is_new = self._numbers.find(0, entry.ino, last + 1) >= 0
        return self._take(entry.ino, last, number) if is_new else SelectionStep(0, entry.ino, last)

    def _take(self, first: int, last: int, number: int) -> SelectionStep:
        """Give a range its number, except for inodes that have one."""
        self._numbers[first : last + 1] = self._numbers[first : last + 1].replace(b"\0", bytes([number]))
        return SelectionStep(number, first, last)

    def _pattern(self, pattern: str, number: int) -> SelectionStep | None:
        found = False
        try:
            for page in self._hits(path_segments(pattern), [ROOT_INO]):
                found = True
                self._mark(page, number)
        except ValueError:  # the door refuses it; this is one of an older rule
            return None
        return SelectionStep(number, ROOT_INO, self._manifest.last_ino) if found else None

    def _mark(self, page: Iterable[int], number: int) -> None:
        numbers, folders = self._numbers, self._folders
        for ino in page:
            if folders[ino]:
                self._take(ino, self._manifest.last_below(ino), number)
            elif not numbers[ino]:
                numbers[ino] = number

    def _hits(self, segments: tuple[str, ...], within: list[int]) -> Iterator[list[int]]:
        """Yield the matches of a pattern below folders, by pages. A folder's content is not listed separately."""
        for at, segment in enumerate(segments):
            rest = segments[at + 1 :]
            if segment == "**":
                yield from self._anywhere(rest, within)
                return
            pages = (page for folder in within for page in self._named(folder, segment))
            if not rest:
                yield from pages
                return
            within = [ino for page in pages for ino in page if self._folders[ino]]

    def _anywhere(self, rest: tuple[str, ...], within: list[int]) -> Iterator[list[int]]:
        """Yield the matches of the rest of a pattern at any depth below folders."""
        while rest[:1] == ("**",):
            rest = rest[1:]
        tops = [folder for page in self._outermost([sorted(within)]) for folder in page]
        if not rest:
            yield from ([ino for ino, _ in page] for folder in tops for page in names_in(self._manifest, folder))
            return
        hits = (page for folder in tops for page in self._named_below(folder, rest[0]))
        if len(rest) == 1:
            yield from self._outermost(hits)
        else:
            yield from self._hits(rest[1:], [ino for page in hits for ino in page if self._folders[ino]])

    def _outermost(self, pages: Iterable[list[int]]) -> Iterator[list[int]]:
        """Skip inodes below a folder that was yielded before, in the order of inodes."""
        covered = 0
        for page in pages:
            kept: list[int] = []
            for ino in page:
                if ino > covered:
                    kept.append(ino)
                    covered = self._manifest.last_below(ino) if self._folders[ino] else covered
            if kept:
                yield kept

    def _named_below(self, folder: int, segment: str) -> Iterator[list[int]]:
        test = _name_test(segment)
        for page in names_between(self._manifest, folder + 1, self._manifest.last_below(folder)):
            self._go_on()
            yield [ino for ino, name in page if test(name)]

    def _named(self, folder: int, segment: str) -> Iterator[list[int]]:
        if not is_pattern(segment):
            found = self._manifest.lookup(folder, segment.encode("utf-8", "surrogatepass"))
            return iter([[found.ino]] if found is not None else [])
        return self._matching(folder, _name_test(segment))

    def _matching(self, folder: int, test: NameTest) -> Iterator[list[int]]:
        for page in names_in(self._manifest, folder):
            self._go_on()
            if hits := [ino for ino, name in page if test(name)]:
                yield hits

    def _go_on(self) -> None:
        if self._too_long():
            raise PathsTakeTooLong(_TOO_LONG)


def _name_test(segment: str) -> NameTest:
    """Return the test for one name. Raises ValueError for a pattern that cannot be read."""
    parts = segment.split("*")
    if not is_pattern("".join(parts)) and len(parts) <= _ONE_STAR:
        return _around_a_star(*parts) if len(parts) == _ONE_STAR else segment.__eq__
    fullmatch = compile_pattern(segment).fullmatch
    return lambda name: fullmatch(name) is not None


def _around_a_star(before: str, behind: str) -> NameTest:
    """Return the test for a pattern with one star: a third of the time of a regular expression."""
    least = len(before) + len(behind)
    if not before:
        return lambda name: name.endswith(behind)
    return lambda name: len(name) >= least and name.startswith(before) and name.endswith(behind)


@dataclass
class ChosenFiles:
    """The files of a version that are warmed, and how many of them can be read without the source.

    ``selection``: None for all files; then nothing is counted. ``gave_up``: digest of the paths whose search failed,
    and ``why``, a sentence.
    """

    selection: PathSelection | None = None
    here_files: int = 0
    here_bytes: int = 0
    gave_up: str = ""
    why: str = ""

    def count(self, entry: Entry, files: int) -> None:
        """Note that a file has arrived (1) or is gone (-1)."""
        if self.selection is not None and self.selection.chooses(entry.ino):
            self.here_files += files
            self.here_bytes += files * entry.size

    @property
    def digest(self) -> str:
        """Of the list of paths that names them; empty: all files."""
        return self.selection.digest if self.selection is not None else ""

    def are_of(self, digest: str) -> bool:
        """Return True if these are the files of the list of paths with this digest; empty: all files."""
        return self.digest == digest

    @property
    def are_here(self) -> bool:
        """Whether there is a choice, and all of it is here."""
        return self.selection is not None and self.here_files == self.selection.files

    @property
    def bytes_left(self) -> int:
        """Bytes of chosen files that are not here."""
        return self.selection.total_bytes - self.here_bytes if self.selection is not None else 0
