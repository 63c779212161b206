"""The digest of a large file is computed during the download, and never from bytes that were replaced."""

from hashlib import md5
from pathlib import Path

import pytest

from stoker_sidecar.errors import CacheDiskFailed
from stoker_sidecar.fetcher.download.proofs import FrontDigests
from stoker_sidecar.fetcher.ondisk.parts import CHUNK, PartFile
from stoker_sidecar.fetcher.ondisk.piece_maps import Gift
from stoker_sidecar.store.core.object_checksum import Checksum

CONTENT = b"a" * CHUNK + b"b" * CHUNK + b"end"
OTHER = b"x" * CHUNK
MD5 = Checksum("md5", b"")


class Coming:
    """A file of three pieces. ``write`` makes one of them arrive."""

    def __init__(self, folder: Path) -> None:
        self.part = PartFile(folder / "7.00000000", 7, len(CONTENT), bytearray(3), kept=True)
        self.part.path.write_bytes(b"")
        self.fronts = FrontDigests()

    async def write(self, chunk: int, content: bytes = CONTENT, *, held: bool = True) -> None:
        with self.part.path.open("r+b") as file:
            file.seek(chunk * CHUNK)
            file.write(content[chunk * CHUNK : (chunk + 1) * CHUNK] if content is CONTENT else content)
        if held:
            self.part.hold(chunk, Gift("a:1"), b"")
        else:
            self.part.chunks[chunk] = 1
        await self.fronts.advance(self.part, MD5)

    async def digest(self) -> bytes:
        return await self.fronts.of(self.part, MD5)


@pytest.fixture
def coming(tmp_path: Path) -> Coming:
    return Coming(tmp_path)


def _of(content: bytes) -> bytes:
    return md5(content, usedforsecurity=False).digest()


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
async def test_it_is_that_of_the_file_in_whatever_order_its_pieces_come(coming: Coming, order: tuple[int, ...]) -> None:
    for chunk in order:
        await coming.write(chunk, held=chunk != 1)
    assert await coming.digest() == _of(CONTENT)


async def test_what_was_read_is_not_read_again(coming: Coming) -> None:
    for chunk in range(3):
        await coming.write(chunk)
    coming.part.path.unlink()
    assert await coming.digest() == _of(CONTENT)


async def test_after_a_piece_was_taken_back_all_is_read_again(coming: Coming) -> None:
    for chunk in (0, 1):
        await coming.write(chunk)
    coming.part.take_back(0)
    await coming.write(0, OTHER)
    await coming.write(2)
    assert await coming.digest() == _of(OTHER + CONTENT[CHUNK:])


async def test_after_pieces_were_doubted_all_is_read_again(coming: Coming) -> None:
    for chunk in range(3):
        await coming.write(chunk)
    coming.part.doubt(Gift("a:1"), {0: b"", 1: b"", 2: b""})
    for chunk in range(3):
        await coming.write(chunk, OTHER if chunk == 0 else CONTENT, held=False)
    assert await coming.digest() == _of(OTHER + CONTENT[CHUNK:])


async def test_a_file_that_is_gone_cannot_be_proven(coming: Coming) -> None:
    for chunk in range(2):
        await coming.write(chunk)
    coming.part.path.unlink()
    coming.part.hold(2, Gift("a:1"), b"")
    with pytest.raises(CacheDiskFailed):
        await coming.digest()


async def test_of_another_file_in_the_making_it_begins_anew(coming: Coming, tmp_path: Path) -> None:
    await coming.write(0, OTHER)
    again = PartFile(tmp_path / "7.11111111", 7, len(CONTENT), bytearray(3), kept=True)
    again.path.write_bytes(CONTENT)
    again.chunks[:] = b"\1\1\1"
    assert await coming.fronts.of(again, MD5) == _of(CONTENT)
