"""A window of evidence: what was seen since the last one, until it is enough to vote for a phase."""

from dataclasses import dataclass, field

from stoker_tuning.vocabulary import Split

# Items that close a window, so that two are noticed within 16 items; or a second of evidence where reads are slow.
ITEMS = 8
SECONDS = 1.0


@dataclass(slots=True)
class EvidenceWindow:
    """Counts since ``begun``; None: nothing was seen yet. ``count``: of everything."""

    begun: float | None = None
    count: int = 0
    items: dict[Split, int] = field(default_factory=dict)
    model_reads: int = 0
    model_small_reads: int = 0
    other_reads: int = 0

    def begin(self, seconds: float) -> None:
        """Note the time of the first thing that is seen."""
        if self.begun is None:
            self.begun = seconds

    def due(self, seconds: float) -> bool:
        """Tell whether something that is seen at that time belongs to the next window."""
        return self.begun is not None and seconds - self.begun >= SECONDS

    def item(self, split: Split) -> None:
        """Count a unit of data."""
        self.count += 1
        self.items[split] = self.items.get(split, 0) + 1

    def model(self, *, small: bool) -> None:
        """Count a read of a model file; ``small``: one that goes on nowhere."""
        self.count += 1
        self.model_reads += 1
        self.model_small_reads += small

    def other(self) -> None:
        """Count a read of what the version has not."""
        self.count += 1
        self.other_reads += 1
