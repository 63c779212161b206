"""What the webhook does to an annotated pod: a JSON patch (volumes, mounts, gate, label), or a sentence why not."""

import hashlib
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stoker_api import names
from stoker_api.dataset import SchedulingMode
from stoker_api.inline_volume import is_report_volume
from stoker_api.pod_hints import hint_attributes
from stoker_operator.core import propagation, report_injection
from stoker_operator.core.annotations import DatasetRequest, PodRequest, Refusal, is_inside, parse_request
from stoker_operator.core.catalog import Catalog, CatalogEntry, effective_mode, find_entries
from stoker_operator.core.gang_request import gang_problem
from stoker_operator.core.pod_template import CONTAINER_LISTS
from stoker_operator.core.report_injection import ReportVolumeRequest
from stoker_operator.core.sampling_injection import sampling_attributes
from stoker_tuning.frameworks.pod_signs import pod_hints

Patch = tuple[dict[str, Any], ...]
Raw = Mapping[str, Any]

_READ_ONLY_SOURCES = ("configMap", "secret", "projected", "downwardAPI")


def decide_injection(pod: Raw, namespace: str, catalog: Catalog, *, reports: bool = False) -> Patch | Refusal:
    """Work out the JSON patch (RFC 6902) for a pod of ``namespace`` that is being made; () when it has everything.

    ``pod`` is the object of the admission request (its own metadata.namespace may still be empty); ``catalog`` maps
    ``namespace/name`` to Datasets. ``reports``: pods get a way to report what they do. Applying the patch and deciding
    again gives ().
    """
    metadata = pod.get("metadata", {})
    request = parse_request(metadata.get("annotations") or {}, namespace)
    if isinstance(request, Refusal):
        return request
    if (gang := gang_problem(metadata.get("labels") or {}, metadata.get("annotations") or {})) is not None:
        return gang
    entries = find_entries(request, namespace, catalog)
    if isinstance(entries, Refusal):
        return entries
    versions = _versions(pod, request, entries, namespace)
    if isinstance(versions, Refusal):
        return versions
    refusal = _unknown_container(pod, request) or _first_conflict(pod, request, namespace)
    if refusal is not None:
        return refusal
    sampling = sampling_attributes(pod, request)
    if isinstance(sampling, Refusal):
        return sampling
    wanted = _wanted_attributes(pod, request, versions, sampling)
    report = report_injection.report_volume(pod, wanted[request.datasets[0].key]) if reports else None
    volumes = _volume_ops(pod, request, wanted, namespace, report)
    mounts = _mount_ops(pod, request, namespace, report)
    own = [volume["name"] for one in request.datasets if (volume := _own_volume(pod, one, namespace)) is not None]
    spread = propagation.operations(pod, own)
    return (*_label_ops(pod), *spread, *volumes, *mounts, *_gate_ops(pod, effective_mode(request, entries)))


def _versions(
    pod: Raw, request: PodRequest, entries: Sequence[CatalogEntry], namespace: str
) -> Mapping[str, str] | Refusal:
    """Return what version of each Dataset the pod is to mount, by key: that of its making, so that it stays the same.

    A volume that the pod brings says so itself.
    """
    known, versions = {entry.key: entry for entry in entries}, dict[str, str]()
    for one in request.datasets:
        version = known[one.key].resolve(one.version)
        if isinstance(version, Refusal):
            return version
        volume = _own_volume(pod, one, namespace)
        if one.version and volume is not None and _attributes(volume).get(names.CSI_ATTRIBUTE_VERSION, "") != version:
            return Refusal(
                f"{one.key}@{one.version} is asked for, and the pod brings the volume {volume.get('name')!r}, which "
                "does not name that version: take the volume out, or the version"
            )
        versions[one.key] = version
    return versions


def _attributes(volume: Raw) -> Raw:
    return (volume.get("csi") or {}).get("volumeAttributes") or {}


def inline_volume_name(key: str) -> str:
    """Name the volume of Dataset ``key``: readable, a DNS label, and one for each key."""
    slug = key.replace("/", "-").replace(".", "-")[:40].rstrip("-")
    return f"stoker-{slug}-{hashlib.sha256(key.encode()).hexdigest()[:8]}"


def _containers(pod: Raw, request: PodRequest) -> Iterator[tuple[str, Raw]]:
    for field in CONTAINER_LISTS:
        for index, container in enumerate(pod.get("spec", {}).get(field) or ()):
            if request.containers is None or container.get("name") in request.containers:
                yield f"/spec/{field}/{index}", container


