"""Watching a Dataset until it settles, with a live picture on a terminal and plain lines elsewhere."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from rich.console import Console
from rich.live import Live

from stoker_api.dataset import Dataset
from stoker_api.dataset_status import Phase
from stoker_api.meta import Condition
from stoker_api.names import ANNOTATION_WARM_REQUESTED, ConditionType, Reason
from stoker_api.warm_paths import paths_digest
from stoker_cli import render, rows
from stoker_cli.errors import FAILED, CliError

# Seconds between looks: the sidecars report every 2 s at most, so looking oftener shows nothing new.
INTERVAL = 1.0
Read = Callable[[], Awaitable[Dataset]]
Done = Callable[[Dataset], bool]


def warm(dataset: Dataset) -> bool:
    """Tell whether every byte is where it should be, by the nodes' word and not by the policy's.

    Of a Dataset with paths, or a list of them: whether all that they name is; with pages: in memory too, as far as
    that has room. Raises CliError once it is, where a path or a node that is named is none.
    """
    done = _is_on_disks(dataset) and _is_in_memory(dataset)
    found = _condition(dataset, ConditionType.NODES_FOUND) if dataset.spec.warm.nodes else None
    current = found is not None and found.observed_generation >= dataset.metadata.generation
    if found is not None and current and found.status == "False" and (done or dataset.status.warm_nodes.endswith("/0")):
        raise CliError(f"{dataset.key}: {found.message}", FAILED)
    return done


def _is_in_memory(dataset: Dataset) -> bool:
    """Tell whether the nodes have filled their page caches for the last request."""
    if not dataset.spec.warm.pages:
        return True
    limited = _condition(dataset, ConditionType.LIMITED)
    if limited is not None and limited.status == "True" and "warm.pages is not followed" in limited.message:
        raise CliError(f"{dataset.key}: {limited.message}", FAILED)
    found = _condition(dataset, ConditionType.PAGES_WARM)
    asked = dataset.metadata.annotations.get(ANNOTATION_WARM_REQUESTED, "")
    if found is None or found.observed_generation < dataset.metadata.generation:
        return False
    return found.status == "True" and (not asked or dataset.status.pages_request == asked)


def _is_on_disks(dataset: Dataset) -> bool:
    if not dataset.spec.warm.told_paths:
        return _is_warm(dataset)
    found = _about_these_paths(dataset) and _condition(dataset, ConditionType.PATHS_FOUND)
    if not found or found.observed_generation < dataset.metadata.generation:
        return False
    if found.status == "False" and (_is_warm(dataset) or not _named(dataset)):
        rest = "; what the others name is warm" if _named(dataset) else ""
        raise CliError(f"{dataset.key}: {found.message}{rest}", FAILED)
    return _is_warm(dataset)


def _is_warm(dataset: Dataset) -> bool:
    found = _condition(dataset, ConditionType.WARM)
    if found is None or found.observed_generation < dataset.metadata.generation:
        return False  # it is about what the spec was before: --all, or other paths, were asked for a moment ago
    return found.status == "True" and found.reason == Reason.WARM


def _about_these_paths(dataset: Dataset) -> bool:
    """Tell whether the status is about the paths that the spec has now: patched a moment ago, it may not be."""
    part = dataset.status.warm_paths
    return part is not None and part.digest == paths_digest(dataset.spec.warm.told_paths)


def _named(dataset: Dataset) -> int:
    return dataset.status.warm_paths.files if dataset.status.warm_paths is not None else 0


def _condition(dataset: Dataset, kind: ConditionType) -> Condition | None:
    return next((condition for condition in dataset.status.conditions if condition.type == kind), None)


def refreshed(asked: datetime) -> Done:
    """Tell whether a listing that began after ``asked`` is in, and what it found has settled."""

    def done(dataset: Dataset) -> bool:
        listed = dataset.status.listed_at
        return bool(listed) and datetime.fromisoformat(str(listed)) >= asked and rows.settled(dataset)

    return done


async def until(read: Read, done: Done, console: Console, timeout: float) -> Dataset:
    """Follow one Dataset, showing it, until ``done``.

    Raises CliError when ``timeout`` (seconds) passes or the Dataset failed.
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
    """Choose how progress is shown: redrawn in place on a terminal; elsewhere a line whenever it moved."""
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
        raise CliError(f"{dataset.key} is still {dataset.status.phase} after {timeout:.0f}s: {rows.message(dataset)}")
