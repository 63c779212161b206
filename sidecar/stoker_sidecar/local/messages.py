"""What a mount says to people and to scripts: how far it is, and what went wrong in a workstation's words. Pure."""

from stoker_api.meta import format_bytes, format_duration
from stoker_api.nodecache import NodeDatasetStatus, NodePhase
from stoker_sidecar.local.report import Report, Stage

_STAGES = {
    Stage.STARTING: "starting",
    Stage.LISTING: "listing the source",
    Stage.MOUNTING: "mounting",
    Stage.MOUNTED: "mounted",
    Stage.FAILED: "failed",
}
_KEYS = "in the environment or in the profile (--profile)"
_AGAIN = "unmount, and mount again"
# In this order: what comes first may hold what comes later.
_WORDS = (
    ("put its CA into the key ca.crt of the Secret", "name the file of its CA in AWS_CA_BUNDLE"),
    ("renew the Secret, unless a role's keys renew themselves", f"renew it {_KEYS}, then {_AGAIN}"),
    ("in the Secret", _KEYS),
    ("the ServiceAccount's token", "the web identity token"),
    ("to this identity", "to this identity; without credentials, requests are not signed"),
    ("refresh the Dataset", _AGAIN),
    (
        "have the folder that it leads to named in the chart's value sidecar.hostFolders",
        "mount a folder that holds what it leads to as well",
    ),
    ("this node has no folder", "there is no folder"),
    ("mount it on every selected node", "check its name, and that it is mounted"),
    ("by the sidecar", "by this user"),
    ("the node", "this machine"),
    ("this node", "this machine"),
    ("source.uri", "the URL"),
    ("source.endpoint", "--endpoint"),
    ("source.region", "--region"),
    ("source.exclude", "--exclude"),
    ("cache.quota", "--quota"),
)


def words(report: Report) -> str:
    """Return what is being done, such as ``fetching``."""
    if report.stage is Stage.MOUNTED and report.row is not None and report.row.phase is NodePhase.WARMING:
        return "fetching"
    return _STAGES[report.stage]


def figures(row: NodeDatasetStatus | None) -> str:
    """Return ``12 of 40 files, 1.0 GiB of 3.1 GiB, 210.0 MiB/s, 10s left``; empty before anything is known."""
    if row is None or not row.files:
        return ""
    parts = [f"{row.warm_files} of {row.files} files", f"{format_bytes(row.warm_bytes)} of {format_bytes(row.bytes)}"]
    if row.bytes_per_second:
        parts.append(f"{format_bytes(row.bytes_per_second)}/s")
    if row.eta_seconds is not None:
        parts.append(f"{format_duration(row.eta_seconds)} left")
    return ", ".join(parts)


def line(report: Report) -> str:
    """Return all of it in one line, with what is wrong for now."""
    trouble = report.message or (report.row.error.message if report.row is not None and report.row.error else "")
    shown = figures(report.row) if report.stage is Stage.MOUNTED else ""
    if report.stage is Stage.LISTING and report.listed:
        shown = f"{report.listed} objects so far"
    return ": ".join(part for part in (words(report), shown, trouble) if part)


def event(report: Report) -> dict[str, object]:
    """Return the same for scripts: a flat object, its names as in NodeCache status."""
    keys = ("version", "files", "bytes", "warmFiles", "warmBytes", "fetchedFiles", "bytesPerSecond", "etaSeconds")
    wire = report.row.wire() if report.row is not None else {}
    out: dict[str, object] = {"stage": report.stage.value, "warm": report.warm, "listed": report.listed}
    out |= {"mode": report.mode.value} if report.mode is not None else {}
    out |= {key: wire[key] for key in keys if key in wire}
    return out | ({"message": report.message} if report.message else {})


def mounted(uri: str, folder: str, report: Report) -> str:
    """Return the last line: ``s3://b/p is mounted at /data (native): 40 files, 3.1 GiB, all on this disk``."""
    row = report.row
    head = f"{uri} is mounted at {folder} ({report.mode or 'fuse'})"
    if row is None or not row.files:
        return head
    kept = "all" if report.warm else format_bytes(row.warm_bytes)
    return f"{head}: {row.files} files, {format_bytes(row.bytes)}, {kept} on this disk"


def for_workstation(message: str) -> str:
    """Put a sentence of stoker_sidecar.errors, which is written for clusters, in a workstation's words."""
    for cluster, workstation in _WORDS:
        message = message.replace(cluster, workstation)
    return message
