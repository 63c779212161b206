"""Paths of the harness on the machine: its cache, and each cluster's state and data."""

import os
from dataclasses import dataclass
from pathlib import Path

STATE_ROOT = Path("/run/stoker-e2e")
DATA_ROOT = Path("/var/lib/stoker-e2e")


def cache_folder(environment: dict[str, str] | None = None) -> Path:
    """Return the folder that outlives clusters: built programs, base images, buildah's store."""
    env = dict(os.environ) if environment is None else environment
    if chosen := env.get("STOKER_E2E_CACHE"):
        return Path(chosen)
    parent = env.get("XDG_CACHE_HOME") or str(Path(env.get("HOME", "/root")) / ".cache")
    return Path(parent) / "stoker-e2e"


@dataclass(frozen=True)
class ClusterPaths:
    """The folders and files of one cluster."""

    name: str
    state_root: Path = STATE_ROOT
    data_root: Path = DATA_ROOT

    @property
    def state(self) -> Path:
        return self.state_root / "clusters" / self.name

    @property
    def data(self) -> Path:
        return self.data_root / self.name

    @property
    def slots(self) -> Path:
        return self.state_root / "slots"

    @property
    def lock(self) -> Path:
        return self.state_root / f"{self.name}.lock"

    @property
    def kubeconfig(self) -> Path:
        return self.state / "kubeconfig"

    @property
    def pki(self) -> Path:
        return self.state / "pki"

    @property
    def logs(self) -> Path:
        return self.data / "logs"

    @property
    def images(self) -> Path:
        return self.data / "images"

    @property
    def s3_data(self) -> Path:
        return self.data / "s3"

    @property
    def nodes(self) -> Path:
        return self.data / "nodes"

    def node(self, node: str) -> Path:
        return self.nodes / node
