"""Peers that several Datasets of a node share: its NodeCache names them once, and readers copy them into the rows.

Datasets on the same nodes have the same peers (docs/adr/0027), and some thirty addresses are most of a row.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from stoker_api.meta import Model
from stoker_api.node_caches.node_dataset import NodeDataset, PeerLinks, Peers, Position

ROW_FIELDS = {"peers", "position", "groups"}  # fields of a row that are stored here instead


class SharedPeers(Model):
    """The common part of several rows of a NodeCache's spec."""

    rows: Annotated[tuple[int, ...], Field(description="Positions of the rows in `datasets`, from 0.")]
    peers: Peers = ()
    position: Position = 0
    groups: PeerLinks = PeerLinks()

    def wire(self) -> dict[str, object]:
        """Return the JSON form, without defaults."""
        return self.model_dump(by_alias=True, exclude_defaults=True, mode="json")


def shared_by(rows: Sequence[NodeDataset]) -> Sequence[SharedPeers]:
    """Return the common parts of two or more rows. Pure."""
    alike: dict[tuple[tuple[str, ...], int, PeerLinks], list[int]] = {}
    for at, row in enumerate(rows):
        if row.peers:
            alike.setdefault((row.peers, row.position, row.groups), []).append(at)
    return [
        SharedPeers(rows=tuple(numbers), peers=peers, position=position, groups=groups)
        for (peers, position, groups), numbers in alike.items()
        if len(numbers) > 1
    ]


def spread(rows: Sequence[Any], blocks: Iterable[Any]) -> list[Any]:
    """Return rows from JSON with the fields of ``blocks``, also from JSON. Rows of a block have the same ``groups``.

    Raises ValueError if a block names a missing row.
    """
    found = list(rows)
    for block in blocks:
        shared = SharedPeers.model_validate(block)
        told = {**_told(block), "groups": shared.groups}
        for at in shared.rows:
            if not 0 <= at < len(found) or not isinstance(found[at], Mapping):
                raise ValueError(f"peers refer to row {at}, which does not exist")
            found[at] = {**found[at], **told}
    return found


def _told(block: Any) -> Mapping[str, Any]:
    return {key: value for key, value in block.items() if key in ROW_FIELDS} if isinstance(block, Mapping) else {}
