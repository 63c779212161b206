"""The installed cluster of the stories, with short words for what users do and see."""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from e2e.cluster import Cluster, CommandFailedError, NotReadyError
from e2e.cluster.images import digest
from e2e.cluster.processes import run, wait_for
from e2e.support import manifests
from e2e.support.bucket import Bucket
from e2e.support.built import IMAGE, ROOT, build_image
from e2e.support.manifests import Object
from e2e.support.removals import Removals

SYSTEM = "stoker-system"
RELEASE = "stoker"
# On a machine of one's own: what other load would excuse is not excused.
STRICT = "STOKER_E2E_STRICT" in os.environ
# Values that take a third of an upgrade's time: both nodes together, and no look at the CRDs.
QUICKLY = ("sidecar.updateStrategy.rollingUpdate.maxSurge=2", "crds.upgrade=false")
# Seconds. What is waited for takes a few; a loaded machine may need ten times that.
PATIENCE = 120.0


class NotSeenError(AssertionError):
    """A user waited for something that never came; the message shows what was there instead."""


@dataclass
class World:
    """One cluster with Stoker in it."""

    cluster: Cluster
    image_digest: str = ""
    removals: Removals = field(init=False)

    def __post_init__(self) -> None:
        self.removals = Removals(self.kubectl)

    def prepare(self) -> None:
        """Prepare cluster, S3 server, image and chart."""
        self.cluster.up(2)
        self.cluster.s3.start()
        archive = build_image(IMAGE)
        self.cluster.load_image(archive)
        self.image_digest = digest(archive)[:16]
        self.helm_install()

    def helm_install(self, *values: str) -> None:
        """Run helm upgrade --install with the image of this checkout; ``values`` are further --set arguments.

        What earlier stories made is gone by then.
        """
        self.removals.finish()
        repository, _, tag = IMAGE.rpartition(":")
        # The tag stays the same while the code changes: the digest is what makes the pods start anew.
        marks = (
            f"{component}.podAnnotations.image-digest={self.image_digest}" for component in ("operator", "sidecar")
        )
        image = (f"image.repository={repository}", f"image.tag={tag}", "image.pullPolicy=Never")
        floor = ("sidecar.floor.bytes=2%",)  # as its kubelets' thresholds: the nodes share a disk with all else here
        # From the start: the operator notices when Kueue comes.
        queues = ("kueue.enabled=true",)
        words = [*_options("--set", (*image, *floor, *queues, *values)), *_options("--set-string", marks)]
        chart = str(ROOT / "charts" / "stoker")
        command = ("upgrade", "--install", RELEASE, chart, "-n", SYSTEM, "--create-namespace", "--wait", *words)
        self.cluster.helm(*command, "--timeout", f"{PATIENCE:.0f}s")

    def kubectl(self, *args: str, stdin: str | None = None) -> str:
        """Return the output of kubectl. Raises CommandFailedError with what kubectl said."""
        return self.cluster.kubectl(*args, input=stdin)

    def apply(self, *objects: Object) -> None:
        """Run kubectl apply on these objects."""
        self.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))

    def make_namespace(self, name: str) -> None:
        """Make a namespace, and wait until pods can be made in it.

        Its default account comes from the controller manager, which starts anew after an outage of the API server.
        """
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        listing = ("get", "serviceaccounts", "-n", name, "--field-selector=metadata.name=default", "-o", "name")
        wait_for(f"the default account of {name}", lambda: bool(self.kubectl(*listing)), PATIENCE)

    def refused(self, item: Object) -> str:
        """Return the sentence with which the API server refuses ``item``. Raises NotSeenError when it takes it."""
        try:
            self.kubectl("create", "-f", "-", stdin=json.dumps(item))
        except CommandFailedError as error:
            return str(error)
        raise NotSeenError(f"{item['kind']} {item['metadata']['name']} was accepted")

    def get(self, kind: str, name: str, namespace: str = "") -> Object:
        """Return one object; empty when it is not there."""
        scope = ("-n", namespace) if namespace else ()
        text = self.cluster.kubectl("get", kind, name, *scope, "-o", "json", "--ignore-not-found")
        return dict(json.loads(text)) if text.strip() else {}

    def items(self, kind: str, *args: str) -> list[Object]:
        """List the objects of a kind."""
        return list(json.loads(self.kubectl("get", kind, *args, "-o", "json"))["items"])

    def wait(
        self, kind: str, name: str, namespace: str, seen: Callable[[Object], Any], seconds: float = PATIENCE
    ) -> Object:
        """Return the object once ``seen`` is true of it. Raises NotSeenError with its last status and events."""
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
        found = self.items("events", "-n", namespace, "--field-selector", f"involvedObject.name={name}")
        return [f"{event['reason']}: {event.get('message', '')}" for event in found]

    def wait_event(self, name: str, namespace: str, text: str) -> str:
        """Wait for an event about ``name`` that contains ``text``, and return the first."""
        wait_for(
            f"an event of {namespace}/{name} with {text!r}",
            lambda: any(text in event for event in self.events(name, namespace)),
            PATIENCE,
        )
        return next(event for event in self.events(name, namespace) if text in event)

    def logs(self, pod: str, namespace: str) -> str:
        """Return what a pod printed."""
        return self.kubectl("logs", pod, "-n", namespace)

    def finished(self, pod: str, namespace: str) -> Object:
        """Return the pod once it ended. Raises NotSeenError when it did not end well."""
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
        return self.items("pods", "-n", SYSTEM, "-l", f"app.kubernetes.io/component={component}")

    def sidecar_of(self, node: str) -> Object:
        """Return the sidecar's pod of a node."""
        return next(pod for pod in self.system_pods("sidecar") if pod["spec"]["nodeName"] == node)


