"""Kueue and JobSet for a cluster: their own manifests, with their controllers as processes of this machine."""

import base64
import json
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster.build import TOOLS, go_environment
from e2e.cluster.certs import Authority, Identity
from e2e.cluster.paths import ClusterPaths
from e2e.cluster.processes import answers, kill, owned_by, run, start_daemon, wait_for
from e2e.cluster.slots import Slot

Object = dict[str, Any]
START_SECONDS = 90.0
_WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
# Installed kinds of their manifests. No pods, because they run on this machine, and no rights, because they act as
# administrator.
_CRD = "CustomResourceDefinition"
_KINDS = frozenset({"Namespace", _CRD, "Secret", "Service", *_WEBHOOKS})
# Kinds with active webhooks. Webhooks for all pods would block pod creation once the programs have stopped.
_ASKED = frozenset({"kueue.x-k8s.io", "jobset.x-k8s.io", "batch"})


@dataclass(frozen=True)
class Installed:
    """One of the programs: its Go module, its manifests there, and the address of its webhooks."""

    program: str
    module: str
    namespace: str
    service: str
    port: int
    health_port: int


KUEUE = Installed("kueue", "sigs.k8s.io/kueue", "kueue-system", "kueue-webhook-service", 9543, 9544)
JOBSET = Installed("jobset", "sigs.k8s.io/jobset", "jobset-system", "jobset-webhook-service", 9553, 9554)
_SECRET = "kueue-webhook-server-cert"
_HALVES = ("mutating", "validating")


class Queueing:
    """Kueue and JobSet of one cluster. ``kubectl`` runs it as administrator."""

    def __init__(
        self, paths: ClusterPaths, slot: Slot, binary: Callable[[str], Path], kubectl: Callable[..., str]
    ) -> None:
        self._paths = paths
        self._slot = slot
        self._binary = binary
        self._kubectl = kubectl

    def start(self) -> None:
        """Install and start both, unless they run. Raises NotReadyError with the log of the failed one."""
        if {one.program for one in (KUEUE, JOBSET)} <= {owned.component for owned in owned_by(self._paths.name)}:
            return
        for one in (JOBSET, KUEUE):  # Kueue looks for the kinds of jobs when it starts
            self._install(one)
        self._issue(JOBSET)
        running = {one: self._start(one) for one in (JOBSET, KUEUE)}
        self._copy_certificate(running[KUEUE])
        for one, process in running.items():
            what, ready = f"{one.program} to be ready", partial(self._is_ready, one)
            wait_for(what, ready, START_SECONDS, self._log(one), partial(_lives, process))

    def stop(self) -> None:
        """Stop both, and remove their webhooks, which have no server from then on. Their kinds and objects stay."""
        names = [f"{one.program}-{kind}-webhook-configuration" for one in (KUEUE, JOBSET) for kind in _HALVES]
        for kind in _WEBHOOKS:
            self._kubectl("delete", kind.lower(), *names, "--ignore-not-found")
        programs = {KUEUE.program, JOBSET.program}
        kill([owned.pid for owned in owned_by(self._paths.name) if owned.component in programs])

    def _install(self, one: Installed) -> None:
        go = ("go", "-C", TOOLS / "queueing")
        run(*go, "mod", "download", one.module, env=go_environment())
        folder = run(*go, "list", "-m", "-f", "{{.Dir}}", one.module, env=go_environment()).strip()
        manifests = self._kubectl("kustomize", f"{folder}/config/default")
        authority = base64.b64encode(Authority(self._paths.pki).certificate.read_bytes()).decode()
        documents = outside(yaml.safe_load_all(manifests), one, str(self._slot.host_address), authority)
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})
        self._kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=text)
        kinds = [one["metadata"]["name"] for one in documents if one["kind"] == _CRD]
        wait_for(f"the kinds of {one.program}", partial(self._are_served, kinds), START_SECONDS)

    def _are_served(self, kinds: Sequence[str]) -> bool:
        # `kubectl wait` fails on an object without a status.
        found = json.loads(self._kubectl("get", "crd", "-o", "json"))["items"]
        conditions = {one["metadata"]["name"]: (one.get("status") or {}).get("conditions") or () for one in found}
        established = {"type": "Established", "status": "True"}.items()
        return all(any(established <= one.items() for one in conditions.get(kind, ())) for kind in kinds)

    def _issue(self, one: Installed) -> None:
        authority, folder = Authority(self._paths.pki), self._folder(one)
        folder.mkdir(parents=True, exist_ok=True)
        authority.issue(Identity(one.service, one.service, serves=(f"DNS:{one.service}.{one.namespace}.svc",)))
        for source, name in zip(authority.files(one.service), ("tls.crt", "tls.key"), strict=True):
            shutil.copy(source, folder / name)

    def _is_ready(self, one: Installed) -> bool:
        return answers(f"http://{self._slot.host}:{one.health_port}/readyz")

    def _start(self, one: Installed) -> subprocess.Popen[bytes]:
        folder = self._folder(one)
        folder.mkdir(parents=True, exist_ok=True)
        config = folder / "config.yaml"
        config.write_text(yaml.safe_dump(configuration(one, str(self._slot.host_address), folder)))
        argv = [str(self._binary(one.program)), f"--config={config}"]
        environment = {"KUBECONFIG": str(self._paths.kubeconfig)}
        return start_daemon(self._paths.name, one.program, argv, self._log(one), environment)

    def _copy_certificate(self, kueue: subprocess.Popen[bytes]) -> None:
        """Act as a mounted Secret: Kueue writes its certificate there, and waits for the files."""
        found: dict[str, str] = {}

        def made() -> bool:
            secret = json.loads(self._kubectl("get", "secret", _SECRET, "-n", KUEUE.namespace, "-o", "json"))
            found.update(secret.get("data") or {})
            return "tls.crt" in found

        wait_for("Kueue's certificate", made, START_SECONDS, self._log(KUEUE), partial(_lives, kueue))
        for name, text in found.items():
            (self._folder(KUEUE) / name).write_bytes(base64.b64decode(text))

    def _folder(self, one: Installed) -> Path:
        return self._paths.state / one.program

    def _log(self, one: Installed) -> Path:
        return self._paths.logs / f"{one.program}.log"


