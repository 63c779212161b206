"""The rendered chart for its values of tuning."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from tests.support.chart import CHART, helm, of_kind, operator_of, refusal, render, variables

DOCUMENT = """
apiVersion: stoker.dev/v1alpha1
kind: TuningProfile
metadata: {name: mine}
spec:
  rules:
    - {id: shards, actions: [{type: prefetch, parameters: {prefetch_size: 8Mi}}]}
"""


def default_profile(values: Mapping[str, Any]) -> tuple[str, list[tuple[str, Any]]]:
    """Return the profile in the operator's settings, and the chart's profiles with their specs."""
    rendered = render(values)
    operator = operator_of(rendered)
    made = [(one["metadata"]["name"], one["spec"]) for one in of_kind(rendered, "TuningProfile")]
    return variables(operator)["STOKER_TUNING_PROFILE"], made


@pytest.mark.parametrize("document", [DOCUMENT, yaml.safe_load(DOCUMENT)], ids=["text", "mapping"])
def test_a_document_becomes_the_profile_of_datasets_that_name_none(document: Any) -> None:
    spec = yaml.safe_load(DOCUMENT)["spec"]
    assert default_profile({"tuning": {"document": document}}) == ("mine", [("mine", spec)])


def test_a_profile_that_is_there_may_be_the_one() -> None:
    assert default_profile({"tuning": {"existingProfile": "theirs"}}) == ("theirs", [])


def test_by_default_there_is_no_profile() -> None:
    assert default_profile({}) == ("", [])


def test_the_environment_is_told_to_the_operator() -> None:
    operator = operator_of(render({"tuning": {"environment": "production"}}))
    assert variables(operator)["STOKER_TUNING_ENVIRONMENT"] == "production"


def test_tuning_is_turned_off_for_the_cluster() -> None:
    operator = operator_of(render({"tuning": {"enabled": False}}))
    assert variables(operator)["STOKER_TUNING"] == "false"


@pytest.mark.parametrize(
    ("tuning", "words"),
    [
        ({"document": "rules: []"}, "tuning.document must have apiVersion"),
        ({"document": DOCUMENT, "existingProfile": "theirs"}, "remove one of them"),
    ],
)
def test_a_document_that_is_none_and_two_profiles_are_refused(tuning: dict[str, str], words: str) -> None:
    assert words in refusal({"tuning": tuning})


def test_an_upgrade_from_a_release_without_the_kind_does_without_the_profile() -> None:
    done = helm(
        "template",
        "stoker",
        str(CHART),
        "--is-upgrade",
        "--values",
        "-",
        stdin=json.dumps({"tuning": {"document": DOCUMENT}}),
    )
    assert done.returncode == 0, done.stderr
    assert "kind: TuningProfile\n" not in done.stdout


def test_a_profile_can_be_written_while_the_operator_is_away() -> None:
    (configuration,) = of_kind(render({}), "ValidatingWebhookConfiguration")
    (webhook,) = configuration["webhooks"]
    assert (webhook["failurePolicy"], webhook["rules"][0]["resources"]) == ("Ignore", ["tuningprofiles"])
