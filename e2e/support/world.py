"""The installed cluster of the stories, with short functions for user actions and displays."""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from e2e.cluster import Cluster, CommandFailedError, NotReadyError
from e2e.cluster.images import digest
from e2e.cluster.processes import run, wait_for
from e2e.support import manifests
from e2e.support.bucket import Bucket
from e2e.support.built import IMAGE, PREVIOUS_IMAGE, ROOT, build_image, build_previous_image, previous_release
from e2e.support.manifests import Object
from e2e.support.objects import KINDS, ObjectReader
from e2e.support.removals import Removals
from stoker_kube.resources import EVENTS, PODS

SYSTEM = "stoker-system"
RELEASE = "stoker"
# On a dedicated machine, other load is not an excuse.
STRICT = "STOKER_E2E_STRICT" in os.environ
# Values that take a third of an upgrade's time: both nodes together, and no check of the CRDs.
QUICKLY = ("sidecar.updateStrategy.rollingUpdate.maxSurge=2", "crds.upgrade=false")
# Values without effect after an upgrade.
_WITHOUT_EFFECT = ("sidecar.updateStrategy.", "crds.upgrade=", "sidecar.podAnnotations.")
# Seconds. Most waits take a few. A loaded machine may need a hundred times as long.
PATIENCE = 300.0
PATIENTLY = f"--timeout={PATIENCE:.0f}s"  # an option of kubectl and helm


class NotSeenError(AssertionError):
    """A user's wait ended without the expected state. The message shows the actual state."""


