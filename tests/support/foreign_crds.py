"""The CRDs of other projects that examples/workloads uses, from their Go modules at fixed versions and hashes."""

import json
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.build import go_environment
from e2e.cluster.processes import run


@dataclass(frozen=True)
class CrdModule:
    """A Go module with CRDs. ``sum`` is its hash as in go.sum, ``files`` are the CRDs' paths in it."""

    path: str
    version: str
    sum: str
    files: tuple[str, ...]

    def crds(self) -> list[Path]:
        """Download the module if the cache lacks it. Return its CRDs' files. Raises CommandFailedError."""
        wanted = f"{self.path}@{self.version}"
        told = json.loads(run("go", "mod", "download", "-json", wanted, env=go_environment() | {"GOFLAGS": "-mod=mod"}))
        assert told["Sum"] == self.sum, f"{wanted} has the hash {told['Sum']}, not {self.sum}"
        return [Path(told["Dir"], file) for file in self.files]


MODULES = (
    CrdModule(
        "sigs.k8s.io/jobset",
        "v0.8.0",
        "h1:80cJcPld+IMdKFOqzEW4et3Y6lGAPcP8YmBZ+aiKGYA=",
        ("config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml",),
    ),
    CrdModule(
        "github.com/kubeflow/trainer/v2",
        "v2.1.0",
        "h1:jRABD9ZYToamNH2atHze3L/VC/v6KCAqUEqsOQOjVTg=",
        ("manifests/base/crds/trainer.kubeflow.org_trainjobs.yaml",),
    ),
    CrdModule(
        "github.com/kubeflow/training-operator",
        "v1.9.0",
        "h1:L+ep5YQT1Pq62O3VjW6G+IRQw+NpFlPRJJj8TgydBhQ=",
        ("manifests/base/crds/kubeflow.org_pytorchjobs.yaml",),
    ),
    CrdModule(
        "github.com/ray-project/kuberay/ray-operator",
        "v1.5.0",
        "h1:KCjCQ7PSsvs9Ke+90CZbbs498nuaIJ/JkXk4vd54EVg=",
        ("config/crd/bases/ray.io_rayjobs.yaml",),
    ),
    CrdModule(
        "github.com/argoproj/argo-workflows/v3",
        "v3.7.3",
        "h1:b0o03RTLXIL7lQunDEvLoDTeI5TbfXe2obGaItvvifk=",
        ("manifests/base/crds/full/argoproj.io_workflows.yaml",),
    ),
)
