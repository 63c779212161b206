"""Neighbours that a node has of several Datasets alike: its NodeCache names them once, and its readers spread them.

Datasets on the same nodes have the same neighbours (docs/adr/0115), and some thirty addresses are most of a row.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from stoker_api.meta import Model
from stoker_api.node_dataset import NeighbourGroups, NodeDataset, Peers, Position

ROW_FIELDS = {"peers", "position", "groups"}  # of a row, which are here instead


class SharedNeighbours(Model):
    """What several rows of a NodeCache's spec are told alike."""

    rows: Annotated[tuple[int, ...], Field(description="Which of `datasets`, by their place in the list, from 0.")]
    peers: Peers = ()
    position: Position = 0
    groups: NeighbourGroups = NeighbourGroups()

    def wire(self) -> dict[str, object]:
        """Return the JSON form, of what differs from its default."""
        return self.model_dump(by_alias=True, exclude_defaults=True, mode="json")


def shared_by(rows: Sequence[NodeDataset]) -> Sequence[SharedNeighbours]:
    """Return what two rows or more are told alike. Pure."""
    alike: dict[tuple[tuple[str, ...], int, NeighbourGroups], list[int]] = {}
    for at, row in enumerate(rows):
        if row.peers:
            alike.setdefault((row.peers, row.position, row.groups), []).append(at)
    return [
        SharedNeighbours(rows=tuple(numbers), peers=peers, position=position, groups=groups)
        for (peers, position, groups), numbers in alike.items()
        if len(numbers) > 1
    ]


def spread(rows: Sequence[Any], blocks: Iterable[Any]) -> list[Any]:
    """Return the rows as they came from JSON with what ``blocks``, from JSON as well, say of them.

    Raises ValueError where they make no sense together.
    """
    found = list(rows)
    for block in blocks:
        told = _told(block)
        for at in SharedNeighbours.model_validate(block).rows:
            if not 0 <= at < len(found) or not isinstance(found[at], Mapping):
                raise ValueError(f"neighbours are those of row {at}, and there is no such row")
            found[at] = {**found[at], **told}
    return found


def _told(block: Any) -> Mapping[str, Any]:
    return {key: value for key, value in block.items() if key in ROW_FIELDS} if isinstance(block, Mapping) else {}
