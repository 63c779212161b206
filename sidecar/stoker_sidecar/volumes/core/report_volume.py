"""A volume through which a pod reports: a plain value."""

from dataclasses import dataclass
from pathlib import Path

from stoker_tuning.frameworks.pod_hints import NO_HINTS, PodHints


@dataclass(frozen=True)
class ReportVolume:
    """A pod's validated report volume at the kubelet's ``target``.

    ``hints`` are what the pod's spec shows of its training.
    """

    volume_id: str
    target: Path
    namespace: str
    pod: str
    pod_uid: str
    hints: PodHints = NO_HINTS  # absent in the state of agents before hints

    @property
    def pod_name(self) -> str:
        """Return namespace/name of the pod."""
        return f"{self.namespace}/{self.pod}"
