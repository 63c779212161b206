"""What kopf calls: every event of a Dataset or a TrainingJob, handed on as it is."""

from collections.abc import Callable
from typing import Any, Final

import kopf

from stoker_api import names
from stoker_kube.api import Object
from stoker_kube.resources import DATASETS, TRAINING_JOBS, Kind

Deliver = Callable[[Kind, str | None, Object], None]


class WatchedKinds:
    """The handlers of both kinds. ``deliver(kind, event, object)`` must be quick and safe in kopf's thread.

    They are ``kopf.on.event``, which is called for each event of the watch on every replica, and writes nothing: with
    create, update or delete handlers kopf would put annotations and a finalizer of its own onto users' objects.
    """

    def __init__(self, deliver: Deliver) -> None:
        self._deliver: Final = deliver

    def register(self, registry: kopf.OperatorRegistry) -> None:
        """Tell kopf about the handlers."""
        kopf.on.event(names.GROUP, names.VERSION, DATASETS.plural, registry=registry, id="dataset")(self.dataset)
        kopf.on.event(names.GROUP, names.VERSION, TRAINING_JOBS.plural, registry=registry, id="training-job")(
            self.training_job
        )

    async def dataset(self, *, event: kopf.RawEvent, **_: Any) -> None:
        """Hand on an event of a Dataset."""
        self._deliver(DATASETS, event["type"], dict(event["object"]))

    async def training_job(self, *, event: kopf.RawEvent, **_: Any) -> None:
        """Hand on an event of a TrainingJob."""
        self._deliver(TRAINING_JOBS, event["type"], dict(event["object"]))
