"""How far a mount is, in words and figures. Pure."""

from stoker_api.meta import format_bytes, format_duration
from stoker_api.nodecache import NodeDatasetStatus, NodePhase
from stoker_sidecar.local.report import Report, Stage

_WORDS = {
    Stage.STARTING: "starting",
    Stage.LISTING: "listing the source",
    Stage.MOUNTING: "mounting",
    Stage.MOUNTED: "mounted",
    Stage.FAILED: "failed",
}


def words(report: Report) -> str:
    """What is being done: ``fetching``."""
    if report.stage is Stage.MOUNTED and report.row is not None and report.row.phase is NodePhase.WARMING:
        return "fetching"
    return _WORDS[report.stage]


def figures(row: NodeDatasetStatus | None) -> str:
    """``12 of 40 files, 1.0 GiB of 3.1 GiB, 210.0 MiB/s, 10s left``; empty before anything is known."""
    if row is None or not row.files:
        return ""
    parts = [f"{row.warm_files} of {row.files} files", f"{format_bytes(row.warm_bytes)} of {format_bytes(row.bytes)}"]
    if row.bytes_per_second:
        parts.append(f"{format_bytes(row.bytes_per_second)}/s")
    if row.eta_seconds is not None:
        parts.append(f"{format_duration(row.eta_seconds)} left")
    return ", ".join(parts)


def line(report: Report) -> str:
    """All of it in one line, with what is wrong for now."""
    trouble = report.message or (report.row.error.message if report.row is not None and report.row.error else "")
    shown = figures(report.row) if report.stage is Stage.MOUNTED else ""
    if report.stage is Stage.LISTING and report.listed:
        shown = f"{report.listed} objects so far"
    return ": ".join(part for part in (words(report), shown, trouble) if part)


def event(report: Report) -> dict[str, object]:
    """The same for scripts: a flat object, its names as in NodeCache status."""
    keys = ("version", "files", "bytes", "warmFiles", "warmBytes", "fetchedFiles", "bytesPerSecond", "etaSeconds")
    wire = report.row.wire() if report.row is not None else {}
    out: dict[str, object] = {"stage": report.stage.value, "warm": report.warm, "listed": report.listed}
    out |= {"mode": report.mode.value} if report.mode is not None else {}
    out |= {key: wire[key] for key in keys if key in wire}
    return out | ({"message": report.message} if report.message else {})


def mounted(uri: str, folder: str, report: Report) -> str:
    """The last line: ``s3://b/p is mounted at /data (native): 40 files, 3.1 GiB, all on this disk``."""
    row = report.row
    head = f"{uri} is mounted at {folder} ({report.mode or 'fuse'})"
    if row is None or not row.files:
        return head
    kept = "all" if report.warm else format_bytes(row.warm_bytes)
    return f"{head}: {row.files} files, {format_bytes(row.bytes)}, {kept} on this disk"
