"""What is left of the large files of a version for one of two nodes, for tests of which pieces come from where."""

from stoker_sidecar.fetcher.core.division import PIECES, Sharers, VersionTurns
from stoker_sidecar.fetcher.core.source_share import SourceShare
from stoker_sidecar.fetcher.download.given_copies import GivenCopies
from stoker_sidecar.fetcher.download.neighbours import Having
from stoker_sidecar.fetcher.download.node_division import Division
from stoker_sidecar.fetcher.download.others_having import OthersHaving
from stoker_sidecar.fetcher.download.others_shares import OthersShares
from stoker_sidecar.fetcher.download.parts import CHUNK, PartFile
from stoker_sidecar.fetcher.download.pieces_left import PiecesLeft
from stoker_sidecar.fetcher.download.wishes import Wish
from stoker_sidecar.version.piece_maps import PieceMap
from tests.support.divided_version import DividedVersion, PlayedNeighbours
from tests.support.waiting import eventually

A = "a:1"
# Two files of four pieces each, of which the last one is short, and a small file beside them.
_LENGTH = 3 * CHUNK + CHUNK // 2
MODELS = {"model-0": bytes(_LENGTH), "model-1": b"\1" * _LENGTH, "small": b"content"}
ALL_OWN = [("model-0", 0), ("model-0", 2), ("model-1", 0), ("model-1", 2)]


class Left:
    """What is left to the first of two nodes, where ``a:1`` is the other; pieces take turns 0, 1, 0, 1."""

    def __init__(self, version: DividedVersion, share: SourceShare | None = None, position: int = 0) -> None:
        self.version = version
        self.division = Division(version.digest, (A,), position, share=share or SourceShare())
        self.neighbours = PlayedNeighbours(version.gives)
        self.having: OthersHaving = version.others(self.division, self.neighbours)
        self.copies: GivenCopies = version.copies(self.having)
        self.others = OthersShares(self.division, version.clock)
        self.alive = {A}

    async def last_piece(self) -> PartFile:
        """Have the last piece of the first file here: nothing is fetched ahead of who reads that."""
        fetching, entry = self.version.fetching, self.version.entry("model-0")
        await self.version.node.read(self.version.digest, entry.ino, 3 * CHUNK, 3)
        part = fetching.version.parts[entry.ino]
        # Who brings it has an end to come to once it is here.
        await eventually(lambda: part.chunks[3] == 1 and not fetching.is_on_its_way(entry.ino, 3))
        return part

    def pieces(self) -> PiecesLeft:
        manifest = self.version.fetching.version.manifest
        files = bytearray(manifest.last_ino + 1)
        for path in ("model-0", "model-1"):
            files[self.version.entry(path).ino] = PIECES
        turns = VersionTurns(bytes(files), {ino: bytes([0, 1, 0, 1]) for ino, turn in enumerate(files) if turn})
        sharers = Sharers(self.division.position, 2, {1 - self.division.position})
        return PiecesLeft(self.version.fetching, turns, sharers, sharers.takes(), self.alive, self.others, self.copies)

    def said(self, path: str, pieces: bytes) -> None:
        """Have the other node say this of one file."""
        ino = self.version.entry(path).ino
        before = self.having.by_peer.get(A, Having(b"", 1))
        self.having.by_peer[A] = Having(b"", 1, {**before.pieces, ino: PieceMap(f"{ino}.0", pieces)})

    def named(self, wishes: list[Wish]) -> list[tuple[str, int | None]]:
        path_of = self.version.fetching.version.manifest.path_of
        return [(path_of(entry), chunk) for entry, chunk in wishes]

    @property
    def own(self) -> list[tuple[str, int | None]]:
        return self.named([*self.pieces().own()])

    @property
    def given(self) -> list[tuple[str, int | None]]:
        return self.named([*self.pieces().given()])

    def yet_to_begin(self, most: int = 10) -> tuple[str, int | None] | None:
        found = self.pieces().yet_to_begin(most)
        return None if found is None else self.named([found])[0]
