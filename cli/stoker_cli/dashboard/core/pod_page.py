"""The list of pods, held ones first, and the page of one."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from stoker_api.meta import format_duration
from stoker_cli.dashboard.core.cluster_data import ClusterData, HeldPod
from stoker_cli.dashboard.core.dataset_page import pod_table
from stoker_cli.dashboard.core.links import PageRequest, link_to, page_of, path_of
from stoker_cli.dashboard.core.views import ActionView, CellView, Link, PageView, TableView
from stoker_cli.pods.why import PodExplanation
from stoker_cli.rows import UNKNOWN

_HELD_COLUMNS = ("Pod", "Held for", "Waits for", "Job", "Why it waits")
_EVENT_COLUMNS = ("Time", "Reason", "Message")
RELEASE = "Release it now, even if its data is cold. Missing data is read from the source."


def pod_list(data: ClusterData, request: PageRequest) -> PageView:
    """Return held pods, and pods with figures."""
    held, pager = page_of(data.held, request.held, "/pods", parameter="held")
    lines = [_row(pod, request.now) for pod in held]
    waiting = TableView("Held pods", _HELD_COLUMNS, lines, "Stoker holds no pods.", pager)
    none = "No known pod reads a Dataset."
    running = pod_table("Pods that read Datasets", data.workloads, none, "/pods", request)
    return PageView("Pods", "pods", notices=data.notices("held", "workloads"), tables=[waiting, running])


def _row(pod: HeldPod, now: float) -> tuple[CellView, ...]:
    return (link_to("pods", pod.key), held_for(pod, now), ", ".join(pod.datasets), _job(pod), pod.reason)


def _job(pod: HeldPod) -> CellView:
    kind, _, name = pod.job.partition(" ")
    return Link(pod.job, path_of("jobs", pod.namespace, name)) if kind == "TrainingJob" else pod.job or UNKNOWN


def held_for(pod: HeldPod, now: float) -> str:
    """Format how long a pod has been held."""
    try:
        return format_duration(now - datetime.fromisoformat(pod.since).timestamp())
    except ValueError:
        return UNKNOWN


def pod_page(pod: PodExplanation, data: ClusterData, refusal: str, request: PageRequest) -> PageView:
    """Return the page of a pod. ``refusal``: why the user may not release it, empty if allowed."""
    figures = [row for row in data.workloads if row.workload.pod == pod.pod]
    held = pod.state == "Held"
    path = f"{path_of('pods', *pod.pod.split('/', 1))}/release"
    return PageView(
        f"Pod {pod.pod}",
        "pods",
        notices=data.notices("workloads"),
        sentences=pod.lines,
        facts=[("State", pod.state), ("Node", pod.node or "none")],
        actions=[ActionView("Release", path, RELEASE, refusal)] if held else [],
        tables=[pod_table("Figures", figures, "No figures of this pod.", "/pods", request), _events(pod.events)],
    )


def _events(events: Sequence[Mapping[str, str]]) -> TableView:
    lines = [(event["time"], event["reason"], event["message"]) for event in events]
    return TableView("Events", _EVENT_COLUMNS, lines, "No events.")
