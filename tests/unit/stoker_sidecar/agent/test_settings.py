"""The agent's command line and environment."""

from pathlib import Path

import pytest

from stoker_sidecar.agent.settings import AgentSettings
from tests.support.cases import cases


def test_the_environment_of_the_chart_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        ("NODE_NAME", "node-1"),
        ("POD_IP", "10.0.0.1"),
        ("STOKER_KUBELET_DIR", "/var/lib/k0s/kubelet"),
        ("STOKER_CACHE_ROOT", "/mnt/nvme,memory:/mnt/memory"),
    ):
        monkeypatch.setenv(name, value)
    settings = AgentSettings.parse([])
    assert (settings.node_name, settings.pod_ip) == ("node-1", "10.0.0.1")
    assert settings.kubelet_dir == Path("/var/lib/k0s/kubelet")
    assert [str(folder) for folder in settings.cache_root] == ["/mnt/nvme", "memory:/mnt/memory"]
    assert (settings.run_dir, settings.log_level) == (Path("/run/stoker"), "INFO")


def test_no_kubeconfig_is_the_pods_service_account() -> None:
    assert AgentSettings.parse(["--node-name=n", "--kubeconfig="]).kubeconfig is None


@cases(
    "argv, sentence",
    ([], "the name of the node is missing"),
    (["--node-name", "n", "--overlay", "Maybe"], "'Maybe': Input should be 'Auto' or 'Off'"),
    (["--node-name", "n", "--cache-root", "cache"], "'cache' is not a cache folder: write an absolute path"),
)
def test_a_wrong_value_is_named(argv: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        AgentSettings.parse(argv)
    assert sentence in capsys.readouterr().err
