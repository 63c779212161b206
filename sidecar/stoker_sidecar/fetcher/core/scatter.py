"""How much of a version to fetch ahead of readers that jump all over it, as an epoch in random order does.

Hits leave no trace here (an overlay answers them in the kernel), so they are reckoned from the misses: readers who take files
at random find as large a share of them here as there is of all that they have not read yet.
"""

from dataclasses import dataclass

# As much is ahead as was asked for; twice as much once that is a tenth of the version, and so on: who has read a tenth at
# random will hardly leave off. An epoch then waits for 15 % of its files (31 % without this, 19 % at twice as much always).
_TRUST = 10
# Bytes that a request counts for beside its body: else a reader of one image would have a thousand labels fetched for it.
_REQUEST = 16 * 1024


def weight(size: int, files: int = 1) -> int:
    """What ``files`` files of ``size`` bytes in all count for."""
    return size + files * _REQUEST


@dataclass
class Scatter:
    """Of one version; everything is a `weight`. ``total``: all of it; ``most``: what may be on its way ahead of readers at a time.

    ``asked``: what readers are presumed to have asked for; ``ahead``: what was fetched and no reader is presumed to have come to.
    """

    total: int
    most: int
    asked: float = 0.0
    ahead: float = 0.0
    on_its_way: int = 0

    def missed(self, size: int, missing: int) -> None:
        """A reader asked for a file that was not here, as ``missing`` of the version is not."""
        met = self.ahead * min(1.0, size / max(1, missing))
        self.ahead -= met
        self.asked += size + met

    @property
    def room(self) -> int:
        """How much more to fetch now."""
        wanted = self.asked * (1 + _TRUST * self.asked / max(1, self.total))
        return int(min(wanted - self.ahead, self.most - self.on_its_way))

    def started(self, size: int) -> None:
        """A file is on its way ahead of readers."""
        self.ahead += size
        self.on_its_way += size

    def landed(self, size: int, *, here: bool) -> None:
        """It has come, or it has not."""
        self.on_its_way -= size
        if not here:
            self.ahead = max(0.0, self.ahead - size)
