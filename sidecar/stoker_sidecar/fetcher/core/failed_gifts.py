"""Files and pieces that other nodes failed to give: who is asked for them again, and who fetches them instead. Pure."""

from collections.abc import Callable, Collection
from enum import Enum, auto
from typing import NamedTuple

from stoker_sidecar.fetcher.core.division import OWN, Sharers
from stoker_sidecar.fetcher.core.source_share import TURNS

# Times that one node is asked for a file or a piece that does not come; what is not what the source says counts as all.
TRIES = 4
# Seconds until it is asked for that again, and where it had it not although it said so; twice as many the next time.
_AGAIN, _ABSENT = 0.25, 1.0
# Seconds for which that node is waited for that fetches it from the source in the place of who failed to give it.
HEIR = 2.0

# Inode and piece; None: the whole file.
GiftKey = tuple[int, int | None]


class ComesFrom(Enum):
    """Where a file or a piece is to come from."""

    SOURCE = auto()
    OTHERS = auto()
    LATER = auto()  # somebody else fetches it, and then has it


class _Tried(NamedTuple):
    """How often a node was asked in vain, and from when on it may be once more, in seconds of any clock."""

    times: int = 0
    again: float = 0.0


class FailedGifts:
    """What did not come, by inode and piece, and from whom, by host:port. ``now``: seconds of any clock."""

    def __init__(self) -> None:
        self._tried: dict[GiftKey, dict[str, _Tried]] = {}
        self._given_up: dict[GiftKey, float] = {}  # since when one of them is asked no more, or once more
        self._doubted: set[GiftKey] = set()

    def __contains__(self, key: GiftKey) -> bool:
        """Tell whether somebody failed to give it."""
        return key in self._tried

    def failed(self, key: GiftKey, peer: str, now: float, *, tries: int = 1, absent: bool = False) -> None:
        """Note that a node did not give it, which counts as so many ``tries``; ``absent``: it says it has it not."""
        tried = self._tried.setdefault(key, {})
        times = min(TRIES, tried.get(peer, _Tried()).times + tries)
        tried[peer] = _Tried(times, now + (_ABSENT if absent else _AGAIN) * 2 ** (times - 1))
        if times >= TRIES:
            self._given_up.setdefault(key, now)

    def doubted(self, key: GiftKey, peer: str, now: float) -> None:
        """Note that what a node gave may be wrong: it may give it once more, if it can be had at first hand there."""
        if key not in self._doubted:
            self._doubted.add(key)
            self._tried.setdefault(key, {})[peer] = _Tried(TRIES - 1, now)
            self._given_up.setdefault(key, now)

    def is_doubted(self, key: GiftKey) -> bool:
        """Tell whether it came and may be wrong."""
        return key in self._doubted

    def may_ask(self, key: GiftKey, peer: str, now: float) -> bool:
        """Tell whether a node is asked for it now."""
        tried = self._tried.get(key, {}).get(peer, _Tried())
        return tried.times == 0 or (tried.times < TRIES and now >= tried.again)

    def has_failed(self, key: GiftKey, peer: str) -> bool:
        """Tell whether a node failed to give it, or gave what is doubted."""
        return peer in self._tried.get(key, {})

    def is_given_up(self, key: GiftKey, peer: str) -> bool:
        """Tell whether a node is asked for it no more."""
        return self._tried.get(key, {}).get(peer, _Tried()).times >= TRIES

    def comes_from(
        self,
        key: GiftKey,
        turn: int,
        sharers: Sharers,
        who: Callable[[int], str],
        havers: Collection[str],
        now: float,
    ) -> ComesFrom:
        """Decide for one that somebody failed to give. ``havers``: those who say that they have it, and may be asked.

        ``who``: the node at a position, by host:port. Who fetches it is the same for all nodes that know the same. Of
        what another group was to fetch, and does not come by a link, the own group's nodes take turns.
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
        """Return the inodes of whole files that somebody failed to give."""
        return [ino for ino, chunk in self._tried if chunk is None]

    def keep(self, is_missing: Callable[[int], bool]) -> None:
        """Forget what is here by now."""
        for key in [key for key in self._tried if not is_missing(key[0])]:
            del self._tried[key]
            self._given_up.pop(key, None)
            self._doubted.discard(key)
