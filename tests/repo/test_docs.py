"""The documents agree with the code, have working links, and name no paths of a single machine."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from stoker_api.names import Reason
from stoker_sidecar.version.objects import SkipReason
from tests.support.cases import cases

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
WORKLOADS = ROOT / "examples" / "workloads"
MARKDOWN = [*(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")), *sorted(DOCS.rglob("*.md"))]
MARKDOWN += [WORKLOADS / "README.md"]
ALERTS: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((ROOT / "charts/stoker/alerts/stoker.yaml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
# Package registries and home folders of this project's developers. The names are assembled here, so that this file does
# not contain them.
FOREIGN = [".".join(words) for words in (("pypi", "org"), ("pythonhosted", "org"), ("proxy", "golang", "org"))]
FOREIGN += [".".join(words) for words in (("deb", "debian", "org"), ("registry", "npmjs", "org"))]
FOREIGN += ["/" + "/".join(words) for words in (("work", "main"), ("work", "shared"), ("tmp", "briefs"))]
UNFINISHED = re.compile(
    r"\b(?:" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "NotImplemented" + "Error")) + r")\b"
)


def headings(path: Path) -> set[str]:
    """Return the headings of a Markdown file as GitHub's anchors."""
    found = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


def tracked() -> list[Path]:
    """List the text files that git tracks."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    skip = {".sum", ".png", ".pyi", ".svg"}
    return [path for name in names.split("\0") if name and (path := ROOT / name).suffix not in skip and path.is_file()]


@pytest.mark.parametrize("reason", sorted(set(Reason)))
def test_every_reason_has_a_section(reason: Reason) -> None:
    text = (DOCS / "operations/troubleshooting.md").read_text(encoding="utf-8")
    assert re.search(rf"^### {reason}\n\S", text, re.MULTILINE)


def test_every_section_of_a_reason_is_of_a_reason_that_exists() -> None:
    text = (DOCS / "operations/troubleshooting.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^### (\w+)$", text, re.MULTILINE)) == {str(reason) for reason in Reason}


def test_every_kind_of_skipped_key_is_documented() -> None:
    text = (DOCS / "reference/semantics.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
    assert {str(reason) for reason in SkipReason} <= documented


@pytest.mark.parametrize("path", MARKDOWN, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        if target.startswith("https://"):
            continue
        file, _, anchor = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        assert there.exists(), f"{path.name} links to {target}"
        assert not anchor or anchor in headings(there), f"{path.name} links to {target}"


def test_every_metric_is_documented() -> None:
    text = (DOCS / "operations/metrics.md").read_text(encoding="utf-8")
    documented = {name.removesuffix("_total") for name in re.findall(r"`(stoker_[a-z_]+)", text)}
    sources = [*(ROOT / "operator").rglob("*.py"), *(ROOT / "sidecar").rglob("*.py")]
    made = r"(?:Counter|Gauge|Histogram|(?:Counter|Gauge)MetricFamily)"
    family = made + r"\(\s*\"(stoker_[a-z_]+)\"|^    \(\"(stoker_[a-z_]+)\", "
    found = [re.findall(family, path.read_text(encoding="utf-8"), re.MULTILINE) for path in sources]
    assert {first or second for names in found for first, second in names} == documented


def dashboard_queries() -> list[str]:
    dashboard = json.loads((ROOT / "charts/stoker/dashboards/stoker.json").read_text(encoding="utf-8"))
    return [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


@cases("queries", dashboard=dashboard_queries(), alerts=[alert["expr"] for alert in ALERTS])
def test_queries_name_only_metrics_that_exist(queries: list[str]) -> None:
    text = (DOCS / "operations/metrics.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"`(stoker_[a-z_]+)", text))  # those that exist, see the test above
    documented |= {f"{name}_bucket" for name in documented if name.endswith("_seconds")}
    shown = {name for query in queries for name in re.findall(r"stoker_[a-z_]+", query)}
    assert shown
    assert shown <= documented


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_an_alert_says_what_to_do(alert: dict[str, Any]) -> None:
    assert alert["labels"]["severity"] in {"critical", "warning", "info"}
    assert all(alert["annotations"][text].endswith(".") for text in ("summary", "description"))
    page, _, section = alert["annotations"]["runbook_url"].partition("#")
    assert section in headings(ROOT / page)


def test_every_section_of_an_alert_is_of_an_alert_that_exists() -> None:
    text = (DOCS / "operations/alerts.md").read_text(encoding="utf-8")
    assert re.findall(r"^### (\w+)$", text, re.MULTILINE) == [alert["alert"] for alert in ALERTS]


def test_every_test_that_the_page_on_security_names_is_there() -> None:
    named = set(re.findall(r"`(test_\w+)`", (DOCS / "operations/security.md").read_text(encoding="utf-8")))
    files = [path for folder in ("tests", "e2e") for path in (ROOT / folder).rglob("*.py")]
    there = {
        name for path in files for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text("utf-8"), re.M)
    }
    assert named
    assert named <= there


def test_the_page_on_concurrency_names_files_that_exist() -> None:
    text = (DOCS / "design/concurrency.md").read_text(encoding="utf-8")
    roots = (ROOT / "sidecar" / "stoker_sidecar", ROOT / "operator" / "stoker_operator", ROOT)
    named = set(re.findall(r"`([\w/]+\.py)`", text))
    assert named
    assert not {name for name in named if not any((root / name).is_file() for root in roots)}


def test_every_decision_is_in_the_index() -> None:
    index = (DOCS / "adr" / "README.md").read_text(encoding="utf-8")
    records = {path.name for path in (DOCS / "adr").glob("[0-9]*.md")}
    assert records == set(re.findall(r"\]\((\d{4}-[\w-]+\.md)\)", index))


@pytest.mark.parametrize("path", sorted((DOCS / "adr").glob("[0-9]*.md")), ids=lambda path: path.stem)
def test_a_decision_has_a_date_and_a_status(path: Path) -> None:
    head = r"# [1-9]\d*\. .+\n\nDate: 20\d\d-\d\d-\d\d\n\nStatus: (proposed|accepted|superseded)\b"
    assert re.match(head, path.read_text(encoding="utf-8"))


def test_the_readmes_dataset_is_the_example() -> None:
    example = (ROOT / "examples" / "dataset.yaml").read_text(encoding="utf-8")
    manifest = example[example.index("apiVersion") :]
    assert manifest in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_page_on_reports_has_the_example() -> None:
    program = (ROOT / "examples" / "report.py").read_text(encoding="utf-8")
    assert program[program.index("import json") :] in (DOCS / "guides/reports.md").read_text(encoding="utf-8")


def test_the_page_on_workloads_lists_every_example() -> None:
    files = {path.name for path in WORKLOADS.glob("*.yaml")} - {"train-script.yaml"}
    assert set(re.findall(r"^\| \[([\w.-]+)\]", (WORKLOADS / "README.md").read_text("utf-8"), re.MULTILINE)) == files


@pytest.mark.parametrize("name", sorted(path.name for path in WORKLOADS.glob("*.yaml")))
def test_an_example_says_what_it_shows_and_what_to_change(name: str) -> None:
    assert re.match(r"# .+\.\n# Change: .+\.\n\w", (WORKLOADS / name).read_text("utf-8"))


@pytest.mark.parametrize("name", FOREIGN)
def test_no_file_names_a_registry_or_a_folder_of_one_machine(name: str) -> None:
    guilty = [str(path.relative_to(ROOT)) for path in tracked() if name in path.read_text("utf-8", errors="ignore")]
    assert not guilty


def test_nothing_is_left_unfinished() -> None:
    code = [path for path in tracked() if path.suffix in {".py", ".yaml", ".sh", ".tpl", ".toml"}]
    guilty = [str(path.relative_to(ROOT)) for path in code if UNFINISHED.search(path.read_text("utf-8"))]
    assert not guilty
