"""The TuningProfiles of this node's Datasets: watch them, and read them when they change."""

import asyncio
import logging
from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING

from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.profiles.tuning import NodeProfile, NodeTuning
from stoker_kube.api import Kube
from stoker_kube.resources import TUNING_PROFILES
from stoker_kube.watch import EventType, WatchEvent, watch
from stoker_sidecar.agent.learning.profile_reading import (
    ProfileDocument,
    RulesInForce,
    built_in,
    choice_of,
    profile_rows,
    read_again,
)
from stoker_sidecar.agent.planning.plan import NodePlan
from stoker_sidecar.tuning.source import TuningChoice
from stoker_tuning.rules.spec import RuleSpec

if TYPE_CHECKING:
    from stoker_tuning.documents.profile_models import TuningDocument

log = logging.getLogger(__name__)

_Key = tuple[str, str, str]  # a profile, a template and an environment; each may be empty


class TuningProfiles:
    """The tuning choices of this node's Datasets: a TuningSource.

    A changed profile applies a moment later. An invalid one leaves the previous rules in force; a deleted one leaves
    the built-in rules. Only the event loop uses it; documents are read in a thread.

    ``plugins``: the documents of framework plug-ins, whose rules apply next to the built-in ones. The plan's changes
    are marked when these documents change.
    """

    def __init__(
        self, kube: Kube, plan: NodePlan, plugins: "Callable[[], tuple[TuningDocument, ...]]" = lambda: ()
    ) -> None:
        self._kube = kube
        self._plan = plan
        self._plugins = plugins
        self._read_with: tuple[TuningDocument, ...] = ()
        self._rules: tuple[RuleSpec, ...] | None = None  # for Datasets without a choice; None: the built-in ones only
        self._documents: dict[str, ProfileDocument] = {}
        self._synced = False
        self._readings: dict[_Key, RulesInForce] = {}
        self._in_force: tuple[RulesInForce, ...] = ()  # the same readings, replaced as a whole, for use in threads
        self._tunings: dict[str, NodeTuning] = {}  # of the plan's Datasets, by UID
        self._seen: tuple[NodeDataset, ...] = ()

    async def run(self) -> None:
        """Watch and read until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch())
            tasks.create_task(self._keep_read())

    def choice(self, dataset_uid: str) -> TuningChoice:
        """Return the choice for a Dataset; the built-in rules if it is not planned."""
        tuning = self._told().get(dataset_uid) or NodeTuning()
        reading = self._readings.get(tuning.documents)
        return choice_of(tuning, reading, off=not self._plan.tuned, rules=self._rules)

    def rules(self) -> list[RuleSpec]:
        """Return the rules in force for any Dataset here, each once. The first call blocks. Thread-safe."""
        found: dict[tuple[str, str, str], RuleSpec] = {}
        for rule in chain(self._rules or built_in(), *(one.rules for one in self._in_force)):
            found.setdefault((rule.origin.layer, str(rule.origin), rule.id), rule)
        return list(found.values())

    def rows(self) -> tuple[NodeProfile, ...]:
        """Return the profiles' rows for the status; empty if tuning is off on this node."""
        return profile_rows(self._told().values(), self._readings) if self._plan.tuned else ()

    def _told(self) -> dict[str, NodeTuning]:
        if self._seen is not self._plan.datasets:
            self._seen = self._plan.datasets
            self._tunings = {dataset.uid: dataset.tuning for dataset in self._seen}
        return self._tunings

    async def _watch(self) -> None:
        async for event in watch(self._kube, TUNING_PROFILES):
            if event.type is EventType.SYNCED:
                self._synced = True
                self._plan.changes.mark()
            elif self._take(event) and self._synced:
                self._plan.changes.mark()

    def _take(self, event: WatchEvent) -> bool:
        """Take one event. Return True if a document changed."""
        document = ProfileDocument.of(event.object)
        if event.type is EventType.DELETED:
            return self._documents.pop(document.name, None) is not None
        known = self._documents.get(document.name)
        if known is not None and (known.uid, known.generation) == (document.uid, document.generation):
            return False  # only its status changed
        self._documents[document.name] = document
        return True

    async def _keep_read(self) -> None:
        while True:
            token = self._plan.changes.token()
            if self._synced and await self._read_what_changed():
                self._plan.changes.mark()
            await self._plan.changes.wait(token)

    async def _read_what_changed(self) -> bool:
        """Read the wanted documents that changed. Return True if any rules may have changed."""
        wanted = {one.documents for one in self._told().values() if one.enabled and one.asks}
        plugins = self._plugins()
        others = plugins != self._read_with
        if others:
            self._rules = await asyncio.to_thread(built_in, plugins) if plugins else None
            self._read_with = plugins
        gone = self._readings.keys() - wanted
        for key in gone:
            del self._readings[key]
        news = bool(gone) or others
        for key in sorted(wanted):
            name = key[0]
            document, last = self._documents.get(name), self._readings.get(key)
            if last is not None and last.document is document and not others:
                continue
            reading = await asyncio.to_thread(read_again, key, document, last, plugins)
            self._readings[key] = reading
            news = True
            if reading.message:
                log.warning("TuningProfile %s: %s", name, reading.message)
            if reading.note:
                log.warning("tuning: %s", reading.note)
        self._in_force = tuple(self._readings.values())
        return news
