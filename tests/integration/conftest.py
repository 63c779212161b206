"""Shared by the integration tests: one real API server for the whole session, and the order of files."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.apiserver import ApiServer, LocalControlPlane
from tests.support.kinds import NAMESPACES

FOLDER = Path(__file__).parent
# A few tests take more than a minute each. Started late, one would run on while all other workers are idle.
_LONGEST = ("test_live_training.py",)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with the longest files, then those with many tests, because each worker takes the next file."""
    tests = Counter(item.path for item in items)
    here = [item for item in items if item.path.is_relative_to(FOLDER)]
    here.sort(key=lambda item: (item.path.name not in _LONGEST, -tests[item.path], str(item.path)))
    items[:] = [item for item in items if not item.path.is_relative_to(FOLDER)] + here


@pytest.fixture(scope="session")
def apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """Run etcd and kube-apiserver on loopback with Stoker's CRDs established. It takes about 8 s, once per session.

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
    """Make a namespace for this test. It stays with the server."""
    return _new_namespace(apiserver)


@pytest.fixture(scope="module")
def shared_namespace(apiserver: ApiServer) -> str:
    """Make a namespace for the tests of a module that create no objects in it."""
    return _new_namespace(apiserver)


def _new_namespace(apiserver: ApiServer) -> str:
    name = f"test-{uuid4().hex[:10]}"
    apiserver.create(NAMESPACES, name)
    return name
