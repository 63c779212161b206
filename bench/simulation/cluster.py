"""A real control plane with Stoker's chart, and nodes that kwok simulates."""

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Self

from bench.errors import BenchError, UsageError
from bench.simulation import shape
from bench.simulation.waiting import LongWait
from e2e.cluster import leftovers, machine, network
from e2e.cluster.build import Programs
from e2e.cluster.certs import render_token_kubeconfig
from e2e.cluster.controlplane import ControlPlane, server_url
from e2e.cluster.errors import CommandFailedError
from e2e.cluster.paths import ClusterPaths
from e2e.cluster.processes import run, start_daemon, tail
from e2e.cluster.slots import Slot, SlotRegistry
from stoker_kube.api import Object

NAME = "control-plane"  # only one per machine
PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "coredns", "helm", "kwok")
WEBHOOK_PORT, HTTP_PORT, WEBHOOK_HTTP_PORT, KWOK_PORT = 9443, 8080, 8084, 10247
_KWOK = Path(__file__).with_name("kwok.yaml")
_CHART = Path(__file__).resolve().parents[2] / "charts" / "stoker"
_OPERATOR = "stoker-operator"
_WEBHOOK = "stoker-webhook"
# Seconds. A node renews its Lease in a quarter of the first. An interval of 10 s, as in kubelets, would be 500 writes/s
# at 5,000 nodes, for two cores that all parts share. The second is the allowed silence of a node.
_LEASE, _GRACE = 400, 600
# The defaults, 20 to 50 requests a second, suit clusters that grow slowly.
_CLIENT = {"kube-api-qps": "2000", "kube-api-burst": "4000"}
FLAGS = {
    "kube-controller-manager": _CLIENT | {"node-monitor-grace-period": f"{_GRACE}s"},
    "kube-scheduler": _CLIENT,
    # With it, a watch without a version starts with a list. Debian's etcd 3.4 does not support that, so the watch
    # fails. kwok uses such watches and retries them after up to 30 s, and during that time misses new nodes and pods.
    "kube-apiserver": {"feature-gates": "WatchList=false"},
    "etcd": {"quota-backend-bytes": str(8 * 2**30)},
}
# In memory: etcd waits for its disk even without fsync. If another process copies a few gigabytes, etcd can stop for
# 10 s, and the operator's Lease ends.
_DATA = Path("/dev/shm/stoker-e2e")
_AT_ONCE = 300  # objects: kubectl throttles itself after this number of requests
# seconds without another ready sidecar pod, and the number of pods that are touched then
_FORGOTTEN, _REMINDED = 20.0, 20


