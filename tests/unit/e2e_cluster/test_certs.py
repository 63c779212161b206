"""Kubeconfigs that the harness writes."""

import base64

import yaml

from e2e.cluster.certs import render_token_kubeconfig


def test_a_kubeconfig_for_a_token_has_the_token_and_whom_to_trust() -> None:
    config = yaml.safe_load(render_token_kubeconfig("operator", "https://10.160.0.1:6443", b"PEM", "abc"))
    cluster = config["clusters"][0]["cluster"]
    assert (cluster["server"], base64.b64decode(cluster["certificate-authority-data"])) == (
        "https://10.160.0.1:6443",
        b"PEM",
    )
    assert config["users"] == [{"name": "operator", "user": {"token": "abc"}}]
