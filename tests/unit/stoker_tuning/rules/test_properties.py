"""Facts have every property that a document can name."""

from dataclasses import fields

import pytest

from stoker_tuning.rules.facts import AccessFacts, FileFacts, SystemFacts, WorkloadFacts
from stoker_tuning.rules.properties import PROPERTIES, FactProperty, property_of
from stoker_tuning.vocabulary import ConditionScope
from tests.support.present import present

FACTS = {
    ConditionScope.FILE_CONTEXT: FileFacts,
    ConditionScope.ACCESS_PATTERN: AccessFacts,
    ConditionScope.WORKLOAD_CONTEXT: WorkloadFacts,
    ConditionScope.SYSTEM_CONTEXT: SystemFacts,
}


@pytest.mark.parametrize("each", PROPERTIES, ids=lambda each: f"{each.scope}-{each.name}")
def test_facts_have_every_property(each: FactProperty) -> None:
    facts = FACTS.get(each.scope, FileFacts)
    assert each.name == "glob" or hasattr(facts, each.name)


@pytest.mark.parametrize("facts", [AccessFacts, WorkloadFacts, SystemFacts])
def test_every_fact_can_be_asked_for(facts: type[AccessFacts | WorkloadFacts | SystemFacts]) -> None:
    (scope,) = [scope for scope, found in FACTS.items() if found is facts]
    assert all(property_of(scope, field.name) for field in fields(facts))


def test_an_older_name_is_known() -> None:
    found = present(property_of(ConditionScope.FILE_CONTEXT, "kind"))
    assert found.name == "type"