@dataclass
class World:
    """One cluster with Stoker in it."""

    cluster: Cluster
    image_digest: str = ""
    removals: Removals = field(init=False)
    objects: ObjectReader = field(init=False)
    _has_defaults: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.removals = Removals(self.kubectl)
        self.objects = ObjectReader(self.cluster)

    def prepare(self) -> None:
        """Prepare cluster, S3 server, image and chart."""
        self.cluster.up(2)
        self.cluster.s3.start()
        archive = build_image()
        self.cluster.load_image(archive)
        self.image_digest = digest(archive)[:16]
        self.helm_install()

    def helm_install(self, *values: str) -> None:
        """Run helm upgrade --install with the image of this checkout. ``values`` are further --set arguments.

        The objects of earlier stories are gone by then.
        """
        self._helm_install(ROOT / "charts" / "stoker", IMAGE, self.image_digest, values)

    def helm_install_previous(self, *values: str) -> None:
        """Do the same with chart and image of the previous release."""
        archive = build_previous_image()
        self.cluster.load_image(archive)
        self._helm_install(previous_release() / "charts" / "stoker", PREVIOUS_IMAGE, digest(archive)[:16], values)

    def helm_defaults(self) -> None:
        """Install this checkout with default values, if the release has others."""
        if not self._has_defaults:
            self.helm_install(*QUICKLY)

    def helm_revision(self) -> str:
        """Return the number of the release's current revision."""
        history = self.cluster.helm("history", RELEASE, "-n", SYSTEM, "--max", "1", "-o", "json")
        return str(json.loads(history)[-1]["revision"])

    def helm_rollback(self, revision: str) -> None:
        """Run helm rollback. Wait until all pods have that revision."""
        self._has_defaults = False
        self.cluster.helm("rollback", RELEASE, revision, "-n", SYSTEM, "--wait", PATIENTLY)

    def _helm_install(self, chart: Path, image_name: str, image_digest: str, values: Sequence[str]) -> None:
        self.removals.finish()
        self._has_defaults = False
        repository, _, tag = image_name.rpartition(":")
        # The tag stays the same while the code changes: the digest makes the pods restart.
        marks = (f"{component}.podAnnotations.image-digest={image_digest}" for component in ("operator", "sidecar"))
        image = (f"image.repository={repository}", f"image.tag={tag}", "image.pullPolicy=Never")
        # as in the kubelets' thresholds: the nodes share a disk with all other data here
        floor = ("sidecar.floor.bytes=2%",)
        # From the start: the operator notices when Kueue is installed.
        queues = ("kueue.enabled=true",)
        words = [*_options("--set", (*image, *floor, *queues, *values)), *_options("--set-string", marks)]
        command = ("upgrade", "--install", RELEASE, str(chart), "-n", SYSTEM, "--create-namespace", "--wait", *words)
        self.cluster.helm(*command, PATIENTLY)
        self._has_defaults = image_name == IMAGE and all(one.startswith(_WITHOUT_EFFECT) for one in values)

    def kubectl(self, *args: str, stdin: str | None = None) -> str:
        """Return the output of kubectl. Raises CommandFailedError with the error."""
        return self.cluster.kubectl(*args, input=stdin)

    def apply(self, *objects: Object) -> None:
        """Run kubectl apply on these objects."""
        self.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))

    def make_namespace(self, name: str) -> None:
        """Make a namespace. Wait until pods can be made in it.

        Its default account comes from the controller manager, which restarts after an outage of the API server.
        """
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        listing = ("get", "serviceaccounts", "-n", name, "--field-selector=metadata.name=default", "-o", "name")
        wait_for(f"the default account of {name}", lambda: bool(self.kubectl(*listing)), PATIENCE)

    def refused(self, item: Object) -> str:
        """Return the message with which the API server refuses ``item``. Raises NotSeenError if it accepts it."""
        try:
            self.kubectl("create", "-f", "-", stdin=json.dumps(item))
        except CommandFailedError as error:
            return str(error)
        raise NotSeenError(f"{item['kind']} {item['metadata']['name']} was accepted")

    def get(self, kind: str, name: str, namespace: str = "") -> Object:
        """Return one object, or empty if it does not exist."""
        if kind in KINDS:
            return self.objects.get(KINDS[kind], name, namespace)
        scope = ("-n", namespace) if namespace else ()
        text = self.cluster.kubectl("get", kind, name, *scope, "-o", "json", "--ignore-not-found")
        return dict(json.loads(text)) if text.strip() else {}

    def items(self, kind: str, *args: str) -> list[Object]:
        """List the objects of a kind."""
        return list(json.loads(self.kubectl("get", kind, *args, "-o", "json"))["items"])

    def wait(
        self, kind: str, name: str, namespace: str, seen: Callable[[Object], Any], seconds: float = PATIENCE
    ) -> Object:
        """Return the object when ``seen`` accepts it. Raises NotSeenError with its last status and events."""
        last: Object = {}

        def look() -> bool:
            nonlocal last
            last = self.get(kind, name, namespace)
            return bool(seen(last))

        try:
            wait_for(f"{kind} {namespace}/{name}", look, seconds)
        except NotReadyError as error:
            story = "\n".join(self.events(name, namespace)) if namespace else ""
            metadata = {key: value for key, value in last.get("metadata", {}).items() if key != "managedFields"}
            shown = json.dumps({"metadata": metadata, "status": last.get("status")}, indent=1)
            raise NotSeenError(f"{kind} {namespace}/{name} never got there.\n{shown}\n{story}") from error
        return last

    def events(self, name: str, namespace: str) -> list[str]:
        """List every event about an object of this name, as ``reason: message``."""
        found = self.objects.items(EVENTS, namespace, fieldSelector=f"involvedObject.name={name}")
        return [f"{event['reason']}: {event.get('message', '')}" for event in found]

    def wait_event(self, name: str, namespace: str, text: str) -> str:
        """Wait for an event about ``name`` that contains ``text``. Return the first."""
        wait_for(
            f"an event of {namespace}/{name} with {text!r}",
            lambda: any(text in event for event in self.events(name, namespace)),
            PATIENCE,
        )
        return next(event for event in self.events(name, namespace) if text in event)

    def logs(self, pod: str, namespace: str) -> str:
        """Return the output of a pod."""
        return self.objects.logs(pod, namespace)

    def finished(self, pod: str, namespace: str) -> Object:
        """Return the pod when it has ended. Raises NotSeenError if it did not succeed."""
        ended = self.wait(
            "pod", pod, namespace, lambda it: it.get("status", {}).get("phase") in ("Succeeded", "Failed")
        )
        if ended["status"]["phase"] != "Succeeded":
            raise NotSeenError(f"pod {pod} failed: {self.logs(pod, namespace)}\n{self.events(pod, namespace)}")
        return ended

    def stoker(self, *args: str) -> str:
        """Return the output of the CLI of this checkout. Raises CommandFailedError."""
        environment = {**os.environ, **self.cluster.environment()}
        return run(ROOT / ".venv/bin/stoker", *args, env=environment)

    def system_pods(self, component: str) -> list[Object]:
        """List Stoker's own pods: operator or sidecar."""
        return self.objects.items(PODS, SYSTEM, labelSelector=f"app.kubernetes.io/component={component}")

    def sidecar_of(self, node: str) -> Object:
        """Return the sidecar's pod of a node."""
        return next(pod for pod in self.system_pods("sidecar") if pod["spec"]["nodeName"] == node)


