"""Which shared libraries a process has loaded, as /proc tells where its processes are seen."""

import os
from pathlib import Path

_PROC = Path("/proc")
# Bytes of a process's list of mappings that are read: some 10,000 of them; a program that trains has some 1,000.
_MOST_BYTES = 1 << 20
_PATH_AT = 5  # the sixth field of a line, which may have spaces in it


def loaded_libraries(pid: int) -> frozenset[str]:
    """Return the paths of the shared libraries that a process has mapped; none when it is gone or not seen.

    They are paths in the process's own mount namespace, and its own choice: whoever wants to can have any name there.
    """
    try:
        with (_PROC / str(pid) / "maps").open("rb") as file:
            return parse_maps(file.read(_MOST_BYTES))
    except OSError:
        return frozenset()


def parse_maps(data: bytes) -> frozenset[str]:
    """Return the paths of shared libraries in the text of /proc/PID/maps. Pure."""
    found = set()
    for line in data.splitlines():
        fields = line.split(None, _PATH_AT)
        if len(fields) > _PATH_AT and b".so" in fields[_PATH_AT]:
            found.add(os.fsdecode(fields[_PATH_AT]))
    return frozenset(found)
