"""The parser of documents: errors have a place and suggest a correction."""

import json
import time
from typing import Any

import pytest
import yaml

from stoker_tuning.documents.assembly import TuningRules, read_profile
from stoker_tuning.documents.errors import MOST_PROBLEMS, DocumentError, Problem
from stoker_tuning.documents.lint import lint_document
from stoker_tuning.rules.spec import RuleSpec
from stoker_tuning.vocabulary import RuleLayer
from tests.support.cases import cases

HEAD = "apiVersion: stoker.dev/v1alpha1\nkind: TuningProfile\nmetadata: {name: mine}\nspec:\n"
ACTIONS = "      actions: [{type: cache}]\n"


def with_condition(text: str) -> str:
    return f"{HEAD}  rules:\n    - id: a\n      conditions:\n        - {text}\n{ACTIONS}"


def with_action(text: str) -> str:
    return f"{HEAD}  rules:\n    - id: a\n      actions:\n        - {text}\n"


def problems(text: str) -> tuple[Problem, ...]:
    with pytest.raises(DocumentError) as caught:
        read_profile(text)
    return caught.value.problems


def own(rules: TuningRules) -> list[RuleSpec]:
    return [rule for rule in rules.rules if rule.origin.document == rules.name]


@cases(
    "text, place, says",
    (with_condition("{type: file_context, property: extnsion, value: .jpg}"), (8, 32), "did you mean extension?"),
    (with_condition("{type: file_contxt, property: size, value: 1}"), (8, 12), "did you mean file_context?"),
    (with_condition("{type: file_context, value: 1}"), (8, 11), "file_context needs a property"),
    (
        with_condition("{type: file_context, property: size, operator: matchs, value: 1}"),
        (8, 48),
        "did you mean matches?",
    ),
    (
        with_condition("{type: file_context, property: size, operator: matches, value: a}"),
        (8, 48),
        "matches does not suit size",
    ),
    (with_condition("{type: file_context, property: size, value: huge}"), (8, 48), "write for example 65536"),
    (
        with_condition("{type: workload_context, property: phase, value: training}"),
        (8, 53),
        "did you mean Training?",
    ),
    (
        with_condition(r"{type: file_context, property: path, operator: matches, value: '(a)\1'}"),
        (8, 67),
        "invalid escape sequence",
    ),
    (with_condition("{type: file_pattern, value: a**}"), (8, 32), "must stand alone"),
    (with_condition("{type: file_pattern, operator: in, value: a}"), (8, 46), "needs a list"),
    (with_condition("{type: file_pattern, value: '*.x', waight: 1}"), (8, 46), "did you mean weight?"),
    (with_condition("{type: file_pattern, value: '*.x', weight: 2}"), (8, 46), "is more than 1"),
    (with_condition("{type: file_pattern, value: '*.x', weight: 0}"), (7, 7), "all weights are 0"),
    (with_condition("{type: file_pattern, value: '*.x', weight: .nan}"), (8, 46), "is not a number"),
    (with_action("{type: cahce}"), (8, 12), "did you mean cache?"),
    (with_action("{type: cache, target: fil}"), (8, 25), "did you mean file?"),
    (with_action("{type: prefetch, parameters: {prefetchsize: 1Mi}}"), (8, 41), "did you mean prefetch_size?"),
    (with_action("{type: prefetch, parameters: {prefetch_size: 2Gi}}"), (8, 41), "is not between 0 and 1Gi, or auto"),
    (with_action("{type: stream, parameters: {parallel_streams: 1.5}}"), (8, 39), "is not a whole number"),
    (with_action("{type: cache, parameters: {should_cache: yes}}"), (8, 38), "is not true or false"),
    (with_action("{type: cache, parameters: [1]}"), (8, 25), "parameters are a mapping"),
    (HEAD + "  rulez: []\n", (5, 3), "did you mean rules?"),
    (HEAD + "  rules: {}\n", (5, 3), "is not a list"),
    (HEAD + "  rules:\n    - id: a\n      actions: []\n", (7, 7), "is empty"),
    (HEAD + "  rules:\n    - id: a b\n" + ACTIONS, (6, 7), "is no name"),
    (HEAD + "  rules:\n    - {actions: [{type: cache}]}\n", (6, 7), "spec.rules[0].id: is missing"),
    (
        HEAD + "  rules:\n    - {id: a, priority: high, actions: [{type: cache}]}\n",
        (6, 15),
        "is not a whole number",
    ),
    (HEAD + "  environment: prod\n", (5, 3), "did you mean production?"),
    (HEAD + "  settings: {level: Max}\n", (5, 14), "did you mean Maximum?"),
    (HEAD + "  use: [{template: data_pipline}]\n", (5, 10), "did you mean data_pipeline?"),
    (
        HEAD + "  use: [{template: data_pipeline, parameters: {prefetch_depth: 1, zstd: 2}}]\n",
        (5, 67),
        "is no parameter",
    ),
    (
        HEAD + "  use: [{template: data_pipeline, parameters: {divide_cold: true}}]\n",
        (5, 48),
        "no rule of the template",
    ),
    (HEAD + "  hardware_profiles: [{name: a, conditions: {gpus: '>= 8'}}]\n", (5, 46), "did you mean gpu_count?"),
    (HEAD + "  hardware_profiles: [{name: a, conditions: {gpu_count: many}}]\n", (5, 46), "is no comparison"),
    (HEAD.replace("v1alpha1", "v1"), (1, 1), "stoker.dev/v1alpha1"),
    (HEAD.replace("mine", "Mine"), (3, 12), "is no name"),
    ("- 1\n", (1, 1), "is not a mapping"),
)
def test_a_problem_has_its_place_and_a_suggestion(text: str, place: tuple[int, int], says: str) -> None:
    (problem,) = problems(text if "spec:\n" not in text or not text.endswith("spec:\n") else text + "  rules: []\n")
    assert (problem.line, problem.column) == place
    assert says in str(problem)


