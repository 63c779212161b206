"""Actions that follow only from changes equal the actions of a full pass over all Datasets."""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_api.datasets.dataset import Dataset
from stoker_api.datasets.dataset_status import DatasetStatus
from stoker_operator.core.incremental.dataset_decision import Decision
from stoker_operator.core.incremental.decision import IncrementalDecision
from stoker_operator.mirror.state import ClusterState
from stoker_operator.reconcilers.credential_rights import CredentialRights
from stoker_operator.reconcilers.dataset_finalizers import DatasetFinalizers
from stoker_operator.reconcilers.dataset_statuses import DatasetStatuses, Troubles
from stoker_operator.reconcilers.dataset_volumes import DatasetVolumes
from stoker_operator.reconcilers.loops.turns import KeyedAction
from tests.model.stoker_operator.test_kept_decision import World, change, new_world, write
from tests.unit.stoker_operator.builders import NOW, listed, make_dataset, make_node, make_view


class _PassFailedError(Exception):
    """Ends a pass early."""


class Keepers:
    """All reconcilers that follow changed Datasets. Their actions never run."""

    def __init__(self) -> None:
        nobody: Any = None
        state = ClusterState("stoker")
        self.volumes = DatasetVolumes(nobody, lambda: NOW, lambda: None)
        self._finalizers = DatasetFinalizers(nobody, state, self.volumes)
        self._statuses = DatasetStatuses(nobody, state, nobody, lambda: NOW)
        self._rights = CredentialRights(nobody, state, "stoker")

    def begin(self, decision: Decision, troubles: Troubles | None, steps: int) -> None:
        """Compute the first statuses, in a pass that fails after ``steps`` Datasets."""
        numbers = count()

        def note(dataset: Dataset) -> str:
            if next(numbers) == steps:
                raise _PassFailedError
            return self.volumes.note(dataset)

        with suppress(_PassFailedError):
            self._statuses.work_out(decision, note, troubles)

    def wishes(self, decision: Decision, troubles: Troubles | None) -> set[tuple[str, bool]]:
        """Return the keys of all actions, each with True if its status reports a failed write."""
        self._statuses.work_out(decision, self.volumes.note, troubles)
        actions = [
            *self._rights.actions(decision),
            *self._finalizers.actions(decision),
            *self.volumes.actions(decision.view.datasets, decision.changed, NOW),
            *self._statuses.actions(decision, lambda _: False),
        ]
        return {(action.key, _tells_of_trouble(action)) for action in actions}


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), passes=st.integers(1, 12))
def test_changes_alone_come_to_the_same_wishes(seed: int, passes: int) -> None:
    pick, world, kept, keepers = Random(seed), new_world(seed), IncrementalDecision(), Keepers()
    missed: Collection[str] = ()
    for _ in range(passes):
        decision = kept.decide(world.view(), dict(world.wanted), world.now, world.may_be_given)
        everything = {*decision.view.datasets, *decision.view.invalid_datasets}
        missed = {*missed, *decision.changed}
        troubles = _troubles(pick)
        if pick.random() < 0.3:
            keepers.begin(replace(decision, changed=missed), troubles, pick.randint(0, 3))
        else:
            found = keepers.wishes(replace(decision, changed=missed), troubles)
            assert found == Keepers().wishes(replace(decision, changed=everything), troubles)
            missed = ()
        _go_on(pick, world, decision)


def test_a_trouble_that_is_over_is_taken_back_after_a_pass_that_ended_early() -> None:
    view, keepers = make_view(listed(make_dataset()), make_node("a")), Keepers()
    decision = IncrementalDecision().decide(view, {}, NOW)
    assert any(told for _, told in keepers.wishes(decision, lambda _: ("it is not taken",)))
    unchanged = replace(decision, changed=())
    keepers.begin(unchanged, None, 0)
    assert not any(told for _, told in keepers.wishes(unchanged, None))


def _tells_of_trouble(action: KeyedAction) -> bool:
    act: Any = action.act
    status = act.args[-1]
    return isinstance(status, DatasetStatus) and any("it is not taken" in one.message for one in status.conditions)


def _troubles(pick: Random) -> Troubles | None:
    if pick.random() < 0.7:
        return None
    having = pick.sample([f"vision/s{number}" for number in range(4)], 2)
    return lambda key: ("it is not taken",) if key in having else ()


def _go_on(pick: Random, world: World, decision: Decision) -> None:
    if pick.random() < 0.5:
        write(world, decision)
    for _ in range(pick.randint(0, 3)):
        change(pick, world)
