"""The interface of order plug-ins. A plug-in needs nothing from Stoker: these names and types are enough."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

# The entry point group of order plug-ins.
ENTRY_POINTS = "stoker.orders"
_MOST_REPEATED = 1_000_000  # if few samples meet many ranks


class OrderPlugin(Protocol):
    """Computes the order of one sampler. ``name`` is the entry point's name, and the NAME in ``plugin:NAME``.

    It runs in a separate process with a deadline and bounded memory. Calls may ask for any epochs in any sequence.
    """

    name: str

    def order(self, asked: Mapping[str, Any]) -> Iterable[int]:
        """Return the samples of an epoch. The k-th sample of rank r of n is at position k * n + r.

        ``asked`` has ``samples`` (their number), ``seed``, ``epoch`` (always 0 if the job does not reseed), ``ranks``,
        ``batch`` (of one rank), ``drop_last``, and ``parameters``, a mapping of names to texts.
        """
        ...


@dataclass(frozen=True)
class OrderQuestion:
    """The question to a plug-in about one epoch's order. ``parameters`` maps names to texts, as in the job."""

    samples: int
    seed: int = 0
    epoch: int = 0
    ranks: int = 1
    batch: int = 1
    drop_last: bool = False
    parameters: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, asked: Mapping[str, Any]) -> "OrderQuestion":
        """Return the question from its ``mapping``."""
        return cls(**{**asked, "parameters": tuple(sorted(asked["parameters"].items()))})

    @property
    def repeats(self) -> int:
        """Maximum number of repeated samples, which fill the last batch of each rank."""
        return min(self.ranks * self.batch, max(self.samples, _MOST_REPEATED))

    @property
    def most(self) -> int:
        """Maximum length of an order, including repeated samples."""
        return self.samples + self.repeats

    def mapping(self) -> dict[str, Any]:
        """Return the mapping that plug-ins receive."""
        return asdict(self) | {"parameters": dict(self.parameters)}
