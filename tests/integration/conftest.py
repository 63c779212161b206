"""Shared by the integration tests: one real API server for the whole session, and the order of files."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.apiserver import ApiServer, LocalControlPlane

FOLDER = Path(__file__).parent
# Few tests that take a minute and more each: begun late, one would run on while no other worker has anything left.
_LONGEST = ("test_live_training.py", "test_mount_adaptive.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest files, then those of many tests, for workers of which each takes the next file."""
    tests = Counter(item.path for item in items)
    here = [item for item in items if item.path.is_relative_to(FOLDER)]
    here.sort(key=lambda item: (item.path.name not in _LONGEST, -tests[item.path], str(item.path)))
    items[:] = [item for item in items if not item.path.is_relative_to(FOLDER)] + here


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
