"""stoker completion: scripts of three shells, and the words that they complete."""

import click.testing
import pytest

from stoker_cli.main import main


def run(arguments: list[str], **environment: str) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, arguments, env=environment, prog_name="stoker")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_names_the_variable_that_asks_for_words(shell: str) -> None:
    result = run(["completion", shell])
    assert (result.exit_code, f"_STOKER_COMPLETE={shell}_complete" in result.output) == (0, True)


def test_another_shell_is_refused() -> None:
    assert run(["completion", "csh"]).exit_code == 2


def test_commands_are_completed() -> None:
    result = run([], _STOKER_COMPLETE="bash_complete", COMP_WORDS="stoker do", COMP_CWORD="1")
    assert result.output == "plain,doctor\n"


def test_options_are_completed() -> None:
    result = run([], _STOKER_COMPLETE="bash_complete", COMP_WORDS="stoker status --al", COMP_CWORD="2")
    assert result.output == "plain,--all-namespaces\n"
