"""The published volumes in one JSON file, replaced atomically, so that a restarted agent knows every mount."""

import json
import logging
import os
from pathlib import Path
from typing import Any

from stoker_api.dataset import MountMode
from stoker_api.pod_hints import hint_attributes, read_hints
from stoker_sidecar.volumes.core.publish import Published, PublishRequest

log = logging.getLogger(__name__)

# Raised when a field changes its meaning; a file of another format is moved aside.
FORMAT = 1


class MountTable:
    """The published volumes of a node, by target, remembered across restarts in one JSON file.

    There are a few hundred at most (the kubelet's pod limit), so the file is written whole.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._records = {record.request.target: record for record in _load(path)}

    def get(self, target: Path) -> Published | None:
        """Return the volume that is published at ``target``."""
        return self._records.get(target)

    def all(self) -> tuple[Published, ...]:
        """Return every published volume."""
        return tuple(self._records.values())

    def put(self, record: Published) -> None:
        """Remember a volume; durable when this returns. Raises OSError when the disk refuses."""
        self._save({**self._records, record.request.target: record})

    def remove(self, target: Path) -> None:
        """Forget a volume; no error when it is not there. Raises OSError when the disk refuses."""
        if target in self._records:
            self._save({key: record for key, record in self._records.items() if key != target})

    def _save(self, records: dict[Path, Published]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_suffix(".new")
        with fresh.open("w", encoding="utf-8") as file:
            json.dump({"format": FORMAT, "mounts": [_to_wire(record) for record in records.values()]}, file)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)
        self._records = records


def _load(path: Path) -> list[Published]:
    try:
        wire = json.loads(path.read_text(encoding="utf-8"))
        if wire["format"] != FORMAT:
            raise ValueError(f"format {wire['format']} is not {FORMAT}")
        return [_from_wire(row) for row in wire["mounts"]]
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError) as error:
        # The pods' mounts live on without it, and the kubelet's unpublish calls take them off all the same.
        log.warning(
            "%s cannot be read (%s): it is moved aside, and the mounts in it are no longer mounted again", path, error
        )
        path.replace(path.with_suffix(".unreadable"))
        return []


def _to_wire(record: Published) -> dict[str, Any]:
    asked = record.request
    request = vars(asked) | {"target": str(asked.target), "hints": hint_attributes(asked.hints)}
    return vars(record) | {"request": request, "folder": str(record.folder), "mode": record.mode.value}


def _from_wire(row: dict[str, Any]) -> Published:
    asked = row["request"]
    request = PublishRequest(**asked | {"target": Path(asked["target"]), "hints": read_hints(asked.get("hints"))})
    return Published(**row | {"request": request, "folder": Path(row["folder"]), "mode": MountMode(row["mode"])})
