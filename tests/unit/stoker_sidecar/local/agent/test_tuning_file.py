"""The file of rules of a mount: errors at start name a place. Later, the last valid file applies."""

from pathlib import Path

import pytest

from stoker_sidecar.local.agent.tuning_file import TuningFile, read_tuning_file
from stoker_sidecar.local.reports.report import Report, progress_event, tuning_line
from stoker_sidecar.local.reports.report_parts import TuningReport
from stoker_sidecar.tuning.source import BuiltInRules
from stoker_sidecar.tuning.tuner import RuleCounts, TuningInForce
from stoker_sidecar.volumes.synchronization import Changes

GOOD = """
apiVersion: stoker.dev/v1alpha1
kind: TuningProfile
metadata: {name: mine}
spec:
  rules:
    - id: shards
      conditions: [{type: file_pattern, value: "*.tar"}]
      actions: [{type: prefetch, parameters: {prefetch_size: 64Mi}}]
"""
BAD = GOOD.replace("prefetch_size", "prefetch_sise")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "mine.yaml"
    made.write_text(GOOD)
    return made


def test_a_wrong_file_is_refused_with_its_line_and_what_may_be_meant(path: Path) -> None:
    path.write_text(BAD)
    with pytest.raises(ValueError, match=r"mine\.yaml: line 9, .*did you mean prefetch_size\?"):
        read_tuning_file(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nothing: No such file"):
        read_tuning_file(tmp_path / "nothing")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not a file"):
        read_tuning_file(tmp_path)


def test_without_a_file_the_built_in_rules_hold() -> None:
    assert TuningFile(None, Changes()).choice("any") == BuiltInRules().choice("any")


def test_what_is_off_has_no_rules() -> None:
    assert TuningFile(None, Changes(), off=True).choice("any").off


def test_a_changed_file_is_read_anew_and_told(path: Path) -> None:
    changes = Changes()
    tuning, token = TuningFile(path, changes), changes.token()
    path.write_text(GOOD.replace("mine", "other"))
    tuning.look()
    assert token.is_set()
    assert (tuning.choice("any").profile, tuning.choice("any").generation) == ("other", 2)


def test_a_file_that_stays_as_it_is_changes_nothing(path: Path) -> None:
    tuning = TuningFile(path, Changes())
    before = tuning.choice("any")
    tuning.look()
    assert tuning.choice("any") is before


@pytest.mark.expected_logs("the rules before stay in force")
def test_the_last_good_rules_stay_in_force_and_why_is_told(path: Path) -> None:
    tuning = TuningFile(path, Changes())
    before = tuning.choice("any")
    path.write_text(BAD)
    tuning.look()
    assert tuning.choice("any") is before
    assert "line 9" in tuning.report(None).trouble
    path.write_text(GOOD)
    tuning.look()
    assert tuning.report(None).trouble == ""


@pytest.mark.expected_logs("the rules before stay in force")
def test_a_file_that_goes_away_leaves_its_rules(path: Path) -> None:
    tuning = TuningFile(path, Changes())
    path.unlink()
    tuning.look()
    assert (tuning.choice("any").profile, tuning.report(None).generation) == ("mine", 1)
    assert "No such file" in tuning.report(None).trouble


def test_what_is_in_force_is_told_to_people_and_scripts(path: Path) -> None:
    tuning = TuningFile(path, Changes())
    report = tuning.report(TuningInForce(tuning.choice("any"), (RuleCounts("shards", 12, 10),), 1))
    assert tuning_line(report) == "tuning: rules of mine (1): shards 12 files"
    event = progress_event(Report(tuning=report))
    assert event["tuning"] == report.wire()
    assert "tuning" not in progress_event(Report())


def test_of_the_built_in_rules_nothing_is_said() -> None:
    assert tuning_line(TuningReport()) == ""
