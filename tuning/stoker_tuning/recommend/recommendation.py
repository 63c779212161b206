"""The recommendation for a file, or for a whole Dataset: a value for every knob, with its source."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stoker_tuning.recommend.named_sets import DEFAULTS, NAMED_SETS, NamedSet, phase_set
from stoker_tuning.rules.facts import Surroundings
from stoker_tuning.rules.merging import GivenValue
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


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Values for the knobs of stoker_tuning.recommend.knobs, which describes them; sizes in bytes."""

    should_cache: bool
    cache_priority: CachePriority
    cache_place: CachePlace
    cache_policy: CachePolicy
    prefetch_size: int
    prefetch_depth: int
    kernel_read_ahead: int
    page_cache_prefetch: bool
    strategy: PrefetchStrategy
    chunk_size: int
    parallel_streams: int
    compression: Compression
    compression_level: int
    min_ratio: float
    divide_cold: bool
    validation_ahead: bool
    lane_weight: int
    warm_order: WarmOrder
    bandwidth_share: float
    level: OptimizationLevel
    split: Split


@dataclass(frozen=True, slots=True)
class Explained:
    """A recommendation, and by the name of each knob the rule, phase, named set or default that gave its value."""

    values: Recommendation
    origins: Mapping[str, GivenValue | str]


class _Filling:
    """Collects values: the first offer for a knob wins."""

    def __init__(self) -> None:
        self.values: dict[str, KnobValue] = {}
        self.origins: dict[str, GivenValue | str] = {}

    def offer(self, origin: str, offered: NamedSet) -> None:
        for knob, value in offered.items():
            if knob not in self.values:
                self.values[knob], self.origins[knob] = value, origin

    def offer_given(self, given: Mapping[str, GivenValue]) -> None:
        for knob, each in given.items():
            self.values[knob], self.origins[knob] = each.value, each

    def offer_named(self) -> None:
        """Offer the sets named by the present values."""
        for knob, sets in NAMED_SETS.items():
            for name, offered in sets.items():
                if self.values.get(knob) == name:
                    self.offer(f"{knob} {name}", offered)


def recommend(given: Mapping[str, GivenValue], surroundings: Surroundings) -> Explained:
    """Fill gaps of the rules' values: from their named sets, then the phase, then the phase's named sets."""
    phase = surroundings.workload.phase or TrainingPhase.UNKNOWN
    filling = _Filling()
    filling.offer_given(given)
    filling.offer_named()
    filling.offer(f"phase {phase}", phase_set(phase, surroundings.access.items_per_second))
    filling.offer_named()
    filling.offer("default", DEFAULTS)
    # The tables hold every knob in its type, which a test checks; a document's values are checked on reading.
    values: dict[str, Any] = filling.values
    return Explained(Recommendation(**values), filling.origins)
