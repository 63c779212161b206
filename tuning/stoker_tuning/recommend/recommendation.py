"""The recommendation for a file, or for a whole Dataset: a value for every knob, with its source."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from stoker_tuning.recommend.named_sets import DEFAULT_LEVEL, NAMING_KNOBS, NamedSet, NamedSets
from stoker_tuning.rules.merging import GivenValue
from stoker_tuning.rules.spec import KnobValue
from stoker_tuning.vocabulary import (
    CachePolicy,
    CachePriority,
    Compression,
    OptimizationLevel,
    PrefetchStrategy,
    Split,
    WarmOrder,
)


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Values for the knobs of stoker_tuning.recommend.knobs, which describes them; sizes in bytes, or AUTO."""

    should_cache: bool
    cache_priority: CachePriority
    cache_policy: CachePolicy
    prefetch_size: int | str
    prefetch_depth: int | str
    kernel_read_ahead: int
    page_cache_prefetch: bool
    known_order: bool
    strategy: PrefetchStrategy
    parallel_streams: int | str
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
    """A recommendation, and by the name of each knob the rule or the named set that gave its value."""

    values: Recommendation
    origins: Mapping[str, GivenValue | str]


class _Filling:
    """Collects values: the first offer for a knob wins."""

    def __init__(self, sets: NamedSets) -> None:
        self.values: dict[str, KnobValue] = {}
        self.origins: dict[str, GivenValue | str] = {}
        self._sets = sets
        self._open = list(NAMING_KNOBS)

    def offer_rule(self, given: Iterable[tuple[str, GivenValue]]) -> None:
        """Offer the values of one rule. A set over rules counts at once."""
        named = []
        for knob, each in given:
            if knob not in self.values:
                self.values[knob], self.origins[knob] = each.value, each
                named += [self._set(knob)] if knob in self._open else []
        if any(one.over_rules for one in named):
            self.offer_named()

    def offer_named(self) -> None:
        """Offer the sets named by the present values, and the sets that these name."""
        while knob := next((each for each in self._open if each in self.values), None):
            self._open.remove(knob)
            self.offer(f"{knob} {self.values[knob]}", self._set(knob).values)

    def offer(self, origin: str, values: Mapping[str, KnobValue]) -> None:
        """Offer the values of a set."""
        for name, value in values.items():
            if name not in self.values:
                self.values[name], self.origins[name] = value, origin

    def _set(self, knob: str) -> NamedSet:
        return self._sets[knob][str(self.values[knob])]


def recommend(given: Mapping[str, GivenValue], sets: NamedSets) -> Explained:
    """Fill gaps of the rules' values: from the sets that they name, then from the default level.

    ``given``: by precedence, the values of one rule after those of another.
    """
    filling = _Filling(sets)
    for _, values in groupby(given.items(), key=lambda each: id(each[1].rule)):
        filling.offer_rule(values)
    filling.offer_named()
    filling.offer("default", {"level": DEFAULT_LEVEL})
    filling.offer(f"level {DEFAULT_LEVEL}", sets["level"][DEFAULT_LEVEL].values)
    filling.offer_named()
    # The sets hold every knob in its type, which a test checks; a document's values are checked on reading.
    complete: dict[str, Any] = filling.values
    return Explained(Recommendation(**complete), filling.origins)
