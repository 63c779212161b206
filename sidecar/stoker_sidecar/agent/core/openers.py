"""Whose reads they are: a read of a FUSE server names no process, so it is its who opened the file last. Pure."""

from collections import OrderedDict
from collections.abc import Iterable

from stoker_sidecar.volumes.core.publish import VersionKey
from stoker_sidecar.wire.access_protocol import AccessRow

# Files whose opener is remembered: some hundred KB.
_MOST = 4096


class Openers:
    """The process that opened each file last, of the files that were opened last."""

    def __init__(self) -> None:
        self._pids: OrderedDict[tuple[VersionKey, int], int] = OrderedDict()

    def named(self, version: VersionKey, rows: Iterable[AccessRow]) -> list[AccessRow]:
        """Note the opens among these rows, and return the rows, reads with the opener's pid where it is known."""
        return [self._named(version, row) for row in rows]

    def _named(self, version: VersionKey, row: AccessRow) -> AccessRow:
        key = version, row.ino
        if row.length:
            return row if row.pid else row._replace(pid=self._pids.get(key, 0))
        self._pids[key] = row.pid
        self._pids.move_to_end(key)
        if len(self._pids) > _MOST:
            self._pids.popitem(last=False)
        return row
