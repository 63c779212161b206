"""A mount's progress: the agent's report to the command, formatted for people and scripts."""

from enum import StrEnum
from pathlib import Path

from stoker_api.datasets.dataset import MountMode
from stoker_api.datasets.dataset_status import SkippedKeys, skipped_sentence, unreadable_sentence
from stoker_api.datasets.warm_paths import WarmPathsStatus
from stoker_api.meta import Model, format_bytes, format_duration
from stoker_api.names import Reason
from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus, NodeError, NodePhase
from stoker_sidecar.linux.files import replace_text
from stoker_sidecar.local.reports.report_parts import OrderReport, TuningReport

_CHANGED = (Reason.SOURCE_CHANGED, Reason.OBJECT_GONE)
_QUOTA = (Reason.QUOTA_EXCEEDED, Reason.QUOTA_TOO_SMALL)
_KEYS = "in the environment or in the profile (--profile)"
_NO_ROLE = "no credentials were found in the environment, ~/.aws, SSO or the node's role"
_NO_KEYS = (
    "no credentials were found in the environment, ~/.aws, SSO or this machine's role: set AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY, or give --profile"
)
_AGAIN = "unmount, and mount again"
_PATH_KEYS = ("files", "bytes", "warmFiles", "warmBytes", "unmatched")
_RULES_IN_A_LINE = 5
# In this order: earlier phrases may contain later ones.
_WORDS = (
    ("put its CA into the key ca.crt of the Secret", "name the file of its CA in AWS_CA_BUNDLE"),
    ("renew the Secret, unless a role's keys renew themselves", f"renew it {_KEYS}, then {_AGAIN}"),
    ("in the Secret", _KEYS),
    ("the ServiceAccount's token", "the web identity token"),
    (f"{_NO_ROLE}: name a Secret or a ServiceAccount in source.credentials", _NO_KEYS),
    ("refresh the Dataset", _AGAIN),
    ("the Dataset", "the source"),
    (": look at sampling.files", ""),  # from --sampling, with advice
    (
        "have the folder that it leads to named in the chart's value sidecar.hostFolders",
        "mount a folder that holds what it leads to as well",
    ),
    ("this node has no folder", "there is no folder"),
    ("mount it on every selected node", "check its name, and that it is mounted"),
    ("by the sidecar", "by this user"),
    ("raise it with sidecar.memory.pinned", "raise it"),
    ("name it in sidecar.orderPlugins of the chart (docs/guides/plugins.md)", "say it by --sampling"),
    ("the node", "this machine"),
    ("this node", "this machine"),
    ("source.uri", "the URL"),
    ("source.endpoint", "--endpoint"),
    ("source.region", "--region"),
    ("source.exclude", "--exclude"),
    ("source.include", "--include"),
    ("cache.quota", "--quota"),
    ("warm.paths", "--warm"),
)


class Stage(StrEnum):
    """The stages of a mount in order. ``FAILED`` ends it."""

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
    """The report of a mount's agent: its stage and figures.

    ``message`` is the reason of a failure, a sentence. ``listed`` is the number of objects found so far. ``row`` has
    the fetcher's figures. ``tuning`` has the rules in force. ``order`` is the state of the order from --sampling or a
    reader. ``report_socket`` is the socket for reports; empty: nothing listens.
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
        """Return True if the fetcher has reported which files of the version are on this disk."""
        return self.row is not None and self.row.files > 0

    @property
    def warm(self) -> bool:
        """Return True if it is mounted, and every byte is on this disk."""
        return self.stage is Stage.MOUNTED and self.row is not None and self.row.phase is NodePhase.WARM

    @property
    def paths_warm(self) -> bool:
        """Return True if it is mounted, and all files of --warm's paths are on this disk."""
        return self.stage is Stage.MOUNTED and self.row is not None and self.row.phase is NodePhase.PATHS_WARM

    @property
    def in_memory(self) -> bool:
        """Return True if warm files were read into memory, within the available space."""
        return self.row is not None and self.row.pages is not None and self.row.pages.done

    @property
    def full(self) -> bool:
        """Return True if it is mounted, and quota or disk are full: the rest is read through."""
        if self.stage is not Stage.MOUNTED or self.row is None:
            return False
        error = self.row.error
        return (self.row.phase is NodePhase.FULL and not self.unreadable) or (
            error is not None and error.reason in _QUOTA
        )

    @property
    def unreadable(self) -> str:
        """Return the unreadable objects in a sentence, once all other files are on this disk; else empty."""
        error = self.row.error if self.row is not None else None
        if self.stage is not Stage.MOUNTED or self.row is None or error is None:
            return ""
        refused = self.row.phase is NodePhase.FULL and _is_unreadable(error)
        # Changed since the listing, which is part of the mount. A node fetches all other files before it is Failed.
        changed = self.row.phase is NodePhase.FAILED and error.reason in _CHANGED and self.row.warm_files > 0
        return error.message if refused or (changed and not error.temporary) else ""

    @property
    def skipped(self) -> tuple[SkippedKeys, ...]:
        """Return the source's keys that cannot be files; empty if another listing than the last one is mounted."""
        listing = self.row.listing if self.row is not None else None
        same = listing is not None and self.row is not None and listing.version == self.row.version
        return listing.skipped if listing is not None and same else ()

    @property
    def incomplete(self) -> bool:
        """Return True if the source refuses files or cannot list them, once all other files are on this disk."""
        return bool(self.unreadable or unreadable_sentence(self.skipped))

    @property
    def stuck(self) -> str:
        """Return why files can never be fetched, a sentence; empty while they may be."""
        error = self.row.error if self.row is not None else None
        if error is None or error.temporary or self.full or _is_unreadable(error) or self.unreadable:
            return ""
        return error.message