class SimulatedCluster:
    """The cluster, as a context manager. It first removes the remains of an earlier one."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.paths = ClusterPaths(NAME, data_root=_DATA)
        self._say = say
        self._programs = Programs()
        self._lock: IO[str] | None = None
        self._nodes = 0
        self._kwok: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._hold()
        try:
            self._start()
        except BaseException:  # on interrupts as well: the started programs would outlive this process
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    @property
    def slot(self) -> Slot:
        """The cluster's addresses on this machine."""
        found = SlotRegistry(self.paths.slots).find(NAME)
        assert found is not None, "the cluster is not up"
        return found

    @property
    def address(self) -> str:
        """The address of the control plane and the operator."""
        return str(self.slot.host_address)

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.paths.kubeconfig

    def kubectl(self, *words: str, stdin: bytes | None = None) -> str:
        """Run kubectl as the administrator and return its output. Raises CommandFailedError."""
        return run(self._programs.path("kubectl"), "--kubeconfig", self.kubeconfig, *words, stdin=stdin)

    def metrics(self) -> str:
        """Return the API server's metrics."""
        return self.kubectl("get", "--raw", "/metrics")

    def create(self, items: Sequence[Object], kind: str, api_version: str = "v1") -> None:
        """Create objects of one kind. Raises CommandFailedError."""
        typed = [{"apiVersion": api_version, "kind": kind} | item for item in items]
        for start in range(0, len(typed), _AT_ONCE):
            some = {"apiVersion": "v1", "kind": "List", "items": typed[start : start + _AT_ONCE]}
            self.kubectl("create", "--validate=false", "-f", "-", stdin=json.dumps(some).encode())

    def grow(self, nodes: int) -> None:
        """Add nodes up to this number. Wait until each has a ready sidecar pod.

        Raises BenchError if no more become ready, or if kwok has ended.
        """
        self.create([shape.node(index) for index in range(self._nodes, nodes)], "Node")
        self._nodes = nodes
        listing = ("get", "daemonset", "stoker-sidecar", "-n", shape.SYSTEM, "-o", "jsonpath={.status.numberReady}")
        wait = LongWait("nodes with a sidecar", nodes, self._say)
        before, since = -1, time.monotonic()
        while not wait.look(ready := int(self.kubectl(*listing) or 0)):
            if self._kwok is not None and self._kwok.poll() is not None:
                raise BenchError(f"kwok has ended: {tail(self.log('kwok'))}")
            if ready != before:
                before, since = ready, time.monotonic()
            elif time.monotonic() - since > _FORGOTTEN:
                self._remind()
                since = time.monotonic()
            time.sleep(1.0)

    def _remind(self) -> None:
        """Touch sidecar pods that do not run. kwok forgets one of some hundreds, for minutes or for good."""
        rows = '{range .items[*]}{.metadata.name} {.spec.nodeName}{"\\n"}{end}'
        pending = ("get", "pods", "-n", shape.SYSTEM, "--field-selector=status.phase=Pending", "-o", f"jsonpath={rows}")
        for row in self.kubectl(*pending).splitlines()[:_REMINDED]:
            pod, _, node = row.partition(" ")
            mark = ("--overwrite", f"bench.stoker.dev/reminded={time.time():.0f}")
            with suppress(CommandFailedError):  # already deleted
                self.kubectl("annotate", "pod", pod, "-n", shape.SYSTEM, *mark)
                self.kubectl("annotate", "node", node, *mark)

    def replace(self, name: str) -> None:
        """Delete a node, as in a spot interruption, and create another of the same name."""
        self.kubectl("delete", "node", name)
        self.create([shape.node(shape.node_index(name))], "Node")

    def start_operator(self, number: int) -> subprocess.Popen[bytes]:
        """Start a replica of the operator with the chart's program, environment and ServiceAccount."""
        argv, environment = [_program("stoker-operator"), "run"], self._environment("operator", HTTP_PORT, number)
        return start_daemon(NAME, _OPERATOR, argv, self.log(f"operator-{number}"), environment)

    def start_webhook(self) -> subprocess.Popen[bytes]:
        """Start the webhook's process with the chart's settings."""
        argv, environment = [_program("stoker-operator"), "webhook"], self._environment("webhook", WEBHOOK_HTTP_PORT)
        return start_daemon(NAME, _WEBHOOK, argv, self.log("webhook"), environment)

    def log(self, component: str) -> Path:
        """Return the path of a component's log."""
        return self.paths.logs / f"{component}.log"

    def _start(self) -> None:
        machine.install(machine.PACKAGES)
        self._programs.build(PROGRAMS)
        leftovers.clear(self.paths)
        slot = SlotRegistry(self.paths.slots).acquire(NAME, network.machine_routes())
        for folder in (self.paths.state, self.paths.data, self.paths.logs):
            folder.mkdir(parents=True, exist_ok=True)
        network.make_bridge(slot)
        self._say("starting etcd, API server, controllers and scheduler")
        ControlPlane(self.paths, slot, self._programs.path, FLAGS).start()
        self._start_kwok()
        self._install()

    def _start_kwok(self) -> None:
        flags = {
            "kubeconfig": self.kubeconfig,
            "v": "WARN",
            "config": _KWOK,
            "manage-all-nodes": "true",
            "node-lease-duration-seconds": _LEASE,
            "node-port": KWOK_PORT,
            "node-ip": self.address,
            "cidr": "10.0.0.0/8",  # pod addresses where no program listens
            "server-address": f"{self.address}:{KWOK_PORT}",
        }
        argv = [str(self._programs.path("kwok")), *(f"--{name}={value}" for name, value in flags.items())]
        self._kwok = start_daemon(NAME, "kwok", argv, self.log("kwok"))

    def _install(self) -> None:
        """Install the chart. Its operator runs outside the cluster, where it can be measured."""
        self._say("installing the chart")
        words = ["--set", "image.repository=stoker", "--set", "image.tag=bench", "--no-hooks"]
        homes = {f"HELM_{kind}_HOME": str(self.paths.state / "helm") for kind in ("CACHE", "CONFIG", "DATA")}
        place = ["--namespace", shape.SYSTEM, "--create-namespace", "--kubeconfig", str(self.kubeconfig)]
        helm = self._programs.path("helm")
        run(helm, "install", "stoker", _CHART, *place, *words, env={**os.environ, **homes})
        self.kubectl("scale", "deployment", _OPERATOR, "-n", shape.SYSTEM, "--replicas=0")
        self.create([{"metadata": {"name": shape.WORK}}], "Namespace")
        self.create([self._endpoints()], "EndpointSlice", "discovery.k8s.io/v1")

    def _endpoints(self) -> Object:
        """Return the objects that lead the API server from the webhook's Service to the operator on this machine."""
        metadata = {
            "namespace": shape.SYSTEM,
            "name": f"{_WEBHOOK}-bench",
            "labels": {
                "kubernetes.io/service-name": _WEBHOOK,
                "endpointslice.kubernetes.io/managed-by": "bench.stoker.dev",
            },
        }
        endpoint = {"addresses": [self.address], "conditions": {"ready": True}}
        ports = [{"name": "webhook", "port": WEBHOOK_PORT, "protocol": "TCP"}]
        return {"metadata": metadata, "addressType": "IPv4", "endpoints": [endpoint], "ports": ports}

    def _environment(self, name: str, http_port: int, number: int = 1) -> dict[str, str]:
        """Return a container's environment in the chart's Deployment, adapted to this machine."""
        deployment = json.loads(self.kubectl("get", "deployment", _OPERATOR, "-n", shape.SYSTEM, "-o", "json"))
        containers = deployment["spec"]["template"]["spec"]["containers"]
        container = next(one for one in containers if one["name"] == name)
        told = {one["name"]: one.get("value", "") for one in container["env"] if "valueFrom" not in one}
        here = {
            "POD_NAME": f"operator-{number}",
            "POD_NAMESPACE": shape.SYSTEM,
            "STOKER_HOST": self.address,
            "STOKER_HTTP_PORT": str(http_port),
            "STOKER_WEBHOOK_PORT": str(WEBHOOK_PORT),
            "STOKER_FIGURES": "false",  # the API server of the simulation has no proxy certificate
            "KUBECONFIG": str(self._operator_kubeconfig()),
        }
        return told | here

    def _operator_kubeconfig(self) -> Path:
        token = self.kubectl("create", "token", _OPERATOR, "-n", shape.SYSTEM, "--duration=24h").strip()
        file = self.paths.pki / f"{_OPERATOR}.kubeconfig"
        authority = (self.paths.pki / "ca.crt").read_bytes()
        file.write_text(render_token_kubeconfig(_OPERATOR, server_url(self.slot), authority, token))
        return file

    def _hold(self) -> None:
        """Keep other runs off this cluster. Raises UsageError if one exists."""
        self.paths.lock.parent.mkdir(parents=True, exist_ok=True)
        self._lock = self.paths.lock.open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError("another run simulates a cluster on this machine: wait for its end") from error

    def _end(self) -> None:
        try:
            leftovers.clear(self.paths)
        finally:
            if self._lock is not None:
                self._lock.close()


def _program(name: str) -> str:
    """Return a program of the current Python environment."""
    return str(Path(sys.executable).parent / name)