def test_an_id_that_comes_twice_is_refused_where_it_comes_again() -> None:
    rule = "    - id: a\n" + ACTIONS
    (problem,) = problems(HEAD + "  rules:\n" + rule + rule)
    assert (problem.line, problem.path) == (8, "spec.rules[1]")


def test_problems_are_told_in_the_order_of_their_lines_and_no_more_than_some() -> None:
    rules = "".join(f"    - id: a{number}\n      prority: 1\n{ACTIONS}" for number in range(50))
    with pytest.raises(DocumentError) as caught:
        read_profile(HEAD + "  rules:\n" + rules)
    lines = [problem.line for problem in caught.value.problems]
    assert lines == sorted(lines)
    assert (len(lines), caught.value.left_out) == (MOST_PROBLEMS, 30)


def test_words_of_a_document_move_no_cursor() -> None:
    (problem,) = problems(with_condition(r'{type: "file\e[2J\u202econtext", property: size, value: 1}'))
    assert str(problem).isprintable()


def test_regular_expressions_are_bounded_together() -> None:
    long = "{type: file_context, property: path, operator: matches, value: '.{240}'}"
    rules = "".join(f"    - id: a{n}\n      conditions: [{long}]\n{ACTIONS}" for n in range(60))
    first = problems(HEAD + "  rules:\n" + rules)[0]
    assert first.path == "spec.rules[25].conditions[0].value"
    assert "too large together" in first.message


def test_regular_expressions_of_templates_count_each_time_that_they_are_used() -> None:
    long = "{type: file_context, property: path, operator: matches, value: '.{240}'}"
    rules = "".join(f"        - {{id: r{n}, conditions: [{long}], actions: [{{type: cache}}]}}\n" for n in range(20))
    text = f"{HEAD}  use: [{{template: t}}, {{template: t}}]\n  templates:\n    - id: t\n      rules:\n{rules}"
    (problem,) = problems(text)
    assert "too large together" in problem.message


@cases(
    "text",
    keys=HEAD + "".join(f"  k{number}: 1\n" for number in range(20_000)),
    words=HEAD + "  rules:\n" + f"    - {{id: a, conditions: [{'{type: fil}, ' * 8_000}]}}\n" * 2,
    depth=HEAD + "  rules: [" + "{rules: " * 15,
    quotes='"' * 1_000_000,
)
def test_a_document_of_nothing_but_problems_is_refused_soon(text: str) -> None:
    begin = time.thread_time()
    assert problems(text)
    assert time.thread_time() - begin < 5.0  # measured: below 1 s


def test_rules_with_those_of_templates_are_bounded() -> None:
    rules = "".join(f"        - {{id: r{n}, actions: [{{type: cache}}]}}\n" for n in range(100))
    uses = ", ".join(["{template: many}"] * 11)
    text = f"{HEAD}  use: [{uses}]\n  templates:\n    - id: many\n      rules:\n{rules}"
    (problem,) = problems(text)
    assert "1000 is the most" in problem.message


