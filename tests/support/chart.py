"""The chart as Helm renders it, for tests that look at what would be applied."""

import json
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster.build import Programs

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "stoker"
NAMESPACE = "stoker-system"
# Every optional part at once, so that each template is rendered.
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
    "kueue": {"enabled": True},
    "uninstall": {"ignorePods": True, "ignoreNodes": True},
    "networkPolicy": {"enabled": True, "metricsFrom": [{"namespaceSelector": {}}]},
}


def helm(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run helm and return what came of it."""
    argv = [str(Programs().path("helm")), *words]
    return subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)


def _template(values: Mapping[str, Any], *words: str) -> subprocess.CompletedProcess[str]:
    given = ("--namespace", NAMESPACE, "--values", "-")
    return helm("template", "stoker", str(CHART), *given, *words, stdin=json.dumps(dict(values)))


def render(values: Mapping[str, Any], *api_versions: str) -> list[dict[str, Any]]:
    """Return the objects that `helm install` would make, in a cluster that has ``api_versions`` beside its own.

    Raises AssertionError with Helm's sentence.
    """
    done = _template(values, *(f"--api-versions={version}" for version in api_versions))
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def refusal(values: Mapping[str, Any]) -> str:
    """Return with which sentence Helm refuses these values; "" where it takes them."""
    done = helm(
        "template", "stoker", str(CHART), "--namespace", NAMESPACE, "--values", "-", stdin=json.dumps(dict(values))
    )
    return done.stderr if done.returncode else ""


def of_kind(documents: Iterable[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    """Return the objects of some kinds."""
    return [document for document in documents if document["kind"] in kinds]


def variables(workload: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables of a workload's one container, "" where the value comes from elsewhere."""
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    return {one["name"]: str(one.get("value", "")) for one in container["env"]}


def is_hook(document: Mapping[str, Any]) -> bool:
    """Tell whether Helm makes this object only for the time of a hook."""
    return "helm.sh/hook" in document["metadata"].get("annotations", {})
