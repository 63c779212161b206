"""Lets the node's faster mounts reach the volumeMounts that an annotated pod brought itself; pure."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from stoker_operator.core.pod_template import CONTAINER_LISTS

# A better tree that the node mounts later over the volume shows up in the running container.
HOST_TO_CONTAINER = "HostToContainer"


def operations(pod: Mapping[str, Any], volumes: Collection[str]) -> Iterator[dict[str, Any]]:
    """Make JSON patch operations for each mount of ``volumes`` (names) that does not say what it wants."""
    for field in CONTAINER_LISTS:
        for index, container in enumerate(pod.get("spec", {}).get(field) or ()):
            for place, mount in enumerate(container.get("volumeMounts") or ()):
                if mount.get("name") in volumes and _is_open(mount):
                    path = f"/spec/{field}/{index}/volumeMounts/{place}/mountPropagation"
                    yield {"op": "add", "path": path, "value": HOST_TO_CONTAINER}


def _is_open(mount: Mapping[str, Any]) -> bool:
    """Tell whether it takes propagation: the API server refuses that beside recursiveReadOnly."""
    return not mount.get("mountPropagation") and mount.get("recursiveReadOnly") in (None, "Disabled")
