"""Registers figures.stoker.dev at the API server while this release serves it.

An APIService without a server makes discovery fail, and with it the deletion of every namespace. So the operator makes
it once it serves, and takes it away when the last replica stops. It belongs to a ClusterRole of the chart: when a
rollback or an uninstallation removes that, Kubernetes removes the APIService.
"""

import base64
import logging
from typing import Any, Final

from stoker_api import names
from stoker_api.jobs import pod_figures
from stoker_kube.api import Kube, Object
from stoker_kube.errors import AlreadyExists, KubeError, NotFound
from stoker_kube.resources import API_SERVICES, CLUSTER_ROLES, PODS
from stoker_operator.core.views import installed_names

log = logging.getLogger(__name__)
NAME = f"{pod_figures.VERSION}.{pod_figures.GROUP}"
_OPERATORS = "app.kubernetes.io/name=stoker,app.kubernetes.io/component=operator"
_INJECT = "cert-manager.io/inject-ca-from"


class FiguresRegistration:
    """The APIService. ``identity``: the name of this replica's pod. ``port``: of the Service."""

    def __init__(
        self, kube: Kube, namespace: str, identity: str, port: int = installed_names.FIGURES_SERVICE_PORT
    ) -> None:
        self._port: Final = port
        self._kube: Final = kube
        self._namespace: Final = namespace
        self._identity: Final = identity

    async def publish(self, authorities: bytes) -> bool:
        """Make the APIService, or correct it; return True if it was changed. Raises KubeError.

        ``authorities``: the PEM bundle that verifies this operator; empty: cert-manager puts it in.
        """
        owner = await self._owner()
        if owner is None:
            return False  # the chart of another release, or the value figures.enabled is off
        wanted = self._wanted(owner, authorities)
        try:
            present = await self._kube.get(API_SERVICES, NAME)
        except NotFound:
            return await self._create(wanted)
        if _holds(present, wanted):
            return False
        await self._kube.patch(API_SERVICES, NAME, wanted)
        return True

    async def withdraw(self) -> None:
        """Take the APIService away unless another replica serves it. Raises KubeError."""
        pods = (await self._kube.list(PODS, self._namespace, label_selector=_OPERATORS)).items
        if any(_serves(pod) and pod["metadata"]["name"] != self._identity for pod in pods):
            return
        try:
            await self._kube.delete(API_SERVICES, NAME)
        except NotFound:
            return
        log.info("deleted APIService %s: no replica serves it", NAME)

    async def _owner(self) -> Object | None:
        try:
            role = await self._kube.get(CLUSTER_ROLES, installed_names.FIGURES_ROLE)
        except NotFound:
            return None
        meta = role["metadata"]
        if meta.get("deletionTimestamp"):
            return None
        return {
            "apiVersion": CLUSTER_ROLES.api_version,
            "kind": CLUSTER_ROLES.kind,
            "name": meta["name"],
            "uid": meta["uid"],
        }

    def _wanted(self, owner: Object, authorities: bytes) -> Object:
        metadata: Object = {"labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY}, "ownerReferences": [owner]}
        service = {
            "name": installed_names.WEBHOOK_SERVICE,
            "namespace": self._namespace,
            "port": self._port,
        }
        spec: Object = {
            "group": pod_figures.GROUP,
            "version": pod_figures.VERSION,
            "groupPriorityMinimum": 100,
            "versionPriority": 10,
            "service": service,
        }
        if authorities:
            spec["caBundle"] = base64.b64encode(authorities).decode()
        else:
            metadata["annotations"] = {_INJECT: f"{self._namespace}/{installed_names.WEBHOOK_SERVICE}"}
        return {"metadata": metadata, "spec": spec}

    async def _create(self, wanted: Object) -> bool:
        body = wanted | {"metadata": wanted["metadata"] | {"name": NAME}}
        try:
            await self._kube.create(API_SERVICES, body)
        except AlreadyExists:
            return False  # by another replica: the next pass looks at it
        log.info("registered figures of pods as APIService %s", NAME)
        return True


async def withdrawn(registration: FiguresRegistration) -> None:
    """Withdraw; a failure is logged, since the process ends."""
    try:
        await registration.withdraw()
    except KubeError as error:
        log.warning("APIService %s could not be deleted: %s", NAME, error)


def _holds(present: Any, wanted: Any) -> bool:
    """Return True if an object has all that is wanted."""
    if isinstance(wanted, dict):
        return isinstance(present, dict) and all(_holds(present.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(present, list) and len(present) == len(wanted) and all(map(_holds, present, wanted))
    return bool(present == wanted)


def _serves(pod: Object) -> bool:
    if pod["metadata"].get("deletionTimestamp"):
        return False
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
