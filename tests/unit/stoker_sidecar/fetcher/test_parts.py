"""Files in the making, and what is known of them."""

from pathlib import Path

from awscrt.checksums import crc64nvme

from stoker_sidecar.fetcher.download.parts import PartFile
from stoker_sidecar.version.spans import CHUNK

CONTENT = b"ab" * (CHUNK // 2) + b"rest"


def _part(*chunks: int) -> PartFile:
    part = PartFile(Path("part"), 5, len(CONTENT), bytearray(2), kept=True)
    for chunk in chunks:
        data = CONTENT[chunk * CHUNK : (chunk + 1) * CHUNK]
        part.sums[chunk] = crc64nvme(data).to_bytes(8, "big")
    return part


def test_the_checksum_of_a_file_follows_from_its_chunks_in_whatever_order_they_came() -> None:
    assert _part(1, 0).crc64nvme() == crc64nvme(CONTENT).to_bytes(8, "big")


def test_a_chunk_that_an_earlier_process_fetched_leaves_it_unknown() -> None:
    assert _part(1).crc64nvme() is None
