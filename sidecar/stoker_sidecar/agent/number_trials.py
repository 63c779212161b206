"""Finds numbers of fetching ahead for Datasets that ask for Adaptive: a TuningSource over that of the rules' trials."""

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from stoker_sidecar.agent.core.number_windows import NumberWindow, WindowTimes
from stoker_sidecar.agent.core.read_counts import ReadCount, items_a_second
from stoker_sidecar.agent.node_learning import NodeLearning
from stoker_sidecar.tuning.core.adaptive_numbers import SIZE, number_to_find
from stoker_sidecar.tuning.source import TuningChoice, TuningSource
from stoker_sidecar.tuning.tuner import Tuner, TuningInForce
from stoker_sidecar.volumes.core.publish import VersionKey
from stoker_sidecar.volumes.synchronization import Changes
from stoker_tuning.learning.adopted import NUMBERS_ORIGIN
from stoker_tuning.learning.changes import Change
from stoker_tuning.learning.windows import FigureWindow
from stoker_tuning.recommend.knobs import Knob
from stoker_tuning.rules.facts import Surroundings
from stoker_tuning.vocabulary import AccessPattern, TrainingPhase

log = logging.getLogger(__name__)
# Windows in a row in which nothing was read, before a search is given up; what was adopted stays known.
MOST_IDLE = 24
# Seconds of reading after which rules are waited for no longer: who reads one large file opens none by which they are
# judged.
PATIENCE = 30.0
# Looks in each part of a window, and seconds between them at most.
_LOOKS, _LOOK_SECONDS = 10.0, 1.0


class CountReader(Protocol):
    """Who knows what was read of a Dataset so far: of its large files in chunks, or how many files."""

    def __call__(self, uid: str, *, large: bool) -> ReadCount | None:
        """Return it; None: that is not seen."""


@dataclass
class _Search:
    """A number of a Dataset that is looked for, while its readers do the same and the choice stays.

    ``idle``: windows in a row in which nothing was read.
    """

    name: str
    knob: Knob
    start: float
    version: VersionKey
    chosen: TuningChoice
    around: tuple[Surroundings, ...]
    window: NumberWindow | None = None
    idle: int = 0


