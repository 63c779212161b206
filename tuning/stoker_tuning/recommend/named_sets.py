"""Levels, strategies, policies, priorities and phases as named sets of values: the defaults of the vocabulary.

docs/reference/rules.md is generated from these tables. A set defines only the values of its name.
"""

from collections.abc import Mapping
from enum import StrEnum

from stoker_tuning.recommend.knobs import KIB, MIB
from stoker_tuning.rules.spec import KnobValue
from stoker_tuning.vocabulary import (
    CachePlace,
    CachePolicy,
    CachePriority,
    Compression,
    OptimizationLevel,
    PrefetchStrategy,
    Split,
    TrainingPhase,
    WarmOrder,
)

NamedSet = Mapping[str, KnobValue]
# Below this rate, Training uses the Maximum level and the Adaptive strategy.
SLOW_ITEMS_PER_SECOND = 10.0


def _level(size: int, ahead: int, streams: int, *, page_cache: bool) -> NamedSet:
    return {
        "prefetch_size": size,
        "kernel_read_ahead": ahead,
        "parallel_streams": streams,
        "page_cache_prefetch": page_cache,
    }


LEVELS: Mapping[StrEnum, NamedSet] = {
    OptimizationLevel.BASIC: _level(64 * KIB, 128 * KIB, 1, page_cache=False),
    OptimizationLevel.BALANCED: _level(256 * KIB, 128 * KIB, 4, page_cache=False),
    OptimizationLevel.AGGRESSIVE: _level(MIB, 512 * KIB, 8, page_cache=True),
    OptimizationLevel.MAXIMUM: _level(8 * MIB, 2 * MIB, 16, page_cache=True),
}
STRATEGIES: Mapping[StrEnum, NamedSet] = {
    PrefetchStrategy.CONSERVATIVE: {"prefetch_depth": 8},
    PrefetchStrategy.BALANCED: {"prefetch_depth": 64},
    PrefetchStrategy.AGGRESSIVE: {"prefetch_depth": 512},
    PrefetchStrategy.ADAPTIVE: {"prefetch_depth": 128},
}
POLICIES: Mapping[StrEnum, NamedSet] = {
    CachePolicy.NONE: {"should_cache": False, "cache_priority": CachePriority.LOW},
    CachePolicy.LRU: {"should_cache": True, "cache_priority": CachePriority.NORMAL},
    CachePolicy.TRAINING_AWARE: {"should_cache": True},
    CachePolicy.ML: {"should_cache": True, "divide_cold": True},
}
PRIORITIES: Mapping[StrEnum, NamedSet] = {
    CachePriority.LOW: {"lane_weight": 1, "warm_order": WarmOrder.LATE},
    CachePriority.NORMAL: {"lane_weight": 4, "warm_order": WarmOrder.NORMAL},
    CachePriority.HIGH: {"lane_weight": 8, "warm_order": WarmOrder.EARLY},
    CachePriority.URGENT: {"lane_weight": 16, "warm_order": WarmOrder.FIRST},
}


def _names(level: OptimizationLevel, strategy: PrefetchStrategy, policy: CachePolicy) -> dict[str, KnobValue]:
    return {"level": level, "strategy": strategy, "cache_policy": policy}


def _file(size: int, priority: CachePriority, *, cached: bool) -> dict[str, KnobValue]:
    return {"prefetch_size": size, "should_cache": cached, "cache_priority": priority}


_L, _S, _AWARE = OptimizationLevel, PrefetchStrategy, CachePolicy.TRAINING_AWARE
_BALANCED = _names(_L.BALANCED, _S.BALANCED, _AWARE)
_NORMAL = CachePriority.NORMAL
PHASES: Mapping[StrEnum, NamedSet] = {
    TrainingPhase.UNKNOWN: _BALANCED | _file(64 * KIB, _NORMAL, cached=True),
    TrainingPhase.INITIALIZATION: _names(_L.BASIC, _S.CONSERVATIVE, _AWARE) | _file(64 * KIB, _NORMAL, cached=True),
    TrainingPhase.TRAINING: _names(_L.AGGRESSIVE, _S.AGGRESSIVE, _AWARE) | _file(MIB, CachePriority.HIGH, cached=True),
    TrainingPhase.VALIDATION: _BALANCED | _file(256 * KIB, _NORMAL, cached=True),
    TrainingPhase.SAVE_CHECKPOINT: _names(_L.BALANCED, _S.CONSERVATIVE, CachePolicy.ML)
    | _file(0, CachePriority.LOW, cached=False),
    TrainingPhase.EVALUATION: _BALANCED | _file(256 * KIB, _NORMAL, cached=True),
    TrainingPhase.INFERENCE: _BALANCED | _file(256 * KIB, _NORMAL, cached=True),
    TrainingPhase.HYPERPARAM_TUNING: _names(_L.AGGRESSIVE, _S.BALANCED, _AWARE)
    | _file(MIB, CachePriority.HIGH, cached=True),
}
# In Training with a low item rate.
SLOW_TRAINING: NamedSet = _names(_L.MAXIMUM, _S.ADAPTIVE, _AWARE)
# Defaults of values that no set or rule defines.
DEFAULTS: NamedSet = {
    "cache_place": CachePlace.AUTO,
    "chunk_size": 8 * MIB,
    "compression": Compression.AUTO,
    "compression_level": 3,
    "min_ratio": 1.5,
    "divide_cold": True,
    "validation_ahead": False,
    "bandwidth_share": 1.0,
    "split": Split.UNKNOWN,
}
# The sets, by the knob that names them.
NAMED_SETS: Mapping[str, Mapping[StrEnum, NamedSet]] = {
    "level": LEVELS,
    "strategy": STRATEGIES,
    "cache_policy": POLICIES,
    "cache_priority": PRIORITIES,
}


def phase_set(phase: TrainingPhase, items_per_second: float | None) -> NamedSet:
    """Return the values of a phase; a rate below SLOW_ITEMS_PER_SECOND in Training raises level and strategy."""
    slow = items_per_second is not None and items_per_second < SLOW_ITEMS_PER_SECOND
    return {**PHASES[phase], **(SLOW_TRAINING if slow and phase is TrainingPhase.TRAINING else {})}
