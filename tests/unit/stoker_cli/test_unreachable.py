"""Commands without a cluster end with one sentence that says what to do."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from stoker_cli.errors import UNREACHABLE
from stoker_cli.main import main
from tests.support.ports import free_ports


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    """Return the kubeconfig of a cluster that does not answer."""
    [port] = free_ports(1)
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": f"https://127.0.0.1:{port}"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    (tmp_path / "config").write_text(json.dumps(config))
    return tmp_path / "config"


@pytest.mark.parametrize("command", ["status", "doctor", "nodes"])
def test_a_cluster_that_does_not_answer_is_named_with_a_command_to_check_it(command: str, kubeconfig: Path) -> None:
    result = CliRunner().invoke(main, ["--kubeconfig", str(kubeconfig), command])
    assert result.exit_code == UNREACHABLE
    assert "https://127.0.0.1" in result.output
    assert "`kubectl cluster-info`" in result.output


@pytest.mark.parametrize("command", ["status", "doctor", "nodes", "dashboard"])
def test_without_a_kubeconfig_the_variable_and_the_option_are_named(command: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["--kubeconfig", str(tmp_path / "none"), command])
    assert result.exit_code == UNREACHABLE
    assert "Set KUBECONFIG or --kubeconfig" in result.output