class NumberTrials:
    """The searches of a node. ``run`` it; not for threads.

    ``source``: what was chosen. ``learning``: where it is decided, and kept. ``name_of``: NAMESPACE/NAME of a Dataset,
    by its UID. ``reads``: what was read of one so far. ``changes``: to be marked when something else is chosen.
    ``settled``: whether no rule of it is on trial, or waits to be. ``clock``: seconds, monotonic; ``wall``: since the
    epoch.
    """

    def __init__(
        self,
        source: TuningSource,
        learning: NodeLearning,
        name_of: Callable[[str], str],
        reads: CountReader,
        changes: Changes,
        settled: Callable[[str], bool] = lambda uid: True,
        times: WindowTimes = WindowTimes(),  # noqa: B008 -- frozen
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._source = source
        self._learning = learning
        self._name_of = name_of
        self._reads = reads
        self._changes = changes
        self._settled = settled
        self._times = times
        self._clock = clock
        self._wall = wall
        self._searches: dict[str, _Search] = {}  # by the Dataset's UID
        self._seen: dict[str, ReadCount] = {}  # before anything was looked for

    async def run(self, tuner: Tuner) -> None:
        """Look a few times in each window, and whenever something else is in force, until cancelled."""
        seconds = min(_LOOK_SECONDS, min(self._times.left_out, self._times.counted) / _LOOKS)
        while True:
            token = tuner.news.token()
            self.look(tuner.in_force)
            wanted = any(now.adaptive is not None for now in tuner.in_force.values())
            await tuner.news.wait(token, seconds if wanted else None)
            if wanted:
                await asyncio.sleep(seconds / 2)  # news of many versions at once are one

    def choice(self, dataset_uid: str) -> TuningChoice:
        """Return what is chosen for a Dataset, with the number of this window."""
        chosen, search = self._source.choice(dataset_uid), self._searches.get(dataset_uid)
        if search is None or not chosen.finds_numbers or chosen.chosen != search.chosen:
            return chosen
        value = self._learning.learner.tuned(search.name, None, search.knob.name)
        return chosen if value is None or value == search.start else _with(chosen, search.knob.name, value)

    def look(self, in_force: Mapping[VersionKey, TuningInForce]) -> None:
        """Begin, go on with and end searches by what is in force now."""
        open_ones = {version[0]: (version, now) for version, now in in_force.items() if _may_find(now)}
        for uid in self._searches.keys() - open_ones.keys():
            self._give_up(uid)
        self._seen = {uid: count for uid, count in self._seen.items() if uid in open_ones}
        for uid, (version, now) in open_ones.items():
            before = self._choice_or_none(uid)
            search = self._searches.get(uid)
            if search is not None and (version, now.choice.chosen) != (search.version, search.chosen):
                self._give_up(uid)
            if uid in self._searches:
                self._go_on(uid, self._searches[uid], now)
            else:
                self._begin(version, now)
            if self._choice_or_none(uid) != before:
                self._changes.mark()

    def _choice_or_none(self, uid: str) -> TuningChoice | None:
        """Return what is chosen; None where the source is in trouble, which who turns knobs says aloud."""
        try:
            return self.choice(uid)
        except Exception as error:  # noqa: BLE001 -- rules are anyone's, and those of one Dataset must end nothing else
            log.debug("nothing is found for dataset %s: %r", uid, error)
            return None

    def _give_up(self, uid: str) -> None:
        search = self._searches.pop(uid)
        self._learning.learner.stop_tuning(search.name, None)
        self._changes.mark()

    def _begin(self, version: VersionKey, now: TuningInForce) -> None:
        """Look for the number that counts for most of a version, once somebody reads it and no rule is on trial."""
        uid = version[0]
        knob = number_to_find(now.adaptive, now.choice.most_level) if now.adaptive is not None else None
        if now.adaptive is None or knob is None:
            return
        count = self._reads(uid, large=knob.name == SIZE)
        if count is None or not self._may_begin(uid, count):
            return
        name, start = self._name_of(uid), now.adaptive.starts[knob.name]

        def change(old: float, new: float) -> Change:
            return self._change(uid, old, new)

        self._searches[uid] = _Search(name, knob, start, version, now.choice.chosen, now.around)
        if not self._learning.learner.tune(name, None, knob, start, change):
            del self._searches[uid]
            return
        log.info("%s of %s is looked for, from %d on", knob.name, name, start)

    def _may_begin(self, uid: str, count: ReadCount) -> bool:
        """Tell whether it is read, and no rule is to be tried first."""
        before = self._seen.setdefault(uid, count)
        if items_a_second(before, count) is None:
            self._seen[uid] = count
            return False
        return self._settled(uid) or count.until - before.until >= PATIENCE

    def _change(self, uid: str, old: float, new: float) -> Change:
        search = self._searches[uid]
        around = search.around[0] if search.around else Surroundings()
        return Change(
            uuid.uuid4().hex,
            self._wall(),
            search.name,
            search.version[1],
            None,
            around.workload.phase or TrainingPhase.UNKNOWN,
            around.access.pattern or AccessPattern.UNKNOWN,
            search.knob.name,
            old,
            new,
            NUMBERS_ORIGIN,
        )

    def _go_on(self, uid: str, search: _Search, now: TuningInForce) -> None:
        """Judge the window that has ended, if one has; what was not in force as chosen all through it is left out."""
        count, wanted = self._reads(uid, large=search.knob.name == SIZE), self._choice_or_none(uid)
        rules = any(key.dataset == search.name for key in self._learning.learner.trials)
        if count is None or now.choice != wanted or search.around != now.around or rules:
            search.window, search.around = None, now.around
            return
        if search.window is None:
            search.window = NumberWindow(self._times, self._clock())
        ends = search.window.saw(self._clock(), count)
        if ends is None:
            return
        search.window = None
        rate = items_a_second(*ends)
        search.idle = 0 if rate else search.idle + 1
        if rate:
            self._judge(search, rate)
        elif search.idle >= MOST_IDLE:
            self._seen.pop(uid, None)
            self._give_up(uid)

    def _judge(self, search: _Search, rate: float) -> None:
        learner = self._learning.learner
        value = learner.tuned(search.name, None, search.knob.name)
        log.debug("%s of %s: %s came to %.3f items a second", search.knob.name, search.name, value, rate)
        for outcome in learner.saw(search.name, None, FigureWindow(rate), self._wall()):
            change = outcome.change
            log.info("%s of %s, %s to %s: %s", change.knob, change.dataset, change.old, change.new, outcome.verdict)
            self._learning.decided(outcome)


def _may_find(now: TuningInForce) -> bool:
    # Nothing is fetched ahead of readers of a whole version.
    return now.adaptive is not None and not now.whole and now.choice.finds_numbers


def _with(chosen: TuningChoice, knob: str, value: float) -> TuningChoice:
    return replace(chosen, numbers=((knob, value),))
