"""Which phases the workloads of a node go through, and whether the next one was foreseen. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from stoker_api.node_workload import NodeWorkload
from stoker_api.workload_totals import PHASES
from stoker_sidecar.agent.core.history_rows import HistoryRow, phase_row, prediction_row
from stoker_tuning.learning.foresight import Foresight, Prediction
from stoker_tuning.vocabulary import Split, TrainingPhase

_SPLITS = frozenset(Split)
# Seconds between two rows of one workload: what a pod says of itself must not push out what is known of others.
_PACE = 10.0


@dataclass
class _Followed:
    phase: str = ""
    told: float = float("-inf")
    foresight: Foresight = field(default_factory=Foresight)


class SeenPhases:
    """The phases of the workloads that have a row, which are ten at most; who has none any more is forgotten.

    ``changes``: how often each phase began; ``hits``: predictions that were held to what came, by whether it came.
    """

    def __init__(self) -> None:
        self.changes: Counter[str] = Counter()
        self.hits: Counter[bool] = Counter()
        self._followed: dict[str, _Followed] = {}

    def saw(self, rows: Iterable[NodeWorkload], at: float) -> list[HistoryRow]:
        """Take what is known now, at seconds since the epoch; return what is new of it for the history."""
        known = {row.uid: row for row in rows}
        self._followed = {uid: self._followed.get(uid) or _Followed() for uid in known}
        return [entry for uid, row in known.items() for entry in self._told(self._followed[uid], row, at)]

    def next_of(self, uid: str) -> Prediction | None:
        """Return what a workload is expected to do next."""
        followed = self._followed.get(uid)
        return None if followed is None else followed.foresight.next()

    def _told(self, one: _Followed, row: NodeWorkload, at: float) -> Iterator[HistoryRow]:
        if row.phase not in PHASES:
            return
        foresight, before = one.foresight, one.phase
        foresight.splits = frozenset(Split(name) for name in row.splits if name in _SPLITS)
        items = float(row.reads or row.step or 0)
        dataset = row.datasets[0] if row.datasets else ""
        predicted = foresight.next()
        hit = foresight.saw(TrainingPhase(row.phase), items)
        one.phase = row.phase
        if before == row.phase:
            return
        self.changes[row.phase] += 1
        if hit is not None:
            self.hits[hit] += 1
        if at - one.told < _PACE:
            return
        one.told = at
        yield phase_row(at, dataset, row.pod, before, row.phase, items)
        if hit is not None and predicted is not None:
            yield prediction_row(at, dataset, row.pod, predicted, row.phase, hit=hit)
