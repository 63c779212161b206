"""The list of TrainingJobs, and the page of one."""

from stoker_api.goodput import NOT_MEASURED, stall_words, warm_words
from stoker_api.jobs.trainingjob import TrainingJob, TrainingProgress
from stoker_cli.dashboard.core.cluster_data import ClusterData
from stoker_cli.dashboard.core.dataset_page import conditions_table, pod_table
from stoker_cli.dashboard.core.links import PageRequest, link_to, page_of, path_of
from stoker_cli.dashboard.core.pod_page import held_for
from stoker_cli.dashboard.core.views import ActionView, CellView, PageView, TableView
from stoker_cli.pods import job_report
from stoker_cli.rows import UNKNOWN, number_words

_COLUMNS = ("TrainingJob", "Phase", "Workers", "Data", "Training", "Epoch", "Stall", "Goodput", "Order")
_HELD_COLUMNS = ("Pod", "Held for", "Why it waits")
_RELEASE = "Release its held pods now, even if their data is cold. Missing data is read from the source."


def job_list(data: ClusterData, page: int) -> PageView:
    """Return a page of all TrainingJobs."""
    jobs = [data.jobs[key] for key in sorted(data.jobs)]
    shown, pager = page_of(jobs, page, "/jobs")
    table = TableView("TrainingJobs", _COLUMNS, [_row(job) for job in shown], "No TrainingJobs.", pager)
    return PageView("Jobs", "jobs", notices=data.notices("jobs"), tables=[table])


def _row(job: TrainingJob) -> tuple[CellView, ...]:
    status, training = job.status, job.status.training or TrainingProgress()
    words = (
        status.workers,
        status.data,
        training.phase,
        training.current_epoch,
        training.stall,
        _goodput(job),
        _order(job),
    )
    return (link_to("jobs", job.key), str(status.phase or "Pending"), *(word or UNKNOWN for word in words))


def _goodput(job: TrainingJob) -> str:
    figures = job.status.goodput
    if figures is None:
        return ""
    words = ((warm_words(figures), "warm at start"), (stall_words(figures), "stalled"))
    return ", ".join(f"{value} {what}" for value, what in words if value != NOT_MEASURED)


def _order(job: TrainingJob) -> str:
    return next((each.reason for each in job.status.conditions if each.type == "Order"), "")


def job_page(job: TrainingJob, data: ClusterData, refusal: str, request: PageRequest) -> PageView:
    """Return the page of a TrainingJob. ``refusal``: why the user may not release its pods, empty if allowed."""
    namespace, name = job.metadata.namespace, job.metadata.name
    held = [pod for pod in data.held if pod.namespace == namespace and pod.job == f"TrainingJob {name}"]
    pods = [row for row in data.workloads if row.workload.job == name and row.workload.pod.startswith(f"{namespace}/")]
    path = path_of("jobs", namespace, name)
    shown, pager = page_of(held, request.held, path, parameter="held")
    waiting = [(link_to("pods", pod.key), held_for(pod, request.now), pod.reason) for pod in shown]
    report = job_report.of_training_job(job)
    goodput = job_report.rows(report.goodput) if report.goodput is not None else []
    return PageView(
        f"TrainingJob {job.key}",
        "jobs",
        notices=data.notices("held", "workloads"),
        sentences=[report.title(), *([report.note] if report.note else [])],
        facts=_facts(job),
        actions=[ActionView("Release", f"{path}/release", _RELEASE, refusal)] if held else [],
        tables=[
            TableView("Held pods", _HELD_COLUMNS, waiting, "Stoker holds none of its pods.", pager),
            TableView("Goodput", ("Figure", "Value", "Pods"), goodput, "No figures yet."),
            pod_table("Pods that read Datasets", pods, "No known pod reads a Dataset.", path, request),
            conditions_table(job.status.conditions),
        ],
    )


def _facts(job: TrainingJob) -> list[tuple[str, str]]:
    status, training = job.status, job.status.training or TrainingProgress()
    facts = [
        ("Phase", str(status.phase or "Pending")),
        ("Workers", status.workers),
        ("Data", status.data),
        ("Training", training.phase),
        ("Epoch", training.current_epoch),
        ("Items per second", number_words(training.items_per_second)),
        ("Stall", f"{training.stall} ({training.stall_source})" if training.stall else ""),
        ("Loss", training.mean_loss),
        ("Checkpoint", training.checkpoint),
        ("Order", _order(job)),
        ("Problem in its reports", training.problem or "none"),
    ]
    return [(name, word or UNKNOWN) for name, word in facts]
