"""Reads /proc/<pid>/mountinfo: mount points and their order (format: proc_pid_mountinfo(5))."""

import os
import re
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

_OCTAL = re.compile(r"\\([0-7]{3})")
_UNESCAPED = re.compile(r"[A-Za-z0-9/._~:@=+-]*")  # characters that the kernel never escapes
_OWN = Path("/proc/self/mountinfo")


class Mount(NamedTuple):
    """A mount as one process sees it: one row of its mountinfo.

    ``device`` is "major:minor", and ``root`` the file system's folder that is mounted at ``target``. ``follows`` means
    that mounts and unmounts in another namespace propagate to it.
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
    follows: bool = False


def _unescape(field: str) -> str:
    r"""Undo the kernel's escapes: it writes space, tab, newline and backslash as \040, \011, \012 and \134."""
    return _OCTAL.sub(lambda match: chr(int(match.group(1), 8)), field)


def parse_line(line: str) -> Mount:
    """Parse one row of mountinfo. Raises ValueError with the row if documented fields are missing."""
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
            follows=any(tag.startswith("master:") for tag in fields[6:hyphen]),
        )
    except (ValueError, IndexError) as error:
        raise ValueError(f"{line!r} is not a row of mountinfo") from error


def parse(text: str) -> tuple[Mount, ...]:
    """Parse all rows; bottom layer first, as the kernel lists them. Raises ValueError. Pure."""
    # Not splitlines(): a target may contain other Unicode line ends.
    return tuple(parse_line(line) for line in text.split("\n") if line)


def read(process: int | str = "self") -> tuple[Mount, ...]:
    """Read the mounts of ``process`` (its pid), bottom layer first. Raises OSError.

    Paths are bytes to the kernel: os.fsdecode decodes them, and os.fsencode restores them.
    """
    # Not read_text(): it also treats a carriage return in a target as a line end.
    return parse(os.fsdecode(Path(f"/proc/{process}/mountinfo").read_bytes()))


class SharedReads:
    """Reads a file once for all waiting threads. Each gets a read that started after its request.

    The kernel formats all of a node's mounts at each read, and tenants control their number. ``read`` raises the errors
    of ``read_now``.
    """

    def __init__(self, read_now: Callable[[], bytes] = _OWN.read_bytes) -> None:
        self._read_now = read_now
        self._reading = threading.Lock()
        self._counting = threading.Lock()
        self._begun = 0  # reads
        self.waiting = 0  # callers
        self._last = b""  # bytes of the last read, while a caller waits for them
        self._last_number = 0

    def read(self) -> bytes:
        """Return the file's bytes."""
        with self._counting:
            asked_at = self._begun
            self.waiting += 1
        try:
            with self._reading:
                if self._last_number <= asked_at:
                    self._read_again()
                return self._last
        finally:
            self._leave()

    def _read_again(self) -> None:
        with self._counting:
            self._begun += 1
            number = self._begun
        self._last = self._read_now()
        self._last_number = number

    def _leave(self) -> None:
        with self._counting:
            self.waiting -= 1
            if not self.waiting:
                self._last, self._last_number = b"", 0  # it may have megabytes


_shared = SharedReads()


def read_layers(target: str) -> tuple[Mount, ...]:
    """Read the mounts at exactly ``target`` for this process, bottom first. Raises OSError.

    Other rows are skipped unparsed: with 10,000 mounts this takes a tenth of the time.
    """
    rows = os.fsdecode(_shared.read()).split("\n")
    if _UNESCAPED.fullmatch(target):
        words = f" {target} "
        rows = [row for row in rows if words in row]
    return layers((parse_line(row) for row in rows if row), target)


def layers(mounts: Iterable[Mount], target: str) -> tuple[Mount, ...]:
    """Select the mounts at exactly ``target``, bottom first. The last one is visible to processes. Pure."""
    return tuple(mount for mount in mounts if mount.target == target)


def below(mounts: Iterable[Mount], folder: str) -> tuple[Mount, ...]:
    """Select the mounts at or under ``folder``, in the kernel's order. Pure."""
    prefix = folder.rstrip("/") + "/"
    return tuple(mount for mount in mounts if (mount.target + "/").startswith(prefix))
