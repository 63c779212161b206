"""How a process reads its settings: flag, environment, default."""

from pathlib import Path
from typing import Annotated, ClassVar

import pytest
from pydantic import BeforeValidator

from stoker_sidecar.wire.config.settings import AbsolutePath, Bytes, LogLevel, ProcessSettings, Repeated, setting
from tests.support.cases import cases


class Settings(ProcessSettings):
    """Settings of an example process."""

    program: ClassVar[str] = "example"
    about: ClassVar[str] = "An example."

    socket: Path = setting("where it listens")
    node: str = setting("of the node, 100 % of it", "", variable="NODE_NAME")
    state_dir: AbsolutePath = setting("what stays", "/state")
    room: Bytes = setting("how much", "64Mi")
    roots: Annotated[tuple[str, ...], Repeated(), BeforeValidator(tuple)] = setting("folders", ())
    resend: bool = setting("whether the kernel can", False)
    log_level: LogLevel = setting("how much it says", "info")


def parse(*argv: str) -> Settings:
    return Settings.parse(["--socket", "s", *argv])


def refusal(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    with pytest.raises(SystemExit) as stopped:
        parse(*argv)
    assert stopped.value.code == 2
    return capsys.readouterr().err


def test_defaults_are_read_as_if_they_were_given() -> None:
    settings = parse()
    assert (settings.room, settings.log_level, settings.state_dir) == (64 * 2**20, "INFO", Path("/state"))


def test_the_environment_wins_over_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOKER_ROOM", "1Gi")
    assert parse().room == 2**30


def test_a_flag_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOKER_ROOM", "1Gi")
    assert parse("--room", "2Gi").room == 2 * 2**30


def test_a_field_may_name_another_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_NAME", "node-1")
    assert (parse().node, parse("--node=node-2").node) == ("node-1", "node-2")


def test_a_variable_without_the_prefix_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROOM", "1Gi")
    assert parse().room == 64 * 2**20


def test_a_repeated_flag_keeps_commas() -> None:
    assert parse("--roots", "a,b", "--roots", "c").roots == ("a,b", "c")


def test_a_bool_is_a_flag_without_a_value() -> None:
    assert (parse("--resend").resend, parse().resend) == (True, False)


def test_what_has_no_default_must_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        Settings.parse([])
    assert "--socket (STOKER_SOCKET) is required" in capsys.readouterr().err


@cases(
    "argv, sentence",
    (["--log-level", "loud"], "--log-level (STOKER_LOG_LEVEL): 'loud' must be one of debug, info, warning, error"),
    (["--state-dir", "here"], "--state-dir (STOKER_STATE_DIR): 'here' must be an absolute path"),
    (["--room", "much"], "--room (STOKER_ROOM): 'much'"),
    (["--unknown"], "unrecognized arguments: --unknown"),
)
def test_a_wrong_value_is_named(argv: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert sentence in refusal(capsys, *argv)


def test_help_names_the_variables(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        parse("--help")
    assert stopped.value.code == 0
    assert "of the node, 100 % of it [NODE_NAME; default: none]" in " ".join(capsys.readouterr().out.split())
