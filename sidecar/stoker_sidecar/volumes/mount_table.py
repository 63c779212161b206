"""The published volumes in one state file, so that a restarted agent knows every mount.

State files have one JSON object with a list of rows, readable by the releases before and after this one. Unknown fields
are ignored, absent ones get their defaults, and a row that cannot be parsed costs only itself. A release that changes
the meaning of a field raises ``minReader``, and older releases refuse the file.
"""

import json
import logging
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter

from stoker_api import names
from stoker_api.jobs.pod_hints import hint_attributes, read_hints
from stoker_sidecar.linux.files import replace_durably
from stoker_sidecar.volumes.core.publish import Published, VersionKey

log = logging.getLogger(__name__)

# Releases up to d853cc78 refuse a file with another format, and have no minReader.
FORMAT = 1
READER = 1

Row = TypeVar("Row")
Wire = Mapping[str, Any]


@dataclass(frozen=True)
class StateFile(Generic[Row]):
    """A state file. ``key`` is the field with the rows. ``parse`` raises ValueError, KeyError or TypeError.

    Rows must have no fields that release d853cc78 does not know, because it refuses them. It ignores unknown top-level
    fields, and unknown keys of a row's ``hints``.
    """

    path: Path
    key: str
    parse: Callable[[Wire], Row]
    write: Callable[[Row], Wire]

    def load(self) -> tuple[Row, ...]:
        """Return the rows that can be read. A copy of a file with damage is kept next to it. Blocks."""
        try:
            rows = _rows(self.path.read_text(encoding="utf-8"), self.key)
        except FileNotFoundError:
            return ()
        except (OSError, ValueError, KeyError, TypeError) as error:
            self._set_aside(f"it cannot be read ({error})")
            return ()
        parsed = [self._parsed(row) for row in rows]
        errors = [error for _, error in parsed if error is not None]
        if errors:
            self._set_aside(f"{len(errors)} of its {len(rows)} rows cannot be read ({errors[0]})")
        return tuple(row for row, _ in parsed if row is not None)

    def save(self, rows: Iterable[Row]) -> None:
        """Replace the file; it survives a power cut when this returns. Blocks. Raises OSError: the old one stays."""
        body = {"format": FORMAT, "minReader": FORMAT, self.key: [self.write(row) for row in rows]}
        replace_durably(self.path, json.dumps(body))

    def _parsed(self, row: Any) -> tuple[Row | None, Exception | None]:
        try:
            if not isinstance(row, dict):
                raise TypeError("a row is not a JSON object")
            return self.parse(row), None
        except (ValueError, KeyError, TypeError) as error:
            return None, error

    def _set_aside(self, why: str) -> None:
        aside = self.path.with_suffix(".unreadable")
        log.warning(
            "the state file %s is damaged, and a copy is kept as %s: %s", self.path, aside, " ".join(why.split())[:300]
        )
        with suppress(OSError):
            shutil.copyfile(self.path, aside)


def _rows(text: str, key: str) -> list[Any]:
    wire = json.loads(text)
    if not isinstance(wire, dict):
        raise TypeError("it is not a JSON object")
    needed = wire.get("minReader", wire["format"])
    if not isinstance(needed, int) or needed > READER:
        raise ValueError(f"it needs a reader of format {needed!r}, and this release reads {READER}")
    rows = wire[key]
    if not isinstance(rows, list):
        raise TypeError(f"{key} is not a list")
    return rows


_PUBLISHED = TypeAdapter(Published)


class MountTable:
    """The published volumes of a node by target, stored in one JSON file across restarts.

    There are at most a few hundred (the kubelet's pod limit), so each write replaces the whole file.
    """

    def __init__(self, path: Path) -> None:
        self._file = StateFile(path, "mounts", _from_wire, _to_wire)
        self._records = {record.request.target: record for record in self._file.load()}

    def get(self, target: Path) -> Published | None:
        """Return the volume that is published at ``target``."""
        return self._records.get(target)

    def all(self) -> tuple[Published, ...]:
        """Return every published volume."""
        return tuple(self._records.values())

    def put(self, record: Published) -> None:
        """Store a volume durably. Raises OSError on a disk error."""
        self._save({**self._records, record.request.target: record})

    def adopt(self, records: Iterable[Published]) -> None:
        """Store volumes that are already mounted. Raises OSError on a disk error, but keeps them in memory."""
        self._records |= {record.request.target: record for record in records}
        self._save(self._records)

    def remove(self, target: Path) -> None:
        """Remove a volume; a missing one is no error. Raises OSError on a disk error."""
        if target in self._records:
            self._save({key: record for key, record in self._records.items() if key != target})

    def _save(self, records: dict[Path, Published]) -> None:
        self._file.save(records.values())
        self._records = records


class UnknownMounts:
    """Pod mounts with an unknown version. While one exists, every version found at the start is held."""

    def __init__(self, targets: Collection[Path] = (), versions: Collection[VersionKey] = ()) -> None:
        self._targets = set(targets)
        self._versions = frozenset(versions)

    def __bool__(self) -> bool:
        return bool(self._targets)

    def gone(self, target: Path) -> None:
        """Note that the old mount at ``target`` is gone."""
        self._targets.discard(target)

    def held(self) -> frozenset[VersionKey]:
        """Return the versions that must stay on the disk."""
        return self._versions if self._targets else frozenset()


def _to_wire(record: Published) -> dict[str, Any]:
    asked = record.request
    hints = hint_attributes(asked.hints)
    if asked.user_namespace:  # among the hints, because older releases refuse a row with an unknown field
        hints[names.CSI_ATTRIBUTE_USER_NAMESPACE] = "true"
    if asked.scratch_bytes:
        hints[names.CSI_ATTRIBUTE_SCRATCH] = str(asked.scratch_bytes)
    request = vars(asked) | {"target": str(asked.target), "hints": hints}
    del request["user_namespace"], request["scratch_bytes"]
    return vars(record) | {"request": request, "folder": str(record.folder), "mode": record.mode.value}


def _from_wire(row: Mapping[str, Any]) -> Published:
    asked = {**row["request"]}
    hints = asked.get("hints")
    kept = hints if isinstance(hints, dict) else {}
    mapped = kept.get(names.CSI_ATTRIBUTE_USER_NAMESPACE) == "true"
    scratch = int(kept.get(names.CSI_ATTRIBUTE_SCRATCH, 0))
    request = {**asked, "hints": read_hints(hints), "user_namespace": mapped, "scratch_bytes": scratch}
    return _PUBLISHED.validate_python({**row, "request": request})
