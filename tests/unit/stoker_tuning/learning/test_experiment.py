import itertools

import pytest

from stoker_tuning.learning.changes import ChangeVerdict
from stoker_tuning.learning.experiment import MOST_PAIRS, Experiment, FigureWindow
from tests.support.cases import cases
from tests.unit.stoker_tuning.learning.simulation import SimulatedWorkload, change, falling, flat, saturating


def finished(experiment: Experiment, workload: SimulatedWorkload) -> Experiment:
    while experiment.verdict is None:
        experiment.saw(workload.run(float(experiment.value)))
    return experiment


@cases(
    "workload, verdict, value, most_windows",
    helps=(SimulatedWorkload(saturating(300)), ChangeVerdict.HELPED, 512, None),
    hurts=(SimulatedWorkload(falling), ChangeVerdict.HURT, 64, 10),
    has_no_effect=(SimulatedWorkload(flat, noise=0.02, seed=2), ChangeVerdict.NEUTRAL, 512, 2 * MOST_PAIRS),
)
def test_a_change_stays_unless_it_hurts(
    workload: SimulatedWorkload, verdict: ChangeVerdict, value: int, most_windows: int | None
) -> None:
    experiment = finished(Experiment(change()), workload)
    assert (experiment.verdict, experiment.value) == (verdict, value)
    assert most_windows is None or workload.windows <= most_windows


def test_a_change_that_hurts_much_is_taken_back_after_two_pairs() -> None:
    workload = SimulatedWorkload(lambda value: 1.0 if value == 64 else 0.1)
    finished(Experiment(change()), workload)

    assert workload.windows == 4


def test_what_looks_a_little_worse_does_not_stay_though_it_could_not_be_proved() -> None:
    experiment, shares = Experiment(change()), itertools.cycle((0.96, 1.1, 0.96))
    while experiment.verdict is None:
        experiment.saw(FigureWindow(1000 * (next(shares) if experiment.value == 512 else 1.0)))

    assert (experiment.verdict, experiment.value) == (ChangeVerdict.NEUTRAL, 64)


def test_what_falls_by_itself_is_not_held_against_the_change() -> None:
    verdicts = [
        finished(Experiment(change(name=f"c{seed}")), SimulatedWorkload(flat, 0.05, lambda n: 0.99**n, seed)).verdict
        for seed in range(40)
    ]

    assert verdicts.count(ChangeVerdict.HURT) <= 4


def test_a_workload_that_reads_nothing_any_more_ends_the_experiment_without_a_verdict_against_it() -> None:
    workload = SimulatedWorkload(lambda _: 0.0)
    experiment = finished(Experiment(change()), workload)

    assert experiment.verdict is ChangeVerdict.NEUTRAL
    assert workload.windows <= 8 * MOST_PAIRS


def test_the_outcome_tells_figures_gain_and_interval() -> None:
    experiment = Experiment(change())
    while experiment.verdict is None:
        new = experiment.value == 512
        experiment.saw(FigureWindow(1250 if new else 1000, stall=0.1 if new else 0.3))
    outcome = experiment.outcome(7.0)

    assert outcome is not None
    assert outcome.gain == pytest.approx(0.25)
    assert outcome.low <= 0.25 <= outcome.high
    assert outcome.before.stall == pytest.approx(0.3)
    assert outcome.after.stall == pytest.approx(0.1)
    assert (outcome.at, outcome.change, outcome.control_before) == (7.0, change(), None)
