"""What lets an annotated pod report what it does: a volume of its own, its mounts and a variable. Pure.

It never keeps a pod from being made or from starting: a container in which there is no place for it goes without.
"""

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stoker_api import names
from stoker_api.inline_volume import is_report_volume
from stoker_operator.core import propagation
from stoker_operator.core.annotations import is_inside

VOLUME = "stoker-report"
Raw = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ReportVolumeRequest:
    """What is added to a pod: the volume and its mount, which are the same for each of its containers."""

    volume: dict[str, Any]

    @property
    def mount(self) -> dict[str, Any]:
        """Return the mount."""
        return {
            "name": VOLUME,
            "mountPath": names.REPORT_FOLDER,
            "readOnly": True,
            "mountPropagation": propagation.HOST_TO_CONTAINER,
        }

    @property
    def variable(self) -> dict[str, str]:
        """Return the environment variable."""
        return {"name": names.REPORT_VARIABLE, "value": names.REPORT_SOCKET}


def report_volume(pod: Raw, attributes: Raw) -> ReportVolumeRequest | None:
    """Return what a pod needs to report; None where its author does not want it, or has a volume of that name.

    None also for a pod with a user namespace, for which the runtime has to map each volume's users: a volume more
    would be a reason more not to start.
    ``attributes``: of one of its Datasets' volumes. A sidecar of a version that knows no reports mounts that Dataset
    in place of the socket's folder, so that the pod starts while nodes are being upgraded.
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


def has_place(container: Raw, planned: list[str]) -> bool:
    """Tell whether a container has a place for the folder, beside its own mounts and the ``planned`` ones."""
    mounts = container.get("volumeMounts") or ()
    if any(mount.get("name") == VOLUME for mount in mounts):
        return False
    paths = [_normal(path) for path in (*planned, *(mount.get("mountPath") or "/" for mount in mounts))]
    # Also below one of them: it may be read-only, and then the folder to mount at cannot be made.
    return not any(
        path == names.REPORT_FOLDER or is_inside(path, names.REPORT_FOLDER) or is_inside(names.REPORT_FOLDER, path)
        for path in paths
    )


def has_variable(container: Raw) -> bool:
    """Tell whether a container sets the variable itself."""
    return any(one.get("name") == names.REPORT_VARIABLE for one in container.get("env") or ())


def _normal(path: str) -> str:
    """Return a path as the container sees it, where /var/run is a link to /run."""
    normal = "/" + posixpath.normpath(path).strip("/")
    return normal.removeprefix("/var") if normal == "/var/run" or is_inside(normal, "/var/run") else normal
