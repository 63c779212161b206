"""Writes files as a gzipped tar archive that only its owner may read."""

import io
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path

from stoker_cli.errors import CliError
from stoker_cli.output import printable

_MODE = 0o600


def write_archive(path: Path, folder: str, files: Mapping[str, bytes], at: float) -> int:
    """Write ``files`` below ``folder`` into a new archive. Return its size in bytes. Raises CliError.

    ``at``: time of the files, in seconds since the epoch.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
    except FileExistsError as error:
        raise CliError(f"{printable(str(path))} exists: name another file with -o") from error
    except (OSError, ValueError) as error:
        raise _failed(path, error) from error
    try:
        with os.fdopen(descriptor, "wb") as raw, tarfile.open(fileobj=raw, mode="w:gz") as archive:
            for name, content in files.items():
                archive.addfile(_member(f"{folder}/{name}", len(content), at), io.BytesIO(content))
        return path.stat().st_size
    except OSError as error:
        path.unlink(missing_ok=True)
        raise _failed(path, error) from error


def _member(name: str, size: int, at: float) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mtime, member.mode = size, int(at), _MODE
    return member


def _failed(path: Path, error: Exception) -> CliError:
    return CliError(f"Cannot write {printable(str(path))}: {getattr(error, 'strerror', None) or error}")
