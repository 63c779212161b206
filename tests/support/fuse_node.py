"""A version behind a real FUSE server with a slow source, and the part of an agent that receives reads."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from stoker_api.datasets.dataset import MountMode
from stoker_api.node_caches.node_workload import EvidenceSource
from stoker_sidecar.agent.observation.loaders.loader_sampler import LoaderSampler
from stoker_sidecar.agent.observation.observation import Observation
from stoker_sidecar.agent.observation.workloads import SourceCounts
from stoker_sidecar.agent.planning.plan import NodePlan
from stoker_sidecar.volumes.core.publish import Published
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.fetcher_protocol import Read, Reply
from tests.fakes.read_fetcher import FetcherForReads
from tests.fakes.volumes import publish_request
from tests.support.keeper import UID, Keeper
from tests.support.true_fetcher import bringing
from tests.support.versions import VersionFolder


@dataclass
class FuseNode:
    """A version behind FUSE with a slow source, and the part of an agent that receives reads."""

    version: VersionFolder
    seen: Path
    observation: Observation
    plan: NodePlan

    @property
    def counts(self) -> SourceCounts:
        """The FUSE server's reports about the version."""
        return self.observation.workloads.counts.get((UID, EvidenceSource.FUSE), SourceCounts())


@asynccontextmanager
async def fuse_node(
    folder: Path,
    files: Mapping[str, bytes],
    delay: float,
    pods: Sequence[str] = ("trainer-0",),
    loaders: LoaderSampler | None = None,
) -> AsyncIterator[FuseNode]:
    """Serve a cold version by FUSE to these pods. Its source takes ``delay`` seconds for each piece.

    ``loaders`` is the part of an agent that samples loaders.
    """
    version, truth = VersionFolder(folder / "version", files), folder / "truth"
    for path, data in files.items():
        (truth / path).parent.mkdir(parents=True, exist_ok=True)
        (truth / path).write_bytes(data)
    bring = bringing(version.folder, truth)

    def slowly(request: Read) -> Reply:
        time.sleep(delay)  # the throttled source
        return bring(request)

    # An agent that does nothing: its observing part runs in this process.
    with Keeper(folder / "keeper", agent="sleep 1000") as keeper:
        digest = version.info.digest
        versions = folder / "cache" / "datasets" / UID / "versions"
        versions.mkdir(parents=True)
        (versions / digest).symlink_to(version.folder)
        records = [
            Published(publish_request(pod), UID, digest, version.folder, 1, 1, MountMode.FUSE, True) for pod in pods
        ]
        plan = NodePlan()
        observation = Observation(
            plan,
            lambda: records,
            CacheFolders([folder / "cache"]),
            mount_root=keeper.mount_root,
            run_dir=keeper.run_dir,
            cgroups=folder,
            family=keeper.pid,
            blind="this test reads through FUSE alone",
            loaders=loaders,
        )
        running = asyncio.create_task(observation.run())
        try:
            with FetcherForReads(keeper.run_dir / "fetcher.sock", slowly):
                seen = await asyncio.to_thread(keeper.serve, version)
                yield FuseNode(version, seen, observation, plan)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
