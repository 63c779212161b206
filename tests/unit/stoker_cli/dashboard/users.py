"""Users of one cluster with different rights, and browsers that show them the page."""

import asyncio
import copy
from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

from starlette.testclient import TestClient

from stoker_api import names
from stoker_cli.dashboard.server.app import make_app
from stoker_cli.dashboard.server.cluster_reader import ClusterReader
from stoker_cli.dashboard.server.permissions import SELF_REVIEWS
from stoker_cli.dashboard.server.session import BrowserSession
from stoker_kube.api import MERGE, Listing, Object, PatchBody, PatchType
from stoker_kube.client import KubeClient, typed
from stoker_kube.errors import Forbidden
from stoker_kube.resources import DATASETS, NODE_CACHES, PODS, TRAINING_JOBS, Kind
from tests.fakes.kube import FakeKube

PORT = 8123
ORIGIN = f"http://127.0.0.1:{PORT}"
SINCE = "2026-11-21T10:00:00Z"
READ_KINDS = ("datasets", "trainingjobs", "pods", "podfigures", "events", "jobs")
Rights = Mapping[str, tuple[str, ...]]  # namespaces by plural; * for all

ADMIN_READS: Rights = dict.fromkeys((*READ_KINDS, "nodecaches"), ("*",))
TENANT_READS: Rights = dict.fromkeys(READ_KINDS, ("vision",))
WRITES: Rights = dict.fromkeys(("datasets", "pods"), ("vision",))


class UserKube(FakeKube):
    """An API server that knows the rights of one user. ``seed`` needs none."""

    def __init__(self, reads: Rights, writes: Rights) -> None:
        super().__init__()
        self._reads, self._writes = reads, writes

    def seed(self, kind: Kind, *items: Object) -> None:
        """Store objects with their status."""
        for item in items:
            self._insert(kind, typed(kind, copy.deepcopy(item)))

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        self._check("get", kind, namespace)
        return await super().get(kind, name, namespace)

    async def list(
        self, kind: Kind, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> Listing:
        self._check("list", kind, namespace)
        return await super().list(kind, namespace, label_selector, field_selector)

    async def pages(
        self, kind: Kind, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> AsyncIterator[Listing]:
        yield await self.list(kind, namespace, label_selector, field_selector)

    async def create(self, kind: Kind, body: Object, namespace: str = "") -> Object:
        assert kind == SELF_REVIEWS, "the page creates nothing else"
        asked = body["spec"]["resourceAttributes"]
        allowed = bool({"*", asked["namespace"]} & set(self._writes.get(asked["resource"], ())))
        return body | {"status": {"allowed": allowed}}

    async def patch(
        self,
        kind: Kind,
        name: str,
        body: PatchBody,
        namespace: str = "",
        *,
        subresource: str = "",
        content_type: PatchType = MERGE,
    ) -> Object:
        self._check("patch", kind, namespace)
        return await super().patch(kind, name, body, namespace, subresource=subresource, content_type=content_type)

    def _check(self, verb: str, kind: Kind, namespace: str) -> None:
        rights = self._writes if verb == "patch" else self._reads
        if not {"*", namespace} & set(rights.get(kind.plural, ())):
            raise Forbidden(403, "Forbidden", f'User "dev" cannot {verb} resource "{kind.plural}"')


def dataset(namespace: str = "vision", name: str = "imagenet", **status: Any) -> Object:
    source = {"uri": "s3://bucket/data", "credentials": {"secretName": "s3"}}
    return {"metadata": {"namespace": namespace, "name": name, "generation": 1}, "spec": {"source": source}} | {
        "status": {"phase": "Ready", "observedGeneration": 1, "bytes": 100, "files": 4} | status
    }


def node(name: str = "node-1", **status: Any) -> Object:
    ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": SINCE}
    row = {"namespace": "vision", "name": "imagenet", "uid": "u", "phase": "Warm", "bytes": 100, "warmBytes": 100}
    row |= {"sourceBytes": 1024, "peerBytes": 3072}
    return {"metadata": {"name": name}, "status": {"conditions": [ready], "datasets": [row]} | status}


def held(name: str = "reader", namespace: str = "vision", reason: str = "no node is warm yet", **meta: Any) -> Object:
    annotations = {names.ANNOTATION_WAITING: reason, names.ANNOTATION_HELD_SINCE: SINCE}
    annotations |= {names.ANNOTATION_DATASETS: "imagenet:/data"}
    metadata = {
        "namespace": namespace,
        "name": name,
        "annotations": annotations,
        "labels": {names.LABEL_MANAGED: "true"},
    }
    metadata["labels"] = metadata["labels"] | meta.pop("labels", {})
    return {"metadata": metadata | meta, "spec": {"schedulingGates": [{"name": names.GATE_WARM}]}}


def job(name: str = "ddp", namespace: str = "vision", **status: Any) -> Object:
    template = {"spec": {"containers": [{"name": "trainer", "image": "x"}]}}
    spec = {"framework": "pytorch", "workers": 2, "template": template}
    return {"metadata": {"namespace": namespace, "name": name}, "spec": spec, "status": {"phase": "Running"} | status}


def cluster(reads: Rights = ADMIN_READS, writes: Rights = WRITES) -> UserKube:
    """Make a cluster with one object of each kind in ``vision``, and a Dataset in ``text``."""
    kube = UserKube(reads, writes)
    kube.seed(DATASETS, dataset(), dataset("text", "wiki"))
    kube.seed(NODE_CACHES, node())
    kube.seed(PODS, held())
    kube.seed(TRAINING_JOBS, job())
    return kube


class Browser:
    """A browser with the page of a user."""

    def __init__(self, kube: FakeKube, namespace: str = "vision") -> None:
        self.kube = kube
        self.session = BrowserSession(PORT)
        self.reader = ClusterReader(kube, namespace)
        self.http = TestClient(make_app(cast(KubeClient, kube), self.reader, self.session), base_url=ORIGIN)
        self.login = self.session.url

    def sign_in(self) -> "Browser":
        """Use the printed address, and read the cluster once."""
        assert self.http.get(self.login).status_code == 200
        self.reload()
        return self

    def reload(self) -> None:
        """Read the cluster again."""
        asyncio.run(self.reader.read_all())

    def text(self, path: str) -> str:
        """Return the HTML of a page."""
        answer = self.http.get(path)
        assert answer.status_code == 200, answer.text
        return answer.text

    def post(self, path: str, **headers: str) -> Any:
        """Press a button."""
        return self.http.post(path, data={"csrf": self.session.csrf}, headers={"origin": ORIGIN} | headers)
