"""What an order plug-in is. Whoever writes one needs nothing of Stoker: the names and types here are enough."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

# The group of entry points under which packages name their plug-ins.
ENTRY_POINTS = "stoker.orders"
_MOST_REPEATED = 1_000_000  # of few samples among many ranks


class OrderPlugin(Protocol):
    """Knows the order of one sampler. ``name``: as the entry point is called, and as ``plugin:NAME`` names it.

    It is asked in a process of its own, with a deadline and bounded memory, for any epoch, in any order or not at all.
    """

    name: str

    def order(self, asked: Mapping[str, Any]) -> Iterable[int]:
        """Return the samples of an epoch: the one that rank r of n reads as its k-th comes at place k * n + r.

        ``asked``: ``samples`` (how many there are), ``seed``, ``epoch`` (0 in all epochs where the job says that it
        does not reseed), ``ranks``, ``batch`` (of one rank), ``drop_last``, and ``parameters``, names with texts.
        """
        ...


@dataclass(frozen=True)
class OrderQuestion:
    """What a plug-in is asked for: one epoch's order. ``parameters``: names with texts, as the job has them."""

    samples: int
    seed: int = 0
    epoch: int = 0
    ranks: int = 1
    batch: int = 1
    drop_last: bool = False
    parameters: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, asked: Mapping[str, Any]) -> "OrderQuestion":
        """Return it from what ``mapping`` makes of it."""
        return cls(**{**asked, "parameters": tuple(sorted(asked["parameters"].items()))})

    @property
    def repeats(self) -> int:
        """How often an order may have a sample that it has already: what makes up the last batch of each rank."""
        return min(self.ranks * self.batch, max(self.samples, _MOST_REPEATED))

    @property
    def most(self) -> int:
        """The samples that an order may have, repeated ones counted again."""
        return self.samples + self.repeats

    def mapping(self) -> dict[str, Any]:
        """Return it as plug-ins are given it."""
        return asdict(self) | {"parameters": dict(self.parameters)}
