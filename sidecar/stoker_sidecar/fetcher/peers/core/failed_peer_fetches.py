"""Files and pieces that peers failed to give: which node is asked again, and which node fetches instead. Pure."""

from collections.abc import Callable, Collection
from enum import Enum, auto
from typing import NamedTuple

from stoker_sidecar.fetcher.peers.core.division import OWN, PeerSet
from stoker_sidecar.fetcher.peers.core.source_share import TURNS

# Attempts per node for a file or a piece that does not come. Wrong content counts as all of them.
TRIES = 4
# Seconds until a node is asked again, after a failure and after a missing item. They double each time.
_AGAIN, _ABSENT = 0.25, 1.0
# Seconds that nodes wait for the node that replaces a failed giver and fetches from the source.
HEIR = 2.0

# Inode and piece; None: the whole file.
GiftKey = tuple[int, int | None]


class ComesFrom(Enum):
    """The source of a file or a piece."""

    SOURCE = auto()
    OTHERS = auto()
    LATER = auto()  # another node fetches it and can then give it


class _Tried(NamedTuple):
    """Failed attempts at a node, and when the next one is allowed, in seconds of any clock."""

    times: int = 0
    again: float = 0.0


class FailedPeerFetches:
    """Items that did not come, by inode and piece, and the nodes that failed, by host:port.

    ``now``: seconds of any clock.
    """

    def __init__(self) -> None:
        self._tried: dict[GiftKey, dict[str, _Tried]] = {}
        self._given_up: dict[GiftKey, float] = {}  # when a node was first given up, or given a last try
        self._doubted: set[GiftKey] = set()

    def __contains__(self, key: GiftKey) -> bool:
        """Return True if a node failed to give it."""
        return key in self._tried

    def failed(self, key: GiftKey, peer: str, now: float, *, tries: int = 1, absent: bool = False) -> None:
        """Note that a node did not give it.

        ``tries``: the number of attempts that this counts as. ``absent``: the node says that it lacks the item.
        """
        tried = self._tried.setdefault(key, {})
        times = min(TRIES, tried.get(peer, _Tried()).times + tries)
        tried[peer] = _Tried(times, now + (_ABSENT if absent else _AGAIN) * 2 ** (times - 1))
        if times >= TRIES:
            self._given_up.setdefault(key, now)

    def doubted(self, key: GiftKey, peer: str, now: float) -> None:
        """Note that a gift may be wrong. The node may give it once more, if it has it from the source."""
        if key not in self._doubted:
            self._doubted.add(key)
            self._tried.setdefault(key, {})[peer] = _Tried(TRIES - 1, now)
            self._given_up.setdefault(key, now)

    def is_doubted(self, key: GiftKey) -> bool:
        """Return True if it came and may be wrong."""
        return key in self._doubted

    def may_ask(self, key: GiftKey, peer: str, now: float) -> bool:
        """Return True if a node may be asked for it now."""
        tried = self._tried.get(key, {}).get(peer, _Tried())
        return tried.times == 0 or (tried.times < TRIES and now >= tried.again)

    def has_failed(self, key: GiftKey, peer: str) -> bool:
        """Return True if a node failed to give it, or gave a doubted copy."""
        return peer in self._tried.get(key, {})

    def is_given_up(self, key: GiftKey, peer: str) -> bool:
        """Return True if this node stopped asking the peer for it."""
        return self._tried.get(key, {}).get(peer, _Tried()).times >= TRIES

    def comes_from(
        self,
        key: GiftKey,
        turn: int,
        sharers: PeerSet,
        who: Callable[[int], str],
        havers: Collection[str],
        now: float,
    ) -> ComesFrom:
        """Decide where an item comes from that a node failed to give.

        All nodes with the same knowledge choose the same node to fetch it. If another group was to fetch it and no link
        brings it, the nodes of the own group take turns. ``havers``: nodes that report it and may be asked. ``who``:
        the host:port of the node at a position.
        """
        if turn == OWN:
            return ComesFrom.SOURCE
        tried, mine = self._tried.get(key, {}), sharers.is_mine(turn)
        left = [peer for peer in havers if not self.is_given_up(key, peer)]
        if any(peer not in tried for peer in left) or (left and not mine):
            return ComesFrom.OTHERS
        if mine:
            return ComesFrom.SOURCE
        if key not in self._given_up:
            return ComesFrom.LATER
        own_group, is_late = turn < TURNS, now - self._given_up[key] >= HEIR
        if own_group and not (self.is_given_up(key, who(sharers.owner(turn))) or (is_late and key in self._doubted)):
            return ComesFrom.LATER
        heirs = sharers.without({at for at in sharers.alive if self.is_given_up(key, who(at))})
        takes_turn = turn if own_group else (key[0] + (key[1] or 0)) % TURNS
        return ComesFrom.SOURCE if heirs.is_mine(takes_turn) or is_late else ComesFrom.LATER

    def files(self) -> list[int]:
        """Return the inodes of whole files that a node failed to give."""
        return [ino for ino, chunk in self._tried if chunk is None]

    def keep(self, is_missing: Callable[[int], bool]) -> None:
        """Forget items that have arrived."""
        for key in [key for key in self._tried if not is_missing(key[0])]:
            del self._tried[key]
            self._given_up.pop(key, None)
            self._doubted.discard(key)
