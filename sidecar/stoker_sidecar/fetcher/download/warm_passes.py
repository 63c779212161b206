"""Chooses how a version is warmed: by this node alone, or divided with the others that are to have it."""

from functools import partial
from pathlib import Path

from stoker_api.node_dataset import NodeDataset
from stoker_sidecar.fetcher.core.lanes import WarmShare
from stoker_sidecar.fetcher.core.source_share import SourceShare
from stoker_sidecar.fetcher.download.divided_pass import DividedPass
from stoker_sidecar.fetcher.download.fetching import Fetching
from stoker_sidecar.fetcher.download.neighbours import Meet
from stoker_sidecar.fetcher.download.node_division import Division
from stoker_sidecar.fetcher.download.warming import AccessOrder, WarmLimits, WarmPass


class WarmPasses:
    """Makes the passes of warming of one dataset: divided with other nodes, where there are any that are to have it.

    ``meet`` gives the neighbours, by what the agent leaves in the folder ``meeting``; None: nobody is asked.
    ``allowed``: nobody is, either, where not.
    """

    def __init__(self, meet: Meet, meeting: Path | None, *, allowed: bool = True) -> None:
        self._allowed = allowed
        self._meet = meet
        self._meeting = meeting
        self._division: Division | None = None

    def make(
        self, fetching: Fetching, order: AccessOrder, limits: WarmLimits, share: WarmShare, config: NodeDataset
    ) -> WarmPass:
        """Make the pass over a version of the dataset ``config``."""
        digest = fetching.version.paths.folder.name
        others = (config.peers or config.links) if self._allowed else ()
        if not (config.eager and others and digest == config.version and fetching.tuning.divides):
            return WarmPass(fetching, order, limits, share)
        groups, choice = config.groups, fetching.version.chosen.digest
        position, part = min(config.position, len(config.peers)), SourceShare(groups.first, groups.width)
        division = Division(digest, config.peers, position, config.links, part, choice, groups.distances)
        if self._division is None or self._division.who != division.who:
            self._division = division.after(self._division)
        met = partial(self._meet, self._meeting, config.uid, digest)
        return DividedPass(fetching, order, limits, share, division=self._division, meet=met)
