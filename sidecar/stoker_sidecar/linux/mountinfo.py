"""Reads /proc/<pid>/mountinfo: which mounts lie where, in which order (format: proc_pid_mountinfo(5))."""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_OCTAL = re.compile(r"\\([0-7]{3})")


class Mount(NamedTuple):
    """A mount as one process sees it: one row of its mountinfo.

    ``device`` is "major:minor", ``root`` the folder of the file system that is mounted at ``target``.
    """

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
    r"""Undo the kernel's escapes: it writes space, tab, newline and backslash as \040, \011, \012 and \134."""
    return _OCTAL.sub(lambda match: chr(int(match.group(1), 8)), field)


def parse_line(line: str) -> Mount:
    """Parse one row of mountinfo. Raises ValueError with the row when it has not the documented fields."""
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


def parse(text: str) -> tuple[Mount, ...]:
    """Parse all rows; bottom layer first, as the kernel lists them. Raises ValueError. Pure."""
    # Not splitlines(): a target may hold other characters that Unicode calls line ends.
    return tuple(parse_line(line) for line in text.split("\n") if line)


def read(process: int | str = "self") -> tuple[Mount, ...]:
    """Read the mounts that ``process`` (its pid) sees, bottom layer first. Raises OSError.

    Paths are bytes to the kernel: what is not UTF-8 comes as os.fsdecode gives it, so that os.fsencode gives it back.
    """
    # Not read_text(): it also takes a carriage return in a target for the end of a line.
    return parse(os.fsdecode(Path(f"/proc/{process}/mountinfo").read_bytes()))


def layers(mounts: Iterable[Mount], target: str) -> tuple[Mount, ...]:
    """Pick what is mounted at exactly ``target``, bottom first; the last one is what processes see. Pure."""
    return tuple(mount for mount in mounts if mount.target == target)


def below(mounts: Iterable[Mount], folder: str) -> tuple[Mount, ...]:
    """Pick what is mounted at or under ``folder``, in the kernel's order. Pure."""
    prefix = folder.rstrip("/") + "/"
    return tuple(mount for mount in mounts if (mount.target + "/").startswith(prefix))
