"""The demo's cluster: a new one on this machine, or the cluster of the current kubeconfig."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import Cluster
from e2e.cluster.build import CLUSTER_PROGRAMS, RECIPES, Programs
from e2e.cluster.imagebuild import ImageBuilder, Request
from e2e.cluster.images import digest
from e2e.cluster.paths import cache_folder
from e2e.cluster.processes import owned_by, start_daemon, wait_for

ROOT = Path(__file__).resolve().parents[2]
EXISTING = "existing"
IMAGES = {"stoker:demo": ROOT, "stoker-demo-training:demo": ROOT / "examples/photos"}
SLOW_PORT = 7481
_PROXY = "slow-s3"
Say = Callable[[str], None]


class DemoError(Exception):
    """A sentence that says what to do."""


@dataclass(frozen=True)
class Store:
    """The S3 server. Pods read from ``endpoint``. The demo uploads to ``upload_endpoint``, which does not delay."""

    endpoint: str
    upload_endpoint: str
    region: str
    access_key: str
    secret_key: str


@dataclass(frozen=True)
class Image:
    """An image with the name that a pod uses."""

    name: str
    pull_policy: str
    digest: str = ""  # makes pods restart if the content changed under the same tag

    @property
    def repository(self) -> str:
        """The name without its tag."""
        return self.name.rpartition(":")[0]

    @property
    def tag(self) -> str:
        """The part after the last colon."""
        return self.name.rpartition(":")[2]


@dataclass(frozen=True)
class Place:
    """A running cluster with both images and a reachable S3 server.

    ``installed``: Stoker is the demo's, not that of the cluster's owner.
    """

    environment: Mapping[str, str]
    store: Store
    stoker: Image
    training: Image
    cluster: Cluster | None = None
    installed: bool = True

    def run(self, *command: str, stdin: str | None = None) -> str:
        """Run a program for the cluster and return its output. Raises DemoError."""
        done = self._done(command, stdin)
        if done.returncode:
            raise DemoError(f"`{' '.join(command)}` failed: {(done.stderr or done.stdout or '').strip()}")
        return done.stdout

    def answers(self, *command: str) -> bool:
        """Return True if a program ends without an error."""
        return not self._done(command, None).returncode

    def _done(self, command: tuple[str, ...], stdin: str | None) -> "subprocess.CompletedProcess[str]":
        environment = {**os.environ, **self.environment}
        return subprocess.run(command, env=environment, input=stdin, capture_output=True, text=True, check=False)


def folder_of_programs() -> str:
    """Return the virtual environment's bin, which contains `stoker` and `kubectl stoker`."""
    return str(ROOT / ".venv" / "bin")


def forecast() -> str:
    """Return how long the cluster takes to start, by what this machine already has."""
    folders = Programs().folders
    programs = [name for name in CLUSTER_PROGRAMS if not (folders[RECIPES[name].module] / name).exists()]
    images = [image for image in IMAGES if not _archive(image).exists()]
    if not programs and not images:
        return "a real Kubernetes on this machine: its parts are built, so it starts in 1 to 2 minutes"
    minutes = 8 * len(programs) // len(CLUSTER_PROGRAMS) + 2 * len(images) + 1
    return (
        f"a real Kubernetes on this machine: builds {', '.join([*programs, *images])} once; "
        f"about {minutes} minutes on two cores"
    )


def own(name: str, nodes: int, say: Say) -> Place:
    """Start (or find) a cluster of this name on this machine, with its S3 server. Load both images into its nodes."""
    cluster, images = Cluster(name, say), []
    Programs().build()
    for image, context in IMAGES.items():
        tag, archive = f"docker.io/library/{image}", _archive(image)
        archive.parent.mkdir(parents=True, exist_ok=True)
        say(f"image {image}")
        ImageBuilder(say).build(Request(context / "Dockerfile", tag, archive, context))
        images.append(Image(tag, "Never", digest(archive)[:16]))
    cluster.up(nodes)
    for image in IMAGES:
        cluster.load_image(_archive(image))
    return Place(_with_programs(cluster.environment()), _slow_store(cluster), images[0], images[1], cluster)


def _archive(image: str) -> Path:
    return cache_folder() / "archives" / f"{image.replace(':', '-')}.tar"


def _with_programs(environment: Mapping[str, str]) -> dict[str, str]:
    return {**environment, "PATH": f"{folder_of_programs()}:{environment['PATH']}"}


def _slow_store(cluster: Cluster) -> Store:
    """Start the S3 server and the proxy that delays its answers, unless they run."""
    server, host = cluster.s3, cluster.slot.host
    server.start()
    if not any(owned.component == _PROXY for owned in owned_by(cluster.name)):
        port = server.endpoint.rpartition(":")[2]
        words = [sys.executable, "-m", "bench.proxy", port, "P50", str(cluster.slot.host_address), str(SLOW_PORT)]
        log = cluster.paths.logs / "slow-s3.log"
        process = start_daemon(cluster.name, _PROXY, words, log, {"PYTHONPATH": str(ROOT)})
        wait_for("the slow S3 server to listen", lambda: bool(log.read_text().strip()), 20, log,
                 lambda: process.poll() is None)  # fmt: skip
    keys = (server.access_key, server.secret_key)
    return Store(f"http://{host}:{SLOW_PORT}", server.endpoint, server.region, *keys)


def existing() -> Place:
    """Return the cluster of the current kubeconfig. Raises DemoError with every missing setting."""
    for program in ("kubectl", "helm"):
        if shutil.which(program) is None:
            raise DemoError(f"{program} is not on the PATH: install it, or run `make demo` for a cluster of its own.")
    wanted = {
        "IMAGE": "Stoker's image that the cluster can pull (docker build -t IMAGE . && docker push IMAGE)",
        "DEMO_IMAGE": "any image with Python, PyTorch, NumPy and Pillow, such as that of examples/photos/Dockerfile",
        "S3_ENDPOINT": "URL of an S3 server that this machine and the cluster's nodes reach",
        "AWS_ACCESS_KEY_ID": "a key that may make the bucket stoker-demo there",
        "AWS_SECRET_ACCESS_KEY": "its secret",
    }
    missing = [f"  {name}: {meaning}" for name, meaning in wanted.items() if not os.environ.get(name)]
    if missing:
        raise DemoError("CLUSTER=existing needs these in the environment:\n" + "\n".join(missing))
    image, training, endpoint, access_key, secret_key = (os.environ[name] for name in wanted)
    store = Store(endpoint, endpoint, os.environ.get("AWS_REGION", "us-east-1"), access_key, secret_key)
    policy = os.environ.get("PULL_POLICY", "IfNotPresent")
    return Place(_with_programs({"PATH": os.environ["PATH"]}), store, Image(image, policy), Image(training, policy))