def _unknown_container(pod: Raw, request: PodRequest) -> Refusal | None:
    spec = pod.get("spec", {})
    known = [one.get("name", "") for field in CONTAINER_LISTS for one in spec.get(field) or ()]
    missing = sorted((request.containers or frozenset()) - set(known))
    if not missing and request.containers != frozenset():
        return None
    wrong = f"names the container {missing[0]!r}, which the pod does not have" if missing else "is empty"
    return Refusal(f"the annotation {names.ANNOTATION_CONTAINERS} {wrong}: its containers are {', '.join(known)}")


def _own_volume(pod: Raw, request: DatasetRequest, namespace: str) -> Raw | None:
    """Return the pod's volume that already is the Dataset: its claim, or an inline CSI volume of it."""
    for volume in pod.get("spec", {}).get("volumes") or ():
        if _is_claim(volume, request, namespace) or _is_inline(volume, request, namespace):
            return dict(volume)
    return None


def _is_claim(volume: Raw, request: DatasetRequest, namespace: str) -> bool:
    claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
    return request.namespace == namespace and claim == request.name


def _is_inline(volume: Raw, request: DatasetRequest, namespace: str) -> bool:
    csi, attributes = volume.get("csi") or {}, _attributes(volume)
    place = attributes.get(names.CSI_ATTRIBUTE_DATASET_NAMESPACE) or namespace
    named = attributes.get(names.CSI_ATTRIBUTE_DATASET)
    here = csi.get("driver") == names.CSI_DRIVER and (place, named) == (request.namespace, request.name)
    return here and not is_report_volume(volume)


def _is_brought(pod: Raw, request: DatasetRequest, namespace: str) -> bool:
    """Tell whether the pod mounts the Dataset by a claim of its own: then it gets no other mounts."""
    volume = _own_volume(pod, request, namespace)
    if volume is None or not _is_claim(volume, request, namespace):
        return False
    spec = pod.get("spec", {})
    containers = [one for field in CONTAINER_LISTS for one in spec.get(field) or ()]
    return any(mount.get("name") == volume["name"] for one in containers for mount in one.get("volumeMounts") or ())


def _mounted(pod: Raw, request: PodRequest, namespace: str) -> Iterator[tuple[DatasetRequest, str]]:
    """Return the requests that need mounts, each with the name of its volume."""
    for one in request.datasets:
        if one.path is not None and not _is_brought(pod, one, namespace):
            volume = _own_volume(pod, one, namespace)
            yield one, str(volume["name"]) if volume is not None else inline_volume_name(one.key)


def _first_conflict(pod: Raw, request: PodRequest, namespace: str) -> Refusal | None:
    read_only = _read_only_volumes(pod)
    for one, volume in _mounted(pod, request, namespace):
        for _, container in _containers(pod, request):
            for mount in container.get("volumeMounts") or ():
                refusal = _conflict(one, volume, container, mount, read_only)
                if refusal is not None:
                    return refusal
    return None


def _conflict(
    one: DatasetRequest, volume: str, container: Raw, mount: Raw, read_only: frozenset[str]
) -> Refusal | None:
    assert one.path is not None
    taken = "/" + posixpath.normpath(mount.get("mountPath") or "/").strip("/")
    where = f"{one.key} cannot be mounted at {one.path} in container {container.get('name')!r}"
    other = f"the volume {mount.get('name')!r}"
    if taken == one.path and mount.get("name") != volume:
        return Refusal(f"{where}: {other} is mounted there already; choose another path")
    if is_inside(taken, one.path):
        return Refusal(f"{where}: {other} is mounted inside it at {taken}, and a Dataset is read-only; choose another")
    if is_inside(one.path, taken) and (mount.get("readOnly") or mount.get("name") in read_only):
        return Refusal(f"{where}: that lies inside {other} at {taken}, which is read-only; choose another path")
    return None


def _read_only_volumes(pod: Raw) -> frozenset[str]:
    volumes = pod.get("spec", {}).get("volumes") or ()
    return frozenset(one.get("name", "") for one in volumes if any(kind in one for kind in _READ_ONLY_SOURCES))


def _label_ops(pod: Raw) -> Iterator[dict[str, Any]]:
    labels = pod.get("metadata", {}).get("labels")
    if labels is None:
        yield {"op": "add", "path": "/metadata/labels", "value": {names.LABEL_MANAGED: "true"}}
    elif labels.get(names.LABEL_MANAGED) != "true":
        yield {"op": "add", "path": pointer("metadata", "labels", names.LABEL_MANAGED), "value": "true"}