def _lives(process: subprocess.Popen[bytes]) -> bool:
    return process.poll() is None


def configuration(one: Installed, address: str, certificates: Path) -> Object:
    """Write a program's configuration file. Its certificate is in ``certificates``."""
    common: Object = {
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"{address}:{one.health_port}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": address, "port": one.port, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
    }
    if one is JOBSET:
        return common | {
            "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
            "internalCertManagement": {"enable": False},
        }
    return common | {
        "apiVersion": "config.kueue.x-k8s.io/v1beta1",
        "namespace": one.namespace,
        # Without its own certificates it reads some for its metrics, from a fixed path of the machine.
        "internalCertManagement": {
            "enable": True,
            "webhookServiceName": one.service,
            "webhookSecretName": _SECRET,
        },
        "featureGates": {"VisibilityOnDemand": False},
        "integrations": {"frameworks": ["batch/job", "jobset.x-k8s.io/jobset"]},
    }


def outside(documents: Iterable[Object | None], one: Installed, address: str, authority: str) -> list[Object]:
    """Return the manifests for a program that runs at ``address``, outside of the cluster.

    ``authority`` is the CA of its certificate, PEM in base64, if the program does not publish it.
    """
    kept = [dict(document) for document in documents if document and document["kind"] in _KINDS]
    out: list[Object] = []
    for document in kept:
        if document["kind"] == "Service" and document["metadata"]["name"] != one.service:
            continue
        if document["kind"] == "Service":
            out += _service(document, one, address)
        else:
            out.append(_webhooks(document, one, authority) if document["kind"] in _WEBHOOKS else document)
    return out


def _service(document: Mapping[str, Any], one: Installed, address: str) -> list[Object]:
    """Return the Service without a selector, and its single endpoint."""
    port = {"name": "webhook", "port": 443, "protocol": "TCP", "targetPort": one.port}
    service = {**document, "spec": {"ports": [port]}}
    slices = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": one.service,
            "namespace": one.namespace,
            "labels": {"kubernetes.io/service-name": one.service},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [{"name": "webhook", "port": one.port, "protocol": "TCP"}],
    }
    return [service, slices]


def _webhooks(document: Mapping[str, Any], one: Installed, authority: str) -> Object:
    asked = [entry for entry in document["webhooks"] if _is_asked(entry)]
    for entry in asked if one is JOBSET else ():
        entry["clientConfig"]["caBundle"] = authority
    return {**document, "webhooks": asked}


def _is_asked(entry: Mapping[str, Any]) -> bool:
    return all(set(rule["apiGroups"]) <= _ASKED for rule in entry["rules"])
