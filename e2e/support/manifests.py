"""Manifests as users write them, as dictionaries. Pure."""

from typing import Any

from e2e.cluster.images import BUSYBOX_IMAGE

Object = dict[str, Any]
SECRET = "s3-keys"
# Prints "<sha256>  <path>" for every file, as sha256sum does.
SUM_EVERYTHING = "cd {path} && find . -type f | sort | xargs sha256sum"


def merged(base: Object, extra: Object) -> Object:
    """Merge ``extra`` over ``base``, object by object. ``base`` is unchanged."""
    out = dict(base)
    for key, value in extra.items():
        out[key] = merged(out[key], value) if isinstance(value, dict) and isinstance(out.get(key), dict) else value
    return out


def secret(namespace: str, access_key: str, secret_key: str, name: str = SECRET) -> Object:
    """Make the Secret with the keys of the object store."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "stringData": {"AWS_ACCESS_KEY_ID": access_key, "AWS_SECRET_ACCESS_KEY": secret_key},
    }


def dataset(namespace: str, name: str, uri: str, endpoint: str, **spec: Any) -> Object:
    """Make a Dataset with the usual Secret."""
    base = {
        "source": {"uri": uri, "endpoint": endpoint, "credentials": {"secretRef": {"name": SECRET}}},
    }
    return {
        "apiVersion": "stoker.dev/v1alpha1",
        "kind": "Dataset",
        "metadata": {"name": name, "namespace": namespace},
        "spec": merged(base, spec),
    }


def pod(namespace: str, name: str, datasets: str, command: str, **annotations: str) -> Object:
    """Make a busybox pod with the datasets annotation. ``others`` are annotations by short name, such as max_wait."""
    notes = {f"stoker.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    if datasets:
        notes["stoker.dev/datasets"] = datasets
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "annotations": notes},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {
                    "name": "main",
                    "image": BUSYBOX_IMAGE,
                    "imagePullPolicy": "Never",
                    "command": ["sh", "-c", command],
                }
            ],
        },
    }


def reading_pod(namespace: str, name: str, dataset_name: str, **annotations: str) -> Object:
    """Make a pod that prints the SHA-256 of every file of one dataset and ends."""
    return pod(namespace, name, f"{dataset_name}:/data", SUM_EVERYTHING.format(path="/data"), **annotations)


def sums(log: str) -> dict[str, str]:
    """Parse the output of such a pod: SHA-256 by relative path."""
    lines = (line.split("  ", 1) for line in log.splitlines())
    return {path.removeprefix("./"): digest for digest, path in lines}
