"""The share of memory for the page cache before any read. It is zero if memory is short."""

from stoker_sidecar.fetcher.pages.core.page_room import MemoryFigures, page_room
from tests.support.cases import cases

GIB = 2**30


@cases(
    "memory, taken, room",
    (MemoryFigures(64 * GIB, 32 * GIB), 0, 16 * GIB),
    (MemoryFigures(64 * GIB, 32 * GIB), 15 * GIB, GIB),
    (MemoryFigures(64 * GIB, 32 * GIB), 17 * GIB, 0),
    (MemoryFigures(64 * GIB, 6 * GIB), 0, 0),
    (MemoryFigures(64 * GIB, 32 * GIB, pressure=4.9), 0, 16 * GIB),
    (MemoryFigures(64 * GIB, 32 * GIB, pressure=5.0), 0, 0),
    (MemoryFigures(64 * GIB, 32 * GIB, limit=5 * GIB, bound=GIB), 0, 3 * GIB),
    (MemoryFigures(64 * GIB, 32 * GIB, limit=GIB, bound=2 * GIB), 0, 0),
)
def test_what_may_be_taken(memory: MemoryFigures, taken: int, room: int) -> None:
    assert page_room(memory, taken) == room
