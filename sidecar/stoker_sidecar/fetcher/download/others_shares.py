"""What other nodes say that they fetch of large files, and what they have yet to: so that nobody fetches it twice."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from stoker_sidecar.fetcher.core.division import COMING, not_begun, places_of, takes
from stoker_sidecar.fetcher.core.source_pace import helped
from stoker_sidecar.fetcher.download.neighbours import Having
from stoker_sidecar.fetcher.download.node_division import PATIENCE, Division
from stoker_sidecar.fetcher.download.parts import CHUNK, chunk_count
from stoker_sidecar.fetcher.download.wishes import Wish, WishKey
from stoker_sidecar.version.manifest import Entry

# Pieces that a node has yet to begin, of those that are looked for: the last of them is far enough from the first.
_ENOUGH = 64
# Bytes of one that another node helps with. A smaller one is over before all have heard that it begins: to whoever
# counts it the piece behind it is not the next one.
_LEAST = CHUNK // 2


@dataclass
class OthersShares:
    """The shares of those that divide a version with this node. ``clock``: seconds.

    ``havings`` everywhere: what those say that get on, by host:port.
    """

    division: Division
    clock: Callable[[], float]
    _claimed: dict[WishKey, float] = field(default_factory=dict)  # since when somebody says that a piece comes to it

    def coming(self, entry: Entry, havings: Mapping[str, Having]) -> list[bool]:
        """Tell of each piece of a file whether its source sends it to another node.

        Who says so is believed for a while only: it would keep this node waiting.
        """
        now, count = self.clock(), chunk_count(entry.size)
        found = [False] * count
        for having in havings.values():
            for chunk in places_of(having.of(entry.ino, count)[:count], COMING):
                found[chunk] = now - self._claimed.setdefault((entry.ino, chunk), now) < PATIENCE
        return found

    def yet_to_begin(
        self,
        entries: Iterable[Entry],
        turns: Mapping[int, bytes],
        here: Callable[[Entry], bytes],
        havings: Mapping[str, Having],
        is_believed: Callable[[str], bool],
    ) -> Wish | None:
        """Return a piece that its node has yet to ask the source for, so that another may; None: there are too few.

        One of the last of the ``entries``, since that node goes on from the first. ``turns``: of pieces, by inode.
        ``here``: of a file, a byte a piece, 1 where it is here or on its way. ``is_believed``: whose word is enough:
        one may long have what it says it has yet to begin.
        """
        peers = {at: peer for at, peer in self.division.others.items() if peer in havings}
        nodes, alive = len(self.division.peers) + 1, {*peers, self.division.position}
        shares = {at: takes(at, nodes, alive) for at, peer in peers.items() if is_believed(peer)}
        left: dict[int, list[Wish]] = {at: [] for at in shares}
        for entry in entries:
            count, at_hand = chunk_count(entry.size), here(entry)
            said = [having.of(entry.ino, count) for having in havings.values()]
            for at, share in shares.items():
                marked = not_begun(turns.get(entry.ino, b""), share, at_hand, said)
                wishes = (Wish(entry, chunk) for chunk in places_of(marked, 1))
                left[at] += (wish for wish in wishes if wish.span[1] >= _LEAST)
            if max(map(len, left.values()), default=0) >= _ENOUGH:
                break
        chosen = helped({at: len(wishes) for at, wishes in left.items()}, self.division.position, nodes)
        return left[chosen[0]][-chosen[1]] if chosen is not None else None
