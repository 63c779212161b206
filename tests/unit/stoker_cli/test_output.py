"""Errors that all commands share."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from stoker_cli.main import main
from tests.support.cases import cases


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    """Write a kubeconfig of an unreachable cluster."""
    config = {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    return tmp_path / "config"


@cases("words", ["warm", "d\udcff"], ["why", "d\udcff"], ["status", "d\udcff"], ["pause", "d\udcff"])
def test_a_name_that_is_not_utf8_is_an_error(kubeconfig: Path, words: list[str]) -> None:
    done = CliRunner().invoke(main, ["--kubeconfig", str(kubeconfig), *words])
    assert (done.exit_code, done.output) == (2, "stoker: 'd\\udcff' is not UTF-8. Kubernetes names are UTF-8.\n")
