"""Tells the driver's inline volumes in a pod's spec apart: those of Datasets, and the one to report through. Pure."""

from collections.abc import Mapping
from typing import Any

from stoker_api import names


def is_report_volume(volume: Mapping[str, Any]) -> bool:
    """Tell whether a pod's volume is one to report through, whatever Dataset it names for older sidecars."""
    csi = volume.get("csi") or {}
    attributes = csi.get("volumeAttributes") or {}
    return csi.get("driver") == names.CSI_DRIVER and attributes.get(names.CSI_ATTRIBUTE_REPORT) == "true"
