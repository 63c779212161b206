"""Looks at a job or pod of a cluster, or at who reads a mount, for a while, and splits its time; disturbs nothing."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from stoker_api.dataset import MountMode
from stoker_api.node_storage import NodeMount
from stoker_api.node_workload import NodeWorkload
from stoker_api.nodecache import NodeCache
from stoker_cli.errors import NOT_FOUND, CliError
from stoker_cli.profile_result import Profile
from stoker_cli.tuning_rows import printable
from stoker_tuning.profiling.epoch_split import LiveLook, live_split
from stoker_tuning.profiling.predictions import InputPipeline

INTERVAL = 5.0  # seconds between two looks: nodes say news after ten
pause = asyncio.sleep
_KINDS = ("pod", "job", "trainingjob", "tj")


class ProfiledCluster(Protocol):
    """Who knows what the nodes say."""

    async def node_caches(self) -> list[NodeCache]:
        """Return every node's cache. Raises CliError."""


def is_of(row: NodeWorkload, name: str, namespace: str) -> bool:
    """Return whether a workload is the pod, or of the job, of that name; ``name`` may say which: pod/NAME, job/NAME."""
    kind, _, plain = name.rpartition("/")
    if kind and kind not in _KINDS:
        raise CliError(f"{printable(name)}: say POD, pod/NAME, job/NAME or trainingjob/NAME.")
    if namespace and row.pod.partition("/")[0] != namespace:
        return False
    pod, job = row.pod.partition("/")[2] == plain, row.job == plain
    return {"": pod or job, "pod": pod}.get(kind, job)


async def looked_at(
    cluster: ProfiledCluster, wanted: Callable[[NodeWorkload], bool], seconds: float, seen: Callable[[float], None]
) -> tuple[list[LiveLook], set[str]]:
    """Look for so many seconds; return all looks, and the pods. Raises CliError."""
    looks: list[LiveLook] = []
    pods: set[str] = set()
    passed = 0.0
    while True:
        caches = await cluster.node_caches()
        rows = [(cache, row) for cache in caches for row in cache.status.workloads if wanted(row)]
        pods |= {row.pod for _, row in rows}
        found = [_look(row, cache.status.mounts) for cache, row in rows if _is_told(row)]
        looks += [_summed(found)] if found else []
        seen(passed)
        if passed >= seconds:
            return looks, pods
        await pause(min(INTERVAL, seconds - passed))
        passed += INTERVAL


def live_profile(subject: str, looks: list[LiveLook], pods: Iterable[str], seconds: float, hint: str) -> Profile:
    """Return what the looks come to. ``hint``: what to do where nobody sees a stall, a sentence. Raises CliError."""
    if not list(pods):
        raise CliError(f"No node knows of {printable(subject)}: stoker top -A shows whom they know.", NOT_FOUND)
    if not looks:
        raise CliError(
            f"{printable(subject)} is known, but not its speed and how long it waits: look again in a minute. {hint}"
        )
    split = live_split(looks, seconds)
    items = seconds * sum(look.items_per_second for look in looks) / len(looks)
    pipeline = InputPipeline(split.compute, seconds - (split.fetch or 0.0), items=items)
    return Profile(subject, split, pipeline, notes=tuple(_notes(looks)))


def _is_told(row: NodeWorkload) -> bool:
    return row.items_per_second is not None and row.stall_percent is not None


def _look(row: NodeWorkload, mounts: Iterable[NodeMount]) -> LiveLook:
    own = [mount for mount in mounts if mount.pod_uid == row.uid]
    whole = bool(own) and all(mount.mode is MountMode.NATIVE for mount in own)
    read_wait = None if row.read_wait_percent is None else row.read_wait_percent / 100
    return LiveLook(row.items_per_second or 0.0, (row.stall_percent or 0) / 100, read_wait, whole)


def _summed(looks: list[LiveLook]) -> LiveLook:
    """Return a job's pods as one: they take their steps together."""
    waits = [look.read_wait for look in looks if look.read_wait is not None]
    return LiveLook(
        sum(look.items_per_second for look in looks),
        sum(look.stall for look in looks) / len(looks),
        sum(waits) / len(waits) if len(waits) == len(looks) else None,
        all(look.whole for look in looks),
    )


def _notes(looks: list[LiveLook]) -> Iterable[str]:
    yield "The parts are shares of the time in which it was looked at, so they add up to it by their making."
    if any(look.read_wait is None and not look.whole and look.stall for look in looks):
        yield "Nothing tells how long its reads wait: the whole stall counts as fetch, the most that it can be."
    if any(look.stall and not look.whole for look in looks):
        yield "With its order known a cold epoch comes to that of warm data at best, and to the bandwidth's at worst."
    low, high = min(look.stall for look in looks), max(look.stall for look in looks)
    if high - low > 0.1:
        yield f"Its stall went from {100 * low:.0f} to {100 * high:.0f} % meanwhile: look longer (--for)."
