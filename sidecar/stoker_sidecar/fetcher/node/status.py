"""The external view of a dataset on this node: NodeDatasetStatus."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from stoker_api.datasets.cache_memory import PinnedMemory
from stoker_api.meta import format_bytes
from stoker_api.names import Reason
from stoker_api.node_caches.node_dataset_status import (
    MOST_VERSIONS,
    FailingReads,
    ListingResult,
    NodeDatasetStatus,
    NodeError,
    NodePhase,
    OlderVersionStatus,
)
from stoker_api.node_caches.node_storage import CacheFolder, Medium
from stoker_api.times import format_time
from stoker_sidecar.errors import SidecarError
from stoker_sidecar.fetcher.datasets.dataset import DatasetCache
from stoker_sidecar.fetcher.ondisk.cached_version import CachedVersion
from stoker_sidecar.fetcher.ondisk.choosing import is_chosen_here, left_to_warm, paths_status
from stoker_sidecar.fetcher.ondisk.file_states import State
from stoker_sidecar.fetcher.ondisk.telemetry import eta_seconds
from stoker_sidecar.fetcher.sources.core.origin_pace import to_one_digit
from stoker_sidecar.fetcher.space.cache_disk import MORE_BYTES, MORE_INODES
from stoker_sidecar.fetcher.space.folders import CacheDisks


@dataclass(frozen=True)
class DatasetState:
    """The inputs of the phase. ``settled``: warming found no further files that it may fetch.

    ``chosen_here``: the part of it that is chosen to be warmed is here.
    """

    has_version: bool
    has_manifest: bool
    listing: bool
    complete: bool
    eager: bool
    paused: bool
    settled: bool
    failed: bool
    evicted: bool = False
    chosen_here: bool = False


def node_phase(state: DatasetState) -> NodePhase:
    """Apply the first rule that holds; a source that fails does not hide that everything is here."""
    if state.complete:
        return NodePhase.WARM
    if state.chosen_here and state.eager:
        return NodePhase.PATHS_WARM
    if state.failed:
        return NodePhase.FAILED
    if not state.has_version:
        return NodePhase.LISTING if state.listing else NodePhase.PENDING
    if not state.has_manifest:
        return NodePhase.PENDING
    if state.paused or not state.eager or state.evicted:
        return NodePhase.IDLE
    return NodePhase.FULL if state.settled else NodePhase.WARMING


def dataset_status(dataset: DatasetCache, now: float, memory: PinnedMemory | None = None) -> NodeDatasetStatus:
    """Describe a dataset: all but ``mode``, which the agent adds. ``now``: the clock of the dataset's speed.

    ``memory``: its pinned memory.
    """
    config, version = dataset.config, dataset.current
    speed = dataset.telemetry.speeds.tick(now)
    if version is not None and version.complete:
        speed = 0.0  # the last byte is here, so the rest of the mean is void
    base = NodeDatasetStatus(
        namespace=config.namespace,
        name=config.name,
        uid=config.uid,
        observed_generation=config.generation,
        phase=node_phase(_state(dataset, version)),
        version=config.version,
        bytes_per_second=round(speed),
        source_bytes=dataset.telemetry.fetched_bytes,
        peer_bytes=dataset.telemetry.peer_bytes,
        source_milliseconds=_milliseconds(dataset.source_seconds),
        listing=_listing(dataset),
        error=_error(dataset, version, now),
        failing_reads=_failing_reads(dataset, now),
        retained=dataset.wanted.retained[:MOST_VERSIONS],
        older=tuple(_older(dataset, digest) for digest in islice(dataset.wanted.others, MOST_VERSIONS)),
        pages=dataset.warmed_pages.status,
        memory=memory,
    )
    return base.model_copy(update=_figures(version, speed)) if version is not None else base


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else to_one_digit(max(1.0, 1000.0 * seconds))


def source_rate(dataset: DatasetCache, row: NodeDatasetStatus) -> int | None:
    """Return the bytes a second that its source gives; None while anything but source and network limits its warm-up.

    So it is while readers alone ask, under ``warm.bandwidthLimit``, while a share of its origin holds requests back,
    and while other nodes give as well. ``row``: its status of this moment.
    """
    config, rate = dataset.config, dataset.telemetry.speeds.of_source_alone
    warms = row.phase is NodePhase.WARMING and config.eager and config.bytes_per_second is None
    return round(rate) if warms and rate and not dataset.held_back else None


def _older(dataset: DatasetCache, digest: str) -> OlderVersionStatus:
    asked = any(one.version == digest for one in dataset.config.older)
    # A version that is only retained is not retried, so its old error is no news.
    fetching, error = dataset.versions.fetchings.get(digest), dataset.errors.older.get(digest) if asked else None
    told = _node_error(error) if error is not None else None
    if fetching is None:
        return OlderVersionStatus(version=digest, error=told)
    version, config = fetching.version, dataset.config
    state = DatasetState(
        has_version=True,
        has_manifest=True,
        listing=False,
        complete=version.complete,
        eager=config.eager,
        paused=config.paused or not asked,  # only readers cause further fetches
        settled=_is_full(version),
        failed=error is not None,
        chosen_here=is_chosen_here(version, config.warm_paths),
    )
    return OlderVersionStatus(
        version=digest,
        phase=node_phase(state),
        bytes=version.manifest.info.bytes,
        warm_bytes=version.arrived_bytes,
        error=told,
    )


def _is_full(version: CachedVersion) -> bool:
    """Return True if all files that fit are here, or only compressed copies of them, which have no native mounts."""
    return not left_to_warm(version, State.MISSING) and (left_to_warm(version, State.UNKEPT) or bool(version.packed))


def folder_rows(folders: CacheDisks, datasets: Iterable[DatasetCache]) -> Iterator[CacheFolder]:
    """Describe the cache folders and their use."""
    versions = [version for dataset in datasets for version in dataset.budget.versions.values()]
    for disk in folders.disks:
        used = sum(version.kept_bytes for version in versions if folders.disk_of(version.paths) is disk)
        yield CacheFolder(
            path=str(disk.paths.root),
            medium=Medium.MEMORY if disk.memory else Medium.DISK,
            capacity_bytes=used + disk.free(),
            used_bytes=used,
            available_bytes=0 if disk.trouble else disk.free(),
            healthy=not disk.trouble,
            message=disk.trouble,
        )


def _lacks_unreadable(dataset: DatasetCache, version: CachedVersion) -> bool:
    """Return True if nothing but objects that cannot be read is missing."""
    return dataset.warming.unreadable is not None and not left_to_warm(version, State.MISSING)


def _figures(version: CachedVersion, speed: float) -> dict[str, object]:
    info, here, chosen = version.manifest.info, version.arrived_bytes, paths_status(version)
    left = info.bytes - here if chosen is None else chosen.bytes - chosen.warm_bytes
    return {
        "files": info.files,
        "bytes": info.bytes,
        "warm_files": version.here_files,
        "warm_bytes": here,
        "fetched_files": version.here_files - version.linked_files,
        "eta_seconds": eta_seconds(left, speed) if left > 0 else None,
        "warm_paths": chosen,
    }


def _state(dataset: DatasetCache, version: CachedVersion | None) -> DatasetState:
    config = dataset.config
    return DatasetState(
        has_version=bool(config.version),
        has_manifest=version is not None,
        listing=_listing_due(dataset),
        complete=version is not None and version.complete,
        eager=config.eager,
        paused=config.paused,
        # Only files without room make a node full. The last files may still be in flight.
        evicted=bool(dataset.budget.last_use.evicted),
        settled=dataset.warming.settled
        and version is not None
        and (_is_full(version) or _lacks_unreadable(dataset, version)),
        chosen_here=version is not None and is_chosen_here(version, config.warm_paths),
        failed=_trouble(dataset) is not None,
    )


def _listing_due(dataset: DatasetCache) -> bool:
    wanted = dataset.config.listing_id
    return bool(wanted) and (dataset.listing is None or dataset.listing.id != wanted)


def _listing(dataset: DatasetCache) -> ListingResult | None:
    error = dataset.list_error
    if _listing_due(dataset) and error is not None:
        return ListingResult(id=dataset.config.listing_id, error=_node_error(error))
    return dataset.listing


def _trouble(dataset: DatasetCache) -> SidecarError | None:
    """Return the current error. An error of the listing counts only while there is no version; see ``listing``."""
    listing = dataset.list_loop.error if not dataset.config.version else None
    return dataset.version_loop.error or dataset.errors.current or dataset.warming.denied or listing


def _failing_reads(dataset: DatasetCache, now: float) -> FailingReads | None:
    read = dataset.failing_reads.current(now)
    if read is None:
        return None
    return FailingReads(
        reason=read.reason,
        path=read.path,
        message=read.message,
        temporary=read.temporary,
        since=format_time(read.since),
        version=read.digest,
    )


def _error(dataset: DatasetCache, version: CachedVersion | None, now: float) -> NodeError | None:
    trouble = _trouble(dataset)
    if trouble is not None:
        return _node_error(trouble, version.states.count(State.FAILED) if version is not None else 0)
    if dataset.budget.last_use.evicted:
        return NodeError(reason=Reason.EVICTED, message=dataset.budget.last_use.evicted)
    if version is not None and (unreadable := dataset.warming.unreadable) is not None:
        count, files = version.states.count(State.FAILED), version.manifest.info.files
        message = f"{count:,} of {files:,} objects cannot be read, such as: {unreadable.message}"
        return NodeError(reason=Reason.UNREADABLE_OBJECTS, message=message, temporary=False)
    if version is not None and dataset.warming.settled and left_to_warm(version, State.UNKEPT):
        return _unkept(dataset, version)
    # Last: `failing_reads` has it, too, and users that wait for the warm-up need its errors first.
    reads = _failing_reads(dataset, now)
    if reads is None:
        return None
    return NodeError(reason=reads.reason, message=reads.sentence("reads of pods"), temporary=reads.temporary)


def _node_error(error: SidecarError, files: int = 0) -> NodeError:
    message = f"{files} files could not be fetched, such as: {error.message}" if files > 1 else error.message
    return NodeError(reason=error.reason, message=message, temporary=error.temporary)


def _unkept(dataset: DatasetCache, version: CachedVersion) -> NodeError:
    info, quota = version.manifest.info, dataset.config.quota_bytes
    kept = (
        f"{version.here_files} of {info.files} files ({format_bytes(version.here_bytes)} of {format_bytes(info.bytes)})"
    )
    if version.packed:
        sizes = f"{format_bytes(version.unpacked_bytes)} as {format_bytes(version.packed_bytes)}"
        kept = f"{kept}, {len(version.packed)} of them compressed ({sizes}),"
    if quota is None or info.bytes <= quota:
        has_inodes = dataset.budget.disk_of(version).free_inodes() > 0
        lacks, advice = ("space", MORE_BYTES) if has_inodes else ("inodes", MORE_INODES)
        message = f"the cache disk has {lacks} for {kept} above its floor; the rest is read through: {advice}"
        return NodeError(reason=Reason.DISK_FULL, message=message)
    if version.here_files == 0:
        return NodeError(
            reason=Reason.QUOTA_TOO_SMALL,
            message=f"no file fits cache.quota ({format_bytes(quota)}), so nothing is cached: raise cache.quota",
            temporary=False,
        )
    return NodeError(
        reason=Reason.QUOTA_EXCEEDED,
        message=f"cache.quota ({format_bytes(quota)}) keeps {kept}; the rest is read through",
        temporary=False,
    )