def _is_unreadable(error: NodeError | None) -> bool:
    return error is not None and error.reason == Reason.UNREADABLE_OBJECTS


def write_report(path: Path, report: Report) -> None:
    """Write the report atomically. Raises OSError."""
    replace_text(path, report.model_dump_json(by_alias=True))


def read_report(path: Path) -> Report:
    """Return the last report; STARTING before the first."""
    try:
        return Report.model_validate_json(path.read_text())
    except (FileNotFoundError, ValueError):
        return Report()


def stage_words(report: Report) -> str:
    """Return the current activity, such as ``fetching``."""
    if report.stage is Stage.MOUNTED and report.row is not None and report.row.phase is NodePhase.WARMING:
        return "fetching"
    return _STAGES[report.stage]


def _figures(row: NodeDatasetStatus | None) -> str:
    """Return ``12 of 40 files, 1.0 GiB of 3.1 GiB, 210.0 MiB/s, 10s left``; empty without figures."""
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
    """Return the progress in one line, with the current error."""
    trouble = report.message or (_trouble(report.row) if report.row is not None else "")
    shown = _figures(report.row) if report.stage is Stage.MOUNTED else ""
    if report.stage is Stage.LISTING and report.listed:
        shown = f"{report.listed} objects so far"
    return ": ".join(part for part in (stage_words(report), shown, trouble) if part)


def _trouble(row: NodeDatasetStatus) -> str:
    error = row.error or (row.listing.error if row.listing is not None else None)
    return error.message if error is not None else ""


def progress_event(report: Report) -> dict[str, object]:
    """Return the progress for scripts: a flat object, with names as in NodeCache status."""
    keys = ("version", "files", "bytes", "warmFiles", "warmBytes", "fetchedFiles", "bytesPerSecond", "etaSeconds")
    wire = report.row.wire() if report.row is not None else {}
    out: dict[str, object] = {"stage": report.stage.value, "warm": report.warm, "listed": report.listed}
    if report.row is not None and (part := report.row.warm_paths) is not None:
        out["paths"] = {key: part.wire().get(key, 0) for key in _PATH_KEYS} | {"unmatchedPaths": part.unmatched_paths}
    if report.row is not None and report.row.pages is not None:
        out["pages"] = report.row.pages.wire()
    if report.row is not None and report.row.memory is not None:
        out["memory"] = report.row.memory.wire()
    out |= {"skipped": [row.wire() for row in report.skipped]} if report.skipped else {}
    out |= {"unreadable": report.unreadable} if report.unreadable else {}
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
        return head + for_workstation(skipped_sentence(report.skipped))
    kept = "all" if report.warm else format_bytes(row.warm_bytes)
    said = f"{head}: {row.files} files, {format_bytes(row.bytes)}, {kept} on this disk"
    if row.pages is not None and row.pages.done:
        said += f", {format_bytes(row.pages.read_bytes)} of it in memory"
    if report.full:
        said += "; the quota or the disk is full, so the rest is read from the source each time"
    if report.unreadable:
        said += f"; {report.unreadable}"
    said += for_workstation(skipped_sentence(report.skipped))
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
    """Return ``tuning: rules of mine (2): shards 120 files; line 3, ...: ...``; empty for the built-in rules."""
    if not tuning.profile and not tuning.trouble and not tuning.framework:
        return ""
    matched = ", ".join(f"{rule} {files} files" for rule, files in list(tuning.matched.items())[:_RULES_IN_A_LINE])
    head = f"tuning: rules of {tuning.profile} ({tuning.generation})" if tuning.profile else "tuning: built-in rules"
    head += f" for {tuning.framework}" if tuning.framework else ""
    said = f"{head}: {matched}" if matched else head
    return "; ".join(filter(None, (said, tuning.tuned, tuning.trouble)))


def order_line(order: OrderReport) -> str:
    """Return ``order: Known``, or ``order: Wrong: read 33 was ...``; empty after too few reads."""
    if order.state == "Known":
        return "order: Known, what comes next is ready before it is read"
    return f"order: {order.state}: {order.message}" if order.state == "Wrong" else ""


def heard_line(report: Report) -> str:
    """Return the socket for reports of programs that read the mount; empty if nothing listens."""
    socket = report.report_socket
    return f"its readers can report at STOKER_REPORT_SOCKET={socket}" if socket else ""


def for_workstation(message: str) -> str:
    """Convert a sentence of stoker_sidecar.errors, which is for clusters, into a workstation's terms."""
    for cluster, workstation in _WORDS:
        message = message.replace(cluster, workstation)
    return message


def unsigned_words(message: str) -> str:
    """Convert a refusal for a user who requested unsigned requests."""
    return message.replace(_NO_KEYS, "the request had no credentials: leave out --no-sign-request")
