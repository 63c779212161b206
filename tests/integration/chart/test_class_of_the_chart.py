"""The DatasetClass of the chart: its content, and the conditions under which it exists."""

import json
from typing import Any

import yaml

from stoker_api.datasets.datasetclass import DatasetClass
from tests.support.chart import CHART, NAMESPACE, helm, of_kind


def default_class(*words: str, **values: Any) -> DatasetClass | None:
    stdin = json.dumps({"datasetClass": values} if values else {})
    done = helm("template", "stoker", str(CHART), "--namespace", NAMESPACE, "--values", "-", *words, stdin=stdin)
    assert done.returncode == 0, done.stderr
    found = of_kind((one for one in yaml.safe_load_all(done.stdout) if one), DatasetClass.KIND)
    return DatasetClass.model_validate(found[0]) if found else None


def test_the_class_of_the_chart_is_the_default_and_lets_a_single_team_do_all() -> None:
    found = default_class()
    assert found is not None
    assert (found.metadata.name, found.is_default, found.spec.namespaces) == ("default", True, ("*",))
    assert (found.spec.priority.max, found.spec.priority.default, found.spec.allow_pinning) == (1000, 0, True)


def test_the_class_of_the_chart_can_be_another_one_or_none() -> None:
    found = default_class(name="tenants", spec={"priority": {"max": 5}})
    assert found is not None
    assert (found.metadata.name, found.spec.priority.max) == ("tenants", 5)
    assert default_class(install=False) is None


def test_an_upgrade_from_a_release_without_the_kind_does_without_the_class() -> None:
    known = "stoker.dev/v1alpha1/DatasetClass"
    assert default_class("--is-upgrade") is None
    assert default_class("--is-upgrade", "--api-versions", known) is not None
