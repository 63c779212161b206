"""What the user may change, as the API server answers. The API server checks each change again."""

import time
from collections.abc import Callable

from stoker_kube.api import Kube
from stoker_kube.errors import KubeError
from stoker_kube.resources import Kind

SELF_REVIEWS = Kind(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
_KEPT_SECONDS = 30.0


class UserPermissions:
    """Answers of the API server, kept for half a minute."""

    def __init__(self, client: Kube, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._known: dict[tuple[Kind, str], tuple[float, bool]] = {}

    async def may_patch(self, kind: Kind, namespace: str) -> bool:
        """Return True if the user may patch objects of a namespace, or if that is unknown."""
        known = self._known.get((kind, namespace))
        if known is None or self._clock() - known[0] > _KEPT_SECONDS:
            known = self._clock(), await self._ask(kind, namespace)
            self._known[kind, namespace] = known
        return known[1]

    async def _ask(self, kind: Kind, namespace: str) -> bool:
        attributes = {"verb": "patch", "group": kind.group, "resource": kind.plural, "namespace": namespace}
        try:
            review = await self._client.create(SELF_REVIEWS, {"spec": {"resourceAttributes": attributes}})
        except KubeError:
            return True
        return bool((review.get("status") or {}).get("allowed"))
