"""Who reads: the processes of a workload, and whether an access goes on in the file that its reader is in."""

from collections import OrderedDict
from dataclasses import dataclass, field

from stoker_tuning.training.accesses import SeenAccess

_KEPT = 256  # readers, the last used ones


@dataclass
class Readers:
    """The last 256 readers, each with the file and the offset that it is at."""

    _at: OrderedDict[int, tuple[int, int]] = field(default_factory=OrderedDict)

    def follow(self, access: SeenAccess) -> tuple[bool, bool]:
        """Note an access; tell whether its reader read of the same file just before, and whether it goes on there."""
        before = self._at.get(access.reader)
        self._at[access.reader] = access.file, access.offset + access.length
        self._at.move_to_end(access.reader)
        if len(self._at) > _KEPT:
            self._at.popitem(last=False)
        if before is None or before[0] != access.file:
            return False, False
        return True, before[1] == access.offset
