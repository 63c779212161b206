"""Refuse pods that ask for scratch where a node cannot mount it. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from stoker_api import names
from stoker_api.jobs.pod_annotations import DatasetRequest, Refusal

Raw = Mapping[str, Any]


def scratch_problem(pod: Raw, mounted: Iterable[tuple[DatasetRequest, str]], own: Mapping[str, Raw]) -> Refusal | None:
    """Return the first problem of a request for scratch. ``mounted`` and ``own``: as in ``_AnnotatedPod``."""
    requests = [one for one, _ in mounted if one.scratch]
    if requests and pod.get("spec", {}).get("hostUsers") is False:
        return Refusal(
            f"{requests[0].key} has scratch, and the pod has hostUsers: false: the kernel cannot map the users of a "
            "writable layer; remove one of them"
        )
    for one in requests:
        volume = own.get(one.key)
        if volume is not None and _scratch(volume) != one.scratch:
            return Refusal(
                f"{one.key} has scratch={one.scratch}, but the pod has its own volume of it: remove the volume, or set "
                f"volumeAttributes.{names.CSI_ATTRIBUTE_SCRATCH} in it"
            )
    return None


def _scratch(volume: Raw) -> str:
    return str(((volume.get("csi") or {}).get("volumeAttributes") or {}).get(names.CSI_ATTRIBUTE_SCRATCH, ""))
