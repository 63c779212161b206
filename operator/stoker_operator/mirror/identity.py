"""Which object a view shows, and at which moment of its life: its UID and its resourceVersion."""

from collections.abc import Mapping
from typing import NamedTuple

from stoker_api.meta import Resource
from stoker_kube.api import Object
from stoker_operator.core.dataset_classes import InvalidClass
from stoker_operator.core.kueue_objects import AdmissionCheckView, QueuedWorkload
from stoker_operator.core.profiles import ProfileView
from stoker_operator.core.views import InvalidDataset, InvalidTrainingJob, NodeView, PodView


class Seen(NamedTuple):
    """An object as it was told of last.

    Its UID, and its resourceVersion as the ordered number that it is (KEP-5504); "" and 0 when unknown.
    """

    uid: str
    version: int

    def is_older_than(self, other: "Seen") -> bool:
        """Tell whether both are states of one object, and this one came before the other."""
        return self.uid == other.uid and 0 < self.version < other.version


NOBODY = Seen("", 0)


def identity_of(view: object) -> Seen:
    """Return what is known of the identity of a row of the mirror."""
    if isinstance(view, Resource | InvalidDataset | InvalidTrainingJob | InvalidClass | ProfileView):
        return Seen(view.metadata.uid, version_of(view.metadata.resource_version))
    if isinstance(view, PodView | QueuedWorkload | AdmissionCheckView):
        return Seen(view.uid, view.version)
    if isinstance(view, NodeView):
        return Seen(view.uid, 0)  # nobody but the watch tells of nodes
    return seen_of(view) if isinstance(view, Mapping) else NOBODY


def seen_of(item: Mapping[str, Object]) -> Seen:
    """Read UID and resourceVersion of an object as it came."""
    meta = item["metadata"]
    return Seen(str(meta.get("uid", "")), version_of(str(meta.get("resourceVersion", ""))))


def version_of(text: str) -> int:
    """Read a resourceVersion as the number that it is; 0 when it is none."""
    return int(text) if text.isdecimal() else 0
