"""The knobs: what each is, which actions set it, and within which bounds."""

from dataclasses import dataclass
from enum import StrEnum

from stoker_tuning.vocabulary import (
    ActionType,
    CachePlace,
    CachePolicy,
    CachePriority,
    Compression,
    OptimizationLevel,
    PrefetchStrategy,
    Split,
    WarmOrder,
)

KIB, MIB, GIB = 2**10, 2**20, 2**30


class KnobKind(StrEnum):
    """What the values of a knob are."""

    BYTES = "bytes"
    COUNT = "count"
    NUMBER = "number"
    SWITCH = "switch"
    WORD = "word"


@dataclass(frozen=True)
class Knob:
    """One knob: a name, the actions that set it, a kind, and bounds or words."""

    name: str
    actions: tuple[ActionType, ...]
    kind: KnobKind
    about: str
    least: float = 0
    most: float = 0
    words: type[StrEnum] | None = None


def _bytes(name: str, action: ActionType, most: int, about: str, least: int = 0) -> Knob:
    return Knob(name, (action,), KnobKind.BYTES, about, least, most)


def _word(name: str, words: type[StrEnum], about: str, *actions: ActionType) -> Knob:
    return Knob(name, actions, KnobKind.WORD, about, words=words)


def _switch(name: str, action: ActionType, about: str) -> Knob:
    return Knob(name, (action,), KnobKind.SWITCH, about)


_CACHE, _PREFETCH, _STREAM = ActionType.CACHE, ActionType.PREFETCH, ActionType.STREAM
_COORDINATE, _COMPRESS, _PRIORITIZE = ActionType.COORDINATE, ActionType.COMPRESS, ActionType.PRIORITIZE
_COUNT, _NUMBER = KnobKind.COUNT, KnobKind.NUMBER
KNOBS: tuple[Knob, ...] = (
    _switch("should_cache", _CACHE, "Whether the file is kept in the cache."),
    _word("cache_priority", CachePriority, "Whose bytes go first where there is not room for all.", _CACHE),
    _word("cache_place", CachePlace, "Which kind of cache folder the file is kept in.", _CACHE),
    _word("cache_policy", CachePolicy, "What a cache that is short of room keeps.", _CACHE),
    _bytes("prefetch_size", _PREFETCH, GIB, "Bytes that are fetched ahead of a reader within a file."),
    Knob("prefetch_depth", (_PREFETCH,), _COUNT, "Files that are fetched ahead of a reader.", 0, 4096),
    _bytes("kernel_read_ahead", _PREFETCH, 64 * MIB, "The kernel's read-ahead on FUSE mounts."),
    _switch("page_cache_prefetch", _PREFETCH, "Whether the file is read into the page cache when a pod mounts it."),
    _word("strategy", PrefetchStrategy, "How far ahead of the reader bytes are fetched.", _PREFETCH),
    _bytes("chunk_size", _STREAM, 256 * MIB, "Bytes of one request for a part of a large file.", least=64 * KIB),
    Knob("parallel_streams", (_STREAM,), _COUNT, "Requests for parts of one large file at a time.", 1, 64),
    _word("compression", Compression, "Whether a compressed copy is kept in the cache.", _STREAM, _COMPRESS),
    Knob("compression_level", (_COMPRESS,), _COUNT, "Level of zstd.", 1, 19),
    Knob("min_ratio", (_COMPRESS,), _NUMBER, "Least ratio of sizes for which a compressed copy is kept.", 1, 100),
    _switch("divide_cold", _COORDINATE, "Whether nodes that are to have a file divide what is cold among them."),
    _switch(
        "validation_ahead",
        _COORDINATE,
        "Whether validation files come before the first validation without warm-up.",
    ),
    Knob("lane_weight", (_PRIORITIZE,), _COUNT, "Share of the fetcher's requests beside other files.", 1, 100),
    _word("warm_order", WarmOrder, "When the file is warmed up, beside the others of its Dataset.", _PRIORITIZE),
    Knob("bandwidth_share", (_PRIORITIZE,), _NUMBER, "Share of the node's bandwidth that a workload gets.", 0.01, 1),
    _word("level", OptimizationLevel, "How much is spent on being early.", _PRIORITIZE),
    _word("split", Split, "Which part of its Dataset the file belongs to.", _PRIORITIZE),
)
KNOB_BY_NAME = {knob.name: knob for knob in KNOBS}
# What nodes and `stoker mount` turn: these, and those that name sets of them. The others are recommended only.
TURNED_KNOBS = frozenset(
    (
        *("prefetch_size", "prefetch_depth", "parallel_streams", "warm_order", "should_cache"),
        *("compression", "compression_level", "min_ratio"),
        *("lane_weight", "bandwidth_share"),
        *("kernel_read_ahead", "page_cache_prefetch"),
        *("level", "strategy", "cache_policy", "cache_priority"),
        *("validation_ahead", "split", "divide_cold"),
    )
)


def knob_names(action: ActionType) -> list[str]:
    """Return the knobs that an action sets: its parameters."""
    return [knob.name for knob in KNOBS if action in knob.actions]
