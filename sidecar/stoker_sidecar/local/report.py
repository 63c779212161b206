"""How far a mount is: what its agent reports to the command that started it, in words for people and scripts."""

from enum import StrEnum
from pathlib import Path

from stoker_api.dataset import MountMode
from stoker_api.meta import Model, format_bytes, format_duration
from stoker_api.names import Reason
from stoker_api.nodecache import NodeDatasetStatus, NodePhase
from stoker_api.warm_paths import WarmPathsStatus
from stoker_sidecar.linux.files import replace_text
from stoker_sidecar.local.order_report import OrderReport
from stoker_sidecar.local.tuning_report import TuningReport

_QUOTA = (Reason.QUOTA_EXCEEDED, Reason.QUOTA_TOO_SMALL)
_KEYS = "in the environment or in the profile (--profile)"
_AGAIN = "unmount, and mount again"
_PATH_KEYS = ("files", "bytes", "warmFiles", "warmBytes", "unmatched")
_RULES_IN_A_LINE = 5
# In this order: what comes first may hold what comes later.
_WORDS = (
    ("put its CA into the key ca.crt of the Secret", "name the file of its CA in AWS_CA_BUNDLE"),
    ("renew the Secret, unless a role's keys renew themselves", f"renew it {_KEYS}, then {_AGAIN}"),
    ("in the Secret", _KEYS),
    ("the ServiceAccount's token", "the web identity token"),
    ("to this identity", "to this identity; without credentials, requests are not signed"),
    ("refresh the Dataset", _AGAIN),
    ("the Dataset", "the source"),
    (": look at sampling.files", ""),  # said of --sampling, with what to do
    (
        "have the folder that it leads to named in the chart's value sidecar.hostFolders",
        "mount a folder that holds what it leads to as well",
    ),
    ("this node has no folder", "there is no folder"),
    ("mount it on every selected node", "check its name, and that it is mounted"),
    ("by the sidecar", "by this user"),
    ("raise it with sidecar.memory.pinned", "raise it"),
    ("name it in sidecar.orderPlugins of the chart (docs/PLUGINS.md)", "say it by --sampling"),
    ("the node", "this machine"),
    ("this node", "this machine"),
    ("source.uri", "the URL"),
    ("source.endpoint", "--endpoint"),
    ("source.region", "--region"),
    ("source.exclude", "--exclude"),
    ("cache.quota", "--quota"),
    ("warm.paths", "--warm"),
)


class Stage(StrEnum):
    """How far a mount is: one after the other, but for the last."""

    STARTING = "starting"
    LISTING = "listing"
    MOUNTING = "mounting"
    MOUNTED = "mounted"
    FAILED = "failed"


_STAGES = {
    Stage.STARTING: "starting",
    Stage.LISTING: "listing the source",
    Stage.MOUNTING: "mounting",
    Stage.MOUNTED: "mounted",
    Stage.FAILED: "failed",
}


class Report(Model):
    """What the agent of a mount tells: its stage and figures.

    ``message``: why it failed, a sentence. ``listed``: objects found so far. ``row``: the fetcher's figures.
    ``tuning``: the rules in force. ``order``: whether it is read as --sampling, or who reads it, says.
    ``report_socket``: where that is heard; empty: nobody listens.
    """

    stage: Stage = Stage.STARTING
    message: str = ""
    listed: int = 0
    mode: MountMode | None = None
    row: NodeDatasetStatus | None = None
    tuning: TuningReport = TuningReport()
    order: OrderReport = OrderReport()
    report_socket: str = ""

    @property
    def known(self) -> bool:
        """Return whether the fetcher has said what of the version is on this disk."""
        return self.row is not None and self.row.files > 0

    @property
    def warm(self) -> bool:
        """Return whether it is mounted, and every byte is on this disk."""
        return self.stage is Stage.MOUNTED and self.row is not None and self.row.phase is NodePhase.WARM

    @property
    def paths_warm(self) -> bool:
        """Return whether it is mounted, and all that the paths of --warm name is on this disk."""
        return self.stage is Stage.MOUNTED and self.row is not None and self.row.phase is NodePhase.PATHS_WARM

    @property
    def in_memory(self) -> bool:
        """Return whether what is warm was brought into memory, as far as there is room."""
        return self.row is not None and self.row.pages is not None and self.row.pages.done

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


def stage_words(report: Report) -> str:
    """Return what is being done, such as ``fetching``."""
    if report.stage is Stage.MOUNTED and report.row is not None and report.row.phase is NodePhase.WARMING:
        return "fetching"
    return _STAGES[report.stage]


def _figures(row: NodeDatasetStatus | None) -> str:
    """Return ``12 of 40 files, 1.0 GiB of 3.1 GiB, 210.0 MiB/s, 10s left``; empty before anything is known."""
    if row is None or not row.files:
        return ""
    here = row.warm_paths or row
    parts = [
        f"{here.warm_files} of {here.files} files",
        f"{format_bytes(here.warm_bytes)} of {format_bytes(here.bytes)}",
    ]
    if row.bytes_per_second:
        parts.append(f"{format_bytes(row.bytes_per_second)}/s")
    if row.eta_seconds is not None:
        parts.append(f"{format_duration(row.eta_seconds)} left")
    return ", ".join(parts)


