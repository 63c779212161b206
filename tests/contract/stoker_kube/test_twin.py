"""The API server in memory keeps the contract."""

import pytest

from stoker_kube.api import Kube
from tests.contract.stoker_kube.kube_contract import KubeContract
from tests.fakes.kube import FakeKube


class TestTwin(KubeContract):
    """Every behavior, without a server."""

    @pytest.fixture
    def kube(self) -> Kube:
        return FakeKube()

    @pytest.fixture
    def namespace(self) -> str:
        return "test"
