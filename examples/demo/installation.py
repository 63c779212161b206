"""Installs Stoker and the demo's own objects, and removes them."""

import json
import time
from dataclasses import replace

from examples.demo.place import ROOT, Place
from examples.demo.session import NAMESPACE, PATIENCE, SYSTEM, Object, Session, say

# Its presence says that the demo installed Stoker, so that `make demo-down` may remove it.
_MARK = "stoker-by-demo"
_CODE = ("train.py", "verify.py")


def prepare(place: Place) -> Session:
    """Make the namespace, install Stoker unless the cluster has one, and remove the objects of an earlier run."""
    place.run("kubectl", "apply", "-f", "-", stdin=json.dumps(_object("Namespace", NAMESPACE)))
    session = Session(replace(place, installed=_may_install(place)))
    if session.place.installed:
        say(f"helm upgrade --install stoker charts/stoker -n {SYSTEM}")
        session.apply(_object("ConfigMap", _MARK))
        _undo_interrupted(place)
        _helm(session.place)
    else:
        say("This cluster has Stoker: the demo uses it, and does not change it")
    session.kubectl("delete", "jobs,trainingjobs,datasets", "--all", "--wait", f"--timeout={PATIENCE}s")
    keys = {"AWS_ACCESS_KEY_ID": place.store.access_key, "AWS_SECRET_ACCESS_KEY": place.store.secret_key}
    code = {name: (ROOT / "examples/photos" / name).read_text(encoding="utf-8") for name in _CODE}
    session.apply(_object("Secret", "s3-keys", stringData=keys), _object("ConfigMap", "code", data=code))
    return session


def upgrade(place: Place) -> None:
    """Upgrade to a release that differs in an annotation of the sidecars, so that all are replaced. Wait for them."""
    _helm(place, f"sidecar.podAnnotations.upgraded=at-{time.time():.0f}")


def remove(place: Place) -> None:
    """Remove the demo's objects from a cluster, and Stoker if the demo installed it."""
    installed = place.answers("kubectl", "-n", NAMESPACE, "get", "configmap", _MARK)
    if place.answers("kubectl", "get", "crd", "datasets.stoker.dev", "--request-timeout=30s"):
        kinds = ("delete", "jobs,trainingjobs,datasets", "--all", "--ignore-not-found", "--wait")
        place.run("kubectl", "-n", NAMESPACE, *kinds)
    place.run("kubectl", "delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait")
    if installed:
        place.run("helm", "uninstall", "stoker", "-n", SYSTEM, "--ignore-not-found", "--wait")
        place.run("kubectl", "delete", "namespace", SYSTEM, "--ignore-not-found", "--wait")
        place.run("kubectl", "delete", "-f", str(ROOT / "crds"), "--ignore-not-found")


def _may_install(place: Place) -> bool:
    """Return True if the demo installed Stoker before, or if the cluster has none."""
    known = place.answers("kubectl", "-n", NAMESPACE, "get", "configmap", _MARK)
    return known or not place.answers("kubectl", "get", "crd", "datasets.stoker.dev")


def _undo_interrupted(place: Place) -> None:
    """Undo an interrupted Helm command, which blocks the next one."""
    for release in json.loads(place.run("helm", "list", "-n", SYSTEM, "--pending", "-o", "json")):
        command = "uninstall" if release["status"] == "pending-install" else "rollback"
        place.run("helm", command, release["name"], "-n", SYSTEM)


def _helm(place: Place, *more: str) -> None:
    image = place.stoker
    values = [f"image.repository={image.repository}", f"image.tag={image.tag}", f"image.pullPolicy={image.pull_policy}"]
    if image.digest:
        values += [f"{part}.podAnnotations.image-digest={image.digest}" for part in ("operator", "sidecar")]
    if image.pull_policy == "Never":  # the demo's own cluster, whose kubelets leave 1 % of this machine's disk free
        values.append("sidecar.floor.bytes=2%")
    sets = [word for value in (*values, *more) for word in ("--set-string", value)]
    words = ("upgrade", "--install", "stoker", str(ROOT / "charts/stoker"), "-n", SYSTEM, "--create-namespace")
    surge = ("--set", "sidecar.updateStrategy.rollingUpdate.maxSurge=2")  # both nodes of the demo together
    place.run("helm", *words, "--wait", f"--timeout={PATIENCE}s", *surge, *sets)


def _object(kind: str, name: str, **fields: object) -> Object:
    metadata = {"name": name} if kind == "Namespace" else {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **fields}
