"""Decide the webhook's answer for an annotated pod: a JSON patch (volumes, mounts, gate, label), or a refusal."""

import hashlib
import posixpath
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stoker_api import names
from stoker_api.datasets.dataset import SchedulingMode
from stoker_api.jobs.pod_annotations import DatasetRequest, PodRequest, Refusal, gang_problem, is_inside, parse_request
from stoker_api.jobs.pod_hints import hint_attributes, is_report_volume
from stoker_api.jobs.sampling import parse_sampling_text
from stoker_api.meta import shortened
from stoker_operator.core.pods import report_injection
from stoker_operator.core.pods.pod_manifest import COMPLETION_INDEX, bounded, pairs_problem
from stoker_operator.core.pods.pod_template import CONTAINER_LISTS, HOST_TO_CONTAINER, propagation_operations
from stoker_operator.core.pods.report_injection import ReportVolumeRequest
from stoker_operator.core.pods.scratch_checks import scratch_problem
from stoker_operator.core.views.catalog import Catalog, CatalogEntry, effective_mode, find_entries
from stoker_tuning.frameworks.pod_signs import pod_hints

_MOST_DIGITS = 9
_SHOWN_OF_SAMPLING_INJECTION = 200  # characters of the Datasets in a message


def sampling_attributes(pod: Mapping[str, Any], request: PodRequest) -> dict[str, dict[str, str]] | Refusal:
    """Return the volume attribute of the Dataset that the pod samples, by the Dataset's key. {}: no sampling.

    An invalid annotation is refused, because its author relies on it.
    """
    annotations = pod.get("metadata", {}).get("annotations") or {}
    text = annotations.get(names.ANNOTATION_SAMPLING)
    if text is None:
        return {}
    try:
        sampling = parse_sampling_text(text)
    except ValueError as error:
        return Refusal(str(error))
    dataset = _dataset(sampling.dataset, request)
    if dataset is None:
        known = ", ".join(one.key for one in request.datasets)
        return Refusal(
            f"the annotation {names.ANNOTATION_SAMPLING} is about the Dataset {sampling.dataset!r}, which the pod does "
            f"not have: name one of {shortened(known, _SHOWN_OF_SAMPLING_INJECTION)}"
        )
    return {dataset.key: {names.CSI_ATTRIBUTE_SAMPLING: sampling.for_pod(_index(annotations)).text()}}


def _dataset(name: str, request: PodRequest) -> DatasetRequest | None:
    if not name:
        return request.datasets[0]
    return next((one for one in request.datasets if name in (one.name, one.key)), None)


def _index(annotations: Mapping[str, Any]) -> int | None:
    """Return the pod's completion index, from the Job controller's annotation."""
    text = str(annotations.get(COMPLETION_INDEX, ""))
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else None


Patch = tuple[dict[str, Any], ...]
Raw = Mapping[str, Any]

_SHOWN = 60  # characters of a tenant's text in a message
_READ_ONLY_SOURCES = ("configMap", "secret", "projected", "downwardAPI")


@dataclass(frozen=True, slots=True)
class _AnnotatedPod:
    """A pod with its parsed annotations. Lookups run once, because its lists may have hundreds of entries.

    ``own``: the pod's own volume of a Dataset, by the Dataset's key. ``containers``: containers that get mounts, with
    their JSON pointers. ``mounted``: requests that need mounts, with the names of their volumes.
    """

    pod: Raw
    request: PodRequest
    own: Mapping[str, Raw]
    containers: Sequence[tuple[str, Raw]]
    mounted: Sequence[tuple[DatasetRequest, str]]

    @classmethod
    def of(cls, pod: Raw, request: PodRequest, namespace: str) -> "_AnnotatedPod":
        own = _own_volumes(pod, request, namespace)
        return cls(pod, request, own, tuple(_containers(pod, request)), tuple(_mounted(pod, request, namespace, own)))


