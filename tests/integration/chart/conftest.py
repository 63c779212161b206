"""The chart as rendered by Helm, and its RBAC and admission policies in the real API server."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.support.apiserver import ApiServer
from tests.support.asking_as import Api, activated, applied
from tests.support.chart import FULL_VALUES, render

VALUES: dict[str, Mapping[str, Any]] = {"default": {}, "full": FULL_VALUES}


@pytest.fixture(scope="session", params=VALUES)
def rendered(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    """Return the objects that `helm install` would make, with the chart's own values and with every part turned on."""
    return render(VALUES[request.param])


@pytest.fixture(scope="session")
def api(apiserver: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """Apply the chart's rights to the API server. Wait until the policies work."""
    with applied(apiserver, tmp_path_factory.mktemp("rights")):
        yield activated(apiserver)
