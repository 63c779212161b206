"""kube-score and kubesec have no findings in the chart except those explained in docs/operations/security.md."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster.build import Programs
from tests.support.chart import ROOT, of_kind, render

VALUES = {"dashboard": {"enabled": True, "plainHTTP": True}}
OBJECTS = ("sidecar", "holder", "operator", "crds", "uninstall", "dashboard")
LEAST_GRADE = 7  # kube-score's own: 10 is good, 7 almost, 5 a warning, 1 critical
# | `tool` | `finding` | objects | why |
ROW = re.compile(r"^\| (kube-score|kubesec) \| `([^`]+)` \| ([^|]+) \| [^|]{20,} \|$", re.MULTILINE)
Finding = tuple[str, str, str]  # tool, finding, object


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Render the chart with its defaults and the page."""
    file = tmp_path_factory.mktemp("scores") / "chart.yaml"
    file.write_text(yaml.safe_dump_all(render(VALUES)))
    return file


def scan(program: str, *words: str) -> list[dict[str, Any]]:
    """Run a scanner. Its exit status only repeats its output."""
    argv = [str(Programs().path(program)), *words]
    return list(json.loads(subprocess.run(argv, capture_output=True, text=True, check=False).stdout))


def by_kube_score(manifest: Path) -> set[Finding]:
    return {
        ("kube-score", check["check"]["id"], short(one["object_name"].rsplit("/", 1)[1]))
        for one in scan("kube-score", "score", "--output-format", "json", str(manifest))
        for check in one["checks"]
        if not check["skipped"] and check["grade"] < LEAST_GRADE
    }


def by_kubesec(manifest: Path, folder: Path) -> set[Finding]:
    # It would download its schemas from the internet. Other tests check the schema with a real API server.
    (folder / "any.json").write_text("{}")
    # It does not score the kind of hooks' Jobs.
    return {
        ("kubesec", point["id"], short(one["object"].split("/")[1].split(".")[0]))
        for one in scan("kubesec", "scan", "--schema-location", str(folder / "any.json"), str(manifest))
        for level in ("critical", "advise")
        for point in one.get("scoring", {}).get(level) or ()
    }


def short(name: str) -> str:
    return name.removeprefix("stoker-")


def written_down() -> set[Finding]:
    rows = ROW.findall((ROOT / "docs" / "operations/security.md").read_text(encoding="utf-8"))
    return {
        (tool, finding, one)
        for tool, finding, objects in rows
        for one in (OBJECTS if objects == "all" else objects.split(", "))
    }


def test_every_finding_of_kube_score_has_its_reason_in_the_docs(manifest: Path) -> None:
    assert by_kube_score(manifest) == {one for one in written_down() if one[0] == "kube-score"}


def test_every_finding_of_kubesec_has_its_reason_in_the_docs(manifest: Path, tmp_path: Path) -> None:
    assert by_kubesec(manifest, tmp_path) == {one for one in written_down() if one[0] == "kubesec"}


def test_the_scanners_see_every_pod(manifest: Path) -> None:
    names = {one["metadata"]["name"] for one in of_kind(render(VALUES), "Deployment", "DaemonSet", "Job")}
    scored = {one["object_name"].rsplit("/", 1)[1] for one in scan("kube-score", "score", "-o", "json", str(manifest))}
    assert names <= scored
    assert {short(name) for name in names} == set(OBJECTS)
