"""Measures which share of their time pods wait for data, by whichever way this node has."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from stoker_api.node_workload import StallSource
from stoker_sidecar.agent.core.stall import FuseWaits, Stall, StallSample, stall_between
from stoker_sidecar.agent.loader_sampler import LoaderSampler
from stoker_sidecar.linux.stall import delays_counted, disk_pressure, find_pod_cgroup, task_delays
from stoker_sidecar.volumes.core.publish import VersionKey


class StallMeter:
    """Takes samples of pods, and compares each with the one before.

    ``cgroups``: where the node's cgroup v2 file system is seen. ``samples``: the last ones, by UID of the pod.
    ``clock``: the monotonic one, in seconds. ``loaders``: samples loaders with workers; made when it is left out.
    """

    def __init__(
        self, cgroups: Path, clock: Callable[[], float] = time.monotonic, loaders: LoaderSampler | None = None
    ) -> None:
        self._cgroups = cgroups
        self._clock = clock
        self._found: dict[str, Path | None] = {}
        self._loaders = loaders or LoaderSampler()
        self.samples: dict[str, StallSample] = {}

    def watch(self, readers: Mapping[str, Sequence[int]]) -> None:
        """From now on sample the loaders whose workers these processes, by UID of their pod, may be. Blocks never."""
        self._loaders.watch(readers)

    def measure(
        self, pods: Mapping[str, VersionKey | None], waited: Mapping[VersionKey, FuseWaits]
    ) -> dict[str, Stall]:
        """Return the stall by UID of the pod, where it is known. Blocks for some milliseconds.

        It is that since the last call, or of the last minute where the consumer of a loader with workers tells it: what
        the kernel counts of waiting is the workers', who wait while the consumer computes. ``pods``: by UID, with the
        version that a pod alone reads by FUSE, if so; ``waited``: what the FUSE servers say.
        """
        samples = {uid: sample for uid, fuse in pods.items() if (sample := self._sample(uid, fuse, waited)) is not None}
        stalls = {uid: stall_between(self.samples.get(uid), sample) for uid, sample in samples.items()}
        self.samples = samples
        self._found = {uid: found for uid, found in self._found.items() if uid in pods}
        known = {uid: stall for uid, stall in stalls.items() if stall is not None}
        loaders = {uid: stall for uid, stall in self._loaders.stalls.items() if uid in pods}
        reads = {uid: known[uid].share for uid in loaders if uid in known}
        return known | {uid: replace(stall, reads=reads.get(uid)) for uid, stall in loaders.items()}

    def stop(self) -> None:
        """Sample no loader any more. Blocks never."""
        self._loaders.stop()

    def _sample(self, uid: str, fuse: VersionKey | None, waited: Mapping[VersionKey, FuseWaits]) -> StallSample | None:
        """Take the best that there is: pressure is a mean over CPUs, and too low for a task that moves between them."""
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
