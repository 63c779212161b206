"""Effective tuning: the choice of the Dataset or its TrainingJob, limits of the class, and missing profiles."""

from typing import Any

from stoker_api.names import Reason
from stoker_api.profiles.tuning import NodeTuning, Tuning, TuningLimits
from stoker_operator.core.classes.tuning import (
    ClusterTuning,
    decide_tuning,
    first_job,
    job_verdict,
    limit_tuning,
    of_job,
)
from stoker_tuning.vocabulary import OptimizationLevel
from tests.support.cases import cases
from tests.support.present import present
from tests.unit.stoker_operator.clusters import dataset
from tests.unit.stoker_operator.profiles import BAD, profile
from tests.unit.stoker_operator.training import training_job

CLUSTER = ClusterTuning(profiles={"fast": profile(), "broken": profile("broken", BAD)})
FREE = TuningLimits()


def tuning(**fields: Any) -> Tuning:
    return Tuning.model_validate(fields)


def test_a_dataset_that_says_nothing_has_the_built_in_rules() -> None:
    assert decide_tuning(Tuning(), FREE, ClusterTuning()).told == NodeTuning()


def test_it_has_the_clusters_default_profile() -> None:
    found = decide_tuning(Tuning(), FREE, ClusterTuning(default="fast", profiles=CLUSTER.profiles))
    assert (found.told.profile, found.sentence) == ("fast", "")


def test_it_is_in_the_clusters_environment() -> None:
    told = decide_tuning(Tuning(), FREE, ClusterTuning(environment="production")).told
    assert (told.environment, told.profile, told.asks) == ("production", "", True)


def test_names_are_told_and_nothing_else() -> None:
    asked = tuning(profile="fast", template="mine", level="Maximum")
    found = decide_tuning(asked, TuningLimits(max_level=OptimizationLevel.MAXIMUM), CLUSTER)
    assert found.told.wire() == {
        "enabled": True,
        "profile": "fast",
        "template": "mine",
        "environment": "",
        "level": "Maximum",
        "mostLevel": "Maximum",
    }
    assert found.sentence == ""


@cases(
    "asked, reason, words",
    ({"profile": "fats"}, Reason.PROFILE_NOT_FOUND, "there are: broken, fast"),
    ({"profile": "broken"}, Reason.PROFILE_INVALID, "nodes keep its last readable state"),
    ({"template": "data_pipelin"}, Reason.TEMPLATE_NOT_FOUND, "did you mean data_pipeline?"),
    ({"profile": "fast", "template": "mien"}, Reason.TEMPLATE_NOT_FOUND, "did you mean mine?"),
)
def test_what_is_not_there_is_said_and_the_dataset_goes_on(asked: dict[str, str], reason: Reason, words: str) -> None:
    found = decide_tuning(tuning(**asked), FREE, CLUSTER)
    assert found.reason == reason
    assert words in found.sentence
    assert found.told.enabled


def test_a_default_that_does_not_exist_is_said() -> None:
    found = decide_tuning(Tuning(), FREE, ClusterTuning(default="gone"))
    assert found.reason == Reason.PROFILE_NOT_FOUND
    assert "the cluster's default TuningProfile, gone," in found.sentence


@cases(
    "asked, limits, cluster",
    ({"enabled": False}, FREE, CLUSTER),
    ({}, TuningLimits(allowed=False), CLUSTER),
    ({}, FREE, ClusterTuning(enabled=False)),
)
def test_it_is_turned_off_by_its_owner_its_class_or_the_cluster(
    asked: dict[str, Any], limits: TuningLimits, cluster: ClusterTuning
) -> None:
    found = decide_tuning(tuning(**asked), limits, cluster)
    assert (found.told, found.sentence) == (NodeTuning(enabled=False), "")


def test_who_asks_in_a_cluster_that_is_off_is_told() -> None:
    assert decide_tuning(tuning(level="Basic"), FREE, ClusterTuning(enabled=False)).reason == Reason.TUNING_OFF


def test_a_class_cuts_the_level_and_the_profile() -> None:
    limits = TuningLimits(profiles=("team-*",), max_level=OptimizationLevel.BALANCED)
    found = limit_tuning(tuning(profile="fast", template="mine", level="Maximum"), "tenants", limits)
    assert found.tuning == Tuning(level=OptimizationLevel.BALANCED)
    assert found.sentences == (
        "tuning.profile fast is ignored: DatasetClass tenants allows team-*",
        "tuning.level Maximum is changed to Balanced: DatasetClass tenants allows Balanced at most",
    )


def test_a_class_turns_nothing_off() -> None:
    limits = TuningLimits(max_level=OptimizationLevel.BASIC)
    assert limit_tuning(tuning(level="Maximum"), "tenants", limits).tuning.level == "Balanced"


def test_a_class_lets_pass_what_it_allows() -> None:
    limits = TuningLimits(profiles=("team-*",), max_level=OptimizationLevel.BALANCED)
    asked = tuning(profile="team-a", level="Basic")
    assert limit_tuning(asked, "tenants", limits).tuning is asked


def test_a_class_without_tuning_says_so_to_who_asks() -> None:
    off = TuningLimits(allowed=False)
    assert limit_tuning(Tuning(), "tenants", off).sentences == ()
    assert limit_tuning(tuning(level="Basic"), "tenants", off).sentences


def test_what_a_job_says_goes_before_the_dataset() -> None:
    own = tuning(profile="fast", template="mine", level="Basic")
    assert of_job(own, tuning(level="Maximum")) == tuning(profile="fast", template="mine", level="Maximum")
    assert of_job(own, tuning(profile="slow")) == tuning(profile="slow", template=None, level="Basic")
    assert of_job(own, Tuning()) is own


def test_a_job_can_turn_tuning_on_and_off() -> None:
    assert not of_job(Tuning(), tuning(enabled=False)).enabled
    assert of_job(tuning(enabled=False), tuning(enabled=True)).enabled


def test_of_two_jobs_the_older_ones_word_counts() -> None:
    jobs = [training_job(tuning={"level": level}) for level in ("Basic", "Maximum")]
    made = [
        job.model_copy(update={"metadata": job.metadata.model_copy(update={"creation_timestamp": when})})
        for job, when in zip(jobs, ("2026-11-22T10:00:00Z", "2026-11-21T10:00:00Z"), strict=True)
    ]
    assert first_job([training_job(), *made]) is made[1]


def test_a_job_that_says_nothing_has_no_verdict() -> None:
    assert job_verdict(training_job(), {}, {}, CLUSTER) is None


def test_a_jobs_choice_is_told_to_count() -> None:
    verdict = job_verdict(training_job(tuning={"profile": "fast"}), {"vision/imagenet": dataset()}, {}, CLUSTER)
    assert verdict is not None
    assert verdict[:2] == (True, Reason.TUNED)


@cases(
    "datasets, limits, reason",
    ([{"name": "a", "namespace": "other", "mountPath": "/a"}], FREE, Reason.NOT_ALLOWED_BY_CLASS),
    ([{"name": "a", "mountPath": "/a"}], TuningLimits(profiles=()), Reason.LIMITED_BY_CLASS),
    ([{"name": "a", "mountPath": "/a"}], FREE, Reason.PROFILE_NOT_FOUND),
)
def test_a_job_is_told_why_its_choice_does_not_count(
    datasets: list[dict[str, str]], limits: TuningLimits, reason: Reason
) -> None:
    job = training_job(tuning={"profile": "nix"}, datasets=datasets)
    verdict = present(job_verdict(job, {}, {"vision/a": ("tenants", limits)}, CLUSTER))
    assert verdict[:2] == (False, reason)
