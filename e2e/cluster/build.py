"""Builds the cluster's programs from their Go modules, once, into a cache outside the clone."""

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from e2e.cluster.errors import UsageError
from e2e.cluster.paths import cache_folder
from e2e.cluster.processes import run

TOOLS = Path(__file__).parent / "tools"
KUBERNETES_VERSION = "1.36.3"
GO_ELSEWHERE = Path("/usr/local/go/bin")  # the unpack folder of Go's own archive, often absent from a service's PATH


@dataclass(frozen=True)
class Recipe:
    """The build recipe of one program: module folder, package, and linker flags."""

    program: str
    module: str
    package: str
    ldflags: str = "-s -w"


def _kubernetes(program: str) -> Recipe:
    version = "k8s.io/component-base/version"
    major, minor, _ = KUBERNETES_VERSION.split(".")
    facts = {"gitVersion": f"v{KUBERNETES_VERSION}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    flags = " ".join(f"-X {version}.{name}={value}" for name, value in facts.items())
    return Recipe(program, "kubernetes", f"k8s.io/kubernetes/cmd/{program}", f"-s -w {flags}")


RECIPES = {
    recipe.program: recipe
    for recipe in (
        *map(_kubernetes, ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy")),
        *map(_kubernetes, ("kubelet", "kubectl")),
        Recipe("coredns", "companions", "./coredns"),
        Recipe("helm", "companions", "helm.sh/helm/v4/cmd/helm"),
        Recipe("versitygw", "companions", "github.com/versity/versitygw/cmd/versitygw"),
        Recipe("csi-sanity", "companions", "github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity"),
        Recipe("kube-score", "scorers", "github.com/zegl/kube-score/cmd/kube-score"),
        Recipe("kubesec", "scorers", "github.com/controlplaneio/kubesec/v2"),
        Recipe("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok"),
        Recipe("kueue", "queueing", "sigs.k8s.io/kueue/cmd/kueue"),
        Recipe("jobset", "queueing", "sigs.k8s.io/jobset"),
        Recipe("crane", "registry", "github.com/google/go-containerregistry/cmd/crane"),
    )
}
# Each of these serves one test or benchmark, and is built on request.
_FOR_ONE_USE = frozenset({"crane", "csi-sanity", "jobset", "kube-score", "kubesec", "kueue", "kwok"})
CLUSTER_PROGRAMS = tuple(name for name in RECIPES if name not in _FOR_ONE_USE)


def recipe_hash(module: str, tools: Path = TOOLS) -> str:
    """Return a short digest of all inputs of a module's programs: its files and the recipes."""
    recipes = sorted((recipe.program, recipe) for recipe in RECIPES.values() if recipe.module == module)
    summed = hashlib.sha256(repr(recipes).encode())
    for file in sorted(path for path in (tools / module).rglob("*") if path.is_file()):
        summed.update(str(file.relative_to(tools)).encode() + b"\0" + file.read_bytes())
    return summed.hexdigest()[:12]


class Programs:
    """The built programs in the cache, in one folder for each module."""

    def __init__(self, cache: Path | None = None) -> None:
        self._cache = cache or cache_folder()

    @cached_property
    def folders(self) -> dict[str, Path]:
        """The folder of each module's programs."""
        modules = {recipe.module for recipe in RECIPES.values()}
        return {module: self._cache / f"bin-{recipe_hash(module)}" for module in sorted(modules)}

    def _target(self, program: str) -> Path:
        return self.folders[RECIPES[program].module] / program

    def path(self, program: str) -> Path:
        """Return the path of `program`. Build it if it is missing. Raises UsageError, CommandFailedError."""
        self.build([program])
        return self._target(program)

    def build(self, programs: Iterable[str] = CLUSTER_PROGRAMS) -> None:
        """Build missing programs, one process at a time on this machine, with a line on each.

        Raises UsageError, CommandFailedError.
        """
        named = list(programs)
        if unknown := next((name for name in named if name not in RECIPES), ""):
            raise UsageError(f"The harness builds no {unknown!r}; it builds {', '.join(RECIPES)}.")
        wanted = [name for name in named if not self._target(name).exists()]
        if not wanted:
            return
        with self._locked():
            for name in wanted:
                if not self._target(name).exists():
                    self._build_one(RECIPES[name])

    def _build_one(self, recipe: Recipe) -> None:
        print(f"building {recipe.program} ...", flush=True)
        started = time.monotonic()
        target = self._target(recipe.program)
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{recipe.program}.new")
        argv = ["go", "-C", str(TOOLS / recipe.module), "build", "-trimpath", "-buildvcs=false"]
        run(*argv, "-ldflags", recipe.ldflags, "-o", draft, recipe.package, env=go_environment())
        draft.rename(target)
        print(f"built {recipe.program} in {time.monotonic() - started:.0f} s", flush=True)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._cache.mkdir(parents=True, exist_ok=True)
        with (self._cache / "build.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def go_environment() -> dict[str, str]:
    """Return the environment for `go build`. Raises UsageError without Go."""
    path = os.environ.get("PATH", "") + f":{GO_ELSEWHERE}"
    if shutil.which("go", path=path) is None:
        raise UsageError("No `go` was found. Install Go 1.25 or later and put it in PATH.")
    # "auto" lets an older Go fetch the version required by Kubernetes as a module. Static programs run in any root.
    return {"GOTOOLCHAIN": "auto", **os.environ, "PATH": path, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"}
