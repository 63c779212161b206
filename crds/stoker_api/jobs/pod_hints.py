"""A pod's hints as attributes of its inline volumes: the webhook sends the node what the pod's spec shows. Pure."""

from collections.abc import Mapping
from typing import Any

from stoker_api import names
from stoker_tuning.frameworks.answers import is_framework_name
from stoker_tuning.frameworks.pod_hints import HINTED_SOURCES, MOST_BATCH, MOST_GPUS, FrameworkSource, PodHints
from stoker_tuning.frameworks.pod_signs import is_job_name


def is_report_volume(volume: Mapping[str, Any]) -> bool:
    """Return True for a report volume, whatever Dataset it names for older sidecars."""
    csi = volume.get("csi") or {}
    attributes = csi.get("volumeAttributes") or {}
    return csi.get("driver") == names.CSI_DRIVER and attributes.get(names.CSI_ATTRIBUTE_REPORT) == "true"


def hint_attributes(hints: PodHints) -> dict[str, str]:
    """Return the attributes of these hints, without unknown ones."""
    told = {
        names.CSI_ATTRIBUTE_HINT_FRAMEWORK: hints.framework,
        names.CSI_ATTRIBUTE_HINT_FRAMEWORK_SOURCE: hints.framework_source or "",
        names.CSI_ATTRIBUTE_HINT_BATCH_SIZE: str(hints.batch_size or ""),
        names.CSI_ATTRIBUTE_HINT_GPUS: str(hints.gpus or ""),
        names.CSI_ATTRIBUTE_HINT_JOB: hints.job,
    }
    return {name: str(value) for name, value in told.items() if value}


def read_hints(attributes: Any) -> PodHints:
    """Read the hints of a volume. Drop malformed ones, since the pod's author may have written them.

    Refuses nothing: a pod starts with any hints. Never raises.
    """
    framework = _text(attributes, names.CSI_ATTRIBUTE_HINT_FRAMEWORK)
    source = _text(attributes, names.CSI_ATTRIBUTE_HINT_FRAMEWORK_SOURCE)
    is_framework = is_framework_name(framework) and source in HINTED_SOURCES
    job = _text(attributes, names.CSI_ATTRIBUTE_HINT_JOB)
    return PodHints(
        framework=framework if is_framework else "",
        framework_source=FrameworkSource(source) if is_framework else None,
        batch_size=_number(_text(attributes, names.CSI_ATTRIBUTE_HINT_BATCH_SIZE), MOST_BATCH),
        gpus=_number(_text(attributes, names.CSI_ATTRIBUTE_HINT_GPUS), MOST_GPUS),
        job=job if is_job_name(job) else "",
    )


def _text(attributes: Any, name: str) -> str:
    found = attributes.get(name) if isinstance(attributes, Mapping) else None
    return found if isinstance(found, str) else ""


def _number(text: str, most: int) -> int:
    """Return a whole number up to ``most``, or 0 for any other text."""
    number = int(text) if text.isascii() and text.isdecimal() and len(text) <= len(str(most)) else 0
    return number if number <= most else 0
