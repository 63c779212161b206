"""What all commands of the cluster refuse alike."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from stoker_cli.main import main


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    """Write one of a cluster that is not there."""
    config = {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    return tmp_path / "config"


@pytest.mark.parametrize(
    "words", [["warm", "d\udcff"], ["why", "d\udcff"], ["status", "d\udcff"], ["pause", "d\udcff"]]
)
def test_a_name_that_is_no_text_is_refused_with_a_sentence(kubeconfig: Path, words: list[str]) -> None:
    done = CliRunner().invoke(main, ["--kubeconfig", str(kubeconfig), *words])
    assert (done.exit_code, done.output) == (2, "stoker: 'd\\udcff' is no UTF-8, and no name in a cluster is so.\n")
