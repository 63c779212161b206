"""The documents say what the code knows, link to what exists, and name nothing that belongs to one machine."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from stoker_api.names import Reason
from stoker_sidecar.version.objects import SkipReason

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
MARKDOWN = [*(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")), *sorted(DOCS.rglob("*.md"))]
# Package registries and the folders that machines of this project's developers have: put together here, so that this
# file does not hold them itself.
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
    """List the text files that git knows."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    skip = {".sum", ".png", ".pyi", ".svg"}
    return [path for name in names.split("\0") if name and (path := ROOT / name).suffix not in skip and path.is_file()]


@pytest.mark.parametrize("reason", sorted(set(Reason)))
def test_every_reason_has_a_section(reason: Reason) -> None:
    text = (DOCS / "TROUBLESHOOTING.md").read_text(encoding="utf-8")
    assert re.search(rf"^### {reason}\n\S", text, re.MULTILINE)


def test_every_section_of_a_reason_is_of_a_reason_that_exists() -> None:
    text = (DOCS / "TROUBLESHOOTING.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^### (\w+)$", text, re.MULTILINE)) == {str(reason) for reason in Reason}


def test_every_kind_of_skipped_key_is_documented() -> None:
    text = (DOCS / "SEMANTICS.md").read_text(encoding="utf-8")
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
    text = (DOCS / "OPERATIONS.md").read_text(encoding="utf-8")
    documented = {name.removesuffix("_total") for name in re.findall(r"`(stoker_[a-z_]+)", text)}
    sources = [*(ROOT / "operator").rglob("*.py"), *(ROOT / "sidecar").rglob("*.py")]
    made = r"(?:Counter|Gauge|Histogram|(?:Counter|Gauge)MetricFamily)"
    family = made + r"\(\s*\"(stoker_[a-z_]+)\"|^    \(\"(stoker_[a-z_]+)\", \""
    found = [re.findall(family, path.read_text(encoding="utf-8"), re.MULTILINE) for path in sources]
    assert {first or second for names in found for first, second in names} == documented


def test_the_dashboard_shows_only_metrics_that_exist() -> None:
    text = (DOCS / "OPERATIONS.md").read_text(encoding="utf-8")
    histograms = {"stoker_reconcile_seconds_bucket", "stoker_loop_blocked_seconds_bucket"}
    documented = set(re.findall(r"`(stoker_[a-z_]+)", text)) | histograms
    dashboard = json.loads((ROOT / "charts/stoker/dashboards/stoker.json").read_text(encoding="utf-8"))
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    shown = {name for expression in expressions for name in re.findall(r"stoker_[a-z_]+", expression)}
    assert shown
    assert shown <= documented


def test_every_test_that_the_page_on_security_names_is_there() -> None:
    named = set(re.findall(r"`(test_\w+)`", (DOCS / "SECURITY.md").read_text(encoding="utf-8")))
    files = [path for folder in ("tests", "e2e") for path in (ROOT / folder).rglob("*.py")]
    there = {
        name for path in files for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text("utf-8"), re.M)
    }
    assert named
    assert named <= there


def test_the_page_on_concurrency_names_files_that_exist() -> None:
    text = (DOCS / "CONCURRENCY.md").read_text(encoding="utf-8")
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
    assert program[program.index("import json") :] in (DOCS / "REPORTS.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", FOREIGN)
def test_no_file_names_a_registry_or_a_folder_of_one_machine(name: str) -> None:
    guilty = [str(path.relative_to(ROOT)) for path in tracked() if name in path.read_text("utf-8", errors="ignore")]
    assert not guilty


def test_nothing_is_left_unfinished() -> None:
    code = [path for path in tracked() if path.suffix in {".py", ".yaml", ".sh", ".tpl", ".toml"}]
    guilty = [str(path.relative_to(ROOT)) for path in code if UNFINISHED.search(path.read_text("utf-8"))]
    assert not guilty
