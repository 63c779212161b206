"""How far a mount is: written by the agent, read by the command that started it."""

from enum import StrEnum
from pathlib import Path

from stoker_api.dataset import MountMode
from stoker_api.meta import Model
from stoker_api.names import Reason
from stoker_api.nodecache import NodeDatasetStatus, NodePhase
from stoker_sidecar.linux.files import replace_text

_QUOTA = (Reason.QUOTA_EXCEEDED, Reason.QUOTA_TOO_SMALL)


class Stage(StrEnum):
    """How far a mount is: one after the other, but for the last."""

    STARTING = "starting"
    LISTING = "listing"
    MOUNTING = "mounting"
    MOUNTED = "mounted"
    FAILED = "failed"


class Report(Model):
    """What the agent of a mount tells: its stage and figures.

    ``message``: why it failed, a sentence. ``listed``: objects found so far. ``row``: the fetcher's figures.
    """

    stage: Stage = Stage.STARTING
    message: str = ""
    listed: int = 0
    mode: MountMode | None = None
    row: NodeDatasetStatus | None = None

    @property
    def warm(self) -> bool:
        """Return whether it is mounted, and every byte is on this disk."""
        return self.stage is Stage.MOUNTED and self.row is not None and self.row.phase is NodePhase.WARM

    @property
    def full(self) -> bool:
        """Return whether it is mounted, and quota or disk hold no more: the rest is read through."""
        if self.stage is not Stage.MOUNTED or self.row is None:
            return False
        error = self.row.error
        return self.row.phase is NodePhase.FULL or (error is not None and error.reason in _QUOTA)

    @property
    def stuck(self) -> str:
        """Return why files cannot be fetched, however long one waits: a sentence, empty while they may."""
        error = self.row.error if self.row is not None else None
        return error.message if error is not None and not error.temporary and not self.full else ""


def write_report(path: Path, report: Report) -> None:
    """Write the report, whole or not at all. Raises OSError."""
    replace_text(path, report.model_dump_json(by_alias=True))


def read_report(path: Path) -> Report:
    """Return the last report; STARTING before the first."""
    try:
        return Report.model_validate_json(path.read_text())
    except (FileNotFoundError, ValueError):
        return Report()
