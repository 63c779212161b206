"""A whole cluster: start, change and stop it."""

import fcntl
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from e2e.cluster import leftovers, machine, network
from e2e.cluster.build import Programs
from e2e.cluster.controlplane import ControlPlane
from e2e.cluster.errors import CommandFailedError, NotReadyError, UsageError
from e2e.cluster.images import ImageStore
from e2e.cluster.node import Node
from e2e.cluster.nodeconfig import NodeSpec
from e2e.cluster.paths import ClusterPaths
from e2e.cluster.processes import owned_by, run, wait_for
from e2e.cluster.queueing import Queueing
from e2e.cluster.s3 import S3Server
from e2e.cluster.slots import Slot, SlotRegistry, checked_name

READY_SECONDS = 90.0
HELM_FOLDERS = ("CACHE", "CONFIG", "DATA")
CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "coredns")


class Cluster:
    """A Kubernetes cluster of this machine, by its name. The constructor starts nothing.

    With ``ipv6``, nodes, pods and services of a new cluster have only IPv6 addresses.
    """

    def __init__(self, name: str, say: Callable[[str], None] = lambda line: None, *, ipv6: bool = False) -> None:
        self.name = checked_name(name)
        self._ipv6 = ipv6
        self.paths = ClusterPaths(name)
        self._say = say
        self._programs = Programs()

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.paths.kubeconfig

    @property
    def nodes(self) -> list[str]:
        """The names of the nodes, by number."""
        return [f"node-{index}" for index in self._indices()]

    @property
    def slot(self) -> Slot:
        """The cluster's addresses. Raises UsageError if it is not up."""
        if slot := SlotRegistry(self.paths.slots).find(self.name):
            return slot
        raise UsageError(f"Cluster {self.name} is not up. Start it: python -m e2e.cluster up --name {self.name}.")

    @property
    def s3(self) -> S3Server:
        return S3Server(self.paths, self.slot, self._programs.path)

    @property
    def queueing(self) -> Queueing:
        """Kueue and JobSet, which exist only after their start."""
        return Queueing(self.paths, self.slot, self._programs.path, self.kubectl)

    def up(self, nodes: int = 2) -> None:
        """Start the cluster with `nodes` nodes, all Ready. Leave a healthy cluster unchanged.

        It first removes the remains of a killed run with this name. Raises NotReadyError with the log of the failed
        component.
        """
        with self._locked():
            if self.is_healthy():
                self._say(f"{self.name} is already up: {len(self.nodes)} nodes, all Ready")
                return
            machine.install(machine.PACKAGES)
            self._programs.build()
            leftovers.clear(self.paths)
            self._start(nodes)

    def down(self) -> None:
        """Remove the cluster and all its traces, if it exists."""
        with self._locked():
            leftovers.clear(self.paths)

    def add_node(self) -> str:
        """Add a node, wait until it is Ready, and return its name."""
        with self._locked():
            others = self._indices()
            node = self._node(max(others, default=0) + 1)
            self._boot(node, others)
            for other in map(self._node, others):
                network.apply([network.neighbour_command(self.slot, node.spec.index)], *other.entry())
            self._join([node])
            return node.spec.name

    def remove_node(self, name: str) -> None:
        """Kill a node and delete its Node object, as in the loss of a machine."""
        with self._locked():
            self.node(name).stop()
            self.kubectl("delete", "node", name, "--ignore-not-found")

    def node(self, name: str) -> Node:
        """Return one node, to enter it or to read its logs. Raises UsageError for an unknown name."""
        if name not in self.nodes:
            raise UsageError(f"Cluster {self.name} has no node {name!r}; it has {', '.join(self.nodes) or 'none'}.")
        return self._node(int(name.rpartition("-")[2]))

    def kubectl(self, *args: str, input: str | None = None, check: bool = True) -> str:
        """Run kubectl as administrator and return its output. Raises CommandFailedError when `check`."""
        return self._run_client("kubectl", args, input, check)

    def helm(self, *args: str, input: str | None = None, check: bool = True) -> str:
        """Run helm as administrator and return its output. Raises CommandFailedError when `check`."""
        return self._run_client("helm", args, input, check)

    def stop_api_server(self) -> None:
        """Stop the API server. Nodes and pods keep running."""
        self._plane().stop_api_server()

    def start_api_server(self) -> None:
        """Start it again. Raises NotReadyError."""
        self._plane().start_api_server()

    def load_image(self, tar: Path, nodes: Iterable[str] | None = None) -> None:
        """Load a docker-archive into the given nodes. The default is all nodes, including those that join later."""
        store = ImageStore(self.paths.images)
        if nodes is None and store.holds(tar):
            return
        names = self.nodes if nodes is None else list(nodes)
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda name: self.node(name).import_image(tar), names))
        if nodes is None:
            store.add(tar)

    def environment(self) -> dict[str, str]:
        """Return the shell settings with which plain `kubectl` and `helm` use this cluster."""
        helm = {f"HELM_{kind}_HOME": str(self.paths.state / "helm" / kind.lower()) for kind in HELM_FOLDERS}
        path = ":".join([*map(str, self._programs.folders.values()), os.environ["PATH"]])
        return {"KUBECONFIG": str(self.kubeconfig), "PATH": path, **helm}

    def is_healthy(self) -> bool:
        """Return True if every part of the control plane runs and every node is Ready."""
        if SlotRegistry(self.paths.slots).find(self.name) is None or not self.kubeconfig.exists():
            return False
        running = {owned.component for owned in owned_by(self.name)}
        nodes = self.nodes
        return bool(nodes) and running.issuperset([*CONTROL_PLANE, *nodes]) and self._ready_nodes().issuperset(nodes)

    def program(self, name: str) -> Path:
        """Return the path of a built program such as csi-sanity. Build it if it is missing."""
        return self._programs.path(name)

    def _start(self, nodes: int) -> None:
        started = time.monotonic()
        slot = SlotRegistry(self.paths.slots).acquire(self.name, network.machine_routes(), ipv6=self._ipv6)
        for folder in (self.paths.state, self.paths.data, self.paths.logs):
            folder.mkdir(parents=True, exist_ok=True)
        network.make_bridge(slot)
        ImageStore(self.paths.images).add_builtin()
        numbers = list(range(1, nodes + 1))
        with ThreadPoolExecutor() as pool:
            plane = pool.submit(self._plane().start)
            runtimes = [pool.submit(self._boot, self._node(number), numbers) for number in numbers]
            for future in (plane, *runtimes):
                future.result()
        self._say(f"control plane and {nodes} container runtimes run after {time.monotonic() - started:.0f} s")
        self._join([self._node(number) for number in numbers])
        self._say(f"{self.name} is up: {nodes} nodes Ready after {time.monotonic() - started:.0f} s")

    def _boot(self, node: Node, numbers: list[int]) -> None:
        """Start a node's runtime, connected to the nodes with these numbers, and load the cluster's images."""
        node.boot([number for number in numbers if number != node.spec.index])
        for archive in ImageStore(self.paths.images).archives():
            node.import_image(archive)

    def _join(self, nodes: list[Node]) -> None:
        """Give nodes their credentials and wait until they are Ready. Raises NotReadyError with their logs."""
        for node in nodes:
            node.join(self._plane().pki)
        names = {node.spec.name for node in nodes}
        try:
            wait_for(f"{', '.join(sorted(names))} to be Ready", lambda: self._ready_nodes() >= names, READY_SECONDS)
        except NotReadyError as error:
            missing = [node for node in nodes if node.spec.name not in self._ready_nodes()]
            raise NotReadyError(f"{error}\n" + "\n".join(node.logs_tail() for node in missing)) from error

    def _ready_nodes(self) -> set[str]:
        try:
            items = json.loads(self.kubectl("get", "nodes", "-o", "json"))["items"]
        except CommandFailedError:
            return set()
        return {
            item["metadata"]["name"]
            for item in items
            for condition in item["status"].get("conditions", [])
            if condition["type"] == "Ready" and condition["status"] == "True"
        }

    def _indices(self) -> list[int]:
        """Return the numbers of the nodes, from their folders."""
        folders = self.paths.nodes.iterdir() if self.paths.nodes.exists() else ()
        return sorted(int(match[1]) for folder in folders if (match := re.fullmatch(r"node-(\d+)", folder.name)))

    def _node(self, number: int) -> Node:
        return Node(self.paths, NodeSpec(self.name, number, self.slot), self._programs.path)

    def _plane(self) -> ControlPlane:
        return ControlPlane(self.paths, self.slot, self._programs.path)

    def _run_client(self, program: str, args: Iterable[str], text: str | None, check: bool) -> str:
        environment = {**os.environ, **self.environment()}
        stdin = None if text is None else text.encode()
        return run(self._programs.path(program), *args, stdin=stdin, env=environment, check=check)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock changes of this cluster to one process at a time."""
        self.paths.lock.parent.mkdir(parents=True, exist_ok=True)
        with self.paths.lock.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
