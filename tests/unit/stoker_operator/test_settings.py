"""Settings from the environment."""

from pathlib import Path

import pytest

from stoker_operator.errors import SettingsError
from stoker_operator.settings import from_environment

ENVIRONMENT = {"POD_NAMESPACE": "stoker", "POD_NAME": "operator-1"}


def test_the_charts_environment_is_enough() -> None:
    found = from_environment(ENVIRONMENT)
    assert (found.namespace, found.identity, found.http_port, found.webhook.port) == (
        "stoker",
        "operator-1",
        8080,
        9443,
    )


def test_a_mounted_certificate_is_used_when_its_folder_is_given() -> None:
    found = from_environment(ENVIRONMENT | {"STOKER_WEBHOOK_CERTIFICATE_DIR": "/tls"})
    assert found.webhook.certificate_dir == Path("/tls")


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({}, "POD_NAMESPACE is not set"),
        (ENVIRONMENT | {"STOKER_LOG_LEVEL": "loud"}, "STOKER_LOG_LEVEL is LOUD: write one of debug, info"),
        (ENVIRONMENT | {"STOKER_HTTP_PORT": "70000"}, "STOKER_HTTP_PORT is '70000'"),
    ],
)
def test_a_wrong_setting_is_named(environment: dict[str, str], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        from_environment(environment)
