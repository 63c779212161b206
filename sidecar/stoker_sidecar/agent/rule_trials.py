"""Puts what rules say of fetching ahead on trial, where somebody reads: a TuningSource over that of the profiles."""

import asyncio
import logging
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from stoker_api.node_workload import NodeWorkload
from stoker_sidecar.agent.node_learning import NodeLearning
from stoker_sidecar.agent.plan import NodePlan
from stoker_sidecar.tuning.core.trial_rules import UNSET, AheadValue, ahead_value, names_adaptive
from stoker_sidecar.tuning.source import TuningChoice, TuningSource
from stoker_sidecar.tuning.tuner import Tuner, TuningInForce
from stoker_sidecar.volumes.core.publish import VersionKey
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.wire.fetcher_protocol import Tune
from stoker_tuning.learning.changes import Change, ChangeVerdict
from stoker_tuning.learning.learner import TrialKey
from stoker_tuning.rules.facts import Surroundings
from stoker_tuning.vocabulary import AccessPattern, TrainingPhase

log = logging.getLogger(__name__)
# Seconds of a window that may pass until the fetcher has been told.
TOLD_WITHIN = 1.0
# Windows in a row that do not count, before a trial is given up: what its readers do may not come again.
MOST_LEFT_OUT = 24
# Rules of which is remembered that they make no difference to a version while its readers do the same.
_MOST_IDLE = 512

_Idle = tuple[VersionKey, str, AheadValue, tuple[Surroundings, ...]]


@dataclass
class _Trial:
    """A rule on trial, of a choice, while its readers do the same.

    ``orders``: what the fetcher was told with the rule (True) and without it. ``left_out``: windows in a row that did
    not count.
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
    """The trials of a node's rules: it makes the Changes. ``run`` it; not for threads, but for ``choice``.

    A Change is what one rule says of fetching ahead, for all who read a Dataset, as they read the same copy. What hurt
    is left out for that Dataset until the rule says something else. ``source``: what was chosen. ``workloads``: of the
    node. ``wall``: seconds since the epoch.
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
        self._told: dict[str, TuningChoice] = {}  # what was made of each choice, by the Dataset's UID
        self._idle: dict[_Idle, None] = {}
        self._settled: set[str] = set()
        self.helped: Counter[tuple[str, str]] = Counter()  # by profile and rule, since the agent started
        learning.counts = self.counts

    async def run(self, tuner: Tuner) -> None:
        """Begin and end trials whenever a window has ended or something else is in force, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for news in (self._learning.turns, tuner.news):
                tasks.create_task(self._follow(news, tuner))

    async def _follow(self, news: Changes, tuner: Tuner) -> None:
        while True:
            token = news.token()
            if self.look(tuner.in_force):
                self._plan.changes.mark()
            await news.wait(token)

    def choice(self, dataset_uid: str) -> TuningChoice:
        """Return what is chosen for a Dataset, less what hurt, and less what this window of a trial is without."""
        chosen, told = self._source.choice(dataset_uid), self._told.get(dataset_uid)
        return told if told is not None and told.chosen == chosen else _kept(chosen, told)

    def counts(self, key: TrialKey, began: float) -> bool:
        """Tell whether what a trial asks for was in force in the window that began then: see NodeLearning."""
        trial = next((each for each in self._trials.values() if each.change.dataset == key.dataset), None)
        if trial is None:
            return True
        now = self._in_force.get(trial.version)
        paused = self._learning.learner.value(trial.change) == UNSET
        fits = now is not None and _is_of(trial, now) and (trial.rule in now.choice.paused) is paused
        counts = fits and now is not None and now.since <= began + TOLD_WITHIN
        trial.left_out = 0 if counts else trial.left_out + 1
        return counts

    def is_settled(self, dataset_uid: str) -> bool:
        """Tell whether no rule of a Dataset that somebody reads is on trial, or waits to be."""
        return dataset_uid in self._settled

    def look(self, in_force: Mapping[VersionKey, TuningInForce]) -> bool:
        """Begin and end trials by what is in force now; return whether anything else is chosen from now on."""
        # Nothing is fetched ahead of readers of a whole version.
        self._in_force = in_force = {version: now for version, now in in_force.items() if not now.whole}
        for uid in self._trials.keys() - {uid for uid, _ in in_force}:
            self._give_up(uid)
        self._settled &= {uid for uid, _ in in_force}
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
        """End and begin trials of a version; return what is chosen for its Dataset from now on."""
        uid = version[0]
        so_far = _kept(self._source.choice(uid), before)
        trial = self._trials.get(uid)
        if trial is not None and self._is_over(trial, now, so_far):
            self._give_up(uid)
        if uid not in self._trials:
            self._begin(version, now, so_far, rows)
        return self._made_of(version, now, so_far)

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
                self.helped[trial.chosen.profile, trial.rule] += outcome.verdict is ChangeVerdict.HELPED
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
        """Put the first rule on trial that turns something for this version and of which nothing is known."""
        chosen, name = so_far.chosen, self._plan.name_of(version[0])
        if chosen.off or not chosen.learns or now.choice.ruled != so_far or not _is_read(name, rows):
            return
        learner = self._learning.learner
        self._settled.add(version[0])
        for count in now.rules:
            value = _value_of(chosen, count.rule)
            if value is None or not count.acted or count.rule in so_far.left_out:
                continue
            change = self._change(version, name, now, count.rule, value)
            trial = _Trial(change, value, version, chosen, now.around)
            if not learner.kept(change) and trial.idle not in self._idle and learner.begin(change):
                self._trials[version[0]] = trial
                self._settled.discard(version[0])
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
        """Return what is chosen for a version's Dataset, with what was learned and what is tried."""
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
    """Return a choice with what was left out before, of rules that say the same still."""
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
    if found is None or (choice.finds_numbers and names_adaptive(found)):
        return None
    return ahead_value(found)
