"""Give an annotated pod a way to report its progress: a volume, its mounts and a variable. Pure.

It never prevents a pod's creation or start. A container without a free path for it gets none.
"""

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from stoker_api import names
from stoker_api.jobs.pod_annotations import is_inside
from stoker_api.jobs.pod_hints import is_report_volume
from stoker_operator.core.pods.pod_template import HOST_TO_CONTAINER

VOLUME = "stoker-report"
Raw = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ReportVolumeRequest:
    """The additions to a pod: the volume and its mount, equal for all containers."""

    volume: dict[str, Any]

    @property
    def mount(self) -> dict[str, Any]:
        """Return the mount."""
        return {
            "name": VOLUME,
            "mountPath": names.REPORT_FOLDER,
            "readOnly": True,
            "mountPropagation": HOST_TO_CONTAINER,
        }

    @property
    def variable(self) -> dict[str, str]:
        """Return the environment variable."""
        return {"name": names.REPORT_VARIABLE, "value": names.REPORT_SOCKET}


def report_volume(pod: Raw, attributes: Raw) -> ReportVolumeRequest | None:
    """Return the additions for reports. Return None if the pod's author opts out or uses the volume's name.

    Return None also for a pod with a user namespace. The runtime must map the users of each volume, so an extra volume
    is one more risk at startup. ``attributes``: of one of its Datasets' volumes. A sidecar without report support
    mounts that Dataset instead of the socket's folder, so that the pod starts during an upgrade of nodes.
    """
    if (pod.get("metadata", {}).get("annotations") or {}).get(names.ANNOTATION_REPORT, "").strip().lower() == "false":
        return None
    if pod.get("spec", {}).get("hostUsers") is False:
        return None
    wanted = {
        "name": VOLUME,
        "csi": {
            "driver": names.CSI_DRIVER,
            "readOnly": True,
            "volumeAttributes": {**attributes, names.CSI_ATTRIBUTE_REPORT: "true"},
        },
    }
    taken = next((one for one in pod.get("spec", {}).get("volumes") or () if one.get("name") == VOLUME), None)
    return ReportVolumeRequest(wanted) if taken is None or is_report_volume(taken) else None


def has_place(container: Raw) -> bool:
    """Return True if the folder does not collide with the container's own mounts."""
    mounts = container.get("volumeMounts") or ()
    if any(mount.get("name") == VOLUME for mount in mounts):
        return False
    return is_free(mount.get("mountPath") or "/" for mount in mounts)


def is_free(mount_paths: Iterable[str]) -> bool:
    """Return True if the folder is neither one of ``mount_paths``, nor around or below one of them.

    A mount around it may be read-only, so that the mount point cannot be created.
    """
    return not any(
        path == names.REPORT_FOLDER or is_inside(path, names.REPORT_FOLDER) or is_inside(names.REPORT_FOLDER, path)
        for path in map(_normal, mount_paths)
    )


def has_variable(container: Raw) -> bool:
    """Return True if a container sets the variable itself."""
    return any(one.get("name") == names.REPORT_VARIABLE for one in container.get("env") or ())


def _normal(path: str) -> str:
    """Return a path as the container sees it, where /var/run is a link to /run."""
    normal = "/" + posixpath.normpath(path).strip("/")
    return normal.removeprefix("/var") if normal == "/var/run" or is_inside(normal, "/var/run") else normal
