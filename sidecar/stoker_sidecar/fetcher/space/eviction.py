"""Makes room on a folder: asks the datasets that may go to go, and says what was dropped and why."""

from collections.abc import Iterator, Mapping

from stoker_api.meta import format_bytes
from stoker_api.names import Reason
from stoker_sidecar.fetcher.core.room import Asker, Idle, victims
from stoker_sidecar.fetcher.dataset import DatasetCache
from stoker_sidecar.fetcher.space.folders import Folders
from stoker_sidecar.fetcher.telemetry import Notices
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.wire.fetcher_protocol import EVICTIONS


async def make_room(
    datasets: Mapping[str, DatasetCache], folders: Folders, notices: Notices, uid: str, paths: VersionPaths, need: int
) -> None:
    """Drop idle versions beside ``paths`` so that ``need`` more bytes of the dataset ``uid`` fit; enough, or none."""
    asker, disk = datasets[uid], folders.disk_of(paths)
    wish = Asker(uid, asker.config.priority, bool(asker.held))
    beside = (idle for dataset in datasets.values() for idle in _versions(dataset, folders, paths))
    for victim in victims(need, wish, list(beside)):
        dropped = datasets.get(victim.uid)
        if dropped is None:
            continue
        why = _sentence(dropped, asker, victim)
        if await dropped.depart(victim.digest, why):
            disk.forget()
            dropped.counts.add(EVICTIONS)
            notices.tell(victim.uid, Reason.EVICTED, why)


def _versions(dataset: DatasetCache, folders: Folders, beside: VersionPaths) -> Iterator[Idle]:
    used_at, disk = dataset.stay.used_at(), folders.disk_of(beside)
    open_versions = dict(dataset.versions.fetchings)
    for digest, fetching in open_versions.items():
        version, current = fetching.version, digest == dataset.config.version
        if folders.disk_of(version.paths) is not disk:
            continue
        shared = sum(other.version.shared_bytes for name, other in open_versions.items() if name != digest)
        held = bool(dataset.held) if current else digest in dataset.held
        yield Idle(
            uid=dataset.uid,
            digest=digest,
            size=max(0, version.kept_bytes - shared),
            priority=dataset.config.priority,
            used_at=used_at,
            pinned=dataset.config.pinned,
            busy=held or fetching.waiting_readers > 0,
            current=current,
        )


def _sentence(dropped: DatasetCache, asker: DatasetCache, victim: Idle) -> str:
    of = "" if victim.current else f"version {victim.digest[:12]} of "
    cause = "which pods of this node use" if asker.held else f"which has priority {asker.config.priority}"
    back = "; it is fetched again when a pod uses it here, or when it fits beside the others" if victim.current else ""
    return (
        f"{of}{dropped.config.namespace}/{dropped.config.name} ({format_bytes(victim.size)}) was dropped from this node to "
        f"make room for {asker.config.namespace}/{asker.config.name}, {cause}{back}"
    )
