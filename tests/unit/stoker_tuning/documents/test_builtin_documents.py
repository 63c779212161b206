"""Built-in documents contain nothing that users could not write."""

import pytest

from stoker_tuning.documents.assembly import builtin_rules, read_profile
from stoker_tuning.documents.builtin_documents import builtin_documents, builtin_sources
from stoker_tuning.documents.profile_models import RuleTemplate, TuningDocument
from stoker_tuning.documents.reference_text import FIVE_MINUTES


@pytest.mark.parametrize(("name", "text"), builtin_sources().items())
def test_a_built_in_document_passes_the_door(name: str, text: str) -> None:
    assert read_profile(text).name.startswith("built-in-"), name


def _templates() -> list[RuleTemplate]:
    return [template for document in builtin_documents() for template in document.spec.templates]


def test_the_templates_that_were_promised_are_there() -> None:
    promised = {"distributed_training", "production_training", "flexible_research", "low_latency_inference"}
    assert promised | {"data_pipeline"} <= {template.id for template in _templates()}


@pytest.mark.parametrize("template", _templates(), ids=lambda template: template.id)
def test_every_parameter_of_a_template_can_be_given(template: RuleTemplate) -> None:
    for name, value in template.parameters.items():
        given = f"{{{name}: {str(value).lower() if isinstance(value, bool) else value}}}"
        head = "apiVersion: stoker.dev/v1alpha1\nkind: TuningProfile\nmetadata: {name: x}\nspec:\n"
        assert read_profile(f"{head}  use: [{{template: {template.id}, parameters: {given}}}]\n")


def test_the_frameworks_and_environments_that_were_promised_are_there() -> None:
    documents: tuple[TuningDocument, ...] = builtin_documents()
    frameworks = {each.name for document in documents for each in document.spec.frameworks}
    environments = {each.name for document in documents for each in document.spec.environments}
    assert frameworks == {"pytorch", "tensorflow", "jax", "huggingface"}
    assert environments == {"development", "staging", "production"}


def test_built_in_rules_have_an_id_of_their_own() -> None:
    ids = [(rule.origin.group, rule.id) for rule in builtin_rules()]
    assert len(ids) == len(set(ids))


def test_the_rule_of_five_minutes_is_good() -> None:
    text = FIVE_MINUTES.split("```yaml\n")[1].split("```")[0]
    assert read_profile(text).name == "mine"