def _options(flag: str, values: Iterable[str]) -> list[str]:
    return [word for value in values for word in (flag, value)]


@dataclass
class Home:
    """A namespace of its own for one story, with the object store's keys in a Secret."""

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
        """Return the Dataset once ``seen`` is true of it."""
        return self.world.wait("dataset", name, self.namespace, lambda it: it and seen(it), seconds)

    def apply_pod(self, item: Object) -> None:
        """Apply a pod of this namespace."""
        self.world.apply(item)

    def read_sums(self, pod: str) -> dict[str, str]:
        """Return what a reading pod printed, once it ended."""
        self.world.finished(pod, self.namespace)
        return manifests.sums(self.world.logs(pod, self.namespace))


@contextmanager
def temporary_home(world: World, namespace: str) -> Iterator[Home]:
    """Make a namespace; afterwards it is removed while other stories run."""
    made = Home(world, namespace)
    try:
        made.prepare()
        yield made
    finally:
        world.removals.begin(namespace)


def condition(item: Object, kind: str, field: str = "status") -> str:
    """Return a field of a condition: status, reason or message; empty when the condition is not there."""
    for entry in item.get("status", {}).get("conditions", []):
        if entry["type"] == kind:
            return str(entry.get(field, ""))
    return ""


def metric(pod: Object, name: str) -> float:
    """Return what a pod of Stoker's counts under this name, of all labels together."""
    ports = [port for container in pod["spec"]["containers"] for port in container.get("ports", [])]
    port = next(port["containerPort"] for port in ports if port["name"] in ("metrics", "http"))
    text = run("curl", "-sf", "--max-time", "5", f"http://{pod['status']['podIP']}:{port}/metrics")
    values = re.findall(rf"^{name}(?:\{{[^}}]*\}})? (\S+)$", text, re.MULTILINE)
    return sum(map(float, values))


def node_rows(item: Object) -> dict[str, Object]:
    """Return status.nodes of a Dataset by the node's name."""
    return {row["name"]: row for row in item.get("status", {}).get("nodes", [])}


def warm_rows(item: Object) -> dict[str, Object]:
    """Return those of ``node_rows`` that are warm.

    The node that listed the source has a row too, and need not be one that holds it.
    """
    return {name: row for name, row in node_rows(item).items() if row["phase"] == "Warm"}
