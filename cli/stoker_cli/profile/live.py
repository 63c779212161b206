"""Observes a job, a pod or the readers of a mount, and splits their time. Changes nothing."""

import asyncio
from collections.abc import Callable, Iterable

from stoker_api.datasets.dataset import MountMode
from stoker_api.node_caches.node_storage import NodeMount
from stoker_api.node_caches.node_workload import NodeWorkload
from stoker_cli.access.pod_figures import WorkloadSource
from stoker_cli.errors import NOT_FOUND, CliError
from stoker_cli.output import printable
from stoker_cli.profile.result import Profile
from stoker_tuning.profiling.epoch_split import LiveLook, live_split
from stoker_tuning.profiling.predictions import InputPipeline

INTERVAL = 5.0  # seconds between two samples
pause = asyncio.sleep
_KINDS = ("pod", "job", "trainingjob", "tj")


def is_of(row: NodeWorkload, name: str, namespace: str) -> bool:
    """Return True if a workload is the named pod or a pod of the named job. ``name``: also pod/NAME or job/NAME."""
    kind, _, plain = name.rpartition("/")
    if kind and kind not in _KINDS:
        raise CliError(f"Unknown kind in {printable(name)}. Use POD, pod/NAME, job/NAME or trainingjob/NAME.")
    if namespace and row.pod.partition("/")[0] != namespace:
        return False
    pod, job = row.pod.partition("/")[2] == plain, row.job == plain
    return {"": pod or job, "pod": pod}.get(kind, job)


async def observe(
    source: WorkloadSource,
    wanted: Callable[[NodeWorkload], bool],
    seconds: float,
    on_progress: Callable[[float], None],
    namespace: str = "",
) -> tuple[list[LiveLook], set[str]]:
    """Sample for ``seconds``, and return the samples and the pods. Raises CliError."""
    looks: list[LiveLook] = []
    pods: set[str] = set()
    passed = 0.0
    while True:
        caches = await source.workload_caches(namespace)
        rows = [(cache, row) for cache in caches for row in cache.status.workloads if wanted(row)]
        pods |= {row.pod for _, row in rows}
        now = [_look(row, cache.status.mounts) for cache, row in rows if _is_measured(row)]
        looks += [_summed(now)] if now else []
        on_progress(passed)
        if passed >= seconds:
            return looks, pods
        await pause(min(INTERVAL, seconds - passed))
        passed += INTERVAL


def live_profile(subject: str, looks: list[LiveLook], pods: Iterable[str], seconds: float, hint: str) -> Profile:
    """Return the profile of the samples. ``hint``: a sentence for a job without a stall figure. Raises CliError."""
    if not list(pods):
        raise CliError(f"No node reports {printable(subject)}. List the reported pods with: stoker top -A", NOT_FOUND)
    if not looks:
        raise CliError(
            f"The stall of {printable(subject)} is not measured. The node needs cgroup v2 or sidecar.hostPID "
            f"(docs/concepts/training-awareness.md, Stall). {hint}"
        )
    split = live_split(looks, seconds)
    items = seconds * sum(look.items_per_second for look in looks) / len(looks)
    pipeline = InputPipeline(split.compute, seconds - (split.fetch or 0.0), items=items)
    return Profile(subject, split, pipeline, notes=tuple(_notes(looks)))


def _is_measured(row: NodeWorkload) -> bool:
    return row.items_per_second is not None and row.stall_percent is not None


def _look(row: NodeWorkload, mounts: Iterable[NodeMount]) -> LiveLook:
    own = [mount for mount in mounts if mount.pod_uid == row.uid]
    whole = bool(own) and all(mount.mode is MountMode.NATIVE for mount in own)
    read_wait = None if row.read_wait_percent is None else row.read_wait_percent / 100
    return LiveLook(row.items_per_second or 0.0, (row.stall_percent or 0) / 100, read_wait, whole)


def _summed(looks: list[LiveLook]) -> LiveLook:
    """Combine the pods of a job, which take their steps together."""
    waits = [look.read_wait for look in looks if look.read_wait is not None]
    return LiveLook(
        sum(look.items_per_second for look in looks),
        sum(look.stall for look in looks) / len(looks),
        sum(waits) / len(waits) if len(waits) == len(looks) else None,
        all(look.whole for look in looks),
    )


def _notes(looks: list[LiveLook]) -> Iterable[str]:
    yield "The parts are shares of the observed time, so their sum equals it by definition."
    if any(look.read_wait is None and not look.whole and look.stall for look in looks):
        yield "The waiting time of reads is not measured, so the whole stall counts as fetch."
    if any(look.stall and not look.whole for look in looks):
        yield "With a known order, a cold epoch takes between the time with warm data and the bandwidth's limit."
    low, high = min(look.stall for look in looks), max(look.stall for look in looks)
    if high - low > 0.1:
        yield f"The stall varied from {100 * low:.0f} to {100 * high:.0f} %. Observe longer with --for."
