"""The warm files of a dataset on the pod's node; docs/guides/reports.md has the format."""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path

from stoker_client.internal.dataset_files import mount_of

_VARIABLE = "STOKER_REPORT_SOCKET"
_MOST_BYTES = 4 * 1024**2
_NONE = 2**32 - 1


class WarmFiles:
    """Reads the node's file of warm bits. ``paths``: the file of each sample. ``dataset``: the Stoker Dataset.

    ``dataset`` is needed if the pod has several. ``folder`` defaults to that of the pod's report socket.
    """

    def __init__(self, paths: Sequence[str], dataset: str = "", folder: Path | None = None) -> None:
        self._paths = paths
        self._dataset = dataset
        socket = os.environ.get(_VARIABLE, "")
        self._folder = Path(socket).parent if folder is None and socket else folder
        self._header = b""
        self._numbers = array("I")

    def now(self) -> Callable[[int], bool] | None:
        """Return a function that says if a sample is warm now, or None without a node's answer.

        Suppresses file errors.
        """
        try:
            header, bits = self._read()
            if header != self._header or not self._numbers:
                folders = [(str(path), int(count)) for path, count in json.loads(header)["folders"]]
                self._numbers, self._header = self._numbered(folders), header
        except (OSError, ValueError, TypeError, KeyError):
            return None
        return lambda index: _is_set(bits, self._numbers[index])

    def _read(self) -> tuple[bytes, bytes]:
        """Return header and bits. Raises OSError and ValueError."""
        if self._folder is None or not self._paths:
            raise ValueError("no node lists warm files")
        found = [self._folder / f"{self._dataset}.warm"] if self._dataset else list(self._folder.glob("*.warm"))
        if len(found) != 1:
            raise ValueError("it is not known which Dataset is meant: say dataset=")
        with found[0].open("rb") as file:
            header, _, bits = file.read(_MOST_BYTES).partition(b"\n")
        return header, bits

    def _numbered(self, folders: Sequence[tuple[str, int]]) -> array[int]:
        """Return the number of each sample's file in the node's order, or ``_NONE`` if unknown. Raises OSError."""
        mount, _ = mount_of(str(Path(self._paths[0]).parent))
        samples: dict[str, list[int]] = {}
        for index, path in enumerate(self._paths):
            samples.setdefault(os.path.split(path)[0], []).append(index)
        firsts: dict[str, tuple[int, int]] = {}
        number = 0
        for path, count in folders:
            firsts[path] = number, count
            number += count
        numbers = array("I", [_NONE]) * len(self._paths)
        for folder, indices in samples.items():
            at, below = mount_of(folder)
            first, count = firsts.get(below, (0, 0)) if at == mount else (0, 0)
            names = _names(folder)
            if len(names) == count:  # otherwise the node means another folder
                places = {name: first + place for place, name in enumerate(names)}
                for index in indices:
                    numbers[index] = places.get(os.fsencode(os.path.split(self._paths[index])[1]), _NONE)
        return numbers


def _names(folder: str) -> list[bytes]:
    with os.scandir(folder) as entries:
        return sorted(os.fsencode(entry.name) for entry in entries if not entry.is_dir(follow_symlinks=False))


def _is_set(bits: bytes, number: int) -> bool:
    return number >> 3 < len(bits) and bool(bits[number >> 3] >> (number & 7) & 1)
