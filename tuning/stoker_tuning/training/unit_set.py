"""A set of unit numbers as a bitmap that stores only the used pages."""

PAGE_UNITS = 1 << 15  # numbers of a page, which takes 4 KiB
_BIT = PAGE_UNITS - 1


class UnitSet:
    """Numbers of units (files, or chunks of large ones): one bit each, in pages of 4 KiB that are created on demand."""

    __slots__ = ("_count", "_pages")

    def __init__(self) -> None:
        self._pages: dict[int, bytearray] = {}
        self._count = 0

    def add(self, number: int) -> bool:
        """Add a number; return True if it is new."""
        page = self._pages.get(number >> 15)
        if page is None:
            page = self._pages[number >> 15] = bytearray(PAGE_UNITS // 8)
        index, mask = (number & _BIT) >> 3, 1 << (number & 7)
        if page[index] & mask:
            return False
        page[index] |= mask
        self._count += 1
        return True

    def __contains__(self, number: int) -> bool:
        page = self._pages.get(number >> 15)
        return page is not None and bool(page[(number & _BIT) >> 3] & 1 << (number & 7))

    def __len__(self) -> int:
        return self._count

    @property
    def memory(self) -> int:
        """Bytes of the pages."""
        return len(self._pages) * PAGE_UNITS // 8

    def common(self, other: "UnitSet") -> int:
        """Count the numbers in both sets."""
        shared = self._pages.keys() & other._pages.keys()
        return sum(_both(self._pages[key], other._pages[key]).bit_count() for key in shared)

    def update(self, other: "UnitSet") -> None:
        """Add all numbers of another set."""
        for key, page in other._pages.items():
            mine = self._pages.get(key, bytearray(PAGE_UNITS // 8))
            joined = int.from_bytes(mine, "little") | int.from_bytes(page, "little")
            self._count += joined.bit_count() - int.from_bytes(mine, "little").bit_count()
            self._pages[key] = bytearray(joined.to_bytes(PAGE_UNITS // 8, "little"))


def _both(one: bytearray, other: bytearray) -> int:
    return int.from_bytes(one, "little") & int.from_bytes(other, "little")
