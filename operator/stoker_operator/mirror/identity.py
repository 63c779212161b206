"""Identifies the object and the revision that a view shows: its UID and its resourceVersion."""

from collections.abc import Mapping
from typing import NamedTuple

from stoker_api.meta import Resource
from stoker_kube.api import Object
from stoker_operator.core.classes.dataset_classes import InvalidClass
from stoker_operator.core.classes.profiles import ProfileView
from stoker_operator.core.kueue.kueue_objects import AdmissionCheckView, QueuedWorkload
from stoker_operator.core.views.cluster import InvalidDataset, InvalidTrainingJob, NodeView, PodView


class Seen(NamedTuple):
    """The identity of an object's last known state.

    ``version`` is the resourceVersion as an ordered number (KEP-5504). An unknown UID is "", an unknown version is 0.
    """

    uid: str
    version: int

    def is_older_than(self, other: "Seen") -> bool:
        """Return True if both are states of the same object and this one is older."""
        return self.uid == other.uid and 0 < self.version < other.version


NOBODY = Seen("", 0)


def identity_of(view: object) -> Seen:
    """Return the UID and the version of a row of the mirror."""
    if isinstance(view, Resource | InvalidDataset | InvalidTrainingJob | InvalidClass | ProfileView):
        return Seen(view.metadata.uid, version_of(view.metadata.resource_version))
    if isinstance(view, PodView | QueuedWorkload | AdmissionCheckView):
        return Seen(view.uid, view.version)
    if isinstance(view, NodeView):
        return Seen(view.uid, 0)  # only the watch reports nodes, so they need no version
    return seen_of(view) if isinstance(view, Mapping) else NOBODY


def seen_of(item: Mapping[str, Object]) -> Seen:
    """Read the UID and the resourceVersion of an object from the API server."""
    meta = item["metadata"]
    return Seen(str(meta.get("uid", "")), version_of(str(meta.get("resourceVersion", ""))))


def version_of(text: str) -> int:
    """Parse a resourceVersion; 0 if it is not a number."""
    return int(text) if text.isdecimal() else 0