def progress_line(report: Report) -> str:
    """Return all of it in one line, with what is wrong for now."""
    trouble = report.message or (report.row.error.message if report.row is not None and report.row.error else "")
    shown = _figures(report.row) if report.stage is Stage.MOUNTED else ""
    if report.stage is Stage.LISTING and report.listed:
        shown = f"{report.listed} objects so far"
    return ": ".join(part for part in (stage_words(report), shown, trouble) if part)


def progress_event(report: Report) -> dict[str, object]:
    """Return the same for scripts: a flat object, its names as in NodeCache status."""
    keys = ("version", "files", "bytes", "warmFiles", "warmBytes", "fetchedFiles", "bytesPerSecond", "etaSeconds")
    wire = report.row.wire() if report.row is not None else {}
    out: dict[str, object] = {"stage": report.stage.value, "warm": report.warm, "listed": report.listed}
    if report.row is not None and (part := report.row.warm_paths) is not None:
        out["paths"] = {key: part.wire().get(key, 0) for key in _PATH_KEYS} | {"unmatchedPaths": part.unmatched_paths}
    if report.row is not None and report.row.pages is not None:
        out["pages"] = report.row.pages.wire()
    if report.row is not None and report.row.memory is not None:
        out["memory"] = report.row.memory.wire()
    out |= {"mode": report.mode.value} if report.mode is not None else {}
    out |= {key: wire[key] for key in keys if key in wire}
    out |= {"tuning": report.tuning.wire()} if report.tuning != TuningReport() else {}
    out |= {"order": report.order.wire()} if report.order.state else {}
    out |= {"reportSocket": report.report_socket} if report.report_socket else {}
    return out | ({"message": report.message} if report.message else {})


def mounted_line(uri: str, folder: str, report: Report) -> str:
    """Return the last line: ``s3://b/p is mounted at /data (native): 40 files, 3.1 GiB, all on this disk``."""
    row = report.row
    head = f"{uri} is mounted at {folder} ({report.mode or 'fuse'})"
    if row is None or not row.files:
        return head
    kept = "all" if report.warm else format_bytes(row.warm_bytes)
    said = f"{head}: {row.files} files, {format_bytes(row.bytes)}, {kept} on this disk"
    if row.pages is not None and row.pages.done:
        said += f", {format_bytes(row.pages.read_bytes)} of it in memory"
    if report.full:
        said += "; the quota or the disk holds no more, so the rest is read from the source each time"
    if (part := row.warm_paths) is None:
        return said
    files = "1 file" if part.files == 1 else f"{part.files} files"
    named = f"{said}; the paths name {files}, {format_bytes(part.bytes)}"
    return f"{named}; {_unmatched(part)}" if part.unmatched else named


def _unmatched(part: WarmPathsStatus) -> str:
    """Return ``2 paths name nothing: trian, vaal``."""
    count = f"{part.unmatched} paths name" if part.unmatched > 1 else "1 path names"
    more = ", ..." if part.unmatched > len(part.unmatched_paths) else ""
    return f"{count} nothing: {', '.join(part.unmatched_paths)}{more}"


def tuning_line(tuning: TuningReport) -> str:
    """Return ``tuning: rules of mine (2): shards 120 files; line 3, ...: ...``; empty where the built-in rules hold."""
    if not tuning.profile and not tuning.trouble and not tuning.framework:
        return ""
    matched = ", ".join(f"{rule} {files} files" for rule, files in list(tuning.matched.items())[:_RULES_IN_A_LINE])
    head = f"tuning: rules of {tuning.profile} ({tuning.generation})" if tuning.profile else "tuning: built-in rules"
    head += f" for {tuning.framework}" if tuning.framework else ""
    idle = f"nothing turns {', '.join(tuning.not_turned)} yet" if tuning.not_turned else ""
    said = f"{head}: {matched}" if matched else head
    return "; ".join(filter(None, (said, idle, tuning.tuned, tuning.trouble)))


def order_line(order: OrderReport) -> str:
    """Return ``order: Known``, or ``order: Wrong: read 33 was ...``; empty while too little was read to tell."""
    if order.state == "Known":
        return "order: Known, what comes next is ready before it is read"
    return f"order: {order.state}: {order.message}" if order.state == "Wrong" else ""


def heard_line(report: Report) -> str:
    """Return where programs that read the mount are heard; empty where nobody listens."""
    socket = report.report_socket
    return f"who reads it is heard at STOKER_REPORT_SOCKET={socket}" if socket else ""


def for_workstation(message: str) -> str:
    """Put a sentence of stoker_sidecar.errors, which is written for clusters, in a workstation's words."""
    for cluster, workstation in _WORDS:
        message = message.replace(cluster, workstation)
    return message
