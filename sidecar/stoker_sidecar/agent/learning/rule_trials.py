"""Tests prefetch rules on Datasets with active readers: a TuningSource on top of the profiles' source."""

import asyncio
import logging
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from stoker_api.node_caches.node_workload import NodeWorkload
from stoker_sidecar.agent.learning.node_learning import NodeLearning
from stoker_sidecar.agent.planning.plan import NodePlan
from stoker_sidecar.tuning.core.trial_rules import UNSET, AheadValue, ahead_value
from stoker_sidecar.tuning.source import TuningChoice, TuningSource
from stoker_sidecar.tuning.tuner import Tuner, TuningInForce
from stoker_sidecar.volumes.core.publish import VersionKey
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.wire.fetcher_hints import Tune
from stoker_tuning.learning.changes import Change
from stoker_tuning.learning.learner import TrialKey
from stoker_tuning.rules.facts import Surroundings
from stoker_tuning.vocabulary import AccessPattern, TrainingPhase

log = logging.getLogger(__name__)
# Seconds of a window in which the fetcher must receive the trial's value.
TOLD_WITHIN = 1.0
# Consecutive ignored windows after which a trial ends: its readers may never return to that activity.
MOST_LEFT_OUT = 24
# Remembered rules that make no difference to a version while its readers do the same.
_MOST_IDLE = 512

# Remembered rules that helped a Dataset. The learner remembers as many outcomes.
_MOST_HELPING = 1024

_Idle = tuple[VersionKey, str, AheadValue, tuple[Surroundings, ...]]


class _Helping(NamedTuple):
    """A rule of a profile that helped a Dataset, with its value."""

    profile: str
    rule: str
    uid: str
    value: AheadValue


@dataclass
class _Trial:
    """A rule on trial, valid for one choice and one activity of its readers.

    ``orders``: the fetcher's orders with the rule (True) and without it. ``left_out``: consecutive ignored windows.
    """

    change: Change
    value: AheadValue
    version: VersionKey
    chosen: TuningChoice
    around: tuple[Surroundings, ...]
    orders: dict[bool, Tune | None] = field(default_factory=dict)
    left_out: int = 0

    @property
    def rule(self) -> str:
        return self.change.origin

    @property
    def idle(self) -> _Idle:
        return self.version, self.rule, self.value, self.around

    @property
    def makes_no_difference(self) -> bool:
        return len(self.orders) == 2 and self.orders[True] == self.orders[False]