def decide_injection(pod: Raw, namespace: str, catalog: Catalog, *, reports: bool = False) -> Patch | Refusal:
    """Return the JSON patch (RFC 6902) for a new pod of ``namespace``. Return () if it needs no change.

    ``pod``: the object of the admission request, whose metadata.namespace may be empty. ``catalog``: Datasets by
    ``namespace/name``. ``reports``: pods get a way to report their progress. For the patched pod, the result is (). The
    patch has at most ``pod_bounds.MOST_PATCH`` bytes.
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
    annotated = _AnnotatedPod.of(pod, request, namespace)
    refusal = _unknown_container(pod, request) or pairs_problem(len(annotated.containers), len(request.datasets))
    if refusal is not None:
        return refusal
    versions = _versions(annotated, entries)
    if isinstance(versions, Refusal):
        return versions
    conflict = _first_conflict(annotated) or scratch_problem(pod, annotated.mounted, annotated.own)
    if conflict is not None:
        return conflict
    sampling = sampling_attributes(pod, request)
    if isinstance(sampling, Refusal):
        return sampling
    wanted = _wanted_attributes(pod, request, versions, sampling)
    return bounded(_operations(annotated, wanted, effective_mode(request, entries), reports=reports))


def _operations(
    annotated: _AnnotatedPod, wanted: Mapping[str, Raw], mode: SchedulingMode, *, reports: bool
) -> Iterator[dict[str, Any]]:
    """Yield the operations one by one, so that the caller can stop."""
    pod = annotated.pod
    report = report_injection.report_volume(pod, wanted[annotated.request.datasets[0].key]) if reports else None
    reporting = _reporting(annotated) if report is not None else frozenset[str]()
    yield from _label_ops(pod)
    yield from propagation_operations(pod, [volume["name"] for volume in annotated.own.values()])
    yield from _volume_ops(annotated, wanted, report if reporting else None)
    yield from _mount_ops(annotated, report, reporting)
    yield from _gate_ops(pod, mode)


def _versions(annotated: _AnnotatedPod, entries: Sequence[CatalogEntry]) -> Mapping[str, str] | Refusal:
    """Return the version of each Dataset that the pod mounts, by key. It is fixed at creation, so it does not change.

    The pod's own volume names its version itself.
    """
    known, versions = {entry.key: entry for entry in entries}, dict[str, str]()
    for one in annotated.request.datasets:
        version = known[one.key].resolve(one.version)
        if isinstance(version, Refusal):
            return version
        volume = annotated.own.get(one.key)
        if one.version and volume is not None and _attributes(volume).get(names.CSI_ATTRIBUTE_VERSION, "") != version:
            return Refusal(
                f"{one.key}@{one.version} is requested, but the pod has the volume {_shown(volume)}, which "
                "does not name that version: remove the volume or the version"
            )
        versions[one.key] = version
    return versions


def _attributes(volume: Raw) -> Raw:
    return (volume.get("csi") or {}).get("volumeAttributes") or {}


def inline_volume_name(key: str) -> str:
    """Return the volume name of Dataset ``key``: a readable DNS label that is unique for each key."""
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
    shown = shortened(missing[0], _SHOWN) if missing else ""
    wrong = f"names the container {shown!r}, which the pod does not have" if missing else "is empty"
    there = shortened(", ".join(known), 2 * _SHOWN)
    return Refusal(f"the annotation {names.ANNOTATION_CONTAINERS} {wrong}: its containers are {there}")


def _own_volumes(pod: Raw, request: PodRequest, namespace: str) -> Mapping[str, Raw]:
    """Return the pod's own volumes with Datasets, by key: their claims or inline CSI volumes."""
    keys, own = frozenset(request.keys), dict[str, Raw]()
    for volume in pod.get("spec", {}).get("volumes") or ():
        for key in {_claimed(volume, namespace), _inlined(volume, namespace)} & keys:
            own.setdefault(key, volume)
    return own


def _claimed(volume: Raw, namespace: str) -> str:
    """Return the key of the Dataset that a volume's claim would name."""
    return f"{namespace}/{(volume.get('persistentVolumeClaim') or {}).get('claimName', '')}"


