"""CAs that the S3 clients of a process trust if their Secret has no CA."""

import os
import shutil
from pathlib import Path

import certifi
import pytest

from stoker_sidecar.store.connection import usual_tls_context
from tests.support.certificates import server_certificate


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    path = tmp_path / "bundle.crt"
    shutil.copy(certifi.where(), path)
    return path


def test_the_list_is_read_once(bundle: Path) -> None:
    assert usual_tls_context(str(bundle)) is usual_tls_context(str(bundle))


def test_a_bundle_that_was_renewed_is_read_again(bundle: Path, tmp_path: Path) -> None:
    usual_tls_context(str(bundle))
    shutil.copy(server_certificate(tmp_path).authority, bundle)
    os.utime(bundle, ns=(1, 1))
    assert usual_tls_context(str(bundle)).cert_store_stats()["x509_ca"] == 1
