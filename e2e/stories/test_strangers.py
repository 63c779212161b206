"""A node that was taken over reads its own Datasets' Secret and no other; who only reaches a port learns nothing."""

import json
import socket
import ssl

from e2e.cluster.errors import CommandFailedError
from e2e.cluster.processes import run
from e2e.support.bucket import files
from e2e.support.world import SYSTEM, Home, World, node_rows

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
    (holder,) = node_rows(home.ready("train"))
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


def answer_of(address: str, path: str) -> bytes:
    """Return what a sidecar answers on its port for other nodes to who shows nothing; empty: it hangs up."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((address, 8082), timeout=30) as plain, context.wrap_socket(plain) as connection:
        try:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            return connection.recv(100)
        except (ssl.SSLError, ConnectionError):
            return b""


def test_a_pod_that_reaches_a_sidecar_gets_no_manifest(world: World, home: Home) -> None:
    address = world.system_pods("sidecar")[0]["status"]["podIP"]
    manifest = f"/manifests/u/{'a' * 64}"
    assert answer_of(address, manifest) == b""
    status = run("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", f"http://{address}:8081{manifest}")
    assert status.strip() == "404"


def test_a_pod_that_reaches_the_webhook_is_told_nothing(world: World, home: Home) -> None:
    annotations = {"stoker.dev/datasets": "train:/data"}
    pod = {"kind": "Pod", "metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "main"}]}}
    review = json.dumps({"request": {"uid": "1", "namespace": home.namespace, "object": pod}})
    address = world.system_pods("operator")[0]["status"]["podIP"]
    for path in ("/", "/mutate"):
        url = f"https://{address}:9443{path}"
        assert run("curl", "-sk", "-w", "%{http_code}", "-d", review, url).strip() == "404"


def test_every_node_says_how_its_processes_are_held_to_their_files(world: World, home: Home) -> None:
    for node in world.cluster.nodes:
        said = world.get("nodecache", node)["status"]["confinement"]
        assert said.startswith("Landlock, version "), said
