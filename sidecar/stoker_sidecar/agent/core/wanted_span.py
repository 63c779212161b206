"""What another node asks for: a whole file, or a piece of one. Pure."""

from collections.abc import Mapping
from typing import NamedTuple, Self

from stoker_sidecar.version.part_files import PIECE


class WantedSpan(NamedTuple):
    """What is asked for: ``length`` bytes from ``offset`` on, of a file of ``size``; ``part``: where it may lie.

    A length and a size of -1: the whole file.
    """

    path: str
    part: str = ""
    offset: int = 0
    length: int = -1
    size: int = -1

    @classmethod
    def read(cls, query: Mapping[str, str]) -> Self | None:
        """Read what is asked for; None: it cannot be meant. Without an offset it is the whole file."""
        if "offset" not in query:
            return cls(query["path"])
        try:
            span = cls(
                query["path"], query.get("part", ""), *(int(query[name]) for name in ("offset", "length", "size"))
            )
        except (KeyError, ValueError):
            return None
        within = span.offset >= 0 and 0 < span.length <= PIECE and span.offset + span.length <= span.size
        return span if within and span.offset % PIECE == 0 else None

    @property
    def piece(self) -> int:
        """Which piece it is."""
        return self.offset // PIECE
