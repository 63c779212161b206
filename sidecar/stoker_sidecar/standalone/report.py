"""How far a mount is: written by the agent, read by the command that started it."""

from enum import StrEnum
from pathlib import Path

from stoker_api.dataset import MountMode
from stoker_api.meta import Model
from stoker_api.nodecache import NodeDatasetStatus, NodePhase
from stoker_sidecar.cache.listing import replace_text


class Stage(StrEnum):
    """In this order, but for the last."""

    STARTING = "starting"
    LISTING = "listing"
    MOUNTING = "mounting"
    MOUNTED = "mounted"
    FAILED = "failed"


class Report(Model):
    """``message``: why it failed, or what is wrong for now; a sentence. ``row``: the fetcher's figures."""

    stage: Stage = Stage.STARTING
    message: str = ""
    mode: MountMode | None = None
    row: NodeDatasetStatus | None = None

    @property
    def warm(self) -> bool:
        """Mounted, and every byte is on this disk."""
        return self.stage is Stage.MOUNTED and self.row is not None and self.row.phase is NodePhase.WARM

    @property
    def stuck(self) -> str:
        """Why it will not become warm by waiting, a sentence; empty while it may."""
        error = self.row.error if self.row is not None else None
        if self.row is None or error is None:
            return ""
        return error.message if self.row.phase is NodePhase.FULL or not error.temporary else ""


def write_report(path: Path, report: Report) -> None:
    """Whole or not at all. Raises OSError."""
    replace_text(path, report.model_dump_json(by_alias=True))


def read_report(path: Path) -> Report:
    """The last report; STARTING before the first."""
    try:
        return Report.model_validate_json(path.read_text())
    except (FileNotFoundError, ValueError):
        return Report()
