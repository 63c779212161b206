"""A node that was taken over reads its own Datasets' Secret and no other, and its processes are held to their files."""

import json

from e2e.cluster.errors import CommandFailedError
from e2e.support.bucket import files
from e2e.support.world import SYSTEM, Home, World, warm_rows

TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"
ACCOUNTS = f"{SYSTEM}-nodes"


def kubectl_as(world: World, token: str, *words: str) -> str:
    """Run kubectl with a token in place of the administrator's certificate; gives what it said, refusals too."""
    config = json.loads(world.kubectl("config", "view", "--raw", "-o", "json"))
    cluster = config["clusters"][0]["cluster"]
    anonymous = {"apiVersion": "v1", "kind": "Config", "users": [{"name": "u", "user": {"token": token}}]}
    anonymous |= {"clusters": [{"name": "c", "cluster": cluster}], "current-context": "x"}
    anonymous |= {"contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}]}
    try:
        return world.kubectl("--kubeconfig=/dev/stdin", *words, stdin=json.dumps(anonymous))
    except CommandFailedError as error:
        return str(error)


def test_a_taken_node_reads_the_secret_of_the_datasets_that_it_holds_and_no_other(world: World, home: Home) -> None:
    bucket = home.bucket()
    bucket.put(files(2, 100))
    home.dataset("train", bucket, cache={"replicas": 1})
    (holder,) = warm_rows(home.ready("train"))
    other = next(node for node in world.cluster.nodes if node != holder)
    secret = world.get("dataset", "train", home.namespace)["spec"]["source"]["credentials"]["secretRef"]["name"]

    def stolen(node: str) -> str:
        name = world.sidecar_of(node)["metadata"]["name"]
        return world.kubectl("exec", name, "-n", SYSTEM, "--", "cat", TOKEN)

    def token_of(node: str, by: str) -> str:
        return kubectl_as(world, stolen(by), "create", "token", node, "-n", ACCOUNTS).strip()

    def read(token: str) -> str:
        return kubectl_as(world, token, "get", "secret", secret, "-n", home.namespace, "-o", "name")

    assert read(token_of(holder, by=holder)).strip() == f"secret/{secret}"
    assert "cannot get" in read(token_of(other, by=other))
    assert f"may not ask for tokens of {holder}" in token_of(holder, by=other)
    assert "cannot get" in read(stolen(holder))


def test_every_node_says_how_its_processes_are_held_to_their_files(world: World, home: Home) -> None:
    for node in world.cluster.nodes:
        said = world.get("nodecache", node)["status"]["confinement"]
        assert said.startswith("Landlock, version "), said
