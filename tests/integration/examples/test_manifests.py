"""The manifests in examples/workloads have the schemas of their projects' CRDs, on a real API server."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from e2e.cluster.errors import CommandFailedError
from e2e.cluster.processes import wait_for
from tests.support.apiserver import ApiServer
from tests.support.foreign_crds import MODULES
from tests.support.workload_examples import FOLDER, WORKLOADS

pytestmark = pytest.mark.timeout(600)  # the schemas of 6 MB, on a busy machine


@pytest.fixture(scope="module")
def cluster(apiserver: ApiServer) -> Iterator[ApiServer]:
    """Give the API server the CRDs of all modules, until the module ends."""
    files = [f"--filename={file}" for module in MODULES for file in module.crds()]
    apiserver.kubectl("apply", "--server-side", *files)
    # kubectl wait fails while a CRD has no conditions at all, which the server writes with the accepted names.
    wait_for("the CRDs to be accepted", lambda: "<none>" not in accepted_kinds(apiserver, files), 300)
    apiserver.kubectl("wait", "--for=condition=Established", "--timeout=300s", *files)
    yield apiserver
    apiserver.kubectl("delete", "--wait=false", *files)


def accepted_kinds(cluster: ApiServer, files: Sequence[str]) -> list[str]:
    return cluster.kubectl("get", *files, "--no-headers", "-o", "custom-columns=K:.status.acceptedNames.kind").split()


def create(cluster: ApiServer, namespace: str, manifest: Path) -> str:
    """Ask the server to check a manifest, without storing it. Return the names of its objects."""
    words = ("create", "--dry-run=server", "--validate=strict", "-o", "name", "-n", namespace)
    return cluster.kubectl(*words, f"--filename={manifest}")


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_server_accepts_every_field(name: str, cluster: ApiServer, shared_namespace: str) -> None:
    assert create(cluster, shared_namespace, FOLDER / f"{name}.yaml")


@pytest.mark.parametrize("name", [name for name in WORKLOADS if name != "train-script"])
def test_the_server_refuses_a_misspelled_field_of_the_pods(
    name: str, cluster: ApiServer, shared_namespace: str, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text((FOLDER / f"{name}.yaml").read_text().replace("volumeMounts:", "volumeMount:"))
    with pytest.raises(CommandFailedError, match=r"unknown field .*volumeMount"):
        create(cluster, shared_namespace, wrong)