@cases(
    "text, expected",
    ("{type: access_pattern, value: shuffled}", ("pattern", "equals", "shuffled")),
    ("{type: file_pattern, value: .JPG}", ("extension", "equals", ".jpg")),
    ("{type: file_pattern, value: [.jpg, .png]}", ("extension", "in", (".jpg", ".png"))),
    ("{type: file_pattern, value: ['*.jpg', .png]}", ("glob", "in", ("*.jpg", ".png"))),
    ("{type: file_context, property: extension, value: tar}", ("extension", "equals", ".tar")),
    ("{type: file_context, property: kind, value: Weights}", ("type", "equals", "Weights")),
    ("{type: file_context, property: size, operator: less_than, value: 1.5Ki}", ("size", "less_than", 1536)),
    ("{type: file_context, property: size, operator: exists}", ("size", "exists", True)),
)
def test_short_forms_mean_what_the_page_says(text: str, expected: tuple[Any, ...]) -> None:
    (rule,) = own(read_profile(with_condition(text)))
    (condition,) = rule.conditions
    assert (condition.property, condition.operator, condition.value) == expected


def test_an_older_name_of_an_action_is_taken() -> None:
    (rule,) = own(read_profile(with_action("{type: chunked_streaming, parameters: {parallel_streams: auto}}")))
    assert (rule.actions[0].type, rule.actions[0].parameters) == ("stream", {"parallel_streams": "auto"})


@pytest.mark.parametrize(
    "text",
    [
        with_action("{type: stream, parameters: {chunk_size: 1Mi, parallel_streams: 3}}"),
        with_action("{type: cache, parameters: {cache_place: disk}}"),
        HEAD + "  use: [{template: data_pipeline, parameters: {chunk_size: 1Mi}}]\n",
        HEAD + "  templates: [{id: a, parameters: {cache_place: disk}, rules: [{id: b, actions: [{type: cache}]}]}]\n",
        HEAD + "  settings: {auto_tuning: false}\n",
    ],
    ids=["parameter", "only parameter", "use", "template", "setting"],
)
def test_a_removed_part_is_read_and_is_one_warning(text: str) -> None:
    assert read_profile(text)
    (problem,) = lint_document(text)
    assert "was removed and has no effect" in problem.message


def test_json_says_the_same_as_yaml() -> None:
    text = with_condition("{type: file_pattern, value: '*.x', weight: 0.5}")
    assert read_profile(json.dumps(yaml.safe_load(text), indent="\t")) == read_profile(text)


def test_a_template_is_filled_by_its_use_and_keeps_what_its_rules_say() -> None:
    text = HEAD + "  use: [{template: low_latency_inference, parameters: {parallel_streams: 4}}]\n"
    (rule,) = own(read_profile(text))
    cache, stream, *_ = rule.actions
    assert cache.parameters == {"should_cache": True, "cache_priority": "Urgent"}
    assert stream.parameters == {"parallel_streams": 4}
    assert rule.origin.group == "template low_latency_inference"


def test_an_environment_that_is_named_is_in_force_and_no_other() -> None:
    groups = {rule.origin.group for rule in read_profile(HEAD + "  environment: production\n").rules}
    assert "environment production" in groups
    assert "environment development" not in groups


def test_a_definition_hides_the_built_in_one() -> None:
    text = HEAD + "  frameworks:\n    - name: jax\n      rules: [{id: mine, actions: [{type: cache}]}]\n"
    found = [rule.id for rule in read_profile(text).rules if rule.origin.group == "framework jax"]
    assert found == ["mine"]


def test_a_framework_and_a_hardware_profile_gate_their_rules() -> None:
    rule = "rules: [{id: r, actions: [{type: cache}]}]"
    text = (
        f"{HEAD}  frameworks: [{{name: mxnet, {rule}}}]\n"
        f"  hardware_profiles: [{{name: big, conditions: {{gpu_count: '>= 8', memory: '> 1Gi'}}, {rule}}}]\n"
    )
    gates = {each.origin.layer: [str(gate) for gate in each.gates] for each in own(read_profile(text))}
    assert gates == {
        RuleLayer.FRAMEWORK: ["workload_context framework equals mxnet"],
        RuleLayer.ENVIRONMENT: [
            "system_context gpu_count greater_or_equal 8.0",
            "system_context memory greater_than 1073741824",
        ],
    }


def test_settings_count_after_the_rules_of_their_layer() -> None:
    text = with_action("{type: cache}") + "  settings: {level: Maximum}\n"
    found = [(rule.id, rule.priority) for rule in own(read_profile(text))]
    assert found == [("a", 0), ("settings", -1)]
