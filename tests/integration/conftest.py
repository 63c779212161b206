"""Shared by the integration tests: one real API server for the whole session."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.apiserver import ApiServer, LocalControlPlane


@pytest.fixture(scope="session")
def apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """Run etcd and kube-apiserver on loopback with Stoker's CRDs established; about 8 s, once a session.

    Yields an ``ApiServer``: ``.kubeconfig`` (Path, administrator), ``await apiserver.client()`` (an administrator's
    KubeClient, an asynchronous context manager), ``.kubectl(*words)``, ``.url`` and ``.token``. There are no
    controllers: nothing creates pods for Jobs, collects garbage by ownerReferences, binds claims or finishes deleting a
    namespace. Tests share it, so work in ``namespace``.
    """
    folder: Path = tmp_path_factory.mktemp("apiserver")
    with LocalControlPlane(folder) as server:
        yield server


@pytest.fixture
def namespace(apiserver: ApiServer) -> str:
    """Make a namespace of this test's own, left behind with the server."""
    name = f"test-{uuid4().hex[:10]}"
    apiserver.kubectl("create", "namespace", name)
    return name
