"""Finds a pod, or a job with its pods, by a name from the command line."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from stoker_api import names
from stoker_api.jobs.trainingjob import TrainingJob
from stoker_cli.errors import NOT_FOUND, CliError
from stoker_cli.output import printable

Object = Mapping[str, Any]
_KINDS = {"pod": "Pod", "tj": "TrainingJob", "trainingjob": "TrainingJob", "job": "Job"}


@dataclass(frozen=True)
class Subject:
    """The named pod, or the pods of the named job. ``conditions``: sentences from the job's conditions."""

    kind: str  # Pod, Job or TrainingJob
    name: str  # namespace/name
    pods: Sequence[Object]
    conditions: Sequence[str] = ()


class NamedObjects(Protocol):
    """Reads pods and jobs of one namespace by name."""

    namespace: str

    async def pod(self, name: str) -> dict[str, Any]:
        """Read a pod. Raises CliError."""

    async def job(self, name: str) -> dict[str, Any]:
        """Read a Job. Raises CliError."""

    async def training_job(self, name: str) -> TrainingJob:
        """Read a TrainingJob. Raises CliError."""

    async def pods_of_job(self, name: str) -> Sequence[dict[str, Any]]:
        """Return the pods of a Job."""

    async def pods_with(self, labels: str) -> Sequence[dict[str, Any]]:
        """Return the pods with these labels that have Datasets."""


async def find_named(
    cluster: NamedObjects, text: str, kinds: Sequence[str] = ("Pod", "TrainingJob", "Job")
) -> tuple[str, str, TrainingJob | Object]:
    """Find POD, pod/NAME, job/NAME or tj/NAME, and return its kind, its name and the object.

    ``kinds``: the order in which a bare name is searched. Raises CliError with NOT_FOUND.
    """
    prefix, _, name = text.rpartition("/")
    readers: Mapping[str, Callable[[str], Awaitable[TrainingJob | Object]]] = {
        "Pod": cluster.pod,
        "TrainingJob": cluster.training_job,
        "Job": cluster.job,
    }
    if prefix and prefix not in _KINDS:
        raise CliError(f"Unknown kind {printable(prefix)} in {printable(text)}. Use pod/NAME, job/NAME or tj/NAME.")
    for kind in [_KINDS[prefix]] if prefix else kinds:
        try:
            return kind, name, await readers[kind](name)
        except CliError as error:
            if prefix or error.exit_code != NOT_FOUND:
                raise
    raise CliError(
        f"No pod, Job or TrainingJob {printable(name)} in namespace {cluster.namespace}. Use -n for another namespace.",
        NOT_FOUND,
    )


async def find_subject(cluster: NamedObjects, text: str) -> Subject:
    """Find a pod, or a job with its pods, by a name as in ``find_named``. Raises CliError with NOT_FOUND."""
    kind, name, item = await find_named(cluster, text)
    full_name = f"{cluster.namespace}/{name}"
    if isinstance(item, TrainingJob):
        pods = await cluster.pods_with(f"{names.LABEL_TRAINING_JOB}={name}")
        return Subject(kind, full_name, pods, _training_job_conditions(item))
    if kind == "Job":
        return Subject(kind, full_name, await cluster.pods_of_job(name), _job_conditions(item))
    return Subject(kind, full_name, [item])


def _job_conditions(job: Object) -> list[str]:
    conditions = [
        condition
        for condition in (job.get("status") or {}).get("conditions") or ()
        if condition.get("status") == "True"
    ]
    return [
        f"{condition.get('type')} ({condition.get('reason')}): {condition.get('message')}"
        for condition in conditions
        if condition.get("message")
    ]


def _training_job_conditions(job: TrainingJob) -> list[str]:
    conditions = [
        condition for condition in job.status.conditions if (condition.type, condition.status) in _SHOWN_CONDITIONS
    ]
    return [
        f"{condition.type} is {condition.status} ({condition.reason}): {condition.message}" for condition in conditions
    ]


_SHOWN_CONDITIONS = {
    ("Accepted", "False"),
    ("DataReady", "False"),
    ("Failed", "True"),
    ("Suspended", "True"),
    ("Order", "False"),
    ("Reconciled", "False"),
}
