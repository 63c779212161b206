import itertools
from dataclasses import replace

from stoker_tuning.learning.adopted import NUMBERS_ORIGIN
from stoker_tuning.learning.changes import Change, ChangeOutcome, ChangeVerdict
from stoker_tuning.learning.learner import MOST_TRIALS, Learner
from stoker_tuning.learning.success import rate_key
from stoker_tuning.recommend.knobs import KNOB_BY_NAME
from stoker_tuning.vocabulary import AccessPattern
from tests.unit.stoker_tuning.learning.simulation import SimulatedWorkload, change, falling, saturating


def tried(learner: Learner, one: Change, workload: SimulatedWorkload) -> ChangeOutcome:
    assert learner.begin(one)
    for number in range(100):
        value = learner.value(one)
        assert value is not None
        for outcome in learner.saw(one.dataset, one.workload, workload.run(float(value)), float(number)):
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
    assert learner.why_not(replace(other, dataset="nlp/wiki")) == ""  # what one namespace's pods do is its own matter


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


DEPTH = KNOB_BY_NAME["prefetch_depth"]


def test_a_number_is_tuned_and_what_was_adopted_is_counted() -> None:
    learner, workload = Learner(), SimulatedWorkload(saturating(64))
    numbers = itertools.count()
    assert learner.tune("vision/imagenet", "uid", DEPTH, 1, lambda old, new: change(old, new, str(next(numbers))))
    outcomes = []
    for number in range(400):
        value = learner.tuned("vision/imagenet", "uid", "prefetch_depth")
        assert value is not None
        outcomes += learner.saw("vision/imagenet", "uid", workload.run(value), float(number))

    assert saturating(64)(float(outcomes[-1].change.new)) > 0.85
    assert learner.rates.of(rate_key(change())).changes == len(outcomes)


def test_nothing_else_is_tried_while_a_number_is_looked_for() -> None:
    learner = Learner()
    learner.tune("vision/imagenet", "uid", DEPTH, 1, change)

    assert learner.why_not(change()) == "Another change is on trial for it."
    assert not learner.tune("vision/imagenet", None, DEPTH, 1, change)
    assert learner.tuned("vision/imagenet", "uid", "prefetch_size") is None
    learner.forget("vision/imagenet", "uid")
    assert learner.begin(change())


def test_a_number_that_was_adopted_is_in_force_at_once_and_not_looked_for_again() -> None:
    learner, again, workload = Learner(), Learner(), SimulatedWorkload(saturating(64))
    numbers = itertools.count()

    def made(old: float, new: float) -> Change:
        return change(old, new, str(next(numbers)), NUMBERS_ORIGIN)

    learner.tune("vision/imagenet", "uid", DEPTH, 1, made)
    for number in range(200):
        value = learner.tuned("vision/imagenet", "uid", "prefetch_depth")
        assert value is not None
        for outcome in learner.saw("vision/imagenet", "uid", workload.run(value), float(number)):
            again.learn(outcome)
    again.tune("vision/imagenet", "uid", DEPTH, 1, made)

    assert saturating(64)(again.tuned("vision/imagenet", "uid", "prefetch_depth") or 0.0) > 0.8
    assert not again.why_not(change(name="another"))


def test_a_search_that_is_given_up_leaves_room_for_other_changes() -> None:
    learner = Learner()
    learner.tune("vision/imagenet", "uid", DEPTH, 1, change)
    learner.stop_tuning("vision/imagenet", "uid")

    assert learner.tuned("vision/imagenet", "uid", "prefetch_depth") is None
    assert learner.begin(change())
