"""The commands `stoker tuning validate`, `test` and `explain`."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from stoker_cli.main import main
from stoker_tuning.documents.tree import MOST_BYTES
from tests.support.cases import cases

HEAD = "apiVersion: stoker.dev/v1alpha1\nkind: TuningProfile\nmetadata: {name: mine}\nspec:\n"
RULES = """\
  rules:
    - id: shards
      priority: 10
      conditions:
        - {type: file_pattern, value: "*.tar"}
        - {type: workload_context, property: phase, value: Training}
      actions: [{type: stream, parameters: {parallel_streams: 16}}]
    - id: never
      conditions: [{type: file_pattern, value: "*.nothing"}]
      actions: [{type: cache, parameters: {should_cache: false}}]
"""


@pytest.fixture
def document(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(HEAD + RULES)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    (data / "train").mkdir(parents=True)
    (data / "train" / "1.tar").write_bytes(b"x" * 1024)
    (data / "train" / "2.tar").write_bytes(b"x" * 1024)
    (data / "readme.md").write_bytes(b"x")
    (data / "link").symlink_to(data / "readme.md")
    return data


def stoker(*words: object) -> Result:
    return CliRunner().invoke(main, ["tuning", *map(str, words)])


def parsed(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_valid_document_is_one_line(document: Path) -> None:
    result = stoker("validate", document)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1].startswith(f"{document}: valid: mine has 2 rules")


def test_an_invalid_document_has_position_and_suggestion(document: Path) -> None:
    document.write_text(HEAD + RULES.replace("phase", "phaze"))
    result = stoker("validate", document)
    assert result.exit_code == 1
    assert f"{document}:10:36: spec.rules[0].conditions[1].property" in result.stdout
    assert "did you mean phase?" in result.stdout


def test_omitted_problems_are_counted(document: Path) -> None:
    document.write_text(HEAD + "".join(f"  k{number}: 1\n" for number in range(25)))
    assert stoker("validate", document).stdout.endswith("and 5 more problems\n")


def test_verdicts_as_json(document: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.json"
    wrong.write_text("{}")
    result = stoker("validate", document, wrong, "-o", "json")
    good, bad = json.loads(result.stdout)
    assert (result.exit_code, good["valid"], bad["valid"]) == (1, True, False)
    assert bad["problems"][0] == {"line": 1, "column": 1, "path": "apiVersion", "message": "is missing: write it"}


@pytest.mark.parametrize("command", [["validate"], ["test", "."], ["explain", "a"]])
def test_an_unreadable_document_is_exit_code_3(command: list[str], tmp_path: Path) -> None:
    result = stoker(command[0], tmp_path / "no.yaml", *command[1:])
    assert result.exit_code == 3
    assert "no.yaml: No such file" in result.stderr


@pytest.mark.parametrize("command", [["test", "."], ["explain", "a"]])
def test_an_invalid_document_is_exit_code_1(command: list[str], document: Path) -> None:
    document.write_text("kind: x")
    result = stoker(command[0], document, *command[1:])
    assert result.exit_code == 1
    assert f"{document}:1:1: apiVersion: is missing" in result.stderr


def test_a_document_is_read_up_to_the_size_limit(tmp_path: Path) -> None:
    huge = tmp_path / "huge.yaml"
    with huge.open("wb") as file:
        file.truncate(MOST_BYTES * 1000)
    assert "1048576 at most" in stoker("validate", huge).stdout


def test_a_trial_counts_files_by_rule(document: Path, folder: Path) -> None:
    found = parsed(stoker("test", document, folder, "--phase", "Training", "-o", "json"))
    counts = {row["rule"]: row["files"] for row in found["rules"]}
    assert (found["files"], counts["shards"], counts["never"]) == (3, 2, 0)


def test_facts_without_an_option_are_unknown(document: Path, folder: Path) -> None:
    found = parsed(stoker("test", document, folder, "-o", "json"))
    assert {row["rule"]: row["files"] for row in found["rules"]}["shards"] == 0


def test_a_trial_shows_own_rules_and_matching_ones(document: Path, folder: Path) -> None:
    lines = stoker("test", document, folder, "--phase", "Training").stdout.splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["RULE", "shards", "never"]
    assert lines[-1].startswith("3 files (2.0 KiB) checked; 1 match")
    assert "weights-for-inference" in stoker("test", document, folder, "--all").stdout


def test_a_trial_names_the_rules_of_each_file(document: Path, folder: Path) -> None:
    words = ("test", document, folder, "--phase", "Training", "--files")
    assert stoker(*words).stdout.splitlines()[:3] == ["readme.md\t-", "train/1.tar\tshards", "train/2.tar\tshards"]
    each = parsed(stoker(*words, "-o", "json"))["each"]
    assert each == {"readme.md": [], "train/1.tar": ["shards"], "train/2.tar": ["shards"]}


def test_a_missing_folder_is_exit_code_3(document: Path, tmp_path: Path) -> None:
    result = stoker("test", document, tmp_path / "no")
    assert result.exit_code == 3
    assert "Cannot list" in result.stderr


def test_an_explanation_has_the_rule_and_reason_of_each_value(document: Path) -> None:
    found = parsed(stoker("explain", document, "train/1.tar", "--phase", "Training", "-o", "json"))
    assert found["values"]["parallel_streams"] == {
        "value": 16,
        "from": "rule",
        "rule": "shards",
        "document": "mine",
        "layer": "custom",
        "group": "",
        "because": ["file_pattern glob equals *.tar", "workload_context phase equals Training"],
    }
    assert found["values"]["prefetch_size"] == {"value": "auto", "from": "level Balanced"}


def test_an_explanation_is_a_table_and_a_line_for_each_rule(document: Path) -> None:
    result = stoker("explain", document, "train/1.tar", "--phase", "Training", "--all")
    lines = result.stdout.splitlines()
    assert any(line.split()[:4] == ["parallel_streams", "16", "shards", "(mine;"] for line in lines)
    assert "shards applies: 100 % of its condition weight matches." in lines
    assert "never does not apply: 0 % matches. Missing: file_pattern glob equals *.nothing." in lines


@cases(
    "settings, row",
    ("", "prefetch_depth auto strategy Adaptive, by level Balanced"),
    ("{level: Aggressive}", "kernel_read_ahead 32.0 MiB level Aggressive, by settings (mine, settings; custom)"),
    ("{level: Aggressive}", "known_order true level Balanced"),
    ("{cache_policy: None}", "lane_weight 1 cache_priority Low, by cache_policy None, by settings (mine, settings"),
)
def test_an_explanation_names_the_set_of_a_value_and_its_rule(document: Path, settings: str, row: str) -> None:
    document.write_text(f"{HEAD}  settings: {settings or '{}'}\n")
    lines = [" ".join(line.split()) for line in stoker("explain", document, "a").stdout.splitlines()]
    assert any(line.startswith(row) for line in lines), lines


def test_an_explanation_leaves_out_values_without_effect(document: Path) -> None:
    document.write_text(f"{HEAD}  settings: {{level: Maximum}}\n")
    values = parsed(stoker("explain", document, "a", "-o", "json"))["values"]
    assert not {"compression_level", "min_ratio", "page_cache_prefetch"} & values.keys()


@cases(
    "rules, warning",
    (
        "[{id: a, actions: [{type: stream, parameters: {chunk_size: 16Mi}}]}]",
        "parameters.chunk_size: chunk_size was removed and has no effect: delete it",
    ),
    (
        "[{id: a, actions: [{type: cache, parameters: {cache_place: disk, should_cache: false}}]}]",
        "warning: spec.rules[0].actions[0].parameters.cache_place: cache_place was removed and has no effect",
    ),
    (
        "[{id: a, conditions: [{type: workload_context, property: framework, value: torch}], "
        "actions: [{type: cache, parameters: {should_cache: false}}]}]",
        "so this never matches: did you mean pytorch?",
    ),
    (
        "[{id: a, actions: [{type: compress, parameters: {compression: on}}]}]",
        'kubectl reads on as true or false: quote it, "on"',
    ),
)
def test_a_part_without_effect_is_a_warning(tmp_path: Path, rules: str, warning: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(f"{HEAD}  rules: {rules}\n")
    result = stoker("validate", path)
    assert result.exit_code == 0
    assert warning in result.stdout
    (row,) = parsed(stoker("validate", path, "-o", "json"))
    assert len(row["warnings"]) == 1


def test_a_quoted_word_and_a_detected_framework_are_not_warnings(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    framework = "{type: workload_context, property: framework, value: [pytorch, jax]}"
    action = '{type: compress, parameters: {compression: "on"}}'
    path.write_text(f"{HEAD}  rules: [{{id: a, conditions: [{framework}], actions: [{action}]}}]\n")
    assert "warning" not in stoker("validate", path).stdout


def test_the_summary_says_that_all_files_match(document: Path, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "1.tar").write_bytes(b"x")
    result = stoker("test", document, tmp_path / "one", "--phase", "Training")
    assert result.stdout.splitlines()[-1] == "1 file (1 B) checked; each matches at least one rule."


def test_the_size_of_a_local_file_is_known(document: Path, folder: Path) -> None:
    document.write_text(
        HEAD + RULES.replace('file_pattern, value: "*.tar"', "file_context, property: size, value: 1Ki")
    )
    words = ("explain", document, folder / "train" / "1.tar", "--phase", "Training", "-o", "json")
    assert parsed(stoker(*words))["values"]["parallel_streams"]["from"] == "rule"
    assert parsed(stoker(*words, "--size", "2Ki"))["values"]["parallel_streams"]["from"] == "level Balanced"


@pytest.mark.parametrize("command", [["validate"], ["test"], ["explain"], []])
def test_every_command_has_help(command: list[str]) -> None:
    result = stoker(*command, "--help")
    assert result.exit_code == 0
    assert "Usage:" in result.stdout


def test_a_wrong_size_is_wrong_usage(document: Path) -> None:
    assert stoker("explain", document, "a", "--size", "huge").exit_code == 2
