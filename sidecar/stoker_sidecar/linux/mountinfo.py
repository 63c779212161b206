"""Reads /proc/<pid>/mountinfo: which mounts lie where, in which order. Pure: text in, rows out (format: proc_pid_mountinfo(5))."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_OCTAL = re.compile(r"\\([0-7]{3})")


class Mount(NamedTuple):
    """One row. ``device`` is "major:minor", ``root`` the folder of the file system that is mounted at ``target``."""

    mount_id: int
    parent_id: int
    device: str
    root: str
    target: str
    options: tuple[str, ...]
    shared: bool
    fs_type: str
    source: str


def _unescape(field: str) -> str:
    r"""The kernel writes space, tab, newline and backslash as \040, \011, \012 and \134."""
    return _OCTAL.sub(lambda match: chr(int(match.group(1), 8)), field)


def parse_line(line: str) -> Mount:
    """One row of mountinfo. Raises ValueError with the row when it has not the documented fields."""
    fields = line.split(" ")
    try:
        # A variable number of optional fields (shared:N, master:N, ...) ends with a lone hyphen.
        hyphen = fields.index("-", 6)
        fs_type, source = fields[hyphen + 1 : hyphen + 3]
        return Mount(
            mount_id=int(fields[0]),
            parent_id=int(fields[1]),
            device=fields[2],
            root=_unescape(fields[3]),
            target=_unescape(fields[4]),
            options=tuple(fields[5].split(",")),
            shared=any(tag.startswith("shared:") for tag in fields[6:hyphen]),
            fs_type=fs_type,
            source=_unescape(source),
        )
    except (ValueError, IndexError) as error:
        raise ValueError(f"{line!r} is not a row of mountinfo") from error


def parse(text: str) -> Iterator[Mount]:
    """All rows, bottom layer first, as the kernel lists them."""
    # Not splitlines(): a target may hold other characters that Unicode calls line ends.
    return (parse_line(line) for line in text.split("\n") if line)


def layers(text: str, target: str) -> tuple[Mount, ...]:
    """What is mounted at exactly ``target``, bottom first; the last one is what processes see."""
    return tuple(mount for mount in parse(text) if mount.target == target)


def below(text: str, folder: str) -> tuple[Mount, ...]:
    """What is mounted at or under ``folder``, in the kernel's order."""
    return under(parse(text), folder)


def under(mounts: Iterable[Mount], folder: str) -> tuple[Mount, ...]:
    """Those that are mounted at or under ``folder``."""
    prefix = folder.rstrip("/") + "/"
    return tuple(mount for mount in mounts if (mount.target + "/").startswith(prefix))
