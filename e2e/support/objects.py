"""Reads objects and logs over HTTP as administrator. Polls by kubectl would start a program each time."""

import json
import ssl
import urllib.request
from functools import cached_property
from urllib.error import HTTPError
from urllib.parse import urlencode

from e2e.cluster import Cluster, CommandFailedError
from e2e.cluster.certs import Authority
from e2e.cluster.controlplane import server_url
from e2e.support.manifests import Object
from stoker_kube.resources import DATASETS, JOBS, NODE_CACHES, NODES, PODS, TRAINING_JOBS, TUNING_PROFILES, Kind

KINDS = {
    "dataset": DATASETS,
    "job": JOBS,
    "node": NODES,
    "nodecache": NODE_CACHES,
    "pod": PODS,
    "trainingjob": TRAINING_JOBS,
    "tuningprofile": TUNING_PROFILES,
}
_SECONDS = 30.0


class ObjectReader:
    """The API server of one cluster. Its methods raise CommandFailedError, as kubectl does."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        """Return one object, or empty if it does not exist."""
        return dict(json.loads(self._read(kind.path(namespace, name)) or "{}"))

    def items(self, kind: Kind, namespace: str = "", **selectors: str) -> list[Object]:
        """List objects. ``selectors`` are the API's own: labelSelector, fieldSelector."""
        text = self._read(f"{kind.path(namespace)}?{urlencode(selectors)}")
        return list(json.loads(text or "{}").get("items", []))

    def logs(self, pod: str, namespace: str) -> str:
        """Return the output of a pod with one container."""
        return self._read(PODS.path(namespace, pod, "log"))

    def _read(self, path: str) -> str:
        """Return the answer's text, or empty if there is no such object."""
        url = server_url(self._cluster.slot) + path
        try:
            with urllib.request.urlopen(url, timeout=_SECONDS, context=self._tls) as answer:
                return bytes(answer.read()).decode(errors="replace")
        except HTTPError as error:
            if error.code == 404:
                return ""
            raise CommandFailedError(["GET", path], error.code, error.read().decode(errors="replace")) from error
        except OSError as error:
            raise CommandFailedError(["GET", path], 1, str(error)) from error

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        authority = Authority(self._cluster.paths.pki)
        context = ssl.create_default_context(cafile=authority.certificate)
        context.load_cert_chain(*authority.files("admin"))
        return context
