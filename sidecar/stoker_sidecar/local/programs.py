"""Which programs use files below a folder, as /proc tells: a mount that goes would take their data away."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def programs_in(folder: Path, proc: Path = Path("/proc")) -> list[str]:
    """``python (4711)`` for each that has files open or mapped there, or works in it; of those that this user may look at."""
    inside = (str(folder), f"{folder}/")
    found = []
    for process in sorted(proc.glob("[0-9]*"), key=lambda process: int(process.name)):
        if any(path == inside[0] or path.startswith(inside[1]) for path in _paths(process)):
            found.append(f"{_name(process)} ({process.name})")
    return found


def _paths(process: Path) -> Iterator[str]:
    with suppress(OSError):  # another user's, or it has just ended
        for link in (process / "cwd", *(process / "fd").iterdir()):
            with suppress(FileNotFoundError):  # just closed
                yield os.readlink(link)  # noqa: PTH115 -- a Path would lose what is no path, such as pipe:[1]
        for line in (process / "maps").read_text(errors="surrogateescape").splitlines():
            yield line.partition("/")[1] + line.partition("/")[2]


def _name(process: Path) -> str:
    with suppress(OSError):
        return (process / "comm").read_text().strip()
    return "a program"
