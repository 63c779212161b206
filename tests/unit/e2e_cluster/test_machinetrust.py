"""A build borrows the CA certificates and pip settings of the machine, and returns them."""

from pathlib import Path

from e2e.cluster.machinetrust import machine_trust, parse_pip_settings, stage


def test_only_certificates_that_exist_are_passed_on(tmp_path: Path) -> None:
    bundle = tmp_path / "ca.crt"
    bundle.touch()
    environment = {"SSL_CERT_FILE": str(bundle), "AWS_CA_BUNDLE": "/no/such/file", "HOME": str(tmp_path)}
    assert machine_trust(environment) == {"SSL_CERT_FILE": bundle}


def test_pips_environment_wins_over_its_files() -> None:
    listing = ":env:.cert='/a'\nglobal.cert='/b'\nglobal.index-url='https://u:p@host/simple'\n"
    assert parse_pip_settings(listing) == {"cert": "/a", "index-url": "https://u:p@host/simple"}


def test_what_pip_says_besides_settings_is_passed_over() -> None:
    assert parse_pip_settings("WARNING: something\n") == {}


def test_a_setting_that_names_a_file_is_copied_and_named_where_the_build_sees_it(tmp_path: Path) -> None:
    (tmp_path / "machine").mkdir()
    bundle, folder = tmp_path / "machine/ca.crt", tmp_path / "staged"
    bundle.write_text("PEM")
    folder.mkdir()
    variables = stage({"SSL_CERT_FILE": bundle}, {"cert": str(bundle)}, folder, "/mnt")
    assert variables == {"SSL_CERT_FILE": f"/mnt{bundle}", "PIP_CONFIG_FILE": "/mnt/pip.conf"}
    assert (folder / bundle.relative_to("/")).read_text() == "PEM"
    assert (folder / "pip.conf").read_text() == f"[global]\ncert = /mnt{bundle}\n"


def test_a_password_in_an_address_reaches_the_build_by_file_only(tmp_path: Path) -> None:
    variables = stage({}, {"index-url": "https://u:secret@host/simple"}, tmp_path, "/mnt")
    assert "secret" not in str(variables)
    assert "secret" in (tmp_path / "pip.conf").read_text()
