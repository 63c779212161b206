"""The agent's command line."""

import pytest

from stoker_sidecar.agent.settings import parse


def test_the_environment_of_the_chart_is_enough() -> None:
    settings = parse([], {"NODE_NAME": "node-1", "POD_IP": "10.0.0.1", "STOKER_KUBELET_DIR": "/var/lib/k0s/kubelet"})
    assert settings.node.name == "node-1"
    assert str(settings.paths.kubelet_dir) == "/var/lib/k0s/kubelet"
    assert str(settings.paths.fetcher_socket) == "/run/stoker/fetcher.sock"
    assert settings.log_level == "INFO"


def test_a_flag_wins_over_the_environment() -> None:
    assert parse(["--http-port", "9000"], {"NODE_NAME": "n", "STOKER_HTTP_PORT": "8000"}).http_port == 9000


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        ([], "the name of the node is missing"),
        (["--node-name", "n", "--log-level", "loud"], "--log-level 'loud' must be one of debug, info, warning, error"),
        (
            ["--node-name", "n", "--cache-root", "cache"],
            "--cache-root: 'cache' is not a cache folder: write an absolute path",
        ),
    ],
)
def test_a_wrong_value_is_named(argv: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(argv, {})
    assert sentence in capsys.readouterr().err
