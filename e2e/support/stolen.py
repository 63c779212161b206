"""The abilities of an attacker on a compromised node: its sidecar's token, and kubectl with only that."""

import base64
import json
import ssl
import urllib.request
from pathlib import Path
from urllib.error import HTTPError

from e2e.cluster import CommandFailedError
from e2e.support.world import SYSTEM, World

ACCOUNTS = f"{SYSTEM}-nodes"
_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"


def sidecar_token(world: World, node: str) -> str:
    """Return the token of a node's sidecar."""
    name = world.sidecar_of(node)["metadata"]["name"]
    return world.kubectl("exec", name, "-n", SYSTEM, "--", "cat", _TOKEN)


def node_token(world: World, node: str, by: str) -> str:
    """Request a token of a node's account as the sidecar of the node ``by``. Return the refusal, if it is refused."""
    return kubectl_as(world, sidecar_token(world, by), "create", "token", node, "-n", ACCOUNTS).strip()


def patch_status(world: World, token: str, node: str, status: object) -> str:
    """Merge into the status of a node's NodeCache with a token. Return the API server's answer.

    ``kubectl patch`` reads the status first, which a sidecar may not do.
    """
    cluster = json.loads(world.kubectl("config", "view", "--raw", "-o", "json"))["clusters"][0]["cluster"]
    request = urllib.request.Request(
        f"{cluster['server']}/apis/stoker.dev/v1alpha1/nodecaches/{node}/status",
        data=json.dumps({"status": status}).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/merge-patch+json"},
        method="PATCH",
    )
    tls = ssl.create_default_context(cadata=_authority(cluster))
    try:
        with urllib.request.urlopen(request, context=tls, timeout=30) as answer:
            return str(answer.read().decode())
    except HTTPError as error:
        return error.read().decode(errors="replace")


def _authority(cluster: dict[str, str]) -> str:
    """Return the PEM of the CA in a kubeconfig's cluster."""
    if data := cluster.get("certificate-authority-data"):
        return base64.b64decode(data).decode()
    return Path(cluster["certificate-authority"]).read_text(encoding="utf-8")


def kubectl_as(world: World, token: str, *words: str) -> str:
    """Run kubectl with a token instead of the administrator's certificate. Return its output, including refusals."""
    config = json.loads(world.kubectl("config", "view", "--raw", "-o", "json"))
    cluster = config["clusters"][0]["cluster"]
    anonymous = {"apiVersion": "v1", "kind": "Config", "users": [{"name": "u", "user": {"token": token}}]}
    anonymous |= {"clusters": [{"name": "c", "cluster": cluster}], "current-context": "x"}
    anonymous |= {"contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}]}
    try:
        return world.kubectl("--kubeconfig=/dev/stdin", *words, stdin=json.dumps(anonymous))
    except CommandFailedError as error:
        return str(error)
