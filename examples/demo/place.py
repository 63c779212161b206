"""Where the demo runs: a cluster of its own on this machine, or the cluster of the current kubeconfig."""

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import Cluster, S3Server
from e2e.cluster.imagebuild import ImageBuilder, Request
from e2e.cluster.images import digest
from e2e.cluster.paths import cache_folder

ROOT = Path(__file__).resolve().parents[2]
EXISTING = "existing"
Say = Callable[[str], None]


class DemoError(Exception):
    """A sentence that says what to do."""


@dataclass(frozen=True)
class Store:
    """The S3 server that the pods read from."""

    endpoint: str
    region: str
    access_key: str
    secret_key: str


@dataclass(frozen=True)
class Image:
    """An image as a pod names it."""

    name: str
    pull_policy: str
    digest: str = ""  # what makes pods start anew when the tag is the same and the content is not

    @property
    def repository(self) -> str:
        """The name without its tag."""
        return self.name.rpartition(":")[0]

    @property
    def tag(self) -> str:
        """What follows the last colon."""
        return self.name.rpartition(":")[2]


@dataclass(frozen=True)
class Place:
    """A cluster that is up, with both images and an S3 server in its reach."""

    environment: Mapping[str, str]
    store: Store
    stoker: Image
    training: Image

    def run(self, *command: str, stdin: str | None = None, show: bool = False) -> str:
        """Run a program against the cluster; with ``show`` its output goes to the terminal. Raises DemoError."""
        out = None if show else subprocess.PIPE
        done = subprocess.run(
            command, env={**os.environ, **self.environment}, input=stdin, stdout=out, stderr=out, text=True, check=False
        )
        if done.returncode:
            raise DemoError(f"`{' '.join(command)}` failed: {(done.stderr or done.stdout or '').strip()}")
        return done.stdout or ""


def folder_of_programs() -> str:
    """Return the virtual environment's bin: `stoker` and `kubectl stoker` live there."""
    return str(ROOT / ".venv" / "bin")


def own(name: str, nodes: int, say: Say) -> Place:
    """Start (or find) a cluster of this name on this machine, with its S3 server; put both images into its nodes."""
    cluster = Cluster(name, say)
    cluster.up(nodes)
    cluster.s3.start()
    images = []
    for image, context in (("stoker:demo", ROOT), ("stoker-demo-digits:demo", ROOT / "examples/digits")):
        say(f"image {image}")
        archive = cache_folder() / "archives" / f"{image.replace(':', '-')}.tar"
        archive.parent.mkdir(parents=True, exist_ok=True)
        tag = f"docker.io/library/{image}"
        ImageBuilder(say).build(Request(context / "Dockerfile", tag, archive, context))
        cluster.load_image(archive)
        images.append(Image(tag, "Never", digest(archive)[:16]))
    environment = cluster.environment()
    path = f"{folder_of_programs()}:{environment['PATH']}"
    return Place({**environment, "PATH": path}, _store_of(cluster.s3), images[0], images[1])


def _store_of(server: S3Server) -> Store:
    return Store(server.endpoint, server.region, server.access_key, server.secret_key)


def existing() -> Place:
    """Return the cluster of the current kubeconfig. Raises DemoError, naming every setting that is missing."""
    for program in ("kubectl", "helm"):
        if shutil.which(program) is None:
            raise DemoError(f"{program} is not on the PATH: install it, or run `make demo` for a cluster of its own.")
    wanted = {
        "IMAGE": "Stoker's image that the cluster can pull (docker build -t IMAGE . && docker push IMAGE)",
        "DEMO_IMAGE": "the training image (docker build -t DEMO_IMAGE examples/digits && docker push DEMO_IMAGE)",
        "S3_ENDPOINT": "URL of an S3 server that this machine and the cluster's nodes reach",
        "AWS_ACCESS_KEY_ID": "a key that may make the bucket stoker-demo there",
        "AWS_SECRET_ACCESS_KEY": "its secret",
    }
    missing = [f"  {name}: {meaning}" for name, meaning in wanted.items() if not os.environ.get(name)]
    if missing:
        raise DemoError("CLUSTER=existing needs these in the environment:\n" + "\n".join(missing))
    image, training, endpoint, access_key, secret_key = (os.environ[name] for name in wanted)
    store = Store(endpoint, os.environ.get("AWS_REGION", "us-east-1"), access_key, secret_key)
    policy = os.environ.get("PULL_POLICY", "IfNotPresent")
    path = f"{folder_of_programs()}:{os.environ['PATH']}"
    return Place({"PATH": path}, store, Image(image, policy), Image(training, policy))