def _volume_ops(
    pod: Raw, request: PodRequest, attributes: Mapping[str, Raw], namespace: str, report: ReportVolumeRequest | None
) -> Iterator[dict[str, Any]]:
    needed = {volume: one for one, volume in _mounted(pod, request, namespace)}
    present = pod.get("spec", {}).get("volumes")
    have = {volume.get("name") for volume in present or ()}
    missing = [_inline_volume(name, attributes[one.key]) for name, one in needed.items() if name not in have]
    if report is not None and report_injection.VOLUME not in have and list(_reporting(pod, request, namespace)):
        missing.append(report.volume)
    return _append("/spec/volumes", present, missing)


def _inline_volume(name: str, attributes: Raw) -> dict[str, Any]:
    return {"name": name, "csi": {"driver": names.CSI_DRIVER, "readOnly": True, "volumeAttributes": attributes}}


def _wanted_attributes(
    pod: Raw, request: PodRequest, versions: Mapping[str, str], sampling: Mapping[str, dict[str, str]]
) -> dict[str, dict[str, str]]:
    """Return the attributes of each Dataset's inline volume, by key: which version of it, and the pod's hints.

    Nodes may read no pods: what a pod's spec says of its training comes to them in this way.
    """
    hints = hint_attributes(pod_hints(pod))
    return {
        one.key: _volume_attributes(one, versions[one.key]) | hints | sampling.get(one.key, {})
        for one in request.datasets
    }


def _volume_attributes(request: DatasetRequest, version: str) -> dict[str, str]:
    named = {
        names.CSI_ATTRIBUTE_DATASET: request.name,
        names.CSI_ATTRIBUTE_DATASET_NAMESPACE: request.namespace,
    }
    return named | ({names.CSI_ATTRIBUTE_VERSION: version} if version else {})


def _reporting(pod: Raw, request: PodRequest, namespace: str) -> Iterator[str]:
    """Yield the paths of the containers that have a place for the report folder."""
    planned = [one.path or "" for one, _ in _mounted(pod, request, namespace)]
    return (path for path, container in _containers(pod, request) if report_injection.has_place(container, planned))


def _mount_ops(
    pod: Raw, request: PodRequest, namespace: str, report: ReportVolumeRequest | None
) -> Iterator[dict[str, Any]]:
    wanted = list(_mounted(pod, request, namespace))
    reporting = set(_reporting(pod, request, namespace)) if report is not None else set[str]()
    for path, container in _containers(pod, request):
        present = container.get("volumeMounts")
        have = {(one.get("name"), posixpath.normpath(one.get("mountPath") or "/")) for one in present or ()}
        missing = [_mount(volume, one) for one, volume in wanted if (volume, one.path) not in have]
        if report is not None and path in reporting:
            yield from _append(f"{path}/volumeMounts", present, [*missing, report.mount])
            if not report_injection.has_variable(container):
                yield from _append(f"{path}/env", container.get("env"), [report.variable])
        else:
            yield from _append(f"{path}/volumeMounts", present, missing)


def _mount(volume: str, request: DatasetRequest) -> dict[str, Any]:
    here = {"name": volume, "mountPath": request.path, "readOnly": True}
    return here | {"mountPropagation": propagation.HOST_TO_CONTAINER}


def _gate_ops(pod: Raw, mode: SchedulingMode) -> Iterator[dict[str, Any]]:
    spec = pod.get("spec", {})
    gates = spec.get("schedulingGates")
    # The API server refuses a gate on a pod that already has its node.
    if mode is SchedulingMode.NONE or spec.get("nodeName") or names.GATE_WARM in gate_names(gates):
        return iter(())
    return _append("/spec/schedulingGates", gates, [{"name": names.GATE_WARM}])


def gate_names(gates: Sequence[Raw] | None) -> tuple[str, ...]:
    """Return names of a pod's raw scheduling gates."""
    return tuple(str(gate.get("name", "")) for gate in gates or ())


def remove_gate(gates: Sequence[str]) -> list[dict[str, Any]]:
    """Make a JSON patch that takes Stoker's gate off a pod with these gates, and fails when it is off already."""
    gate = f"/spec/schedulingGates/{gates.index(names.GATE_WARM)}"
    return [{"op": "test", "path": f"{gate}/name", "value": names.GATE_WARM}, {"op": "remove", "path": gate}]


def _append(path: str, present: Sequence[Any] | None, items: Sequence[Any]) -> Iterator[dict[str, Any]]:
    if not items:
        return
    if present is None:
        yield {"op": "add", "path": path, "value": list(items)}
        return
    for item in items:
        yield {"op": "add", "path": f"{path}/-", "value": item}


def pointer(*tokens: str) -> str:
    """Write a JSON pointer (RFC 6901) of ``tokens``, escaped."""
    return "".join("/" + token.replace("~", "~0").replace("/", "~1") for token in tokens)
