"""A volume through which a pod reports what it does: a plain value."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ReportVolume:
    """A pod's volume to report through, which the kubelet asked for at ``target``, already checked."""

    volume_id: str
    target: Path
    namespace: str
    pod: str
    pod_uid: str

    @property
    def pod_name(self) -> str:
        """Return namespace/name of the pod."""
        return f"{self.namespace}/{self.pod}"
