"""One word for what a node does for a dataset."""

from dataclasses import dataclass

from stoker_api.nodecache import NodePhase


@dataclass(frozen=True)
class DatasetState:
    """What the phase depends on. ``settled``: warming found nothing more that it may fetch."""

    has_version: bool
    has_manifest: bool
    listing: bool
    complete: bool
    eager: bool
    paused: bool
    settled: bool
    failed: bool
    evicted: bool = False


def node_phase(state: DatasetState) -> NodePhase:
    """First rule that holds; a source that fails does not hide that everything is here."""
    if state.complete:
        return NodePhase.WARM
    if state.failed:
        return NodePhase.FAILED
    if not state.has_version:
        return NodePhase.LISTING if state.listing else NodePhase.PENDING
    if not state.has_manifest:
        return NodePhase.PENDING
    if state.paused or not state.eager or state.evicted:
        return NodePhase.IDLE
    return NodePhase.FULL if state.settled else NodePhase.WARMING
