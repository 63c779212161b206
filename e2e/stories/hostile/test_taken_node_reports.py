"""A compromised node forges its own status with its sidecar's own token: it gains nothing."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.support import manifests
from e2e.support.bucket import files
from e2e.support.manifests import Object
from e2e.support.stolen import kubectl_as, node_token, patch_status, sidecar_token
from e2e.support.tenant import Canary
from e2e.support.world import Home, World, warm_rows

FORGED = "e" * 64
ROUNDS = 15  # rounds of some seconds: the sidecar writes its own status in between, so each round forges it again
REFRESH = "stoker.dev/refresh-requested=2026-11-29T00:00:00Z"


@pytest.fixture(autouse=True)
def canary_lives(canary: Canary) -> Iterator[None]:
    """Check after each attack that the canary is unaffected."""
    yield
    canary.check()


class TakenNode:
    """A compromised node without the Dataset ``train``, and the attacker's token."""

    def __init__(self, world: World, home: Home) -> None:
        """Warm ``train`` on one node, with a pod that reads it there, and compromise another node."""
        self.world, self.home = world, home
        bucket = home.bucket()
        bucket.put(files(2, 100))
        home.dataset("train", bucket, cache={"replicas": 1})
        self.dataset = home.ready("train")
        (self.holder,) = warm_rows(self.dataset)
        self.name = next(node for node in world.cluster.nodes if node != self.holder)
        self.token = sidecar_token(world, self.name)
        self.reader = node_token(world, self.name, by=self.name)
        pod = manifests.pod(home.namespace, "trainer", "train:/data", "sleep 600")
        pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": self.holder}
        home.apply_pod(pod)
        self.pod = world.wait("pod", "trainer", home.namespace, lambda it: it["status"].get("phase") == "Running")

    def forge(self, **status: Any) -> None:
        """Replace parts of the node's own status."""
        said = patch_status(self.world, self.token, self.name, status)
        assert '"kind":"NodeCache"' in said, said

    def row(self, **fields: Any) -> Object:
        """Make a mount row about ``train``, by default for the pod that runs on the other node."""
        home, pod = self.home.namespace, self.pod["metadata"]
        row = {"volumeId": "forged", "datasetNamespace": home, "dataset": "train", "podNamespace": home}
        return row | {"pod": pod["name"], "podUid": pod["uid"]} | fields

    def entry(self, node: str) -> Object:
        """Return the node's plan of ``train``, or empty."""
        entries = self.world.get("nodecache", node).get("spec", {}).get("datasets", [])
        uid = self.dataset["metadata"]["uid"]
        return next((one for one in entries if one["uid"] == uid), {})

    def has_nothing(self) -> None:
        """Check that the node has no entry and no Secret, and that the holder gets no peer entry for it."""
        assert self.entry(self.name) == {}
        assert not self.entry(self.holder).get("peers")
        words = ("get", "secret", manifests.SECRET, "-n", self.home.namespace, "-o", "name")
        assert "cannot get" in kubectl_as(self.world, self.reader, *words)

    def version(self) -> str:
        """Return the version of ``train``."""
        return str(self.world.get("dataset", "train", self.home.namespace)["status"]["version"])


@pytest.fixture
def taken(world: World, home: Home) -> TakenNode:
    """Compromise a node."""
    return TakenNode(world, home)


def test_forged_mounts_give_a_taken_node_neither_the_dataset_nor_its_secret(taken: TakenNode) -> None:
    version = taken.version()
    ghost = {"pod": "ghost", "podUid": "0"}
    forged = [taken.row(**extra, phase=phase) for extra in ({}, ghost) for phase in ("Pending", "Mounted")]
    for _ in range(ROUNDS):
        taken.forge(mounts=[row | {"version": version, "volumeId": str(at)} for at, row in enumerate(forged)])
        taken.has_nothing()


def test_a_forged_report_makes_a_taken_node_no_holder_and_answers_no_listing(taken: TakenNode) -> None:
    version, meta = taken.version(), taken.dataset["metadata"]
    taken.world.kubectl("annotate", "dataset", "train", "-n", meta["namespace"], REFRESH)
    for _ in range(ROUNDS):
        asked = taken.entry(taken.holder).get("listingId", "")
        listing = {"id": asked, "version": FORGED, "files": 2, "bytes": 200}
        row = {"namespace": meta["namespace"], "name": "train", "uid": meta["uid"], "phase": "Warm", "version": FORGED}
        row |= {"files": 2, "bytes": 200, "warmFiles": 2, "warmBytes": 200, "retained": [version], "listing": listing}
        taken.forge(datasets=[row], address="203.0.113.7:443")
        taken.has_nothing()
        assert taken.version() == version
        assert FORGED not in json.dumps(taken.world.get("dataset", "train", meta["namespace"])["status"])
