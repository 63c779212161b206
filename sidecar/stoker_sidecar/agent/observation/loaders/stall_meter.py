"""Measures the share of time that pods wait for data, with the best method of this node."""

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from stoker_api.node_caches.node_workload import StallSource
from stoker_sidecar.agent.core.stall import FuseWaits, PodStalls, Stall, StallSample, stall_between, with_interval
from stoker_sidecar.agent.observation.loaders.loader_sampler import LoaderSampler
from stoker_sidecar.linux.mounts.pod_mounts import belongs_to
from stoker_sidecar.volumes.core.publish import VersionKey

_PROC = Path("/proc")
_DELAYS_ON = _PROC / "sys/kernel/task_delayacct"
# Levels of cgroups between the root and a pod's, for all drivers: kubelet.slice, kubepods, the class, the pod.
_DEPTH = 4
_ABOVE_PODS = ("kubelet", "kubepods", "burstable", "besteffort")
_BLKIO_TICKS = 39  # field 42 of proc_pid_stat(5), counted from the third, which follows the name
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


def find_pod_cgroup(root: Path, pod_uid: str) -> Path | None:
    """Find a pod's cgroup below the cgroup v2 file system at ``root``; None if it is missing or invisible."""
    if not pod_uid:
        return None
    return next(_pod_cgroups(root, pod_uid, _DEPTH), None)


def _pod_cgroups(folder: Path, pod_uid: str, depth: int) -> Iterator[Path]:
    try:
        names = sorted(path.name for path in folder.iterdir() if path.is_dir())
    except OSError:
        return
    for name in names:
        if belongs_to(name, pod_uid):
            yield folder / name
        elif depth > 1 and name.startswith(_ABOVE_PODS):
            yield from _pod_cgroups(folder / name, pod_uid, depth - 1)


def disk_pressure(cgroup: Path) -> float | None:
    """Return the seconds so far in which all tasks of a cgroup waited for a disk; None: not counted."""
    try:
        text = (cgroup / "io.pressure").read_text()
    except OSError:
        return None
    return parse_pressure(text)


def parse_pressure(text: str) -> float | None:
    """Parse the total of the line ``full`` in a pressure file, in seconds. Pure."""
    for line in text.splitlines():
        kind, *words = line.split()
        total = words[-1].removeprefix("total=") if words else ""
        if kind == "full" and total.isdecimal():
            return int(total) / 1e6
    return None


def delays_counted() -> bool:
    """Return True if the kernel counts delays of tasks: sysctl kernel.task_delayacct."""
    try:
        return _DELAYS_ON.read_text().strip() == "1"
    except OSError:
        return False


def task_delays(pod_uid: str) -> dict[str, float]:
    """Return the seconds that each visible process of a pod waited for disks so far, by pid."""
    found = {}
    for entry in _PROC.iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):  # it ended during the scan
                if belongs_to(os.fsdecode((entry / "cgroup").read_bytes()), pod_uid):
                    found[entry.name] = parse_delay((entry / "stat").read_text())
    return found


def parse_delay(stat: str) -> float:
    """Parse a process's disk delay from its stat file, in seconds. Pure."""
    return int(stat.rpartition(")")[2].split()[_BLKIO_TICKS]) / _TICKS_A_SECOND


class StallMeter:
    """Takes samples of pods, and compares each with the previous one.

    ``cgroups`` is the node's cgroup v2 file system. ``samples`` has the last ones by UID of the pod. ``seconds`` has
    the counts of each source so far, by UID; a new object after each change. ``clock`` is monotonic, in seconds.
    ``loaders`` samples loaders with workers; created by default.
    """

    def __init__(
        self, cgroups: Path, clock: Callable[[], float] = time.monotonic, loaders: LoaderSampler | None = None
    ) -> None:
        self._cgroups = cgroups
        self._clock = clock
        self._found: dict[str, Path | None] = {}
        self._measured: frozenset[str] = frozenset()
        self._loaders = loaders or LoaderSampler()
        self.samples: dict[str, StallSample] = {}
        self.seconds: Mapping[str, PodStalls] = {}

    def watch(self, readers: Mapping[str, Sequence[int]]) -> None:
        """Start sampling the loaders whose workers these processes, by UID of their pod, may be. Never blocks."""
        self._loaders.watch(readers)

    def measure(
        self, pods: Mapping[str, VersionKey | None], waited: Mapping[VersionKey, FuseWaits]
    ) -> dict[str, Stall]:
        """Return the known stalls by UID of the pod. Blocks for some milliseconds.

        A stall covers the time since the last call, or the last minute if the consumer of a loader with workers shows
        it. The kernel's counters show the workers' waits, which overlap with the consumer's work. ``pods`` has the
        version that a pod alone reads by FUSE, by UID, or None. ``waited`` has the FUSE servers' figures.
        """
        samples = {uid: sample for uid, fuse in pods.items() if (sample := self._sample(uid, fuse, waited)) is not None}
        stalls = {uid: stall_between(self.samples.get(uid), sample) for uid, sample in samples.items()}
        self._measured = frozenset(pods)
        self.seconds = self._counted(pods, samples, stalls)
        self.samples = samples
        self._found = {uid: found for uid, found in self._found.items() if uid in pods}
        known = {uid: stall for uid, stall in stalls.items() if stall is not None}
        loaders = {uid: stall for uid, stall in self._loaders.stalls.items() if uid in pods}
        reads = {uid: known[uid].share for uid in loaders if uid in known}
        return known | {uid: replace(stall, reads=reads.get(uid)) for uid, stall in loaders.items()}

    def why_not(self, uid: str, node: str) -> str:
        """Return why the waits of an ended pod were not counted on ``node``, for people. Never blocks."""
        if uid in self.samples or uid not in self._measured:
            return f"it ended before {node} measured its waits"
        lacks = [] if (self._cgroups / "cgroup.controllers").exists() else ["cgroup v1"]
        lacks.append("its processes are not seen" if delays_counted() else "kernel.task_delayacct is 0")
        return f"no stall source on {node}: {', '.join(lacks)}"

    def stop(self) -> None:
        """Stop sampling loaders. Never blocks."""
        self._loaders.stop()

    def _counted(
        self, pods: Collection[str], samples: Mapping[str, StallSample], stalls: Mapping[str, Stall | None]
    ) -> dict[str, PodStalls]:
        counted = {uid: self.seconds.get(uid, {}) for uid in pods}
        for uid, sample in samples.items():
            counted[uid] = with_interval(counted[uid], self.samples.get(uid), sample, stalls[uid])
        for uid, seconds in self._loaders.seconds.items():
            if uid in counted:
                counted[uid] = {**counted[uid], StallSource.CONSUMER: seconds}
        return {uid: totals for uid, totals in counted.items() if totals}

    def _sample(self, uid: str, fuse: VersionKey | None, waited: Mapping[VersionKey, FuseWaits]) -> StallSample | None:
        """Use the best source. Pressure is a mean over CPUs, and too low for a task that moves between them."""
        if delays_counted() and (delays := task_delays(uid)):
            return StallSample(StallSource.TASK_DELAY, self._clock(), delays)
        if fuse is not None and fuse in waited:
            return StallSample(StallSource.FUSE, waited[fuse].at, {uid: waited[fuse].seconds})
        pressure = self._pressure(uid)
        return None if pressure is None else StallSample(StallSource.PRESSURE, self._clock(), {uid: pressure})

    def _pressure(self, uid: str) -> float | None:
        if self._found.get(uid) is None:
            self._found[uid] = find_pod_cgroup(self._cgroups, uid)
        found = self._found[uid]
        return None if found is None else disk_pressure(found)