def _inlined(volume: Raw, namespace: str) -> str:
    """Return the key of the Dataset in a volume of Stoker's driver, or ""."""
    if (volume.get("csi") or {}).get("driver") != names.CSI_DRIVER or is_report_volume(volume):
        return ""
    attributes = _attributes(volume)
    place = attributes.get(names.CSI_ATTRIBUTE_DATASET_NAMESPACE) or namespace
    return f"{place}/{attributes.get(names.CSI_ATTRIBUTE_DATASET, '')}"


def _is_brought(pod: Raw, key: str, namespace: str, volume: Raw | None) -> bool:
    """Return True if the pod mounts the Dataset with its own claim. It then gets no other mounts."""
    if volume is None or _claimed(volume, namespace) != key:
        return False
    spec = pod.get("spec", {})
    containers = [one for field in CONTAINER_LISTS for one in spec.get(field) or ()]
    return any(mount.get("name") == volume["name"] for one in containers for mount in one.get("volumeMounts") or ())


def _mounted(
    pod: Raw, request: PodRequest, namespace: str, own: Mapping[str, Raw]
) -> Iterator[tuple[DatasetRequest, str]]:
    for one in request.datasets:
        volume = own.get(one.key)
        if one.path is not None and not _is_brought(pod, one.key, namespace, volume):
            yield one, str(volume["name"]) if volume is not None else inline_volume_name(one.key)


def _first_conflict(annotated: _AnnotatedPod) -> Refusal | None:
    read_only = _read_only_volumes(annotated.pod)
    paths = tuple(sorted(one.path or "" for one, _ in annotated.mounted))
    for _, container in annotated.containers:
        for mount in container.get("volumeMounts") or ():
            taken = _normal(mount)
            for one, volume in annotated.mounted if _touches(taken, paths) else ():
                refusal = _conflict(one, volume, container, mount, taken, read_only)
                if refusal is not None:
                    return refusal
    return None


def _touches(path: str, planned: tuple[str, ...]) -> bool:
    """Return True if a normal path begins with one of the sorted ``planned`` ones, or one of them with it."""
    following = bisect_left(planned, path)
    return path.startswith(planned) or (following < len(planned) and planned[following].startswith(path))


def _conflict(
    one: DatasetRequest, volume: str, container: Raw, mount: Raw, taken: str, read_only: frozenset[str]
) -> Refusal | None:
    assert one.path is not None
    if taken == one.path and mount.get("name") != volume:
        said = f"{_shown(mount)} is mounted there already"
    elif is_inside(taken, one.path):
        said = f"{_shown(mount)} is mounted inside it at {shortened(taken, _SHOWN)}, and a Dataset is read-only"
    elif is_inside(one.path, taken) and (mount.get("readOnly") or mount.get("name") in read_only):
        said = f"{_shown(mount)} around it at {shortened(taken, _SHOWN)} is read-only"
    else:
        return None
    where = f"{one.key} cannot be mounted at {shortened(one.path, _SHOWN)} in container {_shown(container)}"
    return Refusal(f"{where}: the volume {said}; choose another path")


def _normal(mount: Raw) -> str:
    """Return the absolute path of a mount without ``.``, ``..`` and double slashes."""
    return "/" + posixpath.normpath(mount.get("mountPath") or "/").strip("/")


def _shown(named: Raw) -> str:
    """Quote the name of a volume, mount or container for a message."""
    return repr(shortened(str(named.get("name")), _SHOWN))


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
    annotated: _AnnotatedPod, attributes: Mapping[str, Raw], report: ReportVolumeRequest | None
) -> Iterator[dict[str, Any]]:
    needed = {volume: one for one, volume in annotated.mounted}
    present = annotated.pod.get("spec", {}).get("volumes")
    have = {volume.get("name") for volume in present or ()}
    missing = [_inline_volume(name, attributes[one.key]) for name, one in needed.items() if name not in have]
    if report is not None and report_injection.VOLUME not in have:
        missing.append(report.volume)
    return _append("/spec/volumes", present, missing)


