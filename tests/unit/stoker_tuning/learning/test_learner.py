from dataclasses import replace

from stoker_tuning.learning.changes import Change, ChangeOutcome, ChangeVerdict
from stoker_tuning.learning.learner import MOST_TRIALS, Learner
from stoker_tuning.learning.success import rate_key
from stoker_tuning.vocabulary import AccessPattern
from tests.unit.stoker_tuning.learning.simulation import SimulatedWorkload, change, falling, saturating


def tried(learner: Learner, one: Change, workload: SimulatedWorkload) -> ChangeOutcome:
    assert learner.begin(one)
    for number in range(100):
        value = learner.value(one)
        assert value is not None
        outcome = learner.saw(one.dataset, one.workload, workload.run(float(value)), float(number))
        if outcome is not None:
            return outcome
    raise AssertionError("an experiment never ends")


def test_a_change_is_tried_and_what_came_of_it_is_counted() -> None:
    learner = Learner()
    outcome = tried(learner, change(), SimulatedWorkload(saturating(300)))

    assert outcome.verdict is ChangeVerdict.HELPED
    assert learner.rates.of(rate_key(change())).helped == 1
    assert learner.value(change()) is None


def test_what_hurt_a_workload_is_not_tried_on_it_again() -> None:
    learner = Learner()
    tried(learner, change(), SimulatedWorkload(falling))

    assert learner.why_not(change(name="c2")) == "prefetch_depth 512 has hurt this workload before."
    assert not learner.begin(change(name="c2"))
    assert learner.why_not(change(64, 128, "c3")) == ""


def test_a_rule_that_hurts_all_of_a_namespace_is_not_tried_there_any_more() -> None:
    learner = Learner()
    for number in range(4):
        tried(learner, replace(change(name=f"c{number}"), workload=f"pod{number}"), SimulatedWorkload(falling))

    other = replace(change(name="other"), workload="another")
    assert learner.why_not(other) == "ahead hurt 4 of 4 workloads that read in shuffled order."
    assert learner.why_not(replace(other, pattern=AccessPattern.SEQUENTIAL)) == ""
    assert learner.why_not(replace(other, dataset="nlp/wiki")) == ""  # results do not cross namespaces


def test_one_change_at_a_time_is_on_trial_for_whom_it_concerns() -> None:
    learner = Learner()
    learner.begin(change())

    assert learner.why_not(replace(change(name="c2"), knob="prefetch_size"))
    assert learner.why_not(replace(change(name="c2"), workload=None))
    assert learner.why_not(replace(change(name="c2"), workload="another")) == ""
    assert learner.why_not(replace(change(name="c2"), dataset="vision/other")) == ""


def test_a_node_tries_no_more_than_so_many_at_once() -> None:
    learner = Learner()
    begun = [learner.begin(replace(change(name=str(n)), workload=str(n))) for n in range(MOST_TRIALS + 1)]

    assert begun == [True] * MOST_TRIALS + [False]


def test_the_trial_for_a_workload_that_is_gone_is_given_up() -> None:
    learner = Learner()
    learner.begin(change())

    learner.forget("vision/imagenet", "uid")

    assert learner.value(change()) is None
    assert learner.begin(change(name="c2"))


def test_what_is_in_the_history_counts_after_a_restart() -> None:
    outcome = tried(Learner(), change(), SimulatedWorkload(falling))
    learner = Learner()
    learner.learn(outcome)

    assert learner.why_not(change(name="c2"))
