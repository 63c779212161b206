"""Which numbers of fetching ahead a node may find by itself, where it begins, and what follows for files. Pure.

A file's are free where the strategy Adaptive is in force by somebody's word: a rule, a template, settings. A figure
that a rule gives stays that rule's, unless the same rule names Adaptive; then it is where the search begins.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from msgspec import structs

from stoker_sidecar.tuning.core.file_knobs import BY_ITSELF, by_rule, limits_of
from stoker_sidecar.wire.fetcher_protocol import FileKnobs
from stoker_tuning.recommend.knobs import KNOB_BY_NAME, MIB, Knob
from stoker_tuning.recommend.recommendation import Explained
from stoker_tuning.rules.merging import GivenValue
from stoker_tuning.vocabulary import OptimizationLevel, PrefetchStrategy

SIZE, DEPTH = "prefetch_size", "prefetch_depth"
# The fetcher has whole chunks ahead, and no more than so much of all readers together; a test compares both with it.
CHUNK, MOST_AHEAD = 8 * MIB, 64 * MIB
_FEWEST_FILES = 4
_STREAMS = "parallel_streams"

# Values of numbers by the knob's name: those that are in force in place of the files' own.
Numbers = tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class FreeNumbers:
    """What may be found of a file, and whether a rule's ``parallel_streams`` gives way to it.

    ``size``: bytes within large files; ``depth``: small files of a folder.
    """

    size: bool = False
    depth: bool = False
    streams: bool = False

    def both(self, other: "FreeNumbers") -> "FreeNumbers":
        """Return what is free for two workloads: one's word counts for both, as they read the same copy."""
        return FreeNumbers(self.size and other.size, self.depth and other.depth, self.streams and other.streams)


NOTHING_FREE = FreeNumbers()


@dataclass(frozen=True, slots=True)
class AdaptiveFiles:
    """The files of a version whose numbers may be found: the bytes of large ones, and of small ones.

    ``starts``: where each number begins, as a rule or a named set has it, or else the fetcher by itself.
    """

    large_bytes: int = 0
    small_bytes: int = 0
    starts: Mapping[str, float] = field(default_factory=dict)


def free_numbers(explained: Explained) -> FreeNumbers:
    """Return what may be found of files for which this is recommended."""
    values, origins = explained.values, explained.origins
    if values.strategy is not PrefetchStrategy.ADAPTIVE or not by_rule(origins, "strategy"):
        return NOTHING_FREE
    asked = origins["strategy"]

    def free(knob: str) -> bool:
        given = origins[knob]
        own = isinstance(asked, GivenValue) and isinstance(given, GivenValue) and given.rule is asked.rule
        return own or not isinstance(given, GivenValue)

    return FreeNumbers(free(SIZE), free(DEPTH), free(_STREAMS))


def start_of(knobs: FileKnobs, free: FreeNumbers) -> dict[str, float]:
    """Return where the numbers of files begin that are treated so: as they come out, in whole chunks."""
    found: dict[str, float] = {}
    if free.size:
        sizes = [] if knobs.ahead_bytes is None else [-(-knobs.ahead_bytes // CHUNK) * CHUNK]
        sizes += [] if knobs.streams is None else [(knobs.streams - 1) * CHUNK]
        found[SIZE] = min([*sizes, MOST_AHEAD]) if sizes else BY_ITSELF.size
    if free.depth:
        found[DEPTH] = BY_ITSELF.files if knobs.ahead_files is None else knobs.ahead_files
    return found


def with_numbers(knobs: Sequence[FileKnobs], free: Sequence[FreeNumbers], numbers: Numbers) -> tuple[FileKnobs, ...]:
    """Return the knobs of each group with numbers in place of its own, where they are free."""
    if not numbers:
        return tuple(knobs)
    found = dict(numbers)
    pairs = zip(knobs, [*free, *[NOTHING_FREE] * (len(knobs) - len(free))], strict=True)
    return tuple(_with(each, its, found) for each, its in pairs)


def _with(knobs: FileKnobs, free: FreeNumbers, numbers: Mapping[str, float]) -> FileKnobs:
    size = int(numbers[SIZE]) if free.size and SIZE in numbers else knobs.ahead_bytes
    depth = int(numbers[DEPTH]) if free.depth and DEPTH in numbers else knobs.ahead_files
    # The fetcher takes the lesser of bytes and requests ahead: what is found of one is of both.
    streams = None if free.size and free.streams and SIZE in numbers else knobs.streams
    return structs.replace(knobs, ahead_bytes=size, ahead_files=depth, streams=streams)


def number_to_find(files: AdaptiveFiles, most: OptimizationLevel | None) -> Knob | None:
    """Return the number that counts for most bytes of a version, in the bounds of what is allowed; None: none is.

    ``most``: the level that the Dataset's class allows at most.
    """
    limits = limits_of(most)
    large = files.large_bytes >= files.small_bytes
    order = ((SIZE, CHUNK, min(MOST_AHEAD, limits.size)), (DEPTH, _FEWEST_FILES, limits.files))
    for name, least, at_most in order if large else order[::-1]:
        has = files.large_bytes if name == SIZE else files.small_bytes
        if has and name in files.starts and least < at_most:
            return replace(KNOB_BY_NAME[name], least=least, most=at_most)
    return None
