"""Settings from the environment."""

from pathlib import Path

import pytest

from stoker_operator.errors import SettingsError
from stoker_operator.settings import read_settings
from tests.support.cases import cases


@pytest.fixture(autouse=True)
def chart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the environment as the chart does."""
    monkeypatch.setenv("POD_NAMESPACE", "stoker")
    monkeypatch.setenv("POD_NAME", "operator-1")


def test_the_charts_environment_is_enough() -> None:
    found = read_settings()
    assert (found.namespace, found.identity, found.http_port, found.webhook_port, found.log_level) == (
        "stoker",
        "operator-1",
        8080,
        9443,
        "INFO",
    )


def test_it_listens_on_all_addresses_unless_one_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_settings().host is None
    monkeypatch.setenv("STOKER_HOST", "::1")
    assert read_settings().host == "::1"


@cases(
    "name, value, field, found",
    a_mounted_certificate=("STOKER_WEBHOOK_CERTIFICATE_DIR", "/tls", "webhook_certificate_dir", Path("/tls")),
    an_empty_variable_as_one_that_is_not_set=("STOKER_WEBHOOK_CERTIFICATE_DIR", "", "webhook_certificate_dir", None),
    a_log_level_in_small_letters=("STOKER_LOG_LEVEL", "debug", "log_level", "DEBUG"),
)
def test_a_variable_is_read(monkeypatch: pytest.MonkeyPatch, name: str, value: str, field: str, found: object) -> None:
    monkeypatch.setenv(name, value)
    assert getattr(read_settings(), field) == found


def test_tuning_is_on_without_a_profile_unless_the_chart_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (read_settings().tuning, read_settings().tuning_profile) == (True, "")
    monkeypatch.setenv("STOKER_TUNING", "false")
    monkeypatch.setenv("STOKER_TUNING_PROFILE", "default")
    assert (read_settings().tuning, read_settings().tuning_profile) == (False, "default")


def test_kueue_is_asked_for_only_when_the_chart_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not read_settings().kueue
    monkeypatch.setenv("STOKER_KUEUE", "true")
    assert read_settings().kueue


@cases(
    "name, value, sentence",
    ("POD_NAMESPACE", "", "POD_NAMESPACE is not set"),
    ("STOKER_LOG_LEVEL", "loud", "STOKER_LOG_LEVEL is 'LOUD': input should be 'DEBUG', 'INFO'"),
    ("STOKER_LOG_FORMAT", "xml", "STOKER_LOG_FORMAT is 'xml': input should be 'text' or 'json'"),
    ("STOKER_HTTP_PORT", "70000", "STOKER_HTTP_PORT is '70000': input should be less than"),
    ("STOKER_WEBHOOK_PORT", "tcp://10.0.0.1:443", "STOKER_WEBHOOK_PORT is 'tcp://10.0.0.1:443'"),
    ("STOKER_ORIGINS", '{"caps": [{}, {"bucket": "abc"}, {}]}', "STOKER_ORIGINS is .* names s3:// twice"),
)
def test_a_wrong_setting_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str, sentence: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=sentence):
        read_settings()


@pytest.mark.parametrize("label", ["example.com/rack", "rack", "cloud.provider.com/topology-rack"])
def test_a_label_of_racks_is_a_name_of_a_label(monkeypatch: pytest.MonkeyPatch, label: str) -> None:
    monkeypatch.setenv("STOKER_RACK_LABEL", label)
    assert read_settings().rack_label == label


@pytest.mark.parametrize("label", ["a rack", "a/b/c", "x" * 64, "A.example.com/rack", "-rack", "/rack"])
def test_what_is_no_name_of_a_label_is_refused(monkeypatch: pytest.MonkeyPatch, label: str) -> None:
    monkeypatch.setenv("STOKER_RACK_LABEL", label)
    with pytest.raises(SettingsError, match="STOKER_RACK_LABEL"):
        read_settings()
