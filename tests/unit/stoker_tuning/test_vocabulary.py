"""The vocabulary of training awareness has the documented names."""

from enum import StrEnum

from stoker_tuning import vocabulary
from tests.support.cases import cases


def _words(values: str) -> list[str]:
    return values.split()


@cases(
    "enum, words",
    (
        vocabulary.TrainingPhase,
        "Unknown Initialization Training Validation SaveCheckpoint Evaluation Inference HyperparamTuning",
    ),
    (vocabulary.ModelFileKind, "Weights Architecture Optimizer Checkpoint Metadata Unknown"),
    (vocabulary.OptimizationLevel, "Basic Balanced Aggressive Maximum"),
    (vocabulary.PrefetchStrategy, "Conservative Balanced Aggressive Adaptive"),
    (vocabulary.CachePolicy, "None LRU TrainingAware ML"),
    (vocabulary.CachePriority, "Low Normal High Urgent"),
    (vocabulary.ActionType, "cache prefetch stream coordinate compress prioritize"),
    (vocabulary.ActionTarget, "file dataset model workload"),
    (
        vocabulary.ConditionOperator,
        "equals not_equals contains matches greater_than greater_or_equal less_than less_or_equal in not_in exists",
    ),
)
def test_the_words_of_the_vocabulary_are_kept(enum: type[StrEnum], words: str) -> None:
    assert [str(word) for word in enum] == _words(words)