def _options(flag: str, values: Iterable[str]) -> list[str]:
    return [word for value in values for word in (flag, value)]


@dataclass
class Home:
    """A separate namespace for one story, with the object store's keys in a Secret."""

    world: World
    namespace: str

    def prepare(self) -> None:
        """Make the namespace and its Secret."""
        self.world.make_namespace(self.namespace)
        server = self.world.cluster.s3
        self.world.apply(manifests.secret(self.namespace, server.access_key, server.secret_key))

    def bucket(self, suffix: str = "") -> Bucket:
        """Return a bucket named after the namespace."""
        return Bucket(self.world.cluster.s3, self.namespace + suffix)

    def dataset(self, name: str, bucket: Bucket | str, prefix: str = "", **spec: Any) -> Object:
        """Apply a Dataset of a bucket of this cluster."""
        uri = f"s3://{bucket if isinstance(bucket, str) else bucket.name}/{prefix}"
        item = manifests.dataset(self.namespace, name, uri, self.world.cluster.s3.endpoint, **spec)
        self.world.apply(item)
        return item

    def ready(self, name: str) -> Object:
        """Return the Dataset once it is Ready."""
        return self.until(name, lambda it: condition(it, "Ready") == "True")

    def until(self, name: str, seen: Callable[[Object], Any], seconds: float = PATIENCE) -> Object:
        """Return the Dataset when ``seen`` accepts it."""
        return self.world.wait("dataset", name, self.namespace, lambda it: it and seen(it), seconds)

    def apply_pod(self, item: Object) -> None:
        """Apply a pod of this namespace."""
        self.world.apply(item)

    def read_sums(self, pod: str) -> dict[str, str]:
        """Return the output of a reading pod when it has ended."""
        self.world.finished(pod, self.namespace)
        return manifests.sums(self.world.logs(pod, self.namespace))


@contextmanager
def temporary_home(world: World, namespace: str) -> Iterator[Home]:
    """Make a namespace. Afterwards it is removed while other stories run."""
    made = Home(world, namespace)
    try:
        made.prepare()
        yield made
    finally:
        world.removals.begin(namespace)


def condition(item: Object, kind: str, field: str = "status") -> str:
    """Return a field of a condition: status, reason or message. Empty if the condition does not exist."""
    for entry in item.get("status", {}).get("conditions", []):
        if entry["type"] == kind:
            return str(entry.get(field, ""))
    return ""


def metric(pod: Object, name: str, *, ports_named: tuple[str, ...] = ("metrics", "http")) -> float:
    """Return the sum over all labels of a metric of one of Stoker's pods, by default of its main container."""
    ports = [port for container in pod["spec"]["containers"] for port in container.get("ports", [])]
    port = next(port["containerPort"] for port in ports if port["name"] in ports_named)
    address = pod["status"]["podIP"]
    host = f"[{address}]" if ":" in address else address
    text = run("curl", "-sf", "-g", "--max-time", "5", f"http://{host}:{port}/metrics")
    values = re.findall(rf"^{name}(?:\{{[^}}]*\}})? (\S+)$", text, re.MULTILINE)
    return sum(map(float, values))


def node_rows(item: Object) -> dict[str, Object]:
    """Return status.nodes of a Dataset by node name."""
    return {row["name"]: row for row in item.get("status", {}).get("nodes", [])}


def warm_rows(item: Object) -> dict[str, Object]:
    """Return those of ``node_rows`` that are warm.

    The node that listed the source has a row too, but may not have the data.
    """
    return {name: row for name, row in node_rows(item).items() if row["phase"] == "Warm"}
