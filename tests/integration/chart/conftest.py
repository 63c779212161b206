"""The chart's RBAC and admission policies in the real API server."""

from collections.abc import Iterator

import pytest

from tests.support.apiserver import ApiServer
from tests.support.asking_as import Api, activated, applied


@pytest.fixture(scope="session")
def api(apiserver: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """Give the API server the chart's rights, and wait until the policies work."""
    with applied(apiserver, tmp_path_factory.mktemp("rights")):
        yield activated(apiserver)
