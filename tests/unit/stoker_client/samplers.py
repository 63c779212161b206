"""Hypothesis strategies for all kinds of samplers."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from stoker_client import GlobalShuffleSampler, GroupShuffleSampler, QualityRatioSampler, WarmFirstSampler
from stoker_client.sampler import EpochSampler

KINDS = ("global", "group", "warm", "quality")


@dataclass(frozen=True)
class Plan:
    """How to make a sampler."""

    kind: str
    length: int
    seed: int
    world_size: int
    drop_last: bool = False
    groups: int = 1
    reservoir: int = 1
    warm: Callable[[int], bool] | None = None
    ratio: float = 1.0

    def make(self, rank: int = 0, epoch: int = 0) -> EpochSampler:
        """Return the sampler of a rank."""
        place: dict[str, Any] = {
            "seed": self.seed,
            "rank": rank,
            "world_size": self.world_size,
            "drop_last": self.drop_last,
        }
        sampler: EpochSampler
        if self.kind == "group":
            sampler = GroupShuffleSampler(self.length, self.groups, reservoir=self.reservoir, **place)
        elif self.kind == "warm":
            sampler = WarmFirstSampler(self.length, self.warm, **place)
        elif self.kind == "quality":
            sampler = QualityRatioSampler(self.length, self.ratio, self.warm, **place)
        else:
            sampler = GlobalShuffleSampler(self.length, **place)
        sampler.set_epoch(epoch)
        return sampler

    def epoch(self, epoch: int) -> list[list[int]]:
        """Return the indexes that each rank yields in an epoch."""
        return [list(self.make(rank, epoch)) for rank in range(self.world_size)]

    def alone(self) -> "Plan":
        """Return the same plan with one rank."""
        return replace(self, world_size=1)


@st.composite
def plans(draw: st.DrawFn, kinds: tuple[str, ...] = KINDS) -> Plan:
    """Draw a sampler plan."""
    length, world_size = draw(st.integers(1, 300)), draw(st.integers(1, 5))
    share = draw(st.integers(min(1000, -(-1000 * world_size // length)), 1000)) / 1000
    warm = draw(st.sets(st.integers(0, length - 1)))
    return Plan(
        kind=draw(
            st.sampled_from(kinds if length >= world_size else tuple(k for k in kinds if k != "quality") or ("global",))
        ),
        length=length,
        seed=draw(st.integers(-5, 2**40)),
        world_size=world_size,
        drop_last=draw(st.booleans()),
        groups=draw(st.integers(1, 40)),
        reservoir=draw(st.integers(1, 20)),
        warm=draw(st.sampled_from([None, warm.__contains__])),
        ratio=share,
    )
