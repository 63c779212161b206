"""stoker validate: documents are checked as the API server, the CRDs' rules and the webhook do, with their places."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click.testing
import pytest
import yaml

from stoker_api.schema import open_api_schema
from stoker_cli.main import main
from stoker_cli.support.validation.documents import check_file
from stoker_cli.support.validation.kind_rules import KINDS
from tests.support.cases import cases

ROOT = Path(__file__).resolve().parents[4]
HEAD = "apiVersion: stoker.dev/v1alpha1\nmetadata: {name: a}\n"


def dataset(fields: str = "", source: str = "uri: s3://bucket/a/") -> str:
    """Write a Dataset; ``fields`` are on line 6."""
    return f"kind: Dataset\n{HEAD}spec:\n  source: {{{source}}}\n  {fields}\n"


def job(fields: str = "", name: str = "a") -> str:
    """Write a TrainingJob; ``fields`` are on line 6."""
    head = HEAD.replace("name: a", f"name: {name}")
    return f"kind: TrainingJob\n{head}spec:\n  template: {{spec: {{containers: [{{name: c}}]}}}}\n  {fields}\n"


def dataset_class(fields: str) -> str:
    """Write a DatasetClass."""
    return f"kind: DatasetClass\n{HEAD}spec: {{{fields}}}\n"


def pod(annotations: dict[str, str], **spec: Any) -> str:
    """Write a pod as JSON."""
    spec = {"containers": [{"name": "main"}]} | spec
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"annotations": annotations}, "spec": spec})


def deployment(above: dict[str, str], annotations: dict[str, str]) -> str:
    """Write a Deployment whose pod template has ``annotations``."""
    template = yaml.safe_load(pod(annotations))
    return json.dumps(
        {"kind": "Deployment", "metadata": {"name": "d", "annotations": above}, "spec": {"template": template}}
    )


def problems(text: str) -> list[str]:
    """Return the problems of a file as ``LINE PATH: MESSAGE``."""
    found = [problem for check in check_file(text.encode()) for problem in check.problems]
    return [f"{each.line} {each.path}: {each.message}" for each in found]


def warnings(text: str) -> list[str]:
    return [f"{each.path}: {each.message}" for check in check_file(text.encode()) for each in check.warnings]


@cases("path", **{path.stem: path for path in sorted((ROOT / "examples").glob("*.yaml"))})
def test_an_example_is_valid(path: Path) -> None:
    assert problems(path.read_text()) == []


# A document for each rule of the CRDs, by the rule's message.
RULES = {
    "source.uri must be s3://bucket/prefix/ or file:///folder": dataset(source="uri: gs://b/x"),
    "the bucket in source.uri must have 3 to 63 characters of a-z, 0-9, '.' and '-', and begin and end with a letter "
    "or digit": dataset(source="uri: s3://B/x"),
    "source.uri must not contain '..'": dataset(source="uri: s3://bucket/../x"),
    "source.endpoint is not the URL of a server": dataset(source="uri: s3://bucket/, endpoint: ftp://x"),
    "credentials takes secretRef or serviceAccount, not both": dataset(
        source="uri: s3://bucket/, credentials: {secretRef: {name: s}, serviceAccount: t}"
    ),
    "cache.replicas must be 0 to 10000, or 'all', or a share of the nodes, 1% to 100%": dataset(
        "cache: {replicas: '3'}"
    ),
    "In and NotIn take values": dataset("cache: {matchExpressions: [{key: a, operator: In}]}"),
    "it is not the key of a label or taint": dataset("cache: {matchExpressions: [{key: a b, operator: Exists}]}"),
    "a toleration without key must": dataset("cache: {tolerations: [{value: x}]}"),
    "it is not a quantity of bytes": dataset("cache: {quota: 1X}"),
    "it must be a size from 64Mi to 8Ti": job("datasets: [{name: a, mountPath: /d, scratch: 1Mi}]"),
    "it is more than 1Ei": dataset("cache: {quota: 5000P}"),
    "warm.list and warm.paths exclude each other": dataset("warm: {list: a, paths: [b]}"),
    "warm.deadline takes one of at and daily": dataset("warm: {deadline: {}}"),
    "warm.deadline.timeZone is for daily": dataset(
        "warm: {deadline: {at: '2026-01-01T00:00:00Z', timeZone: Europe/Berlin}}"
    ),
    "it is not a time of day": dataset("warm: {deadline: {daily: '25:00'}}"),
    "it is not the name of a time zone": dataset("warm: {deadline: {daily: '08:00', timeZone: '9'}}"),
    "a path of warm.paths is below the Dataset's folder": dataset("warm: {paths: [/a]}"),
    "warm.list: it is the path of a text file": dataset("warm: {list: /a}"),
    "it is longer than a year": dataset("refresh: {interval: 9000h}"),
    "refresh.interval must be 10s or more": dataset("refresh: {interval: 5s}"),
    "metadata.name must be a DNS label": job(name="a.b"),
    "metadata.name is too long": job(name="a" * 62),
    "two datasets have the same mountPath": job("datasets: [{name: a, mountPath: /d}, {name: b, mountPath: /d}]"),
    "priority.default must not be above priority.max": dataset_class("priority: {default: 5, max: 1}"),
    "maxReplicas must be 0 to 10000, or 'all'": dataset_class("maxReplicas: most"),
    "warm.default must be one of warm.policies": dataset_class("warm: {policies: [Manual], default: Eager}"),
}


def rules(schema: Any) -> Iterator[str]:
    """Yield the messages of all CEL rules about new objects."""
    if isinstance(schema, dict):
        found = schema.get("x-kubernetes-validations") or ()
        yield from (str(rule["message"]) for rule in found if "oldSelf" not in rule["rule"])
    for child in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from rules(child)


@pytest.mark.parametrize("message", list(RULES))
def test_a_rule_of_the_crds_is_checked(message: str) -> None:
    assert problems(RULES[message])


def test_every_rule_of_the_crds_has_a_case() -> None:
    messages = {message for kind in KINDS.values() for message in rules(open_api_schema(kind))}
    assert [message for message in messages if not any(message.startswith(known) for known in RULES)] == []


@cases(
    "text, problem",
    an_unknown_field=(dataset("warm: {polcy: Eager}"), '6 spec.warm.polcy: "polcy" is not a field here'),
    a_suggestion=(dataset("warm: {polcy: Eager}"), "did you mean policy?"),
    a_field_of_the_wrong_type=(dataset("warm: {priority: high}"), '6 spec.warm.priority: "high" is not a whole number'),
    an_unquoted_off=(dataset("warm: {peers: Off}"), "false is not text: quote it"),
    a_wrong_choice=(dataset("warm: {policy: eager}"), "did you mean Eager?"),
    a_missing_field=(f"kind: Dataset\n{HEAD}spec: {{}}\n", "4 spec: source is missing"),
    no_spec=(f"kind: Dataset\n{HEAD}", "spec is missing"),
    a_value_above_its_bound=(dataset("warm: {priority: 5000}"), "5000 is more than 1000"),
    the_same_node_twice=(dataset("warm: {nodes: [a, a]}"), '"a" is here twice'),
    an_unknown_top_level_field=(dataset() + "sepc: {}\n", '"sepc" is not a field here'),
    no_name=(dataset().replace("name: a", "labels: {}"), "3 metadata: has no name"),
    an_upper_case_name=(dataset().replace("name: a", "name: A"), "metadata.name: must have"),
    a_numeric_label=(dataset().replace("name: a", "name: a, labels: {x: 1}"), "metadata.labels.x: is not text"),
    another_api_version=(dataset().replace("v1alpha1", "v1"), "2 apiVersion: is not stoker.dev/v1alpha1"),
    an_unknown_kind=(dataset().replace("Dataset", "DataSet"), "did you mean Dataset?"),
    a_rule_of_a_profile=(f"kind: TuningProfile\n{HEAD}spec:\n  rules:\n  - id: a\n    priorty: 1\n", "7 spec.rules[0]"),
    two_keys=(dataset("warm: {}\n  warm: {}"), "is here twice: write it once"),
    broken_yaml=("a: [", "is not YAML or JSON"),
    no_object=("- a\n", "is not a Kubernetes object"),
    nothing=("---\n", "is empty"),
)
def test_a_problem_has_its_place_and_sentence(text: str, problem: str) -> None:
    assert any(problem in each for each in problems(text)), problems(text)


@cases(
    "annotations, problem",
    an_unknown_key=({"stoker.dev/dataset": "a:/a"}, "did you mean stoker.dev/datasets?"),
    a_wrong_mode=({"stoker.dev/datasets": "a:/a", "stoker.dev/scheduling": "prefer"}, "must be one of"),
    a_wrong_wait=({"stoker.dev/datasets": "a:/a", "stoker.dev/max-wait": "10"}, "is not a duration"),
    a_relative_path=({"stoker.dev/datasets": "a:data"}, "needs an absolute path"),
    an_unknown_container=({"stoker.dev/datasets": "a:/a", "stoker.dev/containers": "x"}, 'no container "x"'),
    a_gang_size_alone=({"stoker.dev/datasets": "a:/a", "stoker.dev/gang-size": "2"}, "and no gang"),
    a_wrong_sampling=({"stoker.dev/datasets": "a:/a", "stoker.dev/sampling": "{"}, "sampling is wrong"),
    sampling_of_another_dataset=(
        {"stoker.dev/datasets": "a:/a", "stoker.dev/sampling": '{"dataset": "b"}'},
        "which the pod does not have",
    ),
)
def test_annotations_are_checked_as_the_webhook_does(annotations: dict[str, str], problem: str) -> None:
    assert any(problem in each for each in problems(pod(annotations)))


def test_the_annotations_of_a_pod_template_are_checked() -> None:
    assert any(
        each.startswith("1 spec.template.metadata.annotations.stoker.dev/datasets:")
        for each in problems(deployment({}, {"stoker.dev/datasets": "a:data"}))
    )


@cases(
    "text, warning",
    an_annotation_above_the_template=(
        deployment({"stoker.dev/datasets": "a:/a"}, {}),
        "has no effect on the Deployment itself: write it in spec.template.metadata.annotations",
    ),
    an_annotation_without_datasets=(pod({"stoker.dev/scheduling": "None"}), "no effect without stoker.dev/datasets"),
    a_dataset_without_path=(pod({"stoker.dev/datasets": "a"}), "nothing is mounted"),
)
def test_what_has_no_effect_is_a_warning(text: str, warning: str) -> None:
    assert (problems(text), any(warning in each for each in warnings(text))) == ([], True)


def test_a_dataset_without_path_and_with_its_claim_is_no_warning() -> None:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "a"}}
    assert warnings(pod({"stoker.dev/datasets": "a"}, volumes=[volume])) == []


def test_every_document_of_a_file_has_its_own_lines() -> None:
    text = f"{dataset()}---\n{dataset('warm: {polcy: x}')}"
    assert [(check.line, bool(check.problems)) for check in check_file(text.encode())] == [(1, False), (8, True)]


def test_the_items_of_a_list_are_documents() -> None:
    items = [yaml.safe_load(dataset()), yaml.safe_load(dataset("warm: {polcy: x}"))]
    checks = check_file(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode())
    assert [bool(check.problems) for check in checks] == [False, True]


def test_anchors_are_resolved() -> None:
    text = dataset("warm: &w {policy: Eager}").replace("metadata: {name: a}", "metadata: {name: a}")
    assert problems(text) == []


def test_an_object_of_the_api_server_is_valid() -> None:
    written = yaml.safe_load(dataset())
    written["metadata"] |= {"uid": "x", "generation": 1, "managedFields": [], "resourceVersion": "1"}
    assert problems(json.dumps(written | {"status": {"phase": "Warm"}})) == []


@cases(
    "api_version, problem",
    a_misspelled_group=("stocker.dev/v1alpha1", True),
    no_group=("v1", True),
    another_system=("data.fluid.io/v1alpha1", False),
)
def test_a_kind_of_another_system_is_not_checked(api_version: str, problem: bool) -> None:
    assert bool(problems(dataset().replace("stoker.dev/v1alpha1", api_version))) is problem


def test_another_kind_has_nothing_to_check() -> None:
    (check,) = check_file(b"kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\ndata: {x: &a y, z: *a}\n")
    assert (check.checked, check.problems) == (False, ())


def test_aliases_that_grow_without_bound_are_refused() -> None:
    levels = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
    assert any("too many values" in each for each in problems(f"a0: &a0 [x]\n{levels}"))


class TestCommand:
    """Exit codes and output of the command."""

    def run(self, *arguments: str, text: str = "") -> click.testing.Result:
        return click.testing.CliRunner().invoke(main, ["validate", *arguments], input=text)

    def test_a_valid_file_exits_with_0(self, tmp_path: Path) -> None:
        (tmp_path / "a.yaml").write_text(dataset())
        result = self.run(str(tmp_path / "a.yaml"))
        assert (result.exit_code, result.output) == (0, f"{tmp_path}/a.yaml:1: Dataset a: valid\n")

    def test_an_invalid_file_exits_with_1_and_names_the_place(self) -> None:
        result = self.run("-", text=dataset("warm: {polcy: x}"))
        assert (result.exit_code, result.output.startswith("-:6:10: spec.warm.polcy: ")) == (1, True)

    def test_a_missing_file_exits_with_3(self) -> None:
        assert self.run("no-such-file.yaml").exit_code == 3

    def test_json_has_the_problems(self) -> None:
        (file,) = json.loads(self.run("-", "-o", "json", text=dataset("warm: {polcy: x}")).output)
        assert (file["valid"], file["documents"][0]["problems"][0]["line"]) == (False, 6)