def _inline_volume(name: str, attributes: Raw) -> dict[str, Any]:
    read_only = {} if names.CSI_ATTRIBUTE_SCRATCH in attributes else {"readOnly": True}
    return {"name": name, "csi": {"driver": names.CSI_DRIVER, **read_only, "volumeAttributes": attributes}}


def _wanted_attributes(
    pod: Raw, request: PodRequest, versions: Mapping[str, str], sampling: Mapping[str, dict[str, str]]
) -> dict[str, dict[str, str]]:
    """Return the attributes of each Dataset's inline volume, by key: its version and the pod's hints.

    Nodes may not read pods, so these attributes carry the training hints of a pod's spec to them, and if it has a user
    namespace.
    """
    hints = hint_attributes(pod_hints(pod))
    if pod.get("spec", {}).get("hostUsers") is False:
        hints[names.CSI_ATTRIBUTE_USER_NAMESPACE] = "true"
    return {
        one.key: _volume_attributes(one, versions[one.key]) | hints | sampling.get(one.key, {})
        for one in request.datasets
    }


def _volume_attributes(request: DatasetRequest, version: str) -> dict[str, str]:
    named = {
        names.CSI_ATTRIBUTE_DATASET: request.name,
        names.CSI_ATTRIBUTE_DATASET_NAMESPACE: request.namespace,
    }
    scratch = {names.CSI_ATTRIBUTE_SCRATCH: request.scratch} if request.scratch else {}
    return named | ({names.CSI_ATTRIBUTE_VERSION: version} if version else {}) | scratch


def _reporting(annotated: _AnnotatedPod) -> frozenset[str]:
    """Return the JSON pointers of the containers with a free path for the report folder."""
    if not report_injection.is_free(one.path or "/" for one, _ in annotated.mounted):
        return frozenset()
    return frozenset(path for path, one in annotated.containers if report_injection.has_place(one))


def _mount_ops(
    annotated: _AnnotatedPod, report: ReportVolumeRequest | None, reporting: frozenset[str]
) -> Iterator[dict[str, Any]]:
    for path, container in annotated.containers:
        present = container.get("volumeMounts")
        have = {(one.get("name"), posixpath.normpath(one.get("mountPath") or "/")) for one in present or ()}
        missing = [_mount(volume, one) for one, volume in annotated.mounted if (volume, one.path) not in have]
        if report is not None and path in reporting:
            yield from _append(f"{path}/volumeMounts", present, [*missing, report.mount])
            if not report_injection.has_variable(container):
                yield from _append(f"{path}/env", container.get("env"), [report.variable])
        else:
            yield from _append(f"{path}/volumeMounts", present, missing)


def _mount(volume: str, request: DatasetRequest) -> dict[str, Any]:
    here = {"name": volume, "mountPath": request.path} | ({} if request.scratch else {"readOnly": True})
    return here | {"mountPropagation": HOST_TO_CONTAINER}


def _gate_ops(pod: Raw, mode: SchedulingMode) -> Iterator[dict[str, Any]]:
    spec = pod.get("spec", {})
    gates = spec.get("schedulingGates")
    # The API server refuses a gate on a pod that already has its node.
    if mode is SchedulingMode.NONE or spec.get("nodeName") or names.GATE_WARM in gate_names(gates):
        return iter(())
    return _append("/spec/schedulingGates", gates, [{"name": names.GATE_WARM}])


def gate_names(gates: Sequence[Raw] | None) -> tuple[str, ...]:
    """Return the names of a pod's raw scheduling gates."""
    return tuple(str(gate.get("name", "")) for gate in gates or ())


def remove_gate(gates: Sequence[str]) -> list[dict[str, Any]]:
    """Return a JSON patch that removes Stoker's gate from a pod with these gates. It fails if the gate is gone."""
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
    """Return a JSON pointer (RFC 6901) of ``tokens``, escaped."""
    return "".join("/" + token.replace("~", "~0").replace("/", "~1") for token in tokens)
