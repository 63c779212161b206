"""The keeper's command line."""

from pathlib import Path

import pytest

from stoker_sidecar.keeper.settings import parse
from stoker_sidecar.wire.config.folders import FolderSpec
from tests.support.cases import cases


def test_defaults_are_those_of_the_image() -> None:
    settings = parse([], {})
    assert (settings.keeper_socket, settings.run_as) == (Path("/run/stoker/keeper.sock"), 65532)


def test_a_flag_wins_over_the_environment_and_that_over_the_default() -> None:
    environment = {"STOKER_RUN_DIR": "/from-env", "STOKER_CACHE_ROOT": "/cache-from-env"}
    settings = parse(["--run-dir", "/from-flag"], environment)
    assert (settings.run_dir, settings.cache) == (Path("/from-flag"), (FolderSpec("/cache-from-env"),))


def test_what_follows_the_dashes_goes_to_the_agent() -> None:
    settings = parse(["--agent-command", "agent --x", "--", "--node", "n1"], {})
    assert settings.agent_command == ("agent", "--x", "--node", "n1")


def test_an_empty_command_starts_nothing() -> None:
    settings = parse(["--agent-command", "", "--fetcher-command", "", "--run-as", "", "--", "--node", "n1"], {})
    assert (settings.agent_command, settings.fetcher_command, settings.run_as) == ((), (), None)


@cases(
    "argv, sentence",
    (["--on-exit", "explode"], "--on-exit 'explode' must be unmount or keep"),
    (["--log-level", "loud"], "--log-level 'loud' must be one of debug, info, warning, error"),
    (["--observe", "on"], "--observe 'on' must be Auto or Off"),
    (["--observer-cpu", "5%"], "--observer-cpu '5%' must be between 0.0001 and 1"),
    (["--run-as", "nobody"], "--run-as 'nobody' must be a user id"),
)
def test_a_wrong_value_ends_with_a_sentence(argv: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(argv, {})
    assert sentence in capsys.readouterr().err


def test_a_wrong_log_format_ends_with_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse([], {"STOKER_LOG_FORMAT": "xml"})
    assert "STOKER_LOG_FORMAT is 'xml': it must be text or json" in capsys.readouterr().err


def test_help_names_the_environment_variable_of_each_flag(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--help"], {})
    assert "STOKER_MOUNT_ROOT" in capsys.readouterr().out


def test_reports_are_heard_where_there_is_a_state_folder() -> None:
    assert parse([], {}).reports_root is None
    assert parse(["--reports", "On", "--state-dir", "/state"], {}).reports_root == Path("/state/reports")


def test_reports_are_heard_in_a_folder_that_is_named() -> None:
    assert parse(["--reports", "On", "--reports-root", "/run/m/reports"], {}).reports_root == Path("/run/m/reports")
    assert parse(["--reports-root", "/run/m/reports"], {}).reports_root is None


def test_reports_without_a_state_folder_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--reports", "On"], {})
    assert "needs a --state-dir" in capsys.readouterr().err


@pytest.mark.parametrize("argv", [["--observe", "Off"], ["--agent-command", ""]])
def test_nobody_looks_at_reads_where_that_is_off_or_there_is_no_agent(argv: list[str]) -> None:
    assert parse(argv, {}).access_socket is None
