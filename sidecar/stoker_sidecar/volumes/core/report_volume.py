"""A volume through which a pod reports what it does: a plain value."""

from dataclasses import dataclass
from pathlib import Path

from stoker_tuning.frameworks.pod_hints import NO_HINTS, PodHints


@dataclass(frozen=True)
class ReportVolume:
    """A pod's volume to report through, which the kubelet asked for at ``target``, already checked.

    ``hints``: what the pod's spec tells of its training.
    """

    volume_id: str
    target: Path
    namespace: str
    pod: str
    pod_uid: str
    hints: PodHints = NO_HINTS  # absent in what agents before hints remembered

    @property
    def pod_name(self) -> str:
        """Return namespace/name of the pod."""
        return f"{self.namespace}/{self.pod}"
