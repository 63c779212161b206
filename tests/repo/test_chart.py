"""The chart's files agree with each other and with the code, in all checks that work without Helm."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from stoker_api import names
from stoker_api.jobs import pod_figures
from tools.release.version import current

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "stoker"
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
TEMPLATES = sorted(path for path in (CHART / "templates").rglob("*") if path.is_file())


def properties(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Walk every value of the schema, with its path."""
    for name, child in schema.get("properties", {}).items():
        yield f"{path}{name}", child
        yield from properties(child, f"{path}{name}.")


def default_paths(values: dict[str, Any], path: str = "") -> Iterator[str]:
    """Walk every value of values.yaml. The content of free-form objects belongs to Kubernetes."""
    known = dict(properties(SCHEMA))
    for name, child in values.items():
        yield f"{path}{name}"
        if isinstance(child, dict) and "properties" in known.get(f"{path}{name}", {}):
            yield from default_paths(child, f"{path}{name}.")


@pytest.mark.parametrize(("path", "schema"), list(properties(SCHEMA)))
def test_every_value_is_described(path: str, schema: dict[str, Any]) -> None:
    assert schema.get("description", "").endswith((".", "?")), f"{path} needs a sentence"


def test_values_and_schema_name_the_same_values() -> None:
    listed = {path for path, _ in properties(SCHEMA) if not path.startswith("sidecar.neighbours")}  # an old name
    assert set(default_paths(VALUES)) == listed - {"global"}


def groups(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Walk the objects of the schema whose properties are listed."""
    yield schema
    for _, child in properties(schema):
        if "properties" in child:
            yield child


def test_every_group_of_values_refuses_typos() -> None:
    assert all(group["additionalProperties"] is False for group in groups(SCHEMA))


def test_version_is_the_same_everywhere() -> None:
    assert current(ROOT)  # it raises an error that names the file with another version


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_templates_use_only_known_names_of_the_group(path: Path) -> None:
    text = path.read_text()
    known = {value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)}
    known |= {
        f"{plural}.{names.GROUP}"
        for plural in ("datasets", "trainingjobs", "nodecaches", "datasetclasses", "tuningprofiles")
    }
    known |= {f"pods.{names.GROUP}", f"{names.GROUP}/metrics"}  # the webhook's own name; the chart's own label
    known |= {pod_figures.GROUP, f"{pod_figures.VERSION}.{pod_figures.GROUP}"}
    used = set(re.findall(rf"[\w.-]*{re.escape(names.GROUP)}(?:/[\w-]+)?", text))
    assert used <= known
