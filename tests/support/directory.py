"""Directory streams as in C programs, because Python's own have neither positions nor rewinding."""

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path


class _Entry(ctypes.Structure):
    """struct dirent of readdir(3)."""

    _fields_ = (
        ("ino", ctypes.c_uint64),
        ("offset", ctypes.c_int64),
        ("length", ctypes.c_ushort),
        ("type", ctypes.c_ubyte),
        ("name", ctypes.c_char * 256),
    )


_libc = ctypes.CDLL(None, use_errno=True)
_libc.opendir.restype = ctypes.c_void_p
_libc.readdir.restype = ctypes.POINTER(_Entry)
_libc.telldir.restype = ctypes.c_long


class Directory:
    """opendir(3). ``close`` closes it. An iterator of names without ``.`` and ``..``. Raises OSError."""

    def __init__(self, path: Path) -> None:
        pointer = _libc.opendir(os.fsencode(path))
        if not pointer:
            raise OSError(ctypes.get_errno(), f"opendir {path}")
        self._stream = ctypes.c_void_p(pointer)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        while True:
            ctypes.set_errno(0)
            entry = _libc.readdir(self._stream)
            if not entry:
                if code := ctypes.get_errno():
                    raise OSError(code, "readdir")
                raise StopIteration
            name = os.fsdecode(entry.contents.name)
            if name not in (".", ".."):
                return name

    def tell(self) -> int:
        """Return the position after the last name."""
        return int(_libc.telldir(self._stream))

    def seek(self, position: int) -> None:
        """Continue from a position that ``tell`` returned."""
        _libc.seekdir(self._stream, ctypes.c_long(position))

    def rewind(self) -> None:
        """Rewind to the first name."""
        _libc.rewinddir(self._stream)

    def close(self) -> None:
        """Close the stream with closedir(3)."""
        _libc.closedir(self._stream)
