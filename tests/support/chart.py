"""The chart as rendered by Helm, for tests of the applied objects."""

import json
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster.build import Programs

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "stoker"
NAMESPACE = "stoker-system"
# All optional parts at once, so that each template is rendered.
FULL_VALUES: Mapping[str, Any] = {
    "image": {"repository": "images.example/stoker", "tag": "1", "digest": f"sha256:{'0a' * 32}"},
    "commonLabels": {"cost-center": "training"},
    "imagePullSecrets": [{"name": "pull"}],
    "operator": {
        "podLabels": {"team": "ml"},
        "podAnnotations": {"note": "yes"},
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"operator": "Exists"}],
        "extraEnv": [{"name": "A", "value": "1"}],
        "serviceAccount": {"annotations": {"identity": "operator"}},
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}
        ],
        "startupTaint": {"enabled": True},
    },
    "sidecar": {
        "podLabels": {"team": "ml"},
        "podAnnotations": {"note": "yes"},
        "nodeSelector": {"disk": "fast"},
        "cacheDirs": ["/mnt/nvme/stoker", {"medium": "Memory", "sizeLimit": "8Gi"}],
        "hostFolders": [{"path": "/mnt/nfs", "namespaces": ["*"]}, {"path": "/srv/data", "namespaces": ["a", "b-*"]}],
        "ambientCredentials": {"enabled": True, "namespaces": ["vision", "team-*"]},
        "endpoints": {"allow": ["127.0.0.0/8", "fe80::5"], "sts": "https://minio.example:9000"},
        "extraEnv": [{"name": "A", "value": "1"}],
        "serviceAccount": {"annotations": {"identity": "sidecar"}},
        "extraVolumes": [{"name": "ca", "configMap": {"name": "store-ca"}}],
        "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/store-ca"}],
    },
    "webhook": {"certManager": {"enabled": True}, "namespaceSelector": {"matchLabels": {"training": "yes"}}},
    "metrics": {
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "dashboards": {"enabled": True},
    },
    "alerts": {"enabled": True, "labels": {"release": "prometheus"}},
    "kueue": {"enabled": True},
    "dashboard": {"enabled": True, "tls": {"secretName": "page-tls"}, "from": [{"namespaceSelector": {}}]},
    "uninstall": {"ignorePods": True, "ignoreNodes": True},
    "networkPolicy": {"enabled": True, "metricsFrom": [{"namespaceSelector": {}}]},
}


def helm(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run helm. Return the result."""
    argv = [str(Programs().path("helm")), *words]
    return subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)


@cache
def _template(values: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run helm template, once per session for the same values: each run takes half a second."""
    return helm("template", "stoker", str(CHART), "--namespace", NAMESPACE, "--values", "-", *words, stdin=values)


def render(values: Mapping[str, Any], *api_versions: str) -> list[dict[str, Any]]:
    """Return the objects that `helm install` would make. ``api_versions`` adds to those of the cluster.

    Raises AssertionError with Helm's message.
    """
    done = _template(json.dumps(dict(values)), *(f"--api-versions={version}" for version in api_versions))
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.load_all(done.stdout, yaml.CSafeLoader) if document]


def refusal(values: Mapping[str, Any]) -> str:
    """Return Helm's refusal of these values, or "" if it accepts them."""
    done = _template(json.dumps(dict(values)))
    return done.stderr if done.returncode else ""


def of_kind(documents: Iterable[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    """Return the objects of some kinds."""
    return [document for document in documents if document["kind"] in kinds]


def sidecar_of(documents: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the sidecar's DaemonSet."""
    (found,) = (one for one in of_kind(documents, "DaemonSet") if one["metadata"]["name"] == "stoker-sidecar")
    return found


def operator_of(documents: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the operator's Deployment."""
    (found,) = (one for one in of_kind(documents, "Deployment") if one["metadata"]["name"] == "stoker-operator")
    return found


def variables(workload: Mapping[str, Any], container: str = "") -> dict[str, str]:
    """Return the variables of a container, by default the first one. "" for a value from another source."""
    containers = workload["spec"]["template"]["spec"]["containers"]
    variables_of = next(one["env"] for one in containers if container in ("", one["name"]))
    return {one["name"]: str(one.get("value", "")) for one in variables_of}


def is_hook(document: Mapping[str, Any]) -> bool:
    """Return True if Helm makes this object only during a hook."""
    return "helm.sh/hook" in document["metadata"].get("annotations", {})