class RuleTrials:
    """The trials of a node's rules. Call ``run``, and give ``counts`` to the learning. Only ``choice`` is thread-safe.

    A Change is one rule's prefetch value for all readers of a Dataset, since they share one copy. A harmful rule is
    omitted for that Dataset until the rule changes. ``source``: the original choices. ``workloads``: rows of the node.
    ``wall``: seconds since the epoch.
    """

    def __init__(
        self,
        source: TuningSource,
        plan: NodePlan,
        learning: NodeLearning,
        workloads: Callable[[], Iterable[NodeWorkload]],
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._source = source
        self._plan = plan
        self._learning = learning
        self._workloads = workloads
        self._wall = wall
        self._in_force: Mapping[VersionKey, TuningInForce] = {}
        self._trials: dict[str, _Trial] = {}  # by the Dataset's UID
        self._told: dict[str, TuningChoice] = {}  # the adjusted choices, by the Dataset's UID
        self._idle: dict[_Idle, None] = {}
        self._helping: dict[_Helping, None] = {}

    async def run(self, tuner: Tuner) -> None:
        """Begin and end trials after each window and each change of rules in force, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for news in (self._learning.turns, tuner.news):
                tasks.create_task(self._follow(news, tuner))

    async def _follow(self, news: Changes, tuner: Tuner) -> None:
        while True:
            token = news.token()
            if self.look(tuner.in_force):
                self._plan.changes.mark()
            await news.wait(token)

    @property
    def helped(self) -> Counter[tuple[str, str]]:
        """Number of Datasets that a rule helped, by profile and rule. Trials of earlier agents count too."""
        return Counter((each.profile, each.rule) for each in self._helping)

    def choice(self, dataset_uid: str) -> TuningChoice:
        """Return a Dataset's choice without harmful rules, and without the rule that a trial pauses in this window."""
        chosen, told = self._source.choice(dataset_uid), self._told.get(dataset_uid)
        return told if told is not None and told.chosen == chosen else _kept(chosen, told)

    def counts(self, key: TrialKey, began: float) -> bool:
        """Return True if the trial's value was in force in the window that began at ``began``. See NodeLearning."""
        trial = next((each for each in self._trials.values() if each.change.dataset == key.dataset), None)
        if trial is None:
            return True
        now = self._in_force.get(trial.version)
        paused = self._learning.learner.value(trial.change) == UNSET
        fits = now is not None and _is_of(trial, now) and (trial.rule in now.choice.paused) is paused
        counts = fits and now is not None and now.since <= began + TOLD_WITHIN
        trial.left_out = 0 if counts else trial.left_out + 1
        return counts

    def look(self, in_force: Mapping[VersionKey, TuningInForce]) -> bool:
        """Begin and end trials from the rules in force now. Return True if a choice changed."""
        for version, now in in_force.items():
            self._credit(version, now)
        # A complete version needs no prefetch.
        self._in_force = in_force = {version: now for version, now in in_force.items() if not now.whole}
        for uid in self._trials.keys() - {uid for uid, _ in in_force}:
            self._give_up(uid)
        rows, before = tuple(self._workloads()), self._told
        self._told = {}
        for version, now in in_force.items():
            uid = version[0]
            try:
                self._told[uid] = self._look_at(version, now, rows, before.get(uid))
            except Exception as error:  # noqa: BLE001 -- rules are anyone's, and those of one Dataset must end nothing else
                log.debug("nothing is tried for dataset %s: %r", uid, error)  # the Tuner says so aloud
                self._give_up(uid)
        return any(before.get(uid, told.chosen) != told for uid, told in self._told.items())

    def _look_at(
        self, version: VersionKey, now: TuningInForce, rows: Iterable[NodeWorkload], before: TuningChoice | None
    ) -> TuningChoice:
        """End and begin trials of a version. Return the new choice of its Dataset."""
        uid = version[0]
        so_far = _kept(self._source.choice(uid), before)
        trial = self._trials.get(uid)
        if trial is not None and self._is_over(trial, now, so_far):
            self._give_up(uid)
        if uid not in self._trials:
            self._begin(version, now, so_far, rows)
        return self._made_of(version, now, so_far)

    def _credit(self, version: VersionKey, now: TuningInForce) -> None:
        """Count the rules in force that helped this Dataset. The history has the outcomes of earlier agents."""
        name, learner = self._plan.name_of(version[0]), self._learning.learner
        try:
            for count in now.rules:
                value = _value_of(now.choice, count.rule)
                if value is not None and learner.helped(self._change(version, name, now, count.rule, value)):
                    self._helping[_Helping(now.choice.profile, count.rule, version[0], value)] = None
        except Exception as error:  # noqa: BLE001 -- rules are anyone's, see ``look``
            log.debug("the rules of dataset %s are not counted: %r", version[0], error)
        while len(self._helping) > _MOST_HELPING:
            del self._helping[next(iter(self._helping))]

    def _give_up(self, uid: str) -> None:
        trial = self._trials.pop(uid, None)
        if trial is not None and self._learning.learner.value(trial.change) is not None:
            self._learning.learner.forget(trial.change.dataset, trial.change.workload)

    def _is_over(self, trial: _Trial, now: TuningInForce, so_far: TuningChoice) -> bool:
        change = trial.change
        if self._learning.learner.value(change) is None:
            outcome = next((each for each in self._learning.decisions if each.change.id == change.id), None)
            if outcome is not None:
                log.info("rule %s for %s: %s", trial.rule, change.dataset, outcome.verdict)
            return True
        if _is_of(trial, now):
            trial.orders[trial.rule not in now.choice.paused] = now.order
        if trial.makes_no_difference:
            if len(self._idle) >= _MOST_IDLE:
                del self._idle[next(iter(self._idle))]
            self._idle[trial.idle] = None
        return so_far.chosen != trial.chosen or trial.makes_no_difference or trial.left_out >= MOST_LEFT_OUT

    def _begin(
        self, version: VersionKey, now: TuningInForce, so_far: TuningChoice, rows: Iterable[NodeWorkload]
    ) -> None:
        """Begin a trial of the first rule that affects this version and has no known outcome."""
        chosen, name = so_far.chosen, self._plan.name_of(version[0])
        if chosen.off or not chosen.learns or now.choice != so_far or not _is_read(name, rows):
            return
        learner = self._learning.learner
        for count in now.rules:
            value = _value_of(chosen, count.rule)
            if value is None or not count.acted or count.rule in so_far.left_out:
                continue
            change = self._change(version, name, now, count.rule, value)
            trial = _Trial(change, value, version, chosen, now.around)
            if not learner.kept(change) and trial.idle not in self._idle and learner.begin(change):
                self._trials[version[0]] = trial
                return

    def _change(self, version: VersionKey, name: str, now: TuningInForce, rule: str, value: AheadValue) -> Change:
        around = now.around[0] if now.around else Surroundings()
        return Change(
            uuid.uuid4().hex,
            self._wall(),
            name,
            version[1],
            None,
            around.workload.phase or TrainingPhase.UNKNOWN,
            around.access.pattern or AccessPattern.UNKNOWN,
            value.knob,
            UNSET,
            value.value,
            rule,
        )

    def _made_of(self, version: VersionKey, now: TuningInForce, so_far: TuningChoice) -> TuningChoice:
        """Return the choice for a version's Dataset, with harmful rules omitted and the trial's rule paused."""
        uid, name, learner = version[0], self._plan.name_of(version[0]), self._learning.learner
        if so_far.off or not so_far.learns:
            return so_far.chosen
        against = set(so_far.left_out)
        for count in now.rules:
            value = _value_of(so_far, count.rule)
            if value is not None and learner.against(self._change(version, name, now, count.rule, value)):
                against.add(count.rule)
        trial = self._trials.get(uid)
        paused = {trial.rule} if trial is not None and learner.value(trial.change) == UNSET else set()
        return replace(so_far, left_out=frozenset(against), paused=frozenset(paused))


def _kept(chosen: TuningChoice, before: TuningChoice | None) -> TuningChoice:
    """Return a choice that still omits the harmful rules that have not changed."""
    if before is None or chosen.off or not chosen.learns:
        return chosen
    same = (rule for rule in before.left_out if _value_of(before, rule) == _value_of(chosen, rule))
    return replace(chosen, left_out=frozenset(same))


def _is_of(trial: _Trial, now: TuningInForce) -> bool:
    return (now.choice.chosen, now.around) == (trial.chosen, trial.around)


def _is_read(name: str, rows: Iterable[NodeWorkload]) -> bool:
    return any(name in row.datasets and (row.items_per_second or 0) > 0 for row in rows)


def _value_of(choice: TuningChoice, rule: str) -> AheadValue | None:
    found = next((each for each in choice.rules if each.id == rule), None)
    return None if found is None else ahead_value(found)
