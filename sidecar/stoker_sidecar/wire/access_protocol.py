"""Access reports from the observer and the FUSE servers to the agent, over its socket: packets of JSON.

Standard library only. The socket is SOCK_SEQPACKET. A client first identifies itself. Then the agent gives the observer
trees to watch (their fanotify groups as descriptors), and all clients send batches of accesses. Batches are bounded:
further accesses are counted without details, and the observed share reflects that.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from stoker_sidecar.linux.packets import Packet

# Accesses of one batch. With the longest numbers it stays well below the 64 KiB of a packet.
MOST_ROWS = 500
# The agent's socket, in the folder of the sockets.
SOCKET = "accesses.sock"
OBSERVER = "observer"
FUSE = "fuse"
_MOST_NUMBER = 2**63 - 1


class AccessRow(NamedTuple):
    """One access to a file. ``seconds`` is monotonic time; ``ino`` is the manifest's; bytes start at ``offset``.

    ``length`` 0 means an open. ``pid`` is the reader's; 0: unknown, or in a PID namespace that the node's sidecar does
    not see.
    """

    seconds: float
    ino: int
    offset: int
    length: int
    pid: int


@dataclass(frozen=True)
class AccessBatch:
    """Accesses to one tree from ``since`` to ``until``, in seconds of the monotonic clock.

    ``watch`` is the number of the agent's watch; 0 for a FUSE server, which has reported its version. ``share`` is the
    estimated share of all opens in that time that ``opens`` counts, 0 to 1. ``files`` is the share of the version's
    files that are watched; the rest of ``share`` is a share of time. ``opens``, ``reads`` and ``bytes`` include
    accesses without a row in ``rows``. ``waited`` is the seconds with at least one unanswered read of a FUSE server.
    ``lost`` counts overflows of the kernel's queue and discarded queues.
    """

    watch: int
    since: float
    until: float
    share: float
    opens: int
    reads: int = 0
    bytes: int = 0
    waited: float = 0.0
    lost: int = 0
    rows: Sequence[AccessRow] = ()
    files: float = 1.0

    def packet(self) -> Packet:
        """Return the batch as a packet."""
        return {"op": "accesses", **vars(self), "rows": self.rows}


def parse_batch(packet: Packet) -> AccessBatch:
    """Parse a batch from another process. Raises ValueError with a sentence for an invalid one."""
    rows = packet.get("rows")
    if not isinstance(rows, list) or len(rows) > MOST_ROWS:
        raise ValueError(f"a batch has a list of at most {MOST_ROWS} rows")
    batch = AccessBatch(
        watch=_count(packet, "watch"),
        since=_seconds(packet, "since"),
        until=_seconds(packet, "until"),
        share=_seconds(packet, "share"),
        opens=_count(packet, "opens"),
        reads=_count(packet, "reads"),
        bytes=_count(packet, "bytes"),
        waited=_seconds(packet, "waited"),
        lost=_count(packet, "lost"),
        rows=tuple(_row(row) for row in rows),
        files=_seconds(packet, "files"),
    )
    if (
        max(batch.share, batch.files) > 1.0
        or batch.since > batch.until
        or batch.waited > batch.until - batch.since + 1.0
    ):
        raise ValueError("a batch's share is at most 1, and it does not end before it begins")
    return batch


def is_cpu_share(text: str) -> bool:
    """Return True if a text is a valid share of a core for the observer."""
    try:
        return 0.0001 <= float(text) <= 1.0
    except ValueError:
        return False


def text_of(packet: Packet, name: str) -> str:
    """Return a short text of a packet. Raises ValueError."""
    value = packet.get(name)
    if not isinstance(value, str) or len(value) > 4096:
        raise ValueError(f"{name} must be a text of at most 4096 characters")
    return value


def _row(row: Any) -> AccessRow:
    if not isinstance(row, list) or len(row) != 5:
        raise ValueError("a row of a batch has five numbers")
    seconds, *counts = row
    if not all(type(value) is int and 0 <= value <= _MOST_NUMBER for value in counts):
        raise ValueError("a row of a batch has counts that are not negative")
    return AccessRow(_checked_seconds(seconds, "seconds"), *counts)


def _count(packet: Packet, name: str) -> int:
    value = packet.get(name)
    if type(value) is not int or not 0 <= value <= _MOST_NUMBER:
        raise ValueError(f"{name} must be a count, not {value!r:.80}")
    return value


def _seconds(packet: Packet, name: str) -> float:
    return _checked_seconds(packet.get(name), name)


def _checked_seconds(value: Any, name: str) -> float:
    # No NaN and no infinity, which Python's JSON accepts.
    if type(value) not in (int, float) or not 0 <= value <= 1e12:
        raise ValueError(f"{name} must be a number of seconds, not {value!r:.80}")
    return float(value)
