"""The remaining large files of a version for one of two nodes, for tests of the sources of pieces."""

from stoker_sidecar.fetcher.ondisk.parts import CHUNK, PartFile
from stoker_sidecar.fetcher.ondisk.piece_maps import PieceMap
from stoker_sidecar.fetcher.peers.core.division import PIECES, PeerSet, VersionTurns
from stoker_sidecar.fetcher.peers.core.source_share import SourceShare
from stoker_sidecar.fetcher.peers.node_division import Division
from stoker_sidecar.fetcher.peers.peer_client import Having
from stoker_sidecar.fetcher.peers.peer_file_fetcher import PeerFileFetcher
from stoker_sidecar.fetcher.peers.peer_inventories import PeerInventories
from stoker_sidecar.fetcher.peers.peer_requests import PeerRequest
from stoker_sidecar.fetcher.peers.pieces_left import PeerSharePlan, PiecesLeft
from tests.support.divided_version import DividedVersion, PlayedPeers
from tests.support.waiting import eventually

A = "a:1"
# Two files of four pieces each, with a short last piece, and a small file.
_LENGTH = 3 * CHUNK + CHUNK // 2
MODELS = {"model-0": bytes(_LENGTH), "model-1": b"\1" * _LENGTH, "small": b"content"}
ALL_OWN = [("model-0", 0), ("model-0", 2), ("model-1", 0), ("model-1", 2)]


class Left:
    """The remaining pieces of the first of two nodes. ``a:1`` is the peer. Pieces alternate: 0, 1, 0, 1."""

    def __init__(self, version: DividedVersion, share: SourceShare | None = None, position: int = 0) -> None:
        self.version = version
        self.division = Division(version.digest, (A,), position, share=share or SourceShare())
        self.client = PlayedPeers(version.gives)
        self.having: PeerInventories = version.others(self.division, self.client)
        self.copies: PeerFileFetcher = version.copies(self.having)
        self.others = PeerSharePlan(self.division, version.clock)
        self.alive = {A}

    async def last_piece(self) -> PartFile:
        """Store the last piece of the first file, so that a read of it starts no prefetch."""
        fetching, entry = self.version.fetching, self.version.entry("model-0")
        await self.version.node.read(self.version.digest, entry.ino, 3 * CHUNK, 3)
        part = fetching.version.parts[entry.ino]
        # A fetch of it ends at once, because it is local.
        await eventually(lambda: part.chunks[3] == 1 and not fetching.is_on_its_way(entry.ino, 3))
        return part

    def pieces(self) -> PiecesLeft:
        manifest = self.version.fetching.version.manifest
        files = bytearray(manifest.last_ino + 1)
        for path in ("model-0", "model-1"):
            files[self.version.entry(path).ino] = PIECES
        turns = VersionTurns(bytes(files), {ino: bytes([0, 1, 0, 1]) for ino, turn in enumerate(files) if turn})
        sharers = PeerSet(self.division.position, 2, {1 - self.division.position})
        return PiecesLeft(self.version.fetching, turns, sharers, sharers.takes(), self.alive, self.others, self.copies)

    def said(self, path: str, pieces: bytes) -> None:
        """Set the peer's inventory of one file."""
        ino = self.version.entry(path).ino
        before = self.having.by_peer.get(A, Having(b"", 1))
        self.having.by_peer[A] = Having(b"", 1, {**before.pieces, ino: PieceMap(f"{ino}.0", pieces)})

    def named(self, wishes: list[PeerRequest]) -> list[tuple[str, int | None]]:
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
