"""When the fetcher gets new knobs: at a reload and after a change of the readers, at a limited pace."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stoker_sidecar.tuning.source import TuningChoice
from stoker_sidecar.tuning.tuner import RuleCounts, Tuner, TuningSubject
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.fetcher_hints import FileKnobs, Tune
from stoker_tuning.recommend.knobs import MIB
from stoker_tuning.rules.facts import AccessFacts, Surroundings, WorkloadFacts
from stoker_tuning.rules.spec import ActionSpec, ConditionSpec, RuleOrigin, RuleSpec
from stoker_tuning.vocabulary import (
    ActionTarget,
    ActionType,
    ConditionOperator,
    ConditionScope,
    OptimizationLevel,
    RuleLayer,
    TrainingPhase,
)
from tests.support.cases import cases
from tests.support.versions import VersionFolder

VERSION = ("uid", "d" * 64)
ORIGIN = RuleOrigin("test", RuleLayer.CUSTOM)


def _rule(size: int, phase: TrainingPhase | None = None) -> RuleSpec:
    scope, equals = ConditionScope.WORKLOAD_CONTEXT, ConditionOperator.EQUALS
    conditions = () if phase is None else (ConditionSpec(scope, "phase", equals, phase),)
    action = ActionSpec(ActionType.PREFETCH, ActionTarget.FILE, {"prefetch_size": size})
    return RuleSpec(f"{size}", ORIGIN, conditions, (action,))


def _in(phase: TrainingPhase, speed: float | None = None) -> Surroundings:
    return Surroundings(AccessFacts(items_per_second=speed), WorkloadFacts(phase=phase))


@dataclass
class TunerUnderTest:
    """A Tuner with its inputs and its messages, for one version on the disk."""

    root: Path
    rules: TuningChoice = field(default_factory=TuningChoice)
    around: tuple[Surroundings, ...] = ()
    now: float = 0.0
    whole: bool = False
    told: list[Tune] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tuner = Tuner(self, CacheFolders([self.root]), self.subjects, self.tell, Changes(), lambda: self.now)

    def choice(self, dataset_uid: str) -> TuningChoice:
        return self.rules

    def subjects(self) -> Iterator[TuningSubject]:
        yield TuningSubject(VERSION, self.around, whole=self.whole)

    def tell(self, order: Tune) -> bool:
        before = self.told[-1] if self.told else Tune(*VERSION)
        if order != before:
            self.told.append(order)
        return order != before

    def sizes(self) -> list[int | None]:
        """Return the prefetch distance of the last group in each order, in bytes."""
        return [order.knobs[-1].ahead_bytes if order.knobs else None for order in self.told]


@pytest.fixture
def tuner(tmp_path: Path) -> TunerUnderTest:
    VersionFolder(tmp_path / "datasets" / VERSION[0] / "versions" / VERSION[1], {"a/1": b"1", "a/2": b"2"})
    return TunerUnderTest(tmp_path)


async def test_without_rules_nothing_is_told(tuner: TunerUnderTest) -> None:
    assert await tuner.tuner.look() is None
    assert tuner.told == []


async def test_rules_are_told_once(tuner: TunerUnderTest) -> None:
    tuner.rules = TuningChoice((_rule(0),))
    for _ in range(3):
        await tuner.tuner.look()
    assert [order.knobs for order in tuner.told] == [(FileKnobs(), FileKnobs(ahead_bytes=0))]
    assert tuner.tuner.in_force[VERSION].rules == (RuleCounts("0", 2, 2),)


async def test_the_level_of_a_dataset_is_told_before_its_files_are_sorted(tuner: TunerUnderTest) -> None:
    tuner.rules = TuningChoice(level=OptimizationLevel.BASIC)
    await tuner.tuner.look()
    first, last = tuner.told
    assert (first.knobs, first.groups) == ((last.knobs[-1],), b"")
    assert first.knobs[0].ahead_bytes == 0


async def test_other_rules_are_told_and_no_rules_too(tuner: TunerUnderTest) -> None:
    for choice in (TuningChoice((_rule(0),)), TuningChoice((_rule(MIB),)), TuningChoice(off=True)):
        tuner.rules = choice
        await tuner.tuner.look()
    assert tuner.sizes() == [0, MIB, None]


async def test_a_phase_that_a_rule_is_about_is_told_and_its_end_too(tuner: TunerUnderTest) -> None:
    tuner.rules = TuningChoice((_rule(MIB, TrainingPhase.TRAINING),))
    for phase in (TrainingPhase.INITIALIZATION, TrainingPhase.TRAINING, TrainingPhase.VALIDATION):
        tuner.around = (_in(phase),)
        await tuner.tuner.look()
    assert tuner.sizes() == [MIB, None]


async def test_phases_that_come_and_go_change_knobs_a_few_times_a_minute(tuner: TunerUnderTest) -> None:
    tuner.rules = TuningChoice((_rule(MIB, TrainingPhase.TRAINING),))
    waits = []
    for tuner.now in map(float, range(40)):
        tuner.around = (_in(TrainingPhase.TRAINING if int(tuner.now) % 2 else TrainingPhase.VALIDATION),)
        waits.append(await tuner.tuner.look())
    assert len(tuner.told) == 4
    assert waits[-1] is not None
    tuner.now += waits[-1]
    await tuner.tuner.look()
    assert len(tuner.told) == 5


async def test_a_version_that_is_not_on_the_disk_yet_is_told_when_it_is(tuner: TunerUnderTest, tmp_path: Path) -> None:
    folder = tmp_path / "datasets" / VERSION[0]
    folder.rename(tmp_path / "away")
    tuner.rules = TuningChoice((_rule(0),))
    await tuner.tuner.look()
    assert tuner.told == []
    (tmp_path / "away").rename(folder)
    await tuner.tuner.look()
    assert tuner.sizes() == [0]


@pytest.mark.expected_logs("cannot be followed")
async def test_the_trouble_of_one_dataset_is_its_own(tuner: TunerUnderTest, caplog: pytest.LogCaptureFixture) -> None:
    other = ("broken", "e" * 64)

    class Source:
        def choice(self, dataset_uid: str) -> TuningChoice:
            if dataset_uid == other[0]:
                raise RuntimeError("its profile is odd")
            return TuningChoice((_rule(0),))

    subjects = (TuningSubject(other), TuningSubject(VERSION))
    acting = Tuner(Source(), CacheFolders([tuner.root]), lambda: subjects, tuner.tell, Changes())
    waits = [await acting.look() for _ in range(3)]

    assert tuner.sizes() == [0]
    assert waits == [60.0, 60.0, 60.0]
    assert len(caplog.records) == 1


def _pages(**parameters: bool) -> RuleSpec:
    action = ActionSpec(ActionType.PREFETCH, ActionTarget.FILE, {**parameters, "prefetch_size": 0})
    return RuleSpec("pages", ORIGIN, (), (action,))


@cases("said, orders", ({"page_cache_prefetch": True}, 1), ({"page_cache_prefetch": False}, 1), ({}, 0))
async def test_a_whole_version_is_looked_at_for_the_page_cache_alone(
    tuner: TunerUnderTest, said: dict[str, bool], orders: int
) -> None:
    tuner.rules, tuner.whole = TuningChoice((_pages(**said),)), True
    await tuner.tuner.look()
    assert len(tuner.told) == len(tuner.tuner.in_force) == orders


async def test_a_version_that_becomes_whole_is_known_to_be(tuner: TunerUnderTest) -> None:
    tuner.rules = TuningChoice((_pages(page_cache_prefetch=True),))
    for tuner.whole in (False, True):
        await tuner.tuner.look()
    assert tuner.tuner.in_force[VERSION].whole
    assert len(tuner.told) == 1


async def test_whoever_looks_can_be_stopped(tuner: TunerUnderTest) -> None:
    running = asyncio.create_task(tuner.tuner.run())
    await asyncio.sleep(0)
    running.cancel()

    assert isinstance((await asyncio.gather(running, return_exceptions=True))[0], asyncio.CancelledError)
