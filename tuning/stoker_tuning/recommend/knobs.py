"""The knobs: their kinds, the actions that set them, and their bounds."""

from dataclasses import dataclass
from enum import StrEnum

from stoker_tuning.vocabulary import (
    ActionType,
    CachePolicy,
    CachePriority,
    Compression,
    OptimizationLevel,
    PrefetchStrategy,
    Split,
    WarmOrder,
)

MIB, GIB = 2**20, 2**30
# The value of an adaptive knob that leaves the figure to the fetcher.
AUTO = "auto"
# Parts of documents of earlier releases, as the last two steps of their paths. They are read and ignored.
REMOVED = frozenset((("parameters", "chunk_size"), ("parameters", "cache_place"), ("settings", "auto_tuning")))


class KnobKind(StrEnum):
    """The kind of a knob's values."""

    BYTES = "bytes"
    COUNT = "count"
    NUMBER = "number"
    SWITCH = "switch"
    WORD = "word"


@dataclass(frozen=True)
class Knob:
    """One knob: a name, the actions that set it, a kind, and bounds or words. ``adaptive``: AUTO is a value, too."""

    name: str
    actions: tuple[ActionType, ...]
    kind: KnobKind
    about: str
    least: float = 0
    most: float = 0
    words: type[StrEnum] | None = None
    adaptive: bool = False


def _bytes(name: str, most: int, about: str, *, adaptive: bool = False) -> Knob:
    return Knob(name, (ActionType.PREFETCH,), KnobKind.BYTES, about, 0, most, adaptive=adaptive)


def _word(name: str, words: type[StrEnum], about: str, *actions: ActionType) -> Knob:
    return Knob(name, actions, KnobKind.WORD, about, words=words)


def _switch(name: str, action: ActionType, about: str) -> Knob:
    return Knob(name, (action,), KnobKind.SWITCH, about)


_CACHE, _PREFETCH, _STREAM = ActionType.CACHE, ActionType.PREFETCH, ActionType.STREAM
_COORDINATE, _COMPRESS, _PRIORITIZE = ActionType.COORDINATE, ActionType.COMPRESS, ActionType.PRIORITIZE
_COUNT, _NUMBER = KnobKind.COUNT, KnobKind.NUMBER
KNOBS: tuple[Knob, ...] = (
    _switch("should_cache", _CACHE, "Keep the file in the cache."),
    _word("cache_priority", CachePriority, "Which files stay if space is short.", _CACHE),
    _word("cache_policy", CachePolicy, "Which files a full cache keeps.", _CACHE),
    _bytes("prefetch_size", GIB, "Bytes fetched ahead of a reader within a file.", adaptive=True),
    Knob("prefetch_depth", (_PREFETCH,), _COUNT, "Files fetched ahead of a reader.", 0, 4096, adaptive=True),
    _bytes("kernel_read_ahead", 64 * MIB, "Kernel read-ahead of FUSE mounts."),
    _switch("page_cache_prefetch", _PREFETCH, "Read the file into the page cache at mount."),
    _switch("known_order", _PREFETCH, "Prefetch the file when a known order predicts its read."),
    _word("strategy", PrefetchStrategy, "Prefetch distance.", _PREFETCH),
    Knob("parallel_streams", (_STREAM,), _COUNT, "Parallel requests for one large file.", 1, 64, adaptive=True),
    _word("compression", Compression, "Keep a compressed copy.", _STREAM, _COMPRESS),
    Knob("compression_level", (_COMPRESS,), _COUNT, "zstd level.", 1, 19),
    Knob("min_ratio", (_COMPRESS,), _NUMBER, "Minimum compression ratio of a kept copy.", 1, 100),
    _switch("divide_cold", _COORDINATE, "Divide the download of cold files among nodes."),
    _switch(
        "validation_ahead",
        _COORDINATE,
        "Fetch validation files before the first validation.",
    ),
    Knob("lane_weight", (_PRIORITIZE,), _COUNT, "Relative share of the fetcher's requests.", 1, 100),
    _word("warm_order", WarmOrder, "Position of the file in the warm-up.", _PRIORITIZE),
    Knob("bandwidth_share", (_PRIORITIZE,), _NUMBER, "A workload's share of the node's bandwidth.", 0.01, 1),
    _word("level", OptimizationLevel, "Resources spent on prefetch.", _PRIORITIZE),
    _word("split", Split, "The file's part of its Dataset.", _PRIORITIZE),
)
KNOB_BY_NAME = {knob.name: knob for knob in KNOBS}


def knob_names(action: ActionType) -> list[str]:
    """Return the knobs that an action sets: its parameters."""
    return [knob.name for knob in KNOBS if action in knob.actions]
