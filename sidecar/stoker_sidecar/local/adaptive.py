"""Numbers that a mount finds by itself: the node's own way, with what its FUSE servers tell of reads."""

import asyncio
from collections.abc import Callable

from stoker_api.dataset import MountMode
from stoker_sidecar.agent.access_server import AccessClient, AccessServer
from stoker_sidecar.agent.core.number_windows import WindowTimes
from stoker_sidecar.agent.core.read_counts import ITEM_BYTES, ReadCount
from stoker_sidecar.agent.core.tuned_rows import told_change
from stoker_sidecar.agent.node_learning import NodeLearning
from stoker_sidecar.agent.number_trials import NumberTrials
from stoker_sidecar.agent.tuning_history import TuningHistory
from stoker_sidecar.local.mount_paths import UID, HomePaths, RunPaths
from stoker_sidecar.local.mount_spec import MountSpec
from stoker_sidecar.tuning.source import TuningChoice, TuningSource
from stoker_sidecar.tuning.tuner import Tuner
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.wire.access_protocol import SOCKET, AccessBatch


class MountAdaptive:
    """The search for numbers of one mount: a TuningSource over that of its file. ``run`` it; not for threads.

    ``mode``: how the mount is read now. ``changes``: marked when something else is chosen.
    """

    def __init__(
        self,
        spec: MountSpec,
        run: RunPaths,
        source: TuningSource,
        mode: Callable[[], MountMode | None],
        changes: Changes,
    ) -> None:
        self._mode = mode
        self._chunks = self._files = ReadCount()
        self.times = WindowTimes(spec.tuning_window / 2, spec.tuning_window / 2)
        self._learning = NodeLearning(TuningHistory(HomePaths(spec.home).history), Changes())
        uri = spec.source.uri
        self._numbers = NumberTrials(source, self._learning, lambda uid: uri, self._count, changes, times=self.times)
        self._server = AccessServer(
            run.folder / SOCKET,
            on_observer=lambda observer: None,
            on_asked=lambda on: None,
            on_batch=self._take,
            is_counted=lambda uid: uid == UID,
        )

    def choice(self, dataset_uid: str) -> TuningChoice:
        """Return what the file says, with the number of this window."""
        return self._numbers.choice(dataset_uid)

    @property
    def tuned(self) -> str:
        """What came of the last change; empty before there was one."""
        return told_change(self._learning.decisions[-1]) if self._learning.decisions else ""

    async def run(self, tuner: Tuner) -> None:
        """Count reads and search, until cancelled. Raises OSError when the socket cannot be had."""
        with self._server.serving():
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._learning.run(tuple, dict))  # of pods it knows nothing
                tasks.create_task(self._numbers.run(tuner))

    def _count(self, uid: str, *, large: bool) -> ReadCount | None:
        return self._chunks if large else self._files

    def _take(self, client: AccessClient, batch: AccessBatch) -> None:
        self._chunks = ReadCount(batch.until, self._chunks.items + batch.bytes / ITEM_BYTES)
        # Of an overlay's files FUSE sees those alone that are missing: how many are opened is not known.
        opens = batch.opens if self._mode() is MountMode.FUSE else 0
        self._files = ReadCount(batch.until, self._files.items + opens)
