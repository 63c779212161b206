"""The files of a version that are still to be warmed, in order: path by path, or else by rank."""

from collections.abc import Iterator

from stoker_sidecar.fetcher.download.chosen_order import ChosenOrder
from stoker_sidecar.fetcher.download.fetching import Fetching
from stoker_sidecar.fetcher.download.warming import MarkedOrder
from stoker_sidecar.version.manifest import Entry


def left_of(fetching: Fetching, marks: bytes, begin: float = 0.0) -> Iterator[Entry]:
    """Yield those of the marked files that are to be warmed and missing: path by path, or else by rank.

    ``begin``: where it begins in each rank, as a part of all inodes; what lies before comes last.
    """
    version, tuning = fetching.version, fetching.tuning
    if version.chosen.selection is not None:
        yield from ChosenOrder(version, version.chosen.selection, marks)
        return
    at = int(begin * len(marks))
    for rank in tuning.ranks:
        of_rank = int.from_bytes(tuning.of_rank(rank, version.manifest.last_ino)) & int.from_bytes(marks)
        ranked = of_rank.to_bytes(len(marks))
        yield from MarkedOrder(version, bytes(at) + ranked[at:])
        if at:
            yield from MarkedOrder(version, ranked[:at].ljust(len(marks), b"\0"))
