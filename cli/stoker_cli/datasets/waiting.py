"""Follow a Dataset until it settles: redrawn in place on a terminal, else printed line by line."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from rich.console import Console
from rich.live import Live

from stoker_api.datasets.dataset import Dataset
from stoker_api.datasets.dataset_status import Phase, ShownState
from stoker_api.datasets.warm_paths import paths_digest
from stoker_api.meta import Condition
from stoker_api.names import ANNOTATION_WARM_REQUESTED, ConditionType, Reason
from stoker_cli import render, rows
from stoker_cli.errors import FAILED, CliError

# Seconds between two reads. Sidecars report at most every 2 s, so a shorter interval shows nothing new.
INTERVAL = 1.0
Read = Callable[[], Awaitable[Dataset]]
Done = Callable[[Dataset], bool]


def warm(dataset: Dataset) -> bool:
    """Return True if the nodes report that all selected files are on disk, and in memory for warm.pages.

    Raises CliError if waiting cannot help, or if everything else is warm and a selected path or node does not exist.
    """
    done = _is_on_disks(dataset) and _is_in_memory(dataset)
    nodes = _condition(dataset, ConditionType.NODES_FOUND) if dataset.spec.warm.nodes else None
    current = nodes is not None and nodes.observed_generation >= dataset.metadata.generation
    if (
        nodes is not None
        and current
        and nodes.status == "False"
        and (done or dataset.status.warm_nodes.startswith("0/0"))
    ):
        raise CliError(f"{dataset.key}: {nodes.message}", FAILED)
    if not done:
        _check_progress_possible(dataset)
    return done


def _check_progress_possible(dataset: Dataset) -> None:
    """Raise CliError if a Dataset is paused or its nodes are full."""
    status, meta = dataset.status, dataset.metadata
    if dataset.spec.warm.paused:
        raise CliError(
            f"{dataset.key} is paused. Resume it with: stoker -n {meta.namespace} resume {meta.name}", FAILED
        )
    if status.state == ShownState.FULL and status.observed_generation >= meta.generation:
        raise CliError(f"The nodes of {dataset.key} are full: {rows.message(dataset)}", FAILED)


def _is_in_memory(dataset: Dataset) -> bool:
    """Return True if the nodes filled their page caches for the last request."""
    if not dataset.spec.warm.pages:
        return True
    limited = _condition(dataset, ConditionType.LIMITED)
    if limited is not None and limited.status == "True" and "warm.pages is ignored" in limited.message:
        raise CliError(f"{dataset.key}: {limited.message}", FAILED)
    pages = _condition(dataset, ConditionType.PAGES_WARM)
    request = dataset.metadata.annotations.get(ANNOTATION_WARM_REQUESTED, "")
    if pages is None or pages.observed_generation < dataset.metadata.generation:
        return False
    return pages.status == "True" and (not request or dataset.status.pages_request == request)


def _is_on_disks(dataset: Dataset) -> bool:
    if not dataset.spec.warm.told_paths:
        return _is_warm(dataset)
    paths = _about_these_paths(dataset) and _condition(dataset, ConditionType.PATHS_FOUND)
    if not paths or paths.observed_generation < dataset.metadata.generation:
        return False
    if paths.status == "False" and (_is_warm(dataset) or not _matched_files(dataset)):
        rest = "; all other paths are warm" if _matched_files(dataset) else ""
        raise CliError(f"{dataset.key}: {paths.message}{rest}", FAILED)
    return _is_warm(dataset)


def _is_warm(dataset: Dataset) -> bool:
    condition = _condition(dataset, ConditionType.WARM)
    if condition is None or condition.observed_generation < dataset.metadata.generation:
        return False  # the condition is about the spec before the last change
    return condition.status == "True" and condition.reason == Reason.WARM


def _about_these_paths(dataset: Dataset) -> bool:
    """Return True if the status is about the current paths of the spec."""
    part = dataset.status.warm_paths
    return part is not None and part.digest == paths_digest(dataset.spec.warm.told_paths)


def _matched_files(dataset: Dataset) -> int:
    return dataset.status.warm_paths.files if dataset.status.warm_paths is not None else 0


def _condition(dataset: Dataset, kind: ConditionType) -> Condition | None:
    return next((condition for condition in dataset.status.conditions if condition.type == kind), None)


def refreshed(asked: datetime) -> Done:
    """Return a check that a listing from after ``asked`` is complete and its result has settled."""

    def done(dataset: Dataset) -> bool:
        listed = dataset.status.listed_at
        return bool(listed) and datetime.fromisoformat(str(listed)) >= asked and rows.settled(dataset)

    return done


async def until(read: Read, done: Done, console: Console, timeout: float) -> Dataset:
    """Show a Dataset until ``done``.

    Raises CliError after ``timeout`` seconds, or if the Dataset failed.
    """
    deadline = time.monotonic() + timeout
    with _screen(console) as show:
        while True:
            dataset = await read()
            show(dataset)
            if done(dataset):
                return dataset
            _refuse(dataset, timeout, late=time.monotonic() > deadline)
            await asyncio.sleep(INTERVAL)


@contextmanager
def _screen(console: Console) -> Iterator[Callable[[Dataset], None]]:
    """Return a function that shows progress: in place on a terminal, else as a line for each change."""
    if console.is_terminal:
        with Live(console=console, refresh_per_second=4) as live:
            yield lambda dataset: live.update(render.dataset(dataset))
        return
    last = ""

    def print_if_new(dataset: Dataset) -> None:
        nonlocal last
        line = rows.progress_line(dataset)
        if line != last:
            console.print(line, highlight=False)
        last = line

    yield print_if_new


def _refuse(dataset: Dataset, timeout: float, late: bool) -> None:
    if dataset.status.phase is Phase.FAILED and dataset.status.observed_generation >= dataset.metadata.generation:
        raise CliError(f"{dataset.key} failed: {rows.message(dataset)}", FAILED)
    if late:
        phase = dataset.status.shown_phase or Phase.PENDING
        raise CliError(f"{dataset.key} is still {phase} after {timeout:.0f}s (--timeout): {rows.message(dataset)}")
